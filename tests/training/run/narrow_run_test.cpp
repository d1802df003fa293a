// Whole models that train on the CPU with bfloat16 activations.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "kernels/cpu/cpu_backend.h"
#include "tests/cuda/training_checks.h"
#include "tests/training/adapters.h"
#include "training/inference/trained_model.h"

namespace comera::test {
namespace {

TestDevice cpu_device() {
  return {cpu_backend(),
          nullptr,
          {cpu_backend(), host_allocator(), true},
          {cpu_backend(), host_allocator(), false}};
}

const std::vector<std::string> narrow = {"precision.compute='bf16'"};

TEST(NarrowTraining, LearnsAsDoubleDoes) { expect_narrow_losses(cpu_device()); }

TEST(NarrowTraining, GradientsAreThoseOfDouble) { expect_narrow_gradients(cpu_device()); }

class NarrowRun : public RunFixture {
 protected:
  TestDevice device_ = cpu_device();
  // The loss of the validation split, as the program says it.
  static double evaluated(const std::filesystem::path& run, const std::string& type) {
    const ProgramResult result = run_program(
        {"eval", run.string(), "--set", "precision.compute=" + type, "--data", corpus().string(), "--json"});
    EXPECT_EQ(result.code, 0) << result.output;
    const std::size_t at = result.output.find('{');
    return at == std::string::npos
               ? 0
               : nlohmann::json::parse(result.output.substr(at)).at("validation_loss").get<double>();
  }
};

TEST_F(NarrowRun, ContinuesToTheBit) { expect_the_same_bits_each_way(device_, narrow); }

TEST_F(NarrowRun, ByMuonContinuesToTheBit) {
  std::vector<std::string> by_muon = narrow;
  by_muon.insert(by_muon.end(),
                 {"optim.name=muon", "tensorized.embedding.column_modes=[2,3,2]",
                  "tensorized.embedding.projection=true", "tensorized.embedding.frequent_rows=50",
                  "phase.0.learning_rate={cores=0.02, embedding=5e-3, gates=1e-3, other=1e-3}",
                  "phase.1.learning_rate={cores=0.02, embedding=5e-3, gates=1e-3, other=1e-3}"});
  expect_the_same_bits_each_way(device_, by_muon);
}

TEST_F(NarrowRun, WithAdaptersContinuesToTheBit) {
  expect_the_same_bits_each_way(device_, with_adapters(narrow), {8});
}

TEST_F(NarrowRun, OneThreadAndSeveralGiveTheSameBits) {
  std::vector<TrainingOutcome> outcomes;
  for (const int threads : {1, 2, 3}) {
    std::vector<std::string> overrides = narrow;
    overrides.push_back(fmt::format("run.threads={}", threads));
    outcomes.push_back(train(fmt::format("of-{}", threads), device_.with_graphs, {}, overrides));
  }
  expect_equal_checkpoints(outcomes[0].checkpoint, outcomes[1].checkpoint);
  expect_equal_checkpoints(outcomes[0].checkpoint, outcomes[2].checkpoint);
}

TEST_F(NarrowRun, AdaptsRanks) { expect_to_adapt_ranks(device_, narrow); }

// Checkpoints hold the same in both types, so that either computes on what the other has learned.
TEST_F(NarrowRun, EitherTypeEvaluatesWhatTheOtherHasTrained) {
  train("narrow", device_.with_graphs, {}, narrow);
  train("wide", device_.with_graphs);
  for (const char* run : {"narrow", "wide"}) {
    const LoadedModel loaded(folder() / run, {}, {}, "cpu");
    EXPECT_EQ(loaded.model.parameters().compute(),
              run == std::string("narrow") ? DType::bfloat16 : DType::float32);
    const double in_narrow = evaluated(folder() / run, "bf16"), in_wide = evaluated(folder() / run, "fp32");
    EXPECT_NEAR(in_narrow, in_wide, 0.01 * in_wide) << run;
    EXPECT_NE(in_narrow, in_wide) << "nothing was rounded";
  }
}

}  // namespace
}  // namespace comera::test
