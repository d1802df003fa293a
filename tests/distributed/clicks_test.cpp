// What several processes train on clicks is what one does.
#include "data/clicks/click_shards.h"
#include "data/clicks/synthetic_clicks.h"
#include "tests/distributed/processes.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

// A DLRM of tensor trains and dense tables. Epochs of 22 micro-batches, the last one shorter, end within
// steps.
class ClickProcesses : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    if (IsSkipped()) return;
    const data::SyntheticClicks clicks({.dense_features = 4, .heights = {3, 40, 1000}});
    write("train", clicks, 0, 700);
    write("validation", clicks, 700, 300);
    std::ofstream(recipe()) << fmt::format(R"(
[dlrm]
width = 8
bottom = [16]
top = [24, 12]
table_rank = 4
layer_rank = 4
embedding_std = 0.3

[data]
train = "{0}"
validation = "{0}"

[run]
evaluation_interval = 7
checkpoint_interval = 0
log_interval = 1
threads = 1

[[phase]]
name = "one"
examples_per_micro_batch = 32
micro_batches_per_step = 2
steps = 20
learning_rate = 1e-2
warmup_steps = 3
)",
                                           shards().string());
  }

  std::filesystem::path recipe() const { return folder() / "clicks.toml"; }
  std::filesystem::path shards() const { return folder() / "shards"; }

  void write(const char* split, const data::SyntheticClicks& clicks, std::int64_t first,
             std::int64_t count) const {
    data::ClickExamples examples;
    clicks.make(first, count, examples);
    const data::SyntheticClicksOptions& options = clicks.options();
    std::filesystem::create_directories(shards());
    data::ClickShardWriter writer(shards(),
                                  {.encoding = "synthetic",
                                   .split = split,
                                   .dense_features = options.dense_features,
                                   .heights = options.heights},
                                  512);
    for (std::int64_t i = 0; i < count; ++i)
      writer.add(examples.labels[i], &examples.dense_features[i * options.dense_features],
                 &examples.ids[i * clicks.tables()]);
    writer.finish();
  }

  void train(int processes, const std::string& run, const std::vector<std::string>& words = {}) const {
    std::vector<std::string> all = {COMERA_PROGRAM,    "clicks",   "train",
                                    recipe().string(), "--output", (folder() / run).string()};
    all.insert(all.end(), words.begin(), words.end());
    const ProgramResult result = run_processes(processes, all);
    ASSERT_EQ(result.code, 0) << result.output;
  }

  void expect_the_same_model(const std::string& a, const std::string& b) const {
    expect_the_same(a, b, 1e-5);
    const CheckpointReader one(newest(a)), other(newest(b));
    const auto doubles = [](const CheckpointReader& from, const std::string& path) {
      const std::vector<float> values = from.read_values<float>(path);
      return std::vector<double>(values.begin(), values.end());
    };
    int parameters = 0;
    for (const CheckpointTensor& tensor : one.tensors()) {
      if (!tensor.path.starts_with("/model/")) continue;
      EXPECT_LT(relative_error(doubles(other, tensor.path), doubles(one, tensor.path)), 1e-4) << tensor.path;
      ++parameters;
    }
    EXPECT_GT(parameters, 10);
  }
};

TEST_F(ClickProcesses, TrainWhatOneDoes) {
  // Of a dense table the micro-batches of a step look up different rows, and all of those change in every
  // process.
  for (const auto& [micro_batches, processes, tensorized] :
       {std::tuple{2, 2, "true"}, std::tuple{5, 3, "true"}, std::tuple{2, 2, "false"}}) {
    const std::vector<std::string> steps = {"--set",
                                            fmt::format("phase.0.micro_batches_per_step={}", micro_batches),
                                            "--set", fmt::format("tensorized.enabled={}", tensorized)};
    const std::string one = fmt::format("one-{}-{}", micro_batches, tensorized),
                      several = fmt::format("several-{}-{}", micro_batches, tensorized);
    train(1, one, steps);
    train(processes, several, steps);
    expect_the_same_model(one, several);
    int scored = 0;
    const auto first = lines(one), second = lines(several);
    for (std::size_t i = 0; i < first.size(); ++i)
      for (const char* key : {"validation_auc", "validation_normalised_entropy", "validation_examples"}) {
        if (!first[i].contains(key)) continue;
        EXPECT_NEAR(second[i].at(key), first[i][key], 1e-4) << key;
        ++scored;
      }
    EXPECT_GE(scored, 9);
  }
}

TEST_F(ClickProcesses, ContinueToTheBit) {
  train(2, "straight");
  train(2, "stopped", {"--stop-after", "9"});
  train(2, "stopped", {"--resume", "auto"});
  expect_equal_checkpoints(newest("straight"), newest("stopped"));
}

// No checkpoint is written of processes that have different models.
TEST_F(ClickProcesses, HaveTheSameModel) {
  const ProgramResult result = run_processes(
      2, {COMERA_WORKER, "drift", recipe().string(),
          fmt::format("run.output=\"{}\"", (folder() / "drift").string()), "run.checkpoint_interval=2"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, testing::HasSubstr("process 1 has another model than process 0"));
}

}  // namespace
}  // namespace comera::test
