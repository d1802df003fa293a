// Runs with 8-bit operands: they learn, resume to the bit and take their scales along.
#include <gmock/gmock.h>

#include <cmath>

#include "checkpoints/checkpoint_directory.h"
#include "checkpoints/float8_scales.h"
#include "reports/precision_report.h"
#include "tests/training/float8_overrides.h"
#include "tests/training/rank_run.h"
#include "training/inference/trained_model.h"
#include "training/ranks/rank_compaction.h"

namespace comera::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Float8Run : public RankRun {
 protected:
  static std::vector<std::string> paths_of(const CheckpointReader& reader) {
    std::vector<std::string> paths;
    for (const CheckpointTensor& tensor : reader.tensors())
      if (tensor.path.starts_with(float8_at)) paths.push_back(tensor.path);
    return paths;
  }
};

TEST_F(Float8Run, LearnsAsInFullPrecisionButNotTheSame) {
  const std::vector<std::string> exact = in_float8("current", {"precision.compute=fp32"});
  const TrainingOutcome whole = train("fp32", exact);
  for (const char* scaling : {"current", "delayed"}) {
    const TrainingOutcome rounded = train(scaling, in_float8(scaling));
    ASSERT_TRUE(rounded.evaluation && whole.evaluation);
    EXPECT_NE(rounded.evaluation->loss, whole.evaluation->loss);
    EXPECT_NEAR(rounded.evaluation->loss / whole.evaluation->loss, 1, 0.03) << scaling;
  }
}

// 8-bit operands, and float32 for everything else.
TEST_F(Float8Run, BesideFloat32LearnsAndContinuesToTheBit) {
  const std::vector<std::string> mixed = in_float8("delayed", {"precision.compute=fp8_fp32"});
  const TrainingOutcome whole = train("mixed", mixed), narrow = train("fp8", in_float8("delayed")),
                        exact = train("fp32", in_float8("current", {"precision.compute=fp32"}));
  EXPECT_NE(whole.evaluation->loss, narrow.evaluation->loss);
  EXPECT_NE(whole.evaluation->loss, exact.evaluation->loss);
  EXPECT_NEAR(whole.evaluation->loss / exact.evaluation->loss, 1, 0.03);
  train("stopped", mixed, {.stop_after = 4});
  const TrainingOutcome rest = train("stopped", mixed, {.mode = RunMode::resume});
  expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
}

TEST_F(Float8Run, ContinuesToTheBit) {
  for (const char* scaling : {"current", "delayed"}) {
    const std::string whole_run = fmt::format("whole-{}", scaling);
    const TrainingOutcome whole = train(whole_run, in_float8(scaling));
    for (const std::int64_t stop : {1, 4, 10}) {
      const std::string run = fmt::format("{}-{}", scaling, stop);
      train(run, in_float8(scaling), {.stop_after = stop});
      const TrainingOutcome rest = train(run, in_float8(scaling), {.mode = RunMode::resume});
      EXPECT_TRUE(rest.finished);
      expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);  // scales and histories too
    }
    const CheckpointReader reader(whole.checkpoint);
    const bool remembers = std::string(scaling) == "delayed";
    EXPECT_EQ(reader.has_tensor("/precision/encoder.1.ffn.up/history"), remembers);
    EXPECT_EQ(reader.tensor("/precision/encoder.1.ffn.up/scale").shape, std::vector<std::int64_t>{8 + 2});
  }
}

TEST_F(Float8Run, ByMuonLearnsAsInFullPrecisionAndContinuesToTheBit) {
  const std::vector<std::string> by_muon = {
      "optim.name=muon", "phase.0.learning_rate={cores=0.02, embedding=5e-3, gates=1e-3, other=1e-3}",
      "phase.1.learning_rate={cores=0.02, embedding=5e-3, gates=1e-3, other=1e-3}"};
  std::vector<std::string> exact = by_muon;
  exact.emplace_back("precision.compute=fp32");
  const TrainingOutcome in_fp32 = train("fp32", in_float8("delayed", exact));
  const TrainingOutcome whole = train("whole", in_float8("delayed", by_muon));
  EXPECT_NE(whole.evaluation->loss, in_fp32.evaluation->loss);
  EXPECT_NEAR(whole.evaluation->loss / in_fp32.evaluation->loss, 1, 0.03);
  train("stopped", in_float8("delayed", by_muon), {.stop_after = 4});
  const TrainingOutcome rest = train("stopped", in_float8("delayed", by_muon), {.mode = RunMode::resume});
  expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
}

TEST_F(Float8Run, OneThreadAndTwoGiveTheSameBits) {
  const TrainingOutcome one = train("one", in_float8("delayed"));
  const TrainingOutcome two = train("two", in_float8("delayed", {"run.threads=2"}));
  expect_equal_checkpoints(one.checkpoint, two.checkpoint);
}

// Ranks die, layers are compacted and the run is stopped on both sides of that; the scales are found again by
// the names of their layers.
TEST_F(Float8Run, AdaptsRanksAndContinuesToTheBit) {
  const std::vector<std::string> settings =
      in_float8("delayed", adapting({"phase.1.adaptation.compact_interval=5"}));
  const TrainingOutcome whole = train("whole", settings);
  EXPECT_LT(rank_lines("whole").back()["ranks"]["size"].get<double>(), 0.8);
  for (const std::int64_t stop : {64, 73}) {
    const std::string run = fmt::format("stopped-{}", stop);
    train(run, settings, {.stop_after = stop});
    const TrainingOutcome rest = train(run, settings, {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
  }
}

// `comera compact` keeps them as they are.
TEST_F(Float8Run, ACompactedCheckpointHasTheSameScales) {
  const std::vector<std::string> settings =
      in_float8("delayed", adapting({"phase.1.adaptation.compact_interval=0"}));
  const TrainingOutcome stopped = train("run", settings, {.stop_after = 75});
  const CheckpointReader before(stopped.checkpoint);
  const RankCompaction compaction(before);
  ASSERT_FALSE(compaction.nothing_dead());
  compaction.write(folder() / "compacted.h5");
  const CheckpointReader after(folder() / "compacted.h5");
  const std::vector<std::string> paths = paths_of(before);
  ASSERT_FALSE(paths.empty());
  EXPECT_EQ(paths_of(after), paths);
  for (const std::string& path : paths) EXPECT_EQ(after.tensor(path), before.tensor(path));
}

// Another precision goes on from a checkpoint: what is not there begins anew. The run says what is new.
TEST_F(Float8Run, GoesOnInAnotherPrecision) {
  train("run", in_float8("current", {"precision.compute=fp32"}), {.stop_after = 4});
  const auto going_on = [this](const std::vector<std::string>& overrides, std::int64_t stop) {
    return words_of("run", overrides, {.mode = RunMode::resume, .stop_after = stop});
  };
  EXPECT_THAT(
      going_on(in_float8("delayed"), 8),
      HasSubstr("changed since the checkpoint: precision.compute from \"fp32\" to \"fp8\"\n"
                "changed since the checkpoint: precision.fp8_recipe from \"current\" to \"delayed\"\n"));
  EXPECT_THAT(going_on(in_float8("delayed", {"precision.amax_history_len=7"}), 9),
              HasSubstr("changed since the checkpoint: precision.amax_history_len from 3 to 7\n"));
  EXPECT_THAT(going_on(in_float8("delayed", {"precision.amax_history_len=7", "run.log_interval=2"}), 10),
              Not(HasSubstr("changed since")));
  EXPECT_TRUE(train("run", in_float8("current"), {.mode = RunMode::resume}).finished);
}

// Saturating conversions do not hide it.
TEST_F(Float8Run, AnOverflowBeforeItIsSeen) {
  for (const char* scaling : {"current", "delayed"}) {
    TrainingRun* current = nullptr;
    std::FILE* null = std::fopen("/dev/null", "w");
    const TrainingOptions options{.after_step =
                                      [&](std::int64_t step) {
                                        if (step != 4) return;
                                        ParameterStore& store = current->engine().model().parameters();
                                        store.value(*store.find("encoder.0.norm1.weight")).data<float>()[3] =
                                            3e38F;
                                      },
                                  .output = null};
    TrainingRun run(recipe(scaling, in_float8(scaling, {"optim.max_consecutive_skips=2"})), options);
    current = &run;
    EXPECT_THAT([&] { run.run(); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(HasSubstr("steps 5 to 6 were not finite"), HasSubstr("norm1.weight"))));
    std::fclose(null);
    const CheckpointReader reader(find_latest(folder() / scaling / "checkpoints", ResumeMode::newest)->path);
    for (const std::string& path : paths_of(reader)) {
      for (const float value : reader.read_values<float>(path)) ASSERT_TRUE(std::isfinite(value)) << path;
    }
  }
}

std::string products_of_six_encoder(const std::string& compute) {
  const Recipe six =
      load_recipe(COMERA_SOURCE_DIR "/recipes/six_encoder_mnli.toml", {"precision.compute=" + compute});
  std::string report = precision_report(six, 30522, 4096, 128);
  // A reason that does not fit into 80 columns has a line of its own: here it is behind its product.
  for (std::size_t at = 0; (at = report.find("\n      ", at)) != std::string::npos;)
    report.replace(at, 7, "  ");
  return report;
}

TEST_F(Float8Run, EveryProductIsExplained) {
  const std::string report = products_of_six_encoder("fp8");
  EXPECT_THAT(report, HasSubstr("compute fp8"));
  EXPECT_THAT(report, ContainsRegex("\n  product of +m x n x k +times  type +why that one\n"));
  EXPECT_THAT(report, HasSubstr("encoder.*.ffn.up (5 layers alike)"));
  EXPECT_THAT(report, HasSubstr("\nencoder.5.ffn.up\n")) << "whose rows are those that the head reads";
  EXPECT_THAT(report, HasSubstr("head.classifier"));
  // Merges of cores are those of their own layer, and no look-up.
  const std::string tokens = report.substr(report.find("\nembedding.tokens\n"), 300);
  EXPECT_THAT(tokens, ContainsRegex(
                          "^\nembedding.tokens\n +MatrixProduct .* fp32 +cores and their merges stay fp32"));
  const std::string down = report.substr(report.find("\nencoder.*.ffn.down"), 300);
  EXPECT_THAT(down, ContainsRegex("MatrixProduct +16 x 480 x 16 "));
  EXPECT_THAT(report, HasSubstr("its sizes are not multiples of 16"));
  // No large product of a tensor train falls back: what is not in 8 bits says which of the other reasons it
  // has.
  for (std::size_t at = 0, end; at < report.size(); at = end + 1) {
    end = std::min(report.find('\n', at), report.size());
    const std::string line = report.substr(at, end - at);
    if (line.find("4096 x") == std::string::npos || line.find("fp8") != std::string::npos) continue;
    EXPECT_TRUE(line.find("attention is no linear layer") != std::string::npos ||
                line.find("rows of a table") != std::string::npos ||
                line.find("compute fp8") != std::string::npos)
        << line;
  }
}

TEST_F(Float8Run, BesideFloat32NothingIsBfloat16) {
  const std::string report = products_of_six_encoder("fp8_fp32");
  EXPECT_THAT(report, HasSubstr("compute fp8_fp32"));
  EXPECT_THAT(report, HasSubstr(" fp8 "));
  EXPECT_THAT(report, Not(HasSubstr("bf16")));
}

}  // namespace
}  // namespace comera::test
