// Whole runs that adapt ranks.
#include "tests/training/rank_run.h"
#include "tests/support/largest.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "checkpoints/checkpoint_directory.h"
#include "model/rank_sizes.h"
#include "recipes/encoder_config.h"
#include "training/inference/trained_model.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::int64_t core_elements(const fs::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  std::int64_t elements = 0;
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (!tensor.path.starts_with("/model/") || tensor.path.find(".core.") == tensor.path.npos) continue;
    std::int64_t count = 1;
    for (const std::int64_t dim : tensor.shape) count *= dim;
    elements += count;
  }
  return elements;
}

class RankRunOfBoth : public RankRun {
 protected:
  void expect_an_end_at_the_target(const std::vector<std::string>& more);
};

void RankRunOfBoth::expect_an_end_at_the_target(const std::vector<std::string>& more) {
  const TrainingOutcome outcome = train("run", adapting(more));
  EXPECT_TRUE(outcome.finished);
  const auto lines = rank_lines("run");
  ASSERT_FALSE(lines.empty());
  const auto& last = lines.back()["ranks"];
  const double size = last["size"], target = last["target"];
  EXPECT_LE(size, target);
  EXPECT_GT(size, 0.9 * target);
  EXPECT_EQ(last["branch"], "hold");
  // What is gone is gone from the file.
  const CheckpointReader reader(outcome.checkpoint);
  const RankHistory history = load_rank_history(reader);
  EXPECT_NEAR(
      static_cast<double>(core_elements(outcome.checkpoint)) / static_cast<double>(history.initial_size),
      size, 1e-9);
  ASSERT_EQ(history.stages.size(), 3u);
  EXPECT_EQ(history.stages[0].name, "start");
  EXPECT_EQ(history.stages[1].name, "short");
  EXPECT_EQ(history.stages[2].name, "long");
  EXPECT_EQ(history.stages[0].ranks.at("encoder.0.ffn.up"), (std::vector<std::int64_t>{4, 7, 6}));
  // Its recipe builds it, its losses are finite, and it can be used.
  const LoadedModel model(outcome.checkpoint, corpus() / "tok.model", {}, "cpu");
  EXPECT_EQ(tensorized_size(model.model.config(), ranks_of(model.model.config())),
            core_elements(outcome.checkpoint));
  EXPECT_TRUE(std::isfinite(outcome.evaluation->loss));
  // Sizes never grow again, and the early phase is no late one.
  double before = 1;
  for (const auto& line : lines) {
    const double now = line["ranks"]["size"];
    EXPECT_LE(now, before);
    before = now;
    EXPECT_EQ(line["ranks"]["stage"], line["phase"] == "short" ? "regularize" : "compress");
  }
}

// Within the early phase, at its end, and within the late one: with dead entries still in memory, and after
// they have been removed.
TEST_F(RankRunOfBoth, ALatePhaseEndsAtItsTargetWithCompactedCores) { expect_an_end_at_the_target({}); }

const std::vector<std::string> by_muon = {
    "optim.name=muon", "phase.0.learning_rate={cores=0.02, embedding=3e-3, gates=1e-2, other=2e-3}",
    "phase.1.learning_rate={cores=0.02, embedding=3e-3, gates=3e-2, other=2e-3}"};

TEST_F(RankRunOfBoth, ByMuonTooALatePhaseEndsAtItsTarget) { expect_an_end_at_the_target(by_muon); }

TEST_F(RankRunOfBoth, ByMuonTooResumingContinuesToTheBit) {
  const TrainingOutcome whole = train("whole", adapting(by_muon));
  for (const std::int64_t at : {15, 47}) {  // the second is in the late phase, not at a compaction
    const std::string run = fmt::format("stopped-{}", at);
    train(run, adapting(by_muon), {.stop_after = at});
    const TrainingOutcome rest = train(run, adapting(by_muon), {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
  }
}

TEST_F(RankRun, ResumingContinuesToTheBit) {
  const std::vector<std::string> settings = adapting({"run.log_interval=1"});
  const TrainingOutcome whole = train("whole", settings);
  const CheckpointReader reader(whole.checkpoint);
  const auto lines = rank_lines("whole");
  std::int64_t death = 0;  // the first step of the late phase after which something dead is in memory
  for (std::size_t i = 31; i < lines.size() && death == 0; ++i) {
    const auto step = static_cast<std::int64_t>(i) + 1;
    if (lines[i]["ranks"]["live"] < lines[i - 1]["ranks"]["live"] && (step - 30) % 7 != 0) death = step;
  }
  ASSERT_GT(death, 30) << "nothing died";
  const std::int64_t compaction = 30 + (death - 30 + 6) / 7 * 7;
  for (const std::int64_t at : {std::int64_t{11}, std::int64_t{30}, death, compaction, compaction + 1}) {
    const std::string run = fmt::format("stopped-{}", at);
    const TrainingOutcome part = train(run, settings, {.stop_after = at});
    const CheckpointReader stopped(part.checkpoint);
    if (at == death) {
      EXPECT_NE(held_ranks(stopped), live_ranks(stopped));
    } else if (at == compaction) {
      EXPECT_EQ(held_ranks(stopped), live_ranks(stopped));
    }
    const TrainingOutcome rest = train(run, settings, {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
    EXPECT_EQ(CheckpointReader(rest.checkpoint).attributes("/ranks"), reader.attributes("/ranks"));
    EXPECT_EQ(load_rank_history(CheckpointReader(rest.checkpoint)), load_rank_history(reader));
  }
}

// Dead entries are as dead in the average, whether they are still in memory or not.
TEST_F(RankRun, AnAverageIsPrunedAndContinuesToTheBit) {
  const std::vector<std::string> settings =
      adapting({"optim.average_decay=0.9", "run.checkpoint_interval=1", "run.keep_checkpoints=100"});
  const TrainingOutcome whole = train("whole", settings);
  int dead = 0, stop = 0;  // the first step after which something dead is in memory
  for (int step = 31; step <= 90; ++step) {
    const CheckpointReader reader(folder() / "whole" / "checkpoints" / fmt::format("step-{:08}.h5", step));
    for (const CheckpointTensor& tensor : reader.tensors()) {
      if (!tensor.path.starts_with("/model/") || tensor.path.find(".gate.") == tensor.path.npos) continue;
      const auto average = reader.read_values<float>(tensor.path),
                 gate = reader.read_values<float>("/optimizer/" + tensor.path.substr(7) + "/weights");
      for (std::size_t i = 0; i < gate.size(); ++i) {
        EXPECT_EQ(average[i] == 0, gate[i] == 0) << tensor.path << " after step " << step;
        dead += gate[i] == 0 ? 1 : 0;
      }
    }
    if (dead > 0 && stop == 0) stop = step;
  }
  ASSERT_GT(dead, 0);
  for (const int at : {11, stop, 75}) {
    const std::string run = fmt::format("stopped-{}", at);
    const TrainingOutcome part = train(run, settings, {.stop_after = at});
    if (at == stop) {
      const ProgramResult compacted = run_program({"compact", part.checkpoint.string(), "--output",
                                                   (folder() / "compacted" / "checkpoints").string()});
      ASSERT_EQ(compacted.code, 0) << compacted.output;
      const TrainingOutcome other = train("compacted", settings, {.mode = RunMode::resume});
      EXPECT_NEAR(other.evaluation->loss, whole.evaluation->loss, 1e-3) << "to rounding";
    }
    const TrainingOutcome rest = train(run, settings, {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
  }
}

// As versions wrote it that ordered entries by their size alone.
void strip_importance(const fs::path& checkpoint) {
  const fs::path stripped = checkpoint.string() + ".stripped";
  int left_out = 0;
  copy_checkpoint(checkpoint, stripped, [&](const std::string& path, std::vector<float>&) {
    const bool importance = path.ends_with("/importance");
    left_out += importance ? 1 : 0;
    return !importance;
  });
  ASSERT_GT(left_out, 0);
  fs::rename(stripped, checkpoint);
}

TEST_F(RankRun, ALateStageThatAnEarlierVersionBeganKeepsItsOrder) {
  const std::vector<std::string> by_size = adapting({"phase.1.adaptation.order=magnitude"});
  const CheckpointReader whole(train("whole", by_size).checkpoint);
  strip_importance(train("part", by_size, {.stop_after = 45}).checkpoint);
  const CheckpointReader rest(train("part", adapting(), {.mode = RunMode::resume}).checkpoint);
  const CheckpointReader other(train("other", adapting()).checkpoint);
  bool differs = false;
  for (const CheckpointTensor& tensor : whole.tensors()) {
    if (!tensor.path.starts_with("/model/")) continue;
    ASSERT_EQ(rest.read_values<float>(tensor.path), whole.read_values<float>(tensor.path)) << tensor.path;
    differs |= !other.has_tensor(tensor.path) ||
               other.read_values<float>(tensor.path) != whole.read_values<float>(tensor.path);
  }
  EXPECT_TRUE(differs) << "the orders make a difference here";
}

// Compaction changes nothing but rounding: the same run without it.
TEST_F(RankRun, CompactionChangesNothingButRounding) {
  std::vector<std::string> often = adapting({"precision.compute=fp64", "phase.1.steps=40"}), never = often;
  often.emplace_back("phase.1.adaptation.compact_interval=3");
  never.emplace_back("phase.1.adaptation.compact_interval=0");
  train("often", often);
  train("never", never);
  const auto a = rank_lines("often"), b = rank_lines("never");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 1e-8) << a[i]["step"];
    EXPECT_EQ(a[i]["ranks"]["live"], b[i]["ranks"]["live"]) << a[i]["step"];
  }
  EXPECT_LT(a[a.size() - 2]["parameters"], b[b.size() - 2]["parameters"]);
}

TEST_F(RankRun, TargetsOfAllKinds) {
  // The least recipe says how much is no tensor train.
  const EncoderConfig config = encoder_config(recipe("sizes"), 400);
  const Model model(config, host_allocator(), false);
  const std::int64_t cores = model.parameters().count(ParameterRole::core);
  const std::int64_t others = model.parameters().count() - cores;
  const double kilobytes = 4e-3 * (static_cast<double>(others) + 0.6 * static_cast<double>(cores));
  const TrainingOutcome outcome = train("size", adapting({}, fmt::format("target_size={:.3f}kB", kilobytes)));
  const std::int64_t left = core_elements(outcome.checkpoint);
  EXPECT_LE(static_cast<double>(left + others) * 4e-3, kilobytes);
  EXPECT_GT(static_cast<double>(left), 0.5 * static_cast<double>(cores));
  const double share = static_cast<double>(cores) / static_cast<double>(dense_size(config));
  for (const auto& [of, ratio] : {std::pair{"initial", 0.6}, {"dense", 0.6 * share}, {"phase_start", 0.6}}) {
    train(of, adapting({fmt::format("phase.1.adaptation.target_of={}", of)},
                       fmt::format("target_ratio={}", ratio)));
    const nlohmann::json last = rank_lines(of).back()["ranks"];
    const double target = last["target"];
    EXPECT_LE(last["size"].get<double>(), target) << of;
    if (std::string(of) != "phase_start")
      EXPECT_NEAR(target, 0.6, 1e-12) << of;
    else
      EXPECT_LE(target, 0.6);
  }
}

TEST_F(RankRun, TargetsThatCannotBeAreRefused) {
  const auto refuses = [&](const std::vector<std::string>& overrides, const char* target,
                           const auto& message) {
    EXPECT_THAT([&] { train("refused", adapting(overrides, target)); },
                testing::ThrowsMessage<UsageError>(message));
  };
  refuses({}, "target_ratio=0.001",
          AllOf(HasSubstr("phase.1.adaptation.target_ratio = 0.001"),
                HasSubstr("the smallest possible model has")));
  refuses({}, "target_size=1kB", HasSubstr("the smallest possible model has"));
  refuses({}, "target_size=99MB", HasSubstr("is not smaller than the model"));
  refuses({}, "target_size=large", HasSubstr("is not a size"));
  refuses({"phase.1.adaptation.target_size=9MB"}, "target_ratio=0.5", HasSubstr("exactly one"));
  refuses({"phase.0.adaptation.target_ratio=0.5"}, "target_ratio=0.5",
          HasSubstr("is only for phases with objective = \"compress\""));
  refuses({"phase.1.adaptation.preset=paper"}, "target_ratio=0.5", HasSubstr("needs a target_loss"));
  refuses({"phase.1.adaptation.gama=1"}, "target_ratio=0.5", HasSubstr("gama"));
  refuses({"phase.1.objective=fixed"}, "target_ratio=0.5", HasSubstr("is for a phase that adapts ranks"));
  EXPECT_FALSE(fs::exists(folder() / "refused" / "recipe.toml"));
}

// A recipe with ranks of single layers, which compactions change in the checkpoints only.
TEST_F(RankRun, ResumesWithRanksOfItsOwn) {
  const std::vector<std::string> settings =
      adapting({"tensorized.ranks.encoder.0.ffn.up=[4,5,6]", "run.checkpoint_interval=9"});
  const TrainingOutcome whole = train("whole", settings);
  train("parts", settings, {.stop_after = 80});
  // The run shrank them; its recipe is the same.
  const std::string words = words_of("parts", settings, {.mode = RunMode::resume});
  EXPECT_THAT(words, AllOf(HasSubstr("resuming from "), Not(HasSubstr("changed since"))));
  expect_equal_checkpoints(whole.checkpoint,
                           find_latest(folder() / "parts" / "checkpoints", ResumeMode::newest)->path);
}

TEST_F(RankRun, APhaseThatHasBegunKeepsItsObjectiveAndItsTarget) {
  train("run", adapting(), {.stop_after = 40});
  const auto refuses = [&](const std::vector<std::string>& overrides, const char* target, const char* part) {
    EXPECT_THAT([&] { train("run", adapting(overrides, target), {.mode = RunMode::resume}); },
                testing::ThrowsMessage<UsageError>(AllOf(HasSubstr("is within phase 1"), HasSubstr(part))));
  };
  refuses({}, "target_ratio=0.3", "another target");
  refuses({"phase.1.objective=regularize"}, "gamma=0.1", "another objective");
}

// What a model is measured by is what it was when its training began, also in a run that goes on from it.
TEST_F(RankRun, ARunFromAnAdaptedCheckpointIsMeasuredByItsStart) {
  const TrainingOutcome first = train("first", adapting());
  const TrainingOutcome second =
      train("second", adapting({fmt::format("run.initial_checkpoint=\"{}\"", first.checkpoint.string()),
                                "phase.1.name=again", "phase.0.name=more"},
                               "target_ratio=0.8"));
  const RankHistory before = load_rank_history(CheckpointReader(first.checkpoint)),
                    after = load_rank_history(CheckpointReader(second.checkpoint));
  EXPECT_EQ(after.initial_size, before.initial_size);
  ASSERT_EQ(after.stages.size(), 5u);
  EXPECT_EQ(after.stages[0], before.stages[0]);
  EXPECT_EQ(after.stages[2], before.stages[2]);
  EXPECT_LE(rank_lines("second").front()["ranks"]["size"].get<double>(), 0.5);
}

// Removed layers are counted on, after their tables are gone.
TEST_F(RankRun, RemovedLayersStayCounted) {
  train("run", adapting({"phase.1.adaptation.target_ratio=0.25", "phase.1.steps=90", "run.log_interval=1"}));
  std::int64_t removed = 0;
  for (const auto& line : rank_lines("run")) {
    EXPECT_GE(line["ranks"]["removed"].get<std::int64_t>(), removed) << line["step"];
    removed = line["ranks"]["removed"];
  }
  EXPECT_GT(removed, 0);
}

// Close to the least that leaves an encoder, too, tokens go on seeing one another.
TEST_F(RankRun, ALateStageNeverEndsWithoutAttention) {
  const EncoderConfig config = encoder_config(recipe("sizes"), 400);
  const LayerRanks start = ranks_of(config);
  const double least =
      static_cast<double>(least_size(config, start)) / static_cast<double>(tensorized_size(config, start));
  const TrainingOutcome outcome = train(
      "least", adapting({"phase.1.steps=120", fmt::format("phase.1.adaptation.target_ratio={}", 1.1 * least),
                         "phase.1.adaptation.target_of=initial"}));
  const LayerRanks left = live_ranks(CheckpointReader(outcome.checkpoint));
  EXPECT_TRUE(is_connected(config, left));
  EXPECT_EQ(connecting_layers(config, left),
            (std::vector<std::string>{"encoder.0.attention.value", "encoder.0.attention.output"}));
  // And not in name only: what cannot die is not pulled to 0 either.
  const LoadedModel model(outcome.checkpoint, corpus() / "tok.model", {}, "cpu");
  const ParameterStore& store = model.model.parameters();
  for (const RankedLayer& layer : model.model.ranked_layers())
    for (const ParameterId gate : layer.gates) {
      double largest = 0;
      for (const double d : read_tensor(store.value(gate))) largest = larger_or_nan(largest, d);
      EXPECT_GT(largest, 0.1) << store.info(gate).name;
    }
  const nlohmann::json last = rank_lines("least").back()["ranks"];
  EXPECT_LE(last["size"].get<double>(), 1.1 * least);
  EXPECT_GE(last["size"].get<double>(), least);
}

// The authors' own late stage: the loss may go first, nothing holds, gates count alike.
TEST_F(RankRun, TheReferencePresetLetsTheLossGoFirst) {
  const auto branches = [&](const std::string& run, const char* target_loss) {
    train(run, adapting({"phase.1.adaptation.preset=reference", "phase.1.steps=10", "run.log_interval=1",
                         std::string("phase.1.adaptation.target_loss=") + target_loss}));
    std::set<std::string> found;
    for (const auto& line : rank_lines(run))
      if (line["ranks"]["stage"] == "compress") found.insert(line["ranks"]["branch"]);
    return found;
  };
  EXPECT_EQ(branches("far", "0.1"), std::set<std::string>{"loss"});
  EXPECT_EQ(branches("near", "100.0"), std::set<std::string>{"size"});
}

// The same recipe serves the dense baseline.
TEST_F(RankRun, ADenseBaselineHasNoRanksToAdapt) {
  EXPECT_TRUE(
      train("dense", adapting({"tensorized.enabled=false", "phase.0.steps=3", "phase.1.steps=2"})).finished);
  EXPECT_TRUE(rank_lines("dense").empty());
}

// A γ so large that everything dies is an error, with the model aside and the last good checkpoint in place.
TEST_F(RankRun, ANetworkThatDiesIsNoResult) {
  const std::vector<std::string> settings =
      adapting({"phase.0.adaptation.gamma=1e6", "phase.0.steps=300", "run.checkpoint_interval=5"});
  try {
    train("dying", settings);
    FAIL() << "an empty network was a success";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("an encoder without attention"), HasSubstr("collapsed.h5"),
                                    HasSubstr("--resume auto")));
  }
  EXPECT_TRUE(fs::exists(folder() / "dying" / "collapsed.h5"));
  const auto latest = find_latest(folder() / "dying" / "checkpoints", ResumeMode::newest);
  ASSERT_TRUE(latest);
  const EncoderConfig config = encoder_config(checkpoint_recipe(CheckpointReader(latest->path)), 400);
  EXPECT_TRUE(is_connected(config, live_ranks(CheckpointReader(latest->path))));
}

TEST_F(RankRun, NaNInAGateIsNoticedAndTakesNoCheckpointsPlace) {
  TrainingRun* current = nullptr;
  static std::FILE* const null = std::fopen("/dev/null", "w");
  TrainingOptions options{.after_step =
                              [&](std::int64_t step) {
                                if (step != 33) return;
                                ParameterStore& store = current->engine().model().parameters();
                                store.value(*store.find("encoder.1.ffn.up.gate.1")).data<float>()[1] = NAN;
                              },
                          .output = null};
  TrainingRun run(recipe("nan", adapting()), options);
  current = &run;
  EXPECT_THAT([&] { run.run(); }, testing::ThrowsMessage<Error>(AllOf(
                                      HasSubstr("step 34 was not finite, because encoder.1.ffn.up.gate.1"),
                                      HasSubstr("step-00000030.h5"))));
  EXPECT_TRUE(fs::exists(folder() / "nan" / "nonfinite.h5"));
  EXPECT_FALSE(fs::exists(folder() / "nan" / "checkpoints" / "step-00000033.h5"));
}

// The size that is due falls to the target, and what is there follows it from above, give or take an entry.
TEST_F(RankRun, TheTargetFallsOverAShareOfThePhase) {
  train("gradual", adapting({"run.log_interval=1", "phase.1.adaptation.shrink_share=0.8",
                             "phase.1.adaptation.threshold=10", "phase.1.steps=50"}));
  double before = 2;
  std::int64_t step = 0;
  std::set<double> sizes;
  for (const auto& line : rank_lines("gradual")) {
    if (line["phase"] != "long") continue;
    const double now = line["ranks"]["target_now"], target = line["ranks"]["target"],
                 size = line["ranks"]["size"];
    EXPECT_LE(now, before);
    const double rest = std::pow(std::max(0.0, 1 - static_cast<double>(step) / 40), 3);
    EXPECT_NEAR(now, target + rest * target, 1e-9) << "s₀ is half of what the phase began with";
    EXPECT_LE(size, now) << "with such a threshold all that is due dies at once";
    EXPECT_GT(size, 0.8 * now);
    sizes.insert(size);
    before = now;
    ++step;
  }
  EXPECT_EQ(step, 50);
  EXPECT_GT(sizes.size(), 8u);
}

// A phase at fixed ranks between two late ones kills nothing, and the second goes on from what is left; also
// when stopped within either.
TEST_F(RankRun, LatePhasesWithAPauseBetweenThem) {
  const auto four_phases = [&](const std::string& run) {
    Recipe all = recipe(run, adapting());
    PhaseSection rest = all.phases[0], again = all.phases[1];
    rest.name = "other", rest.objective = PhaseObjective::fixed, rest.adaptation.reset(), rest.steps = 12;
    again.name = "again", again.adaptation->target_ratio = 0.6;
    all.phases.push_back(rest);
    all.phases.push_back(again);
    return all;
  };
  static std::FILE* const null = std::fopen("/dev/null", "w");
  const TrainingOutcome whole = TrainingRun(four_phases("whole"), {.output = null}).run();
  const RankHistory history = load_rank_history(CheckpointReader(whole.checkpoint));
  ASSERT_EQ(history.stages.size(), 4u) << "the start and three phases that adapt";
  const auto size = [&](std::size_t stage) {
    return static_cast<double>(
        tensorized_size(encoder_config(recipe("x"), 400), history.stages[stage].ranks));
  };
  EXPECT_LE(size(2), 0.5 * size(1));
  EXPECT_LE(size(3), 0.6 * size(2));
  EXPECT_GT(size(3), 0.5 * size(2));
  EXPECT_EQ(static_cast<double>(core_elements(whole.checkpoint)), size(3));
  for (const std::int64_t at : {94, 102, 110}) {
    const std::string run = fmt::format("stopped-{}", at);
    const TrainingOutcome part = TrainingRun(four_phases(run), {.stop_after = at, .output = null}).run();
    if (at <= 102) {
      EXPECT_EQ(static_cast<double>(core_elements(part.checkpoint)), size(2)) << "at fixed ranks";
    }
    const TrainingOutcome ended =
        TrainingRun(four_phases(run), {.mode = RunMode::resume, .output = null}).run();
    expect_equal_checkpoints(whole.checkpoint, ended.checkpoint);
  }
}

TEST_F(RankRun, AMissedTargetIsSaid) {
  std::FILE* output = std::tmpfile();
  const std::vector<std::string> settings = adapting({"phase.1.learning_rate=1e-6", "phase.1.steps=5"});
  TrainingRun(recipe("missed", settings), {.output = output}).run();
  std::rewind(output);
  std::string text;
  for (int c; (c = std::fgetc(output)) != EOF;) text.push_back(static_cast<char>(c));
  std::fclose(output);
  EXPECT_THAT(text, HasSubstr("above its target"));
  EXPECT_THAT(text, HasSubstr("gates begin near 1, and can fall by")) << "said before the steps are taken";
}

}  // namespace
}  // namespace comera::test
