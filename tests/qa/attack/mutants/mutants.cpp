// Files that are almost what they were, given to the commands that read them.
#include <fmt/format.h>

#include "tests/qa/attack/kinds.h"
#include "tests/qa/attack/mutants/content.h"
#include "tests/qa/attack/mutants/mutate.h"
#include "tests/qa/attack/samples/files.h"
#include "tests/qa/attack/samples/run_folder.h"
#include "tests/qa/attack/samples/sample.h"

namespace comera::attack {

namespace {

using Words = std::vector<std::string>;

// A sentence about content may name the key instead of the file.
Words names_of(const Try& own) {
  return {own.folder().string(), "mutant", "run/",  "run:",   "model.",
          "tensorized",          "optim.", "data.", "task.",  "precision.",
          "distributed.",        "run.",   "phase", "memory", "encoder.",
          "embedding.",          "head.",  "dlrm."};
}

// Runs it, and looks for numbers that are not finite in what it gave.
Ending check(Try& own, const Call& call, const Allowed& allowed) {
  Ending ending = own.check(call, allowed);
  if (ending.code != 0) return ending;
  if (const std::string found = nonfinite_in(ending.out); !found.empty())
    own.fail("its words hold what is not finite: " + found);
  for (const char* name : {"run/metrics.jsonl", "new/metrics.jsonl", "p.tsv", "p.jsonl", "v.h5", "v.jsonl"})
    if (const std::string found = nonfinite_result(own.folder() / name); !found.empty()) own.fail(found);
  return ending;
}

void mutate_recipe(Try& own) {
  const std::string base = own.chance.pick(Sample::recipes());
  write_text(own.folder() / "mutant.toml", mutated_toml(own.chance, own.sample().recipe_text(base)));
  Words words = own.sample().training(base);
  words[1] = "mutant.toml";
  if (own.chance.one_in(3))
    words = base == "clicks" ? Words{"inspect", "mutant.toml", "--data", own.sample().file("clicks").string()}
                             : Words{"inspect", "mutant.toml", "--vocabulary", "400"};
  else
    words.insert(words.end(), {"--stop-after", "2", "--set", "run.threads=1", "--output", "run"});
  Allowed allowed{.names = names_of(own)};
  allowed.names.emplace_back("/");  // of paths that were changed themselves
  check(own, own.comera(words), allowed);
}

// What a checkpoint, or the folder that it is in, can be given to. of_folder: all of the newest is verified.
struct Reading {
  Words words;
  bool of_folder = true;
};

Reading reading_of(Try& own, const std::string& recipe, const fs::path& file) {
  const std::string run = "run", name = file.lexically_relative(own.folder()).string();
  const bool task = recipe == "finetune";
  const auto input = [&](const char* table) { return own.sample().file(table).string(); };
  Words train = own.sample().training(recipe), from = own.sample().training("plain");
  train.insert(train.end(), {"--resume", "auto", "--stop-after", "12"});
  switch (own.chance.below(10)) {
    case 0:
    case 1:
      return {train};
    case 2:
      return {{"inspect", run}};
    case 3:
      return {{"inspect", run, "--ranks"}};
    case 4:
      return {{"eval", run, "--threads", "1"}};
    case 5:
      if (task)
        return {{"predict", name, "--tokenizer", "run/tokenizer.model", "--input", input("dev.tsv"),
                 "--output", "p.tsv", "--threads", "1"},
                false};
      if (own.chance.one_in(2)) return {{"fill-mask", run, "return [MASK]", "--threads", "1"}};
      return {{"embed", run, "--input", input("lines.txt"), "--output", "v.h5", "--threads", "1"}};
    case 6:
      return {{"compact", run, "--output", "small.h5"}};
    case 7:
      from.insert(from.end(), {"--from", run, "--output", "new", "--stop-after", "1"});
      return {from};
    case 8:
      return {{"inspect", name}, false};
    default:
      return {{"eval", name, "--tokenizer", "run/tokenizer.model", "--threads", "1"}, false};
  }
}

fs::path lay_run(Try& own, const std::string& recipe) {
  fs::copy(own.sample().half(recipe), own.folder() / "run", fs::copy_options::recursive);
  fs::remove(own.folder() / "run" / "best.h5");
  return newest_checkpoint(own.folder() / "run");
}

void damage_checkpoint(Try& own) {
  const std::string recipe = own.chance.pick(Words{"plain", "adapting", "finetune", "float8", "dense"});
  const fs::path file = lay_run(own, recipe);
  const Reading reading = reading_of(own, recipe, file);
  const Call call = own.comera(reading.words);
  const Ending sound = reading.of_folder ? Ending() : run(call);
  const std::string result = read_text(own.folder() / "p.tsv");
  fs::remove(own.folder() / "p.tsv");
  write_text(file, mutated_bytes(own.chance, read_text(file)));
  const Ending ending =
      check(own, call, {.success = !reading.of_folder, .names = {file.filename().string()}});
  // What was not damaged may be shown, as it is.
  if (ending.code == 0 && !reading.of_folder &&
      (ending.out != sound.out || read_text(own.folder() / "p.tsv") != result))
    own.fail("a damaged checkpoint was accepted and gave something else");
}

void change_checkpoint(Try& own) {
  const std::string recipe = own.chance.pick(Words{"plain", "adapting", "finetune", "float8", "dense"});
  const fs::path file = lay_run(own, recipe);
  Content content(file);
  const std::size_t changes = own.chance.one_in(50) ? 0 : 1 + own.chance.below(2);
  for (std::size_t i = 0; i < changes; ++i) own.note(content.change(own.chance));
  content.write(file, Content::Seal::checkpoint);
  const Reading reading = reading_of(own, recipe, file);
  const bool fits =
      reading.words[0] != "compact" && reading.words[0] != "pretrain" && reading.words.back() != "--ranks";
  check(own, own.comera(reading.words), {.refusal = changes > 0 || !fits, .names = names_of(own)});
}

Words train_on(Try& own, const std::string& folder, const std::string& recipe) {
  return {
      "pretrain",     own.sample().file(recipe + ".toml").string(),
      "--stop-after", "2",
      "--set",        fmt::format("data.{}=\"{}\"", own.chance.one_in(3) ? "validation" : "train", folder)};
}

void damage_shard(Try& own) {
  const fs::path shards = own.folder() / "shards";
  fs::copy(own.sample().file("shards"), shards);
  const fs::path file = shards / "train-00000.h5";
  write_text(file, mutated_bytes(own.chance, read_text(file)));
  const Words words = {"pretrain",     own.sample().file("plain.toml").string(),
                       "--stop-after", "1",
                       "--set",        "data.train=\"shards\""};
  check(own, own.comera(words), {.success = false, .names = {"train-00000.h5"}});
}

void change_shard(Try& own) {
  const fs::path shards = own.folder() / "shards";
  fs::copy(own.sample().file("shards"), shards);
  for (const char* name : {"train-00000.h5", "validation-00000.h5"}) {
    Content content(shards / name);
    for (std::size_t i = 0; i <= own.chance.below(2); ++i) own.note(content.change(own.chance));
    content.write(shards / name, Content::Seal::shard);
  }
  Allowed allowed{.names = names_of(own)};
  allowed.names.emplace_back("shards");
  check(own, own.comera(train_on(own, "shards", "plain")), allowed);
}

void change_masked(Try& own) {
  const fs::path masked = own.folder() / "masked";
  fs::copy(own.sample().file("masked"), masked);
  const fs::path file = masked / (own.chance.one_in(3) ? "test.h5" : "training.h5");
  if (own.chance.one_in(8)) {
    fs::resize_file(file, own.chance.below(fs::file_size(file)));
  } else {
    Content content(file);
    for (std::size_t i = 0; i <= own.chance.below(2); ++i) own.note(content.change(own.chance));
    content.write(file, Content::Seal::none);
  }
  Words words = train_on(own, "masked", "masked");
  if (own.chance.one_in(3)) words.insert(words.end(), {"--set", "data.targets=dynamic"});
  Allowed allowed{.names = names_of(own)};
  allowed.names.emplace_back("masked");
  check(own, own.comera(words), allowed);
}

// A mutated tokenizer makes shards, and if they come to be, a run learns from them.
void mutate_tokenizer(Try& own) {
  const bool pieces = own.chance.one_in(3);
  const std::string name = pieces ? "mutant.txt" : "mutant.model";
  const std::string sound = read_text(own.sample().file(pieces ? "vocab.txt" : "tok.model"));
  write_text(own.folder() / name,
             pieces ? mutated_text(own.chance, sound) : mutated_bytes(own.chance, sound));
  const Allowed allowed{.names = {name}};
  const Ending made =
      check(own,
            own.comera({"data", "--input", own.sample().file("source").string(), "--tokenizer", name,
                        "--output", "shards", "--held-out", "0.2", "--threads", "1"}),
            allowed);
  if (made.code != 0) return;
  check(own,
        own.comera({"pretrain", own.sample().file("plain.toml").string(), "--stop-after", "1", "--set",
                    "data.train=\"shards\"", "--set", "data.validation=\"shards\"", "--set",
                    fmt::format("data.tokenizer=\"{}\"", name)}),
        {.names = {name, "shards", "tensorized", "model."}});
}

Words reading_of_table(Try& own, const std::string& name, bool has_task) {
  const Sample& sample = own.sample();
  const std::string finetuned = sample.finished("finetune").run.string();
  const std::string tokenizer = sample.file("tok.model").string();
  switch (own.chance.below(has_task ? 6 : 3)) {
    case 0:
      return {"embed",     sample.finished("plain").run.string(),
              "--input",   name,
              "--text",    name.ends_with(".txt") ? "text" : "first",
              "--output",  own.chance.one_in(2) ? "v.h5" : "v.jsonl",
              "--threads", "1"};
    case 1:
      return {"data",
              "--input",
              name,
              "--text",
              name.ends_with(".txt") ? "text" : "first,second",
              "--tokenizer",
              tokenizer,
              "--output",
              "shards",
              "--threads",
              "1"};
    case 2:
      return {"tokenizer", "--input", name,           "--text", name.ends_with(".txt") ? "text" : "second",
              "--output",  "t.model", "--vocabulary", "320"};
    case 3:
      return {"predict",   finetuned, "--input", name, "--output", own.chance.one_in(2) ? "p.tsv" : "p.jsonl",
              "--threads", "1"};
    case 4:
      return {"eval", finetuned, "--set", fmt::format("task.validation=\"{}\"", name), "--threads", "1"};
    default:
      return {
          "finetune",     sample.file("finetune.toml").string(),
          "--stop-after", "2",
          "--set",        fmt::format("task.{}=\"{}\"", own.chance.one_in(2) ? "train" : "validation", name)};
  }
}

void mutate_table(Try& own) {
  const std::string base =
      own.chance.pick(Words{"train.tsv", "rows.csv", "rows.jsonl", "rows.jsonl.gz", "lines.txt"});
  const std::string name = "mutant" + base.substr(base.find('.'));
  const std::string sound = read_text(own.sample().file(base));
  write_text(own.folder() / name,
             base.ends_with(".gz") ? mutated_bytes(own.chance, sound) : mutated_text(own.chance, sound));
  // Of an empty corpus, a class that is missing and the like the sentence says so.
  check(own, own.comera(reading_of_table(own, name, base != "lines.txt")),
        {.names = {"mutant", "corpus", "nothing to train on", "task.", "vocabulary", "pieces"}});
}

void mutate_source(Try& own) {
  const fs::path folder = own.folder() / "mutant";
  fs::create_directories(folder);
  for (const char* name : {"f0.py", "f1.py", "f2.py"})
    write_text(folder / name, mutated_text(own.chance, read_text(own.sample().file("source") / name)));
  const std::string tokenizer = own.sample().file("tok.model").string();
  const std::vector<Words> all = {
      {"data", "--input", "mutant", "--tokenizer", tokenizer, "--output", "shards", "--threads", "1"},
      {"tokenizer", "--input", "mutant", "--output", "t.model", "--vocabulary", "320"},
      {"pairs", "--input", "mutant", "--output", "pairs"}};
  check(own, own.comera(own.chance.pick(all)),
        {.names = {"mutant", "corpus", "nothing to train on", "functions", "pieces", "vocabulary"}});
}

// metrics.jsonl, recipe.toml, the tokenizer and the rest of a run's folder.
void mutate_run(Try& own) {
  const fs::path run = own.folder() / "run";
  lay_run(own, "adapting");
  const std::string name = own.chance.pick(Words{"metrics.jsonl", "metrics.jsonl", "recipe.toml",
                                                 "tokenizer.model", "lock", "checkpoints/latest"});
  const std::string sound = read_text(run / name);
  write_text(run / name,
             name == "recipe.toml" ? mutated_toml(own.chance, sound) : mutated_text(own.chance, sound));
  Words train = own.sample().training("adapting"), from = own.sample().training("plain");
  train.insert(train.end(), {"--resume", "auto", "--stop-after", "12"});
  from.insert(from.end(), {"--from", "run", "--output", "new", "--stop-after", "1"});
  const std::vector<Words> all = {train,
                                  from,
                                  {"inspect", "run", "--plot", "plot.svg"},
                                  {"eval", "run", "--threads", "1"},
                                  {"embed", "run", "--input", own.sample().file("lines.txt").string(),
                                   "--output", "v.h5", "--threads", "1"}};
  const Words words = own.chance.pick(all);
  // Lines of metrics that are no longer whole are the user's own.
  const Call call = own.comera(words);
  const Ending ending = own.check(call, {.names = {"run"}});
  if (ending.code == 0 && name != "metrics.jsonl")
    if (const std::string found = nonfinite_result(run / "metrics.jsonl"); !found.empty()) own.fail(found);
}

}  // namespace

void attempt_mutant(Try& own) {
  constexpr void (*ways[])(Try&) = {
      mutate_recipe,     mutate_recipe,     mutate_recipe,     mutate_recipe,     damage_checkpoint,
      damage_checkpoint, damage_checkpoint, change_checkpoint, change_checkpoint, change_checkpoint,
      damage_shard,      damage_shard,      change_shard,      change_shard,      change_masked,
      mutate_tokenizer,  mutate_table,      mutate_table,      mutate_source,     mutate_run,
      mutate_exchange,   mutate_exchange,   mutate_exchange,   mutate_metrics,    mutate_clicks,
      mutate_gzip,       mutate_gzip,       mutate_gzip};
  ways[own.number() % std::size(ways)](own);
}

}  // namespace comera::attack
