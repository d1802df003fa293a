#include "tests/training/training_fixture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "data/corpus/build_shards.h"
#include "data/corpus/corpus.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::test {

namespace fs = std::filesystem;

namespace {

// Functions that name, add and return things: regular enough to learn from, different enough not to be
// dropped.
std::string source_file(std::mt19937& random) {
  const std::vector<std::string> words = {"count",  "total",  "value",  "index",
                                          "result", "buffer", "offset", "length"};
  const auto word = [&] { return words[random() % words.size()]; };
  std::string text;
  for (int i = 0; i < 12; ++i) {
    const std::string a = word(), b = word();
    text += fmt::format("def {}_{}({}, {}):\n    # the {} of {}\n    {} = {} + {}\n    return {}\n\n", a,
                        random() % 50, a, b, a, b, a, a, b, a);
  }
  return text;
}

struct MadeFolder {
  fs::path path;
  MadeFolder() {
    std::string pattern = (fs::temp_directory_path() / "comera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~MadeFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void make_corpus(const fs::path& folder) {
  std::mt19937 random(1);
  fs::create_directories(folder / "source");
  for (int i = 0; i < 60; ++i)
    std::ofstream(folder / "source" / fmt::format("f{}.py", i)) << source_file(random);
  data::CorpusOptions options;
  options.inputs = {folder / "source"};
  data::FileCorpus sample(options);
  const data::Tokenizer tokenizer = data::train_tokenizer(sample, {.vocabulary = 400});
  std::ofstream(folder / "tok.model", std::ios::binary) << tokenizer.bytes();
  data::FileCorpus documents(options);
  data::build_shards(documents, tokenizer, {.output = folder, .held_out = 0.2});
}

}  // namespace

const fs::path& TrainingFixture::corpus() {
  static const MadeFolder folder;
  static const bool made = (make_corpus(folder.path), true);
  static_cast<void>(made);
  return folder.path;
}

TrainingFixture::TrainingFixture() {
  std::string pattern = (fs::temp_directory_path() / "comera-run-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
}

TrainingFixture::~TrainingFixture() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string TrainingFixture::recipe_text() const {
  return fmt::format(R"(
[model]
layers = 2
hidden = 24
heads = 2
ffn = 48
max_positions = 32
head = "mlm"
embedding_std = 0.02

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

[precision]
compute = "fp32"

[data]
train = "{0}"
validation = "{0}"
tokenizer = "{0}/tok.model"

[run]
output = "{1}/run"
log_interval = 2
evaluation_interval = 5
checkpoint_interval = 3
keep_checkpoints = 2

[[phase]]
name = "short"
length = 16
tokens_per_micro_batch = 96
micro_batches_per_step = 2
steps = 7
learning_rate = {{cores = 3e-3, gates = 1e-3, other = 2e-3}}
schedule = "linear"
warmup_steps = 3

[[phase]]
name = "long"
length = 32
tokens_per_micro_batch = 96
micro_batches_per_step = 2
steps = 5
learning_rate = 1e-3
schedule = "cosine"
)",
                     corpus().string(), folder_.string());
}

Recipe TrainingFixture::recipe(const std::string& run, const std::vector<std::string>& overrides) const {
  std::vector<std::string> all = overrides;
  all.push_back(fmt::format("run.output=\"{}\"", (folder_ / run).string()));
  return parse_recipe(recipe_text(), "test.toml", all);
}

fs::path TrainingFixture::write_recipe() const {
  fs::path file = folder_ / "recipe.toml";
  std::ofstream(file) << recipe_text();
  return file;
}

void expect_equal_checkpoints(const fs::path& a, const fs::path& b) {
  const CheckpointReader first(a), second(b);
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (std::size_t i = 0; i < first.tensors().size(); ++i)
    EXPECT_EQ(first.tensors()[i], second.tensors()[i]) << first.tensors()[i].path;
  for (const CheckpointTensor& tensor : first.tensors()) {
    if (tensor.dtype != DType::float32) continue;
    EXPECT_EQ(first.read_values<float>(tensor.path), second.read_values<float>(tensor.path)) << tensor.path;
  }
  EXPECT_EQ(first.attributes("/trainer"), second.attributes("/trainer"));
  EXPECT_EQ(first.attributes("/data"), second.attributes("/data"));
}

void TrainingFixture::expect(const ProgramResult& result, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.code, code) << result.output;
  const std::size_t at = result.output.find("comera: error: ");
  ASSERT_NE(at, std::string::npos) << result.output;
  const std::string message = result.output.substr(at);
  EXPECT_EQ(std::ranges::count(message, '\n'), 1) << message;
  for (const std::string& part : parts) EXPECT_THAT(message, testing::HasSubstr(part));
}

ProgramResult run_program(const std::vector<std::string>& arguments) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {-1, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    std::vector<char*> argv{const_cast<char*>(COMERA_PROGRAM)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(COMERA_PROGRAM, argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  ProgramResult result;
  char buffer[4096];
  for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) result.output.append(buffer, got);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void copy_checkpoint(const fs::path& from, const fs::path& to,
                     const std::function<bool(const std::string& path, std::vector<float>& values)>& change,
                     const std::map<std::string, Attributes>& more) {
  const CheckpointReader reader(from);
  CheckpointWriter writer(to);
  for (const CheckpointTensor& old : reader.tensors()) {
    if (old.dtype != DType::float32) continue;  // the tokenizer
    std::vector<float> values = reader.read_values<float>(old.path);
    if (!change(old.path, values)) continue;
    std::vector<std::int64_t> dims = old.shape;
    dims.resize(4, 1);
    const Shape all{dims[0], dims[1], dims[2], dims[3]};
    const Shape shape = old.shape.size() == 1   ? Shape{dims[0]}
                        : old.shape.size() == 2 ? Shape{dims[0], dims[1]}
                        : old.shape.size() == 3 ? Shape{dims[0], dims[1], dims[2]}
                                                : all;
    writer.tensor(old.path, Tensor(values.data(), shape, DType::float32), reader.attributes(old.path));
  }
  for (const std::string& group : reader.groups()) writer.attributes(group, reader.attributes(group));
  for (const auto& [group, attributes] : more) writer.attributes(group, attributes);
  writer.commit();
}

}  // namespace comera::test
