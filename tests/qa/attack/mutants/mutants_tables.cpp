// Metrics, logs of clicks and compressed files that are almost what they were.
#include <fmt/format.h>

#include "tests/qa/attack/kills/products.h"
#include "tests/qa/attack/kinds.h"
#include "tests/qa/attack/mutants/gzip.h"
#include "tests/qa/attack/mutants/mutate.h"
#include "tests/qa/attack/samples/files.h"
#include "tests/qa/attack/samples/sample.h"
#include "tests/qa/attack/samples/trees.h"

namespace comera::attack {

namespace {

using Words = std::vector<std::string>;

// One line of many is changed as JSON, or all of it as text.
std::string mutated_lines(Chance& chance, const std::string& text) {
  if (chance.one_in(2)) return mutated_text(chance, text);
  const std::size_t begin = text.rfind('\n', chance.below(text.size()));
  const std::size_t first = begin == text.npos ? 0 : begin + 1;
  const std::size_t end = std::min(text.find('\n', first), text.size());
  return text.substr(0, first) + mutated_json(chance, text.substr(first, end - first)) + text.substr(end);
}

void check_page(Try& own, const fs::path& page) {
  const std::string text = read_text(page);
  for (const char* word : {"NaN", "Infinity", "=\"nan", "=\"inf", ",nan", ",inf", ">nan", ">inf"})
    if (text.find(word) != text.npos) own.fail(fmt::format("the page holds {}", word));
}

// A change of the file that keeps the others, in the places where readers of several members stumble.
std::string mutated_members(Chance& chance, const std::string& text, std::size_t members) {
  std::vector<std::string> parts;
  std::string bytes = zipped(text, members);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t next = bytes.find(std::string("\x1f\x8b\x08\x00", 4), at + 4);
    const std::size_t end = next == bytes.npos ? bytes.size() : next;
    parts.push_back(bytes.substr(at, end - at));
    at = end;
  }
  const std::size_t chosen = chance.below(parts.size());
  std::string& part = parts[chosen];
  switch (chance.below(7)) {
    case 0:  // a bit of a header
      part[chance.below(10)] ^= static_cast<char>(1 << chance.below(8));
      break;
    case 1:  // checksum or length
      part[part.size() - 1 - chance.below(8)] ^= static_cast<char>(1 << chance.below(8));
      break;
    case 2:
      part.resize(part.size() - 1 - chance.below(std::min<std::size_t>(part.size() - 1, 20)));
      break;
    case 3:
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(chosen),
                   part.substr(0, chance.below(part.size())));
      break;
    case 4:
      parts.push_back(chance.one_in(2) ? std::string(1 + chance.below(1024), '\0') : "junk\n");
      break;
    case 5:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(chosen));
      break;
    default:
      parts = {mutated_bytes(chance, bytes)};
  }
  std::string all;
  for (const std::string& one : parts) all += one;
  return all;
}

struct Compressed {
  Words words;
  std::string output;
};

Compressed reading_of_compressed(Try& own, const std::string& base, const std::string& name) {
  const Sample& sample = own.sample();
  const std::string text = base == "lines.txt" ? "text" : "first";
  if (base == "clicks.log") {
    if (own.chance.one_in(2))
      return {{"clicks", "predict", sample.finished("clicks").run.string(), name, "--output", "p.jsonl"},
              "p.jsonl"};
    return {{"clicks", "data", name, "--output", "shards", "--held-out", "0.2", "--threshold", "3"},
            "shards"};
  }
  const std::size_t ways = base == "lines.txt" ? 3 : 4;
  switch (own.chance.below(ways)) {
    case 0:
      return {{"embed", sample.finished("plain").run.string(), "--input", name, "--text", text, "--output",
               "v.jsonl", "--threads", "1"},
              "v.jsonl"};
    case 1:
      return {{"data", "--input", name, "--text", text, "--tokenizer", sample.file("tok.model").string(),
               "--output", "shards", "--held-out", "0.2", "--threads", "1"},
              "shards"};
    case 2:
      return {{"tokenizer", "--input", name, "--text", text, "--output", "t.model", "--vocabulary", "320"},
              "t.model"};
    default:
      return {{"predict", sample.finished("finetune").run.string(), "--input", name, "--output", "p.tsv",
               "--threads", "1"},
              "p.tsv"};
  }
}

}  // namespace

// metrics.jsonl of a run, or what `comera glue` has written down.
void mutate_metrics(Try& own) {
  const bool glue = own.chance.one_in(4);
  fs::path file;
  if (glue) {
    const Product& all = product("glue");
    fs::copy(made(own.sample(), all, 0).folder / all.output, own.folder() / "glue-runs",
             fs::copy_options::recursive);
    file = own.folder() / "glue-runs" /
           own.chance.pick(Words{"glue.json", "submission.json", "from.json", "runs/rte-1/result.json",
                                 "runs/rte-1/metrics.jsonl", "runs/rte-1/recipe.toml"});
  } else {
    const std::string recipe = own.chance.pick(Words{"plain", "adapting", "finetune", "clicks"});
    fs::copy(own.sample().finished(recipe).run, own.folder() / "run", fs::copy_options::recursive);
    file = own.folder() / "run" / own.chance.pick(Words{"metrics.jsonl", "metrics.jsonl", "recipe.toml"});
  }
  const std::string sound = read_text(file);
  write_text(file, file.extension() == ".toml"   ? mutated_toml(own.chance, sound)
                   : file.extension() == ".json" ? (own.chance.one_in(3) ? mutated_text(own.chance, sound)
                                                                         : mutated_json(own.chance, sound))
                                                 : mutated_lines(own.chance, sound));
  own.note(file.string());
  const std::string folder = glue ? "glue-runs" : "run";
  Words words = {"report", folder, "--output", "report.html", "--examples", "1"};
  if (own.chance.one_in(4)) words = {"report", folder, "--tensorboard", "events"};
  if (glue && own.chance.one_in(3)) words = making(own.sample(), product("glue"), 0, false);
  const Ending ending =
      own.check(own.comera(words), {.names = {folder, "task.", "model.", "phase", "--seeds"}});
  if (ending.code == 0) check_page(own, own.folder() / "report.html");
}

void mutate_clicks(Try& own) {
  const Sample& sample = own.sample();
  const bool encoding = own.chance.one_in(4);
  if (encoding) {
    const std::string sound = read_text(sample.file("clicks") / "encoding.h5");
    write_text(own.folder() / "mutant.h5", mutated_bytes(own.chance, sound));
  } else {
    write_text(own.folder() / "mutant.log", mutated_text(own.chance, read_text(sample.file("clicks.log"))));
  }
  const std::string log = encoding ? sample.file("clicks.log").string() : "mutant.log";
  Words words = {"clicks", "data", log, "--output", "shards", "--held-out", "0.2"};
  if (own.chance.one_in(2)) {
    words = {"clicks", "predict", sample.finished("clicks").run.string(), log, "--output", "p.jsonl"};
    if (own.chance.one_in(3)) words.emplace_back("--score");
  }
  if (encoding) words.insert(words.end(), {"--encoding", "mutant.h5"});
  const Ending ending = own.check(own.comera(words), {.success = !encoding, .names = {"mutant", "rows"}});
  if (ending.code != 0) return;
  if (const std::string found = nonfinite_result(own.folder() / "p.jsonl"); !found.empty()) own.fail(found);
}

// What is whole is read as what it holds; of what is not, nothing is taken for all.
void mutate_gzip(Try& own) {
  const std::string base =
      own.chance.pick(Words{"train.tsv", "rows.jsonl", "rows.csv", "lines.txt", "clicks.log", "clicks.log"});
  const std::string extension = base.substr(base.find('.'));
  const std::string sound = read_text(own.sample().file(base));
  const std::string bytes = mutated_members(own.chance, sound, 1 + own.chance.below(4));
  const std::string name = "mutant" + extension + ".gz";
  write_text(own.folder() / name, bytes);
  const Compressed reading = reading_of_compressed(own, base, name);
  // Without the first two bytes it is a text, if a strange one.
  const bool compressed = bytes.starts_with("\x1f\x8b");
  const std::optional<std::string> content = compressed ? unzipped(bytes) : std::nullopt;
  const Ending ending =
      own.check(own.comera(reading.words),
                {.success = !compressed || content.has_value(),
                 .names = {"mutant", "corpus", "nothing to train on", "pieces", "vocabulary"}});
  if (!content || !own.failure().empty()) return;
  const fs::path beside = own.folder() / "beside";
  fs::create_directories(beside);
  write_text(beside / name, *content);
  Call plain = own.comera(reading.words);
  plain.folder = beside;
  const Ending expected = run(plain);
  if (expected.code != ending.code)
    return own.fail(fmt::format("exit code {}, and {} of what it holds", ending.code, expected.code));
  if (ending.code != 0) return;
  const std::string found = difference_of_trees(own.folder() / reading.output, beside / reading.output);
  if (!found.empty()) own.fail("not what comes of the text that it holds: " + found);
}

}  // namespace comera::attack
