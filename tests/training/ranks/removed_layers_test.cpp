#include <gmock/gmock.h>

#include "checkpoints/model_state.h"
#include "kernels/backends/processors.h"
#include "recipes/encoder_config.h"
#include "reports/model_report.h"
#include "tests/training/training_fixture.h"
#include "training/inference/trained_model.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Runs of a model whose rank adaptation has removed layers.
class RemovedLayersRun : public TrainingFixture {
 protected:
  const std::vector<std::string> removed_ = {"tensorized.ranks.encoder.0.attention.key=[0, 0, 0]",
                                             "tensorized.ranks.encoder.0.ffn.up=[0, 0, 0]",
                                             "tensorized.ranks.encoder.1.attention.output=[0, 0, 0]"};

  TrainingOutcome train(const std::string& run, TrainingOptions options,
                        const std::vector<std::string>& overrides) const {
    std::FILE* null = std::fopen("/dev/null", "w");
    options.output = null;
    TrainingOutcome outcome = TrainingRun(recipe(run, overrides), options).run();
    std::fclose(null);
    return outcome;
  }
};

// The checkpoint's recipe says which layers are gone: one that does not know of them goes on.
TEST_F(RemovedLayersRun, IsResumedToTheBit) {
  const TrainingOutcome whole = train("whole", {}, removed_);
  train("stopped", {.stop_after = 5}, removed_);
  const TrainingOutcome resumed = train("stopped", {.mode = RunMode::resume}, {});
  expect_equal_checkpoints(whole.checkpoint, resumed.checkpoint);
  EXPECT_EQ(whole.evaluation->loss, resumed.evaluation->loss);
  const CheckpointReader reader(whole.checkpoint);
  for (const CheckpointTensor& tensor : reader.tensors())
    for (const char* layer : {"encoder.0.attention.key.", "encoder.0.ffn.up.", "encoder.1.attention.output."})
      if (tensor.path.find(layer) != std::string::npos) {
        EXPECT_THAT(tensor.path, HasSubstr("bias"));
      }
  train("other", {.stop_after = 5}, removed_);
  try {
    train("other", {.mode = RunMode::resume}, {"tensorized.ranks.encoder.0.attention.key=[2, 2, 2]"});
    FAIL() << "a layer came back";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("encoder.0.attention.key has the ranks [0, 0, 0]"));
  }
}

// For evaluation, and as the beginning of a model with another head.
TEST_F(RemovedLayersRun, IsLoaded) {
  const TrainingOutcome trained = train("run", {}, removed_);
  const LoadedModel loaded(trained.checkpoint, {}, {}, "cpu");
  EXPECT_EQ(loaded.recipe.tensorized.ranks.at("encoder.0.ffn.up"), (std::vector<std::int64_t>{0, 0, 0}));
  const CheckpointReader reader(trained.checkpoint);
  Recipe classifier = recipe("none", {"model.head=classification"});
  take_ranks(classifier, reader);
  EXPECT_EQ(classifier.tensorized.ranks, loaded.recipe.tensorized.ranks);
  Model model(encoder_config(classifier, reader.integer("/data", "vocabulary")), host_allocator(), false);
  EXPECT_NO_THROW(load_initial_parameters(reader, model.parameters()));
}

TEST_F(RemovedLayersRun, IsReported) {
  const Model whole(encoder_config(recipe("none"), 400), host_allocator(), false);
  const Model model(encoder_config(recipe("none", removed_), 400), host_allocator(), false);
  std::int64_t cores = 0;
  for (const auto& layer : whole.config().linear_layers())
    if (layer.name == "encoder.0.attention.key" || layer.name == "encoder.0.ffn.up" ||
        layer.name == "encoder.1.attention.output")
      cores += layer.shape->core_parameters();
  EXPECT_EQ(whole.parameters().count() - model.parameters().count(), cores);
  EXPECT_EQ(dense_parameters(model.config()), dense_parameters(whole.config()));
  EXPECT_EQ(encoder_config(recipe("none", removed_), 400).dense_baseline().tensorized.ranks.size(), 0);
  const std::string report = model_report(model);
  EXPECT_THAT(report, testing::ContainsRegex("encoder.0.attention.key +\\[4,6 \\| 6,4\\] removed +24\n"));
  EXPECT_THAT(model_report(whole), Not(HasSubstr("removed")));
  EXPECT_THAT(linears_report(model, 96, cpu_processor().backend.machine()),
              HasSubstr("encoder.0.attention.key: [4,6 | 6,4] removed"));
}

}  // namespace
}  // namespace comera::test
