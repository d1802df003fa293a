#include "tests/attack/sample.h"

#include <fmt/format.h>
#include <unistd.h>

#include "storage/hdf5.h"
#include "tests/attack/chance.h"
#include "tests/attack/files.h"
#include "tests/attack/gzip.h"
#include "tests/attack/judge.h"

namespace comera::attack {

namespace {

const std::vector<std::string> words = {"count",  "total",  "value",  "index",
                                        "result", "buffer", "offset", "length"};
constexpr int vocabulary = 400;

constexpr const char* model = R"([model]
layers = 2
hidden = 24
heads = 2
ffn = 48
max_positions = 32
embedding_std = 0.02
)";

constexpr const char* trains = R"(
[tensorized.attention]
input_modes = [4, 6]
output_modes = [6, 4]
ranks = [4, 6, 4]

[tensorized.ffn_up]
input_modes = [4, 6]
output_modes = [6, 8]
ranks = [4, 7, 6]

[tensorized.embedding]
row_modes = [8, 8, 8]
column_modes = [2, 3, 4]
ranks = [6, 7]
)";

constexpr const char* two_phases = R"(
[[phase]]
name = "short"
length = 16
tokens_per_micro_batch = 96
micro_batches_per_step = 2
steps = 9
learning_rate = {cores = 3e-3, gates = 1e-3, other = 2e-3}
warmup_steps = 3

[[phase]]
name = "long"
length = 32
tokens_per_micro_batch = 96
micro_batches_per_step = 2
steps = 7
learning_rate = 1e-3
schedule = "cosine"
)";

constexpr const char* adapting_phases = R"(
[[phase]]
name = "early"
objective = "regularize"
length = 16
tokens_per_micro_batch = 96
micro_batches_per_step = 2
steps = 8
learning_rate = {cores = 3e-3, gates = 1e-2, other = 2e-3}

[phase.adaptation]
threshold = 0.05

[[phase]]
name = "late"
objective = "compress"
length = 16
tokens_per_micro_batch = 96
micro_batches_per_step = 2
steps = 12
learning_rate = {cores = 1e-3, gates = 0.15, other = 1e-3}
schedule = "constant"

[phase.adaptation]
threshold = 0.5
target_ratio = 0.6
compact_interval = 3
)";

std::string run_section(int evaluation_interval, int evaluation_batches = 2) {
  return fmt::format(R"(
[run]
output = "run"
threads = 1
log_interval = 1
evaluation_interval = {}
evaluation_batches = {}
checkpoint_interval = 3
keep_checkpoints = 2

[distributed]
silence_seconds = 6
)",
                     evaluation_interval, evaluation_batches);
}

std::string data_section(const fs::path& train, const fs::path& validation, const fs::path& tokenizer) {
  return fmt::format("\n[data]\ntrain = \"{}\"\nvalidation = \"{}\"\ntokenizer = \"{}\"\n", train.string(),
                     validation.string(), tokenizer.string());
}

std::string task_section(const fs::path& folder) {
  return fmt::format(R"(
[data]
tokenizer = "{0}/tok.model"

[task]
name = "words"
text = ["first", "second"]
label = "label"
train = "{0}/train.tsv"
validation = "{0}/dev.tsv"
)",
                     folder.string());
}

// Sixteen steps, as all recipes have.
std::string click_recipe(const fs::path& shards) {
  return fmt::format(R"(
[dlrm]
width = 4
bottom = [4]
top = [4]
table_rank = 2
embedding_std = 0.05

[data]
train = "{0}"
validation = "{0}"
{1}
[[phase]]
name = "one"
examples_per_micro_batch = 30
steps = 16
learning_rate = 2e-3
warmup_steps = 1
)",
                     shards.string(), run_section(4, 0));
}

// Two words and whether they are the same.
std::string table(int rows, std::string_view name) {
  Chance chance(1, name, 0);
  std::string text = "number\tsecond\tlabel\tfirst\tscore\n";
  for (int i = 0; i < rows; ++i) {
    const std::string first = chance.pick(words), second = chance.one_in(2) ? first : chance.pick(words);
    const bool same = first == second;
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", i, second, same ? "same" : "other", first, same ? 1.5 : -0.5);
  }
  return text;
}

}  // namespace

std::vector<std::string> two_ranks(const std::vector<std::string>& command) {
  if (access(COMERA_MPIRUN, X_OK) != 0) return {};
  std::vector<std::string> all = {COMERA_MPIRUN, "-np", "2", "--bind-to", "none"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::vector<std::string> settings_of_ranks() {
  return {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_rmaps_base_oversubscribe=1",
          "OMPI_MCA_btl_vader_single_copy_mechanism=none",  // not allowed in all containers
          // Killed processes leave shared memory; here it is removed with the attack's folder.
          "OMPI_MCA_btl_vader_backing_directory=" + fs::temp_directory_path().string()};
}

Sample::Sample(fs::path folder, std::string program)
    : folder_(std::move(folder)), program_(std::move(program)) {
  fs::create_directories(folder_);
  make_source();
  call(
      {"tokenizer", "--input", "source", "--output", "tok.model", "--vocabulary", std::to_string(vocabulary)},
      folder_);
  call({"data", "--input", "source", "--tokenizer", "tok.model", "--output", "shards", "--held-out", "0.2",
        "--tokens-per-shard", "2500", "--threads", "1"},
       folder_);
  make_tables();
  make_masked();
  make_clicks();
  make_glue();
  for (const std::string& recipe : recipes()) write_text(folder_ / (recipe + ".toml"), recipe_text(recipe));
  write_text(folder_ / "files.toml", model + run_section(5) + two_phases);
}

void Sample::call(const std::vector<std::string>& arguments, const fs::path& folder) const {
  Call call{.words = {program_}, .folder = folder};
  call.words.insert(call.words.end(), arguments.begin(), arguments.end());
  call.limits.seconds = 120;
  const Ending ending = run(call);
  if (ending.code != 0)
    throw std::runtime_error(fmt::format("what the tries need could not be made: {}\n{}{}", text_of(call),
                                         ending.out, ending.err));
}

// Functions that name, add and return things.
void Sample::make_source() const {
  fs::create_directories(folder_ / "source");
  Chance chance(1, "source", 0);
  for (int file = 0; file < 24; ++file) {
    std::string text;
    for (int i = 0; i < 8; ++i) {
      const std::string a = chance.pick(words), b = chance.pick(words);
      const std::size_t number = chance.below(90);
      text += fmt::format(
          "def {}_{}({}, {}):\n    \"\"\"Adds the {} {} to the {}.\"\"\"\n    {} = {} + {}\n    return "
          "{}\n\n",
          a, number, a, b, a, number, b, a, a, b, a);
    }
    write_text(folder_ / "source" / fmt::format("f{}.py", file), text);
  }
}

void Sample::make_tables() const {
  write_text(folder_ / "train.tsv", table(60, "train"));
  write_text(folder_ / "dev.tsv", table(20, "dev"));
  std::string csv = "first,second,label\n", json, lines;
  Chance chance(1, "rows", 0);
  for (int i = 0; i < 20; ++i) {
    const std::string a = chance.pick(words), b = chance.pick(words);
    csv += fmt::format("\"{}, the {}\",{},{}\n", a, a, b, a == b ? "same" : "other");
    json += fmt::format("{{\"first\": \"{}\", \"second\": \"{}\", \"label\": \"{}\", \"n\": {}}}\n", a, b,
                        a == b ? "same" : "other", i);
    lines += fmt::format("the {} and the {}\n", a, b);
  }
  write_text(folder_ / "rows.csv", csv);
  write_text(folder_ / "rows.jsonl", json);
  write_text(folder_ / "rows.jsonl.gz", zipped(json));
  write_text(folder_ / "lines.txt", lines);
  std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const std::string& word : words) pieces += word + "\n##" + word.substr(1) + "\n";
  for (char c = '!'; c < 'A'; ++c) pieces += fmt::format("{}\n##{}\n", c, c);
  for (char c = 'a'; c <= 'z'; ++c) pieces += fmt::format("{}\n##{}\n", c, c);
  write_text(folder_ / "vocab.txt", pieces);
}

// In the layout of NVIDIA's scripts: twenty rows of up to twelve tokens with one target.
void Sample::make_masked() const {
  constexpr std::int64_t rows = 20, width = 12, targets = 2;
  fs::create_directories(folder_ / "masked");
  for (const std::string split : {"training", "test"}) {
    Chance chance(1, split, 0);
    std::vector<std::int32_t> ids, mask, segments, positions, target_ids;
    for (int row = 0; row < rows; ++row) {
      const std::int64_t length = chance.between(6, width), target = chance.between(1, 4);
      for (std::int64_t at = 0; at < width; ++at) {
        const auto word = static_cast<std::int32_t>(chance.between(5, vocabulary - 1));
        ids.push_back(at == 0 ? 2 : at == length - 1 ? 3 : at >= length ? 0 : at == target ? 4 : word);
        mask.push_back(at < length ? 1 : 0);
        segments.push_back(at > 4 && at < length ? 1 : 0);
      }
      positions.insert(positions.end(), {static_cast<std::int32_t>(target), 0});
      target_ids.insert(target_ids.end(), {static_cast<std::int32_t>(chance.between(5, vocabulary - 1)), 0});
    }
    storage::hdf5::File file = storage::hdf5::File::create(folder_ / "masked" / (split + ".h5"));
    file.write("input_ids", ids, {rows, width});
    file.write("input_mask", mask, {rows, width});
    file.write("segment_ids", segments, {rows, width});
    file.write("masked_lm_positions", positions, {rows, targets});
    file.write("masked_lm_ids", target_ids, {rows, targets});
    file.close();
  }
}

const std::vector<std::string>& Sample::recipes() {
  static const std::vector<std::string> all = {"plain", "adapting", "finetune",   "float8",
                                               "dense", "masked",   "pretrained", "clicks"};
  return all;
}

std::string Sample::recipe_text(const std::string& recipe) const {
  const fs::path shards = folder_ / "shards", tokenizer = folder_ / "tok.model";
  const std::string ours = data_section(shards, shards, tokenizer);
  if (recipe == "adapting") return model + std::string(trains) + ours + run_section(6) + adapting_phases;
  if (recipe == "float8")
    return model + std::string(trains) + "\n[precision]\ncompute = \"fp8\"\nfp8_recipe = \"delayed\"\n" +
           ours + run_section(5) + two_phases;
  if (recipe == "dense") return model + ours + "whole_word_masking = true\n" + run_section(0) + two_phases;
  if (recipe == "masked")
    return model + std::string(trains) + data_section(folder_ / "masked", folder_ / "masked", tokenizer) +
           run_section(4) + two_phases;
  if (recipe == "finetune")
    return model + std::string(trains) + task_section(folder_) + run_section(4, 0) + two_phases;
  if (recipe == "clicks") return click_recipe(folder_ / "clicks");
  if (recipe == "pretrained")
    return fmt::format("[model]\npooling = \"mean\"\n") + task_section(folder_) + run_section(4, 0) +
           two_phases;
  return model + std::string(trains) + ours + run_section(5) + two_phases;
}

std::vector<std::string> Sample::training(const std::string& recipe) const {
  const std::string file = (folder_ / (recipe + ".toml")).string();
  if (recipe == "pretrained") return {"finetune", file, "--from", finished("plain").run.string()};
  if (recipe == "clicks") return {"clicks", "train", file};
  return {recipe == "finetune" ? "finetune" : "pretrain", file};
}

const Sample::Finished& Sample::finished(const std::string& recipe) const {
  const std::lock_guard lock(mutex_);
  Finished& found = finished_[recipe];
  if (!found.run.empty()) return found;
  const fs::path folder = folder_ / recipe;
  fs::create_directories(folder);
  const auto begin = std::chrono::steady_clock::now();
  call(training(recipe), folder);
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  found.run = folder / "run";
  return found;
}

const Sample::Finished& Sample::finished_by_two(const std::string& recipe) const {
  const std::lock_guard lock(mutex_);
  Finished& found = finished_[recipe + " by two"];
  if (!found.run.empty()) return found;
  const fs::path folder = folder_ / (recipe + "-by-two");
  fs::create_directories(folder);
  std::vector<std::string> command = training(recipe);
  command.insert(command.begin(), program_);
  Call job{.words = two_ranks(command), .folder = folder, .environment = settings_of_ranks()};
  job.limits = {.seconds = 120, .memory = 0};
  const Ending ending = run(job);
  if (ending.code != 0)
    throw std::runtime_error(fmt::format("a job of two processes failed: {}\n{}", text_of(job), ending.err));
  found.run = folder / "run";
  found.seconds = ending.seconds;
  return found;
}

const Sample::Made& Sample::made(const std::string& key, const std::vector<std::string>& arguments) const {
  const std::lock_guard lock(mutex_);
  Made& found = made_[key];
  if (!found.folder.empty()) return found;
  const fs::path folder = folder_ / "made" / key;
  fs::create_directories(folder);
  Call call{.words = {program_}, .folder = folder};
  call.words.insert(call.words.end(), arguments.begin(), arguments.end());
  call.limits.seconds = 120;
  call.traced = true;
  Child child(call);
  const Ending ending = child.end_struck({}, &found.changes);
  if (ending.code != 0)
    throw std::runtime_error(
        fmt::format("what the tries need could not be made: {}\n{}", text_of(call), ending.err));
  found.seconds = ending.seconds;
  found.folder = folder;
  return found;
}

const fs::path& Sample::half(const std::string& recipe) const {
  const std::lock_guard lock(mutex_);
  fs::path& found = half_[recipe];
  if (!found.empty()) return found;
  const fs::path folder = folder_ / (recipe + "-half");
  fs::create_directories(folder);
  std::vector<std::string> arguments = training(recipe);
  arguments.insert(arguments.end(), {"--stop-after", "10"});
  call(arguments, folder);
  found = folder / "run";
  return found;
}

std::int64_t Sample::least_memory() const {
  const std::lock_guard lock(mutex_);
  constexpr std::int64_t step = 32 << 20, most = 2048LL << 20;
  for (std::int64_t memory = 512LL << 20; least_memory_ == 0 && memory <= most; memory *= 2) {
    Call call{.words = {program_, "--version"}, .folder = folder_};
    call.limits = {.seconds = 2, .memory = memory};
    if (run(call).code != 0) continue;
    do {
      least_memory_ = call.limits.memory;
      call.limits.memory -= step;
    } while (call.limits.memory > 0 && run(call).code == 0);
  }
  return least_memory_ == 0 ? most : least_memory_;
}

}  // namespace comera::attack
