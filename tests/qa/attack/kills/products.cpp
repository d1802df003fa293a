#include "tests/qa/attack/kills/products.h"

#include <fmt/format.h>

#include <stdexcept>

#include "tests/qa/attack/samples/files.h"
#include "tests/qa/attack/samples/trees.h"

namespace comera::attack {

namespace {

using Words = std::vector<std::string>;
using Shape = Product::Shape;

std::string run_of(const Sample& sample, int content) {
  return sample.finished(content == 0 ? "plain" : "dense").run.string();
}

std::string file(const Sample& sample, const char* name) { return sample.file(name).string(); }

Words exported(const Sample& sample, int content) {
  Words words = {"export", run_of(sample, content), "--to", "model-hf", "--threads", "1"};
  // The other one has a file more, and files of other bytes.
  if (content == 0) words.emplace_back("--tensor-trains");
  return words;
}

Words imported(const Sample& sample, int content) {
  return {"import", sample.exchange(content == 0 ? "pieces" : "bytes").string(), "--output", "imported.h5"};
}

Words reported(const Sample& sample, int content) {
  Words words = {"report", run_of(sample, 0), "--output", "report.html", "--examples", "1"};
  if (content == 1) words.insert(words.begin() + 1, run_of(sample, 1));
  return words;
}

Words clicked(const Sample& sample, int content) {
  return {"clicks",
          "data",
          file(sample, "clicks.log"),
          "--output",
          "click-shards",
          "--held-out",
          "0.2",
          "--rows-per-shard",
          "150",
          "--threshold",
          content == 0 ? "5" : "2"};
}

Words drawn(const Sample& /*sample*/, int content) {
  return {"clicks",    "synthetic",       "--output", "drawn",  "--rows",
          "300",       "--held-out-rows", "50",       "--seed", content == 0 ? "1" : "2",
          "--heights", "40,20,3"};
}

Words sharded(const Sample& sample, int content) {
  return {"data",
          "--input",
          file(sample, "source"),
          "--tokenizer",
          file(sample, "tok.model"),
          "--output",
          "new-shards",
          "--held-out",
          content == 0 ? "0.2" : "0.3",
          "--tokens-per-shard",
          "1500",
          "--threads",
          "1"};
}

Words tokenized(const Sample& sample, int content) {
  return {"tokenizer", "--input",      file(sample, "source"),      "--output",
          "new.model", "--vocabulary", content == 0 ? "320" : "330"};
}

Words predicted(const Sample& sample, int content) {
  return {"predict",   sample.finished(content == 0 ? "finetune" : "pretrained").run.string(),
          "--input",   file(sample, "dev.tsv"),
          "--output",  "predictions.tsv",
          "--threads", "1"};
}

Words embedded(const Sample& sample, int content) {
  return {"embed",     run_of(sample, content),
          "--input",   file(sample, "lines.txt"),
          "--output",  "vectors.h5",
          "--threads", "1"};
}

Words compacted(const Sample& sample, int content) {
  return {"compact",
          "--from-dense",
          sample.finished("dense").run.string(),
          "--recipe",
          file(sample, "plain.toml"),
          "--output",
          "compact.h5",
          "--error",
          content == 0 ? "0.1" : "0.9"};
}

Words answered(const Sample& sample, int content) {
  return {"clicks",
          "predict",
          sample.finished("clicks").run.string(),
          file(sample, content == 0 ? "clicks.log" : "clicks-2.log.gz"),
          "--output",
          "clicks.jsonl"};
}

Words paired(const Sample& sample, int content) {
  return {"pairs",          "--input",    file(sample, "source"),      "--output",
          "function-pairs", "--held-out", content == 0 ? "0.2" : "0.4"};
}

Words all_of_glue(const Sample& sample, int content) {
  return {"glue",
          "--recipe",
          file(sample, "glue.toml"),
          "--from",
          run_of(sample, 0),
          "--data",
          file(sample, "glue"),
          "--output",
          "glue-runs",
          "--max-steps",
          content == 0 ? "3" : "2",
          "--seeds",
          "1"};
}

Words pretrained_on_files(const Sample& sample, int content) {
  return {"pretrain", file(sample, "files.toml"),
          "--input",  file(sample, "source"),
          "--output", "run",
          "--resume", "auto",
          "--set",    fmt::format("run.seed={}", content + 1)};
}

Words click_trained(const Sample& sample, int content) {
  return {"clicks",
          "train",
          file(sample, "clicks.toml"),
          "--resume",
          "auto",
          "--set",
          fmt::format("run.seed={}", content + 1)};
}

// A report without the minute at which it was made.
std::string page_of(const fs::path& file) {
  std::string page = read_text(file);
  const std::string begin = R"({"made":")";
  const std::size_t at = page.find(begin);
  return at == page.npos ? page : page.erase(at, page.find("\",", at) - at);
}

}  // namespace

const std::vector<Product>& products() {
  static const std::vector<Product> all = {
      {"export", "model-hf", Shape::whole, exported},
      {"import", "imported.h5", Shape::whole, imported},
      {"report", "report.html", Shape::whole, reported},
      {"clicks data", "click-shards", Shape::shards, clicked},
      {"clicks synthetic", "drawn", Shape::shards, drawn},
      {"data", "new-shards", Shape::shards, sharded},
      {"tokenizer", "new.model", Shape::whole, tokenized},
      {"predict", "predictions.tsv", Shape::whole, predicted},
      {"embed", "vectors.h5", Shape::whole, embedded},
      {"compact", "compact.h5", Shape::whole, compacted},
      {"clicks predict", "clicks.jsonl", Shape::whole, answered},
      {"pairs", "function-pairs", Shape::shards, paired},
      {"glue", "glue-runs", Shape::runs, all_of_glue},
      {"pretrain --input", "run", Shape::runs, pretrained_on_files},
      {"clicks train", "run", Shape::runs, click_trained},
  };
  return all;
}

const Product& product(const std::string& name) {
  for (const Product& one : products())
    if (one.name == name) return one;
  throw std::runtime_error("there is no product " + name);
}

std::vector<std::string> making(const Sample& sample, const Product& product, int content, bool overwrite) {
  Words words = product.words(sample, content);
  if (overwrite && product.shape != Shape::runs) words.emplace_back("--overwrite");
  return words;
}

const Sample::Made& made(const Sample& sample, const Product& product, int content) {
  return sample.made(fmt::format("{} {}", product.name, content), making(sample, product, content, false));
}

std::string difference_of(const Product& product, const fs::path& ours, const fs::path& theirs) {
  if (product.name == "report")
    return page_of(ours / product.output) == page_of(theirs / product.output) ? "" : "it is another page";
  if (product.shape == Shape::runs) return difference_of_runs(ours / product.output, theirs / product.output);
  return difference_of_trees(ours / product.output, theirs / product.output, is_temporary);
}

Standing standing(const Sample& sample, const Product& product, const fs::path& folder) {
  Standing found;
  found.there = fs::exists(fs::symlink_status(folder / product.output));
  if (!found.there) return found;
  for (const int content : {0, 1}) {
    const std::string difference = difference_of(product, folder, made(sample, product, content).folder);
    if (difference.empty()) found.content = content;
    found.differences += fmt::format("{}{}", content == 0 ? "" : "; or ", difference);
  }
  return found;
}

std::vector<std::string> reading_of(const Sample& sample, const Product& product) {
  if (product.name == "data")
    return {"pretrain",     file(sample, "plain.toml"),
            "--stop-after", "1",
            "--output",     "reader",
            "--set",        fmt::format("data.train=\"{}\"", product.output),
            "--set",        fmt::format("data.validation=\"{}\"", product.output)};
  if (product.name == "clicks data" || product.name == "clicks synthetic")
    return {"clicks", "train",        file(sample, "clicks.toml"),
            "--data", product.output, "--output",
            "reader", "--stop-after", "1"};
  return {};
}

}  // namespace comera::attack
