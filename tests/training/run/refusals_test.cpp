// What cannot be right is refused, and the sentence names the cause: models that are not finite, data without
// targets, labels, tokenizers, folders that were lost.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoints/model_state.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Refusals : public TrainingFixture {
 protected:
  ProgramResult pretrain(const std::vector<std::string>& settings = {},
                         const std::vector<std::string>& options = {}) const {
    return run("pretrain", settings, options);
  }
  ProgramResult finetune(const std::vector<std::string>& settings,
                         const std::vector<std::string>& options = {}) const {
    std::vector<std::string> all = {"task.name=words", "task.text=text", "task.label=label",
                                    fmt::format("task.train=\"{}\"", (folder() / "train.tsv").string())};
    all.insert(all.end(), settings.begin(), settings.end());
    return run("finetune", all, options);
  }
  ProgramResult run(const char* command, const std::vector<std::string>& settings,
                    const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {command, write_recipe().string()};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  }
  void write_table(const std::function<std::string(int)>& label) const {
    std::ofstream stream(folder() / "train.tsv");
    stream << "text\tlabel\n";
    for (int i = 0; i < 40; ++i) stream << fmt::format("count total {}\t{}\n", i % 7, label(i));
  }

  fs::path in_run(const std::string& name) const { return folder() / "run" / name; }
  fs::path checkpoint(std::int64_t step) const {
    return in_run("checkpoints") / fmt::format("step-{:08}.h5", step);
  }
  std::vector<std::string> lines_of(const fs::path& file) const {
    std::ifstream stream(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  void write_lines(const fs::path& file, const std::vector<std::string>& lines) const {
    std::ofstream stream(file);
    for (const std::string& line : lines) stream << line << '\n';
  }

  // The run's newest checkpoint with all numbers of a tensor replaced, as another file.
  fs::path with_number(const fs::path& from, const std::string& tensor, float number) const {
    fs::path changed = folder() / "changed.h5";
    copy_checkpoint(from, changed, [&](const std::string& path, std::vector<float>& values) {
      if (path == tensor) std::ranges::fill(values, number);
      return true;
    });
    return changed;
  }
};

// ---- Models that diverge.

TEST_F(Refusals, AModelThatDivergesIsNamedWithinAHundredSteps) {
  const std::vector<std::string> wild = {"phase.0.steps=100", "phase.1.steps=1", "phase.0.warmup_steps=0",
                                         "phase.0.learning_rate=5", "phase.0.schedule=constant"};
  const ProgramResult diverged = pretrain(wild);
  EXPECT_THAT(diverged.output, testing::AnyOf(HasSubstr("warning: the training loss was "),
                                              HasSubstr("the model has diverged, so the run stops")));
  EXPECT_THAT(diverged.output, HasSubstr("lower phase.0.learning_rate (now cores 5"));
  EXPECT_THAT(diverged.output, HasSubstr("comera pretrain --find-rate"));
}

TEST_F(Refusals, AModelThatLearnsIsNotSaidToDiverge) {
  const ProgramResult learnt = pretrain({"phase.0.steps=100", "phase.1.steps=100"});
  EXPECT_EQ(learnt.code, 0) << learnt.output;
  EXPECT_THAT(learnt.output, Not(HasSubstr("the training loss was")));
}

// ---- Models that are not finite.

TEST_F(Refusals, AModelThatIsNotFiniteIsOnlyLookedAt) {
  write_table([](int i) { return i % 2 == 0 ? "a" : "b"; });
  ASSERT_EQ(finetune({}, {"--stop-after", "2"}).code, 0);
  const char* const tensor = "/model/encoder.1.ffn.up.core.0";
  const std::string broken = with_number(checkpoint(2), tensor, NAN).string();
  const std::string tokenizer = (corpus() / "tok.model").string(), table = (folder() / "train.tsv").string();
  const std::vector<std::string> parts = {"changed.h5", tensor, "not finite"};
  const auto output = [this](const char* name) { return (folder() / name).string(); };
  expect(run_program({"eval", broken, "--tokenizer", tokenizer, "--input", table}), 1, parts);
  expect(run_program(
             {"predict", broken, "--tokenizer", tokenizer, "--input", table, "--output", output("p.tsv")}),
         1, parts);
  expect(
      run_program({"embed", broken, "--tokenizer", tokenizer, "--input", table, "--output", output("e.h5")}),
      1, parts);
  expect(run_program({"fill-mask", broken, "--tokenizer", tokenizer, "x [MASK]"}), 1, parts);
  expect(run_program({"compact", broken, "--output", output("c.h5")}), 1, parts);
  const std::vector<std::string> elsewhere = {"--from", broken, "--output", output("new")};
  expect(finetune({}, elsewhere), 1, parts);
  expect(pretrain({}, elsewhere), 1, parts);
  for (const char* name : {"p.tsv", "e.h5", "c.h5", "new"}) EXPECT_FALSE(fs::exists(folder() / name)) << name;
  const ProgramResult shown = run_program({"inspect", broken});
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr(fmt::format("not finite, first {}", tensor)));
}

// The weights are finite, and what follows from them is not.
TEST_F(Refusals, OutputsThatAreNotFiniteAreNotWritten) {
  write_table([](int i) { return i % 2 == 0 ? "a" : "b"; });
  ASSERT_EQ(finetune({}, {"--stop-after", "2"}).code, 0);
  const std::string broken = with_number(checkpoint(2), "/model/head.classifier.weight", 3e38F).string();
  const std::string tokenizer = (corpus() / "tok.model").string(), table = (folder() / "train.tsv").string();
  const std::string output = (folder() / "p.tsv").string();
  const std::vector<std::string> parts = {"changed.h5", "train.tsv",
                                          "is not finite, because training has diverged"};
  expect(run_program({"eval", broken, "--tokenizer", tokenizer, "--input", table}), 1, parts);
  expect(run_program({"predict", broken, "--tokenizer", tokenizer, "--input", table, "--output", output}), 1,
         parts);
  EXPECT_FALSE(fs::exists(output));
}

TEST_F(Refusals, MomentsThatAreNotFiniteAreNotResumed) {
  ASSERT_EQ(pretrain({}, {"--stop-after", "2"}).code, 0);
  // Nor is what such a model would say of a mask.
  const std::string loud = with_number(checkpoint(2), "/model/head.norm.weight", 3e38F).string();
  expect(run_program({"fill-mask", loud, "--tokenizer", (corpus() / "tok.model").string(), "x [MASK]"}), 1,
         {"changed.h5", "'x [MASK]' is not finite, because training has diverged"});
  const char* const tensor = "/optimizer/encoder.1.ffn.up.core.0/v";
  fs::rename(with_number(checkpoint(2), tensor, HUGE_VALF), checkpoint(2));
  expect(pretrain({}, {"--resume", "auto"}), 1, {"step-00000002.h5", tensor, "not finite"});
}

// A row that no sequence reaches: its gradient is 0, and no step sees what an update has made of it.
TEST_F(Refusals, NoCheckpointTakesNumbersThatAreNotFinite) {
  std::FILE* const null = std::fopen("/dev/null", "w");
  for (const bool of_moments : {false, true}) {
    const std::string name = of_moments ? "moments" : "weights";
    TrainingRun* current = nullptr;
    TrainingOptions options{.after_step =
                                [&](std::int64_t step) {
                                  if (step != 4) return;
                                  const StepEngine& engine = current->engine();
                                  const ParameterStore& store = current->engine().model().parameters();
                                  const ParameterId rows = *store.find("embedding.positions");
                                  const Tensor flat =
                                      of_moments ? engine.optimizer().moments().first : store.values();
                                  const Tensor own = flat.slice(store.offset(rows), store.info(rows).shape);
                                  own.data<float>()[own.elements() - 1] = NAN;
                                },
                            .output = null};
    TrainingRun run(recipe(name, {"run.evaluation_interval=0", "run.threads=1"}), options);
    current = &run;
    EXPECT_THAT([&] { run.run(); },
                testing::ThrowsMessage<Error>(testing::AllOf(
                    HasSubstr("embedding.positions"), HasSubstr("not finite"), HasSubstr("nonfinite.h5"),
                    HasSubstr("step-00000003.h5"), HasSubstr("phase.0.learning_rate"))));
    EXPECT_EQ(checkpoint_steps(folder() / name / "checkpoints"), std::vector<std::int64_t>{3});
    EXPECT_TRUE(fs::exists(folder() / name / "nonfinite.h5"));
  }
  std::fclose(null);
}

TEST_F(Refusals, AnUpdateThatDividesByZero) {
  expect(pretrain({"optim.eps=1e-300", "optim.beta2=0.0"}), 2, {"optim.eps = 1e-300", "divide by 0"});
  expect(pretrain({"optim.eps=1e-300"}), 2, {"--set optim.eps=1e-300", "float32"});
  expect(pretrain({"optim.beta2=0.0"}), 2, {"optim.beta2 = 0", "optim.beta1 = 0.9", "updates are unbounded"});
  for (const char* key : {"optim.eps", "optim.weight_decay", "phase.0.learning_rate"})
    expect(pretrain({fmt::format("{}=1e300", key)}), 2, {key, "more than a float32 can be"});
  EXPECT_FALSE(fs::exists(folder() / "run"));
}

// Not the weight of the size: the learning rate.
TEST_F(Refusals, ALearningRateThatKillsAllRanksIsNamed) {
  expect(
      pretrain({"phase.0.objective=regularize", "phase.0.learning_rate={cores=1e-3, gates=1e6, other=1e-3}",
                "phase.0.warmup_steps=0", "phase.0.schedule=constant", "phase.0.steps=60"}),
      1, {"an encoder without attention", "the model has diverged", "phase.0.learning_rate", "1000000"});
}

// ---- Labels.

TEST_F(Refusals, LabelsThatCannotBeLearnt) {
  write_table([](int i) { return i % 2 == 0 ? "x" : "y"; });
  const auto refused = [&](const char* labels, const std::vector<std::string>& parts) {
    expect(finetune({fmt::format("task.labels={}", labels)}), 2, parts);
  };
  refused(R"(["x","x","y"])", {"task.labels has 'x' twice"});
  refused(R"(["x"])", {"task.labels has only 'x'"});
  refused(R"(["x","","y"])", {"task.labels has an empty label"});
  refused(R"(["x"," y"])", {"task.labels has ' y' with a space around it"});
  expect(finetune({"task.labels=[\"x\",\"y\"]", "task.kind=regression"}), 2, {"task.labels", "regression"});
  EXPECT_FALSE(fs::exists(folder() / "run"));
  write_table([](int) { return "x"; });
  expect(finetune({"task.labels=[\"x\",\"y\"]"}), 1,
         {"train.tsv", "all 40 examples have the same label 'x'"});
  write_table([](int) { return "0.5"; });
  expect(finetune({"task.kind=regression"}), 1, {"all 40 examples have the same score 0.5"});
}

// ---- Tokenizers.

TEST_F(Refusals, ATokenizerOfAnotherSizeIsNamed) {
  const std::string other = (folder() / "other.model").string();
  ASSERT_EQ(run_program({"tokenizer", "--input", (corpus() / "source").string(), "--output", other,
                         "--vocabulary", "320"})
                .code,
            0);
  const std::string setting = fmt::format("data.tokenizer=\"{}\"", other);
  ASSERT_EQ(pretrain({}, {"--stop-after", "2"}).code, 0);
  const std::vector<std::string> parts = {"was not trained with", "other.model", "320 pieces", "needs 400"};
  expect(pretrain({setting}, {"--resume", "auto"}), 1, parts);
  expect(pretrain({setting}, {"--from", checkpoint(2).string(), "--output", (folder() / "new").string()}), 1,
         parts);
  expect(run_program({"eval", checkpoint(2).string(), "--tokenizer", other}), 1, parts);
  expect(pretrain({"tensorized.embedding.row_modes=[4,8,8]"}, {"--output", (folder() / "new").string()}), 2,
         {"the tokenizer has 400 pieces", "made for a vocabulary of at most 256"});
}

// ---- Checkpoints that are gone.

TEST_F(Refusals, ARunWhoseCheckpointsAreGoneIsNotBegunAnew) {
  ASSERT_EQ(pretrain({}, {"--stop-after", "4"}).code, 0);
  const std::vector<std::string> before = lines_of(in_run("metrics.jsonl"));
  const std::vector<std::string> parts = {"run/checkpoints holds no checkpoint", "another --output"};
  const auto expect_refusal = [&](const char* resume) {
    expect(pretrain({}, {"--resume", resume}), 1, parts);
    EXPECT_EQ(lines_of(in_run("metrics.jsonl")), before);
  };
  fs::rename(in_run("checkpoints"), folder() / "elsewhere");
  expect_refusal("auto");
  expect_refusal("always");
  fs::create_directory(in_run("checkpoints"));  // where a disk is mounted
  expect_refusal("auto");
  fs::remove(in_run("checkpoints"));
  fs::rename(folder() / "elsewhere", in_run("checkpoints"));
  EXPECT_EQ(pretrain({}, {"--resume", "auto"}).code, 0);
}

// Of a version that left no sign: its metrics go on beyond the first checkpoint, or a best model is there.
TEST_F(Refusals, AnEarlierVersionsRunIsToldByWhatItLeft) {
  ASSERT_EQ(pretrain({}, {"--stop-after", "4"}).code, 0);
  fs::remove_all(in_run("checkpoints"));
  fs::create_directory(in_run("checkpoints"));
  fs::remove(in_run("saved"));
  expect(pretrain({}, {"--resume", "auto"}), 1, {"metrics.jsonl reaches step 4"});
  write_lines(in_run("metrics.jsonl"), {R"({"step":2,"phase":"short","loss":5})"});
  write_lines(in_run("best.h5"), {"what was best"});
  expect(pretrain({}, {"--resume", "auto"}), 1, {"such as", "best.h5"});
  // Stopped before its first checkpoint: nothing is lost.
  fs::remove(in_run("best.h5"));
  const ProgramResult anew = pretrain({}, {"--resume", "auto"});
  EXPECT_EQ(anew.code, 0) << anew.output;
  EXPECT_THAT(anew.output, HasSubstr("holds no checkpoint yet: the run starts from the beginning"));
}

// What a run of ours would leave by the same names, but somebody else has made.
TEST_F(Refusals, FilesOfOthersAreNotTakenForARunThatBeginsAnew) {
  fs::create_directories(in_run("checkpoints"));
  write_lines(in_run("checkpoints") / "model.pt", {"weights"});
  write_lines(in_run("metrics.jsonl"), {R"({"epoch":1,"mine":true})"});
  expect(pretrain({}, {"--resume", "auto"}), 2, {"metrics.jsonl: does not hold a run's metrics", "move it"});
  EXPECT_EQ(lines_of(in_run("metrics.jsonl")), std::vector<std::string>{R"({"epoch":1,"mine":true})"});
  write_lines(in_run("metrics.jsonl"), {R"({"step":1,"phase":"short","loss":5})"});
  write_lines(in_run("recipe.toml"), {"title = 'mine'"});
  expect(pretrain({}, {"--resume", "auto"}), 2, {"recipe.toml: does not belong to a run", "move it"});
  EXPECT_EQ(lines_of(in_run("recipe.toml")), std::vector<std::string>{"title = 'mine'"});
  fs::remove(in_run("recipe.toml"));
  write_lines(in_run("tokenizer.model"), {"another"});
  expect(pretrain({}, {"--resume", "auto"}), 2, {"tokenizer.model: differs from", "move it"});
  EXPECT_EQ(lines_of(in_run("tokenizer.model")), std::vector<std::string>{"another"});
  fs::remove(in_run("tokenizer.model"));
  EXPECT_EQ(pretrain({}, {"--resume", "auto"}).code, 0);
}

// ---- Metrics that are gone or damaged.

TEST_F(Refusals, MetricsThatAreLostAreSaid) {
  ASSERT_EQ(pretrain({}, {"--stop-after", "5"}).code, 0);
  const fs::path file = in_run("metrics.jsonl");
  const std::vector<std::string> whole = lines_of(file);
  const auto stop_at = [this](const char* step) {
    return pretrain({}, {"--resume", "auto", "--stop-after", step});
  };
  EXPECT_THAT(stop_at("6").output, Not(HasSubstr("metrics.jsonl")));
  fs::remove(file);
  EXPECT_THAT(stop_at("7").output, HasSubstr("metrics.jsonl: is missing, so its lines up to step 6 are"));
  write_lines(file, {whole[0]});
  EXPECT_THAT(stop_at("8").output, HasSubstr("metrics.jsonl: ends at step 2, but had lines up to step 7"));
  std::vector<std::string> lines = lines_of(file);
  lines.insert(lines.begin() + 1, {"\x01garbage", "{\"step\":3,"});
  write_lines(file, lines);
  EXPECT_THAT(
      stop_at("9").output,
      HasSubstr(
          "metrics.jsonl: 2 lines (20 bytes) are not metrics; they were moved to metrics.jsonl.damaged"));
  EXPECT_EQ(lines_of(in_run("metrics.jsonl.damaged")),
            (std::vector<std::string>{"\x01garbage", "{\"step\":3,"}));
  for (const std::string& line : lines_of(file)) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_EQ(lines_of(file).front(), whole[0]);
}

// ---- Checkpoints by the clock.

TEST_F(Refusals, ACrashLosesNoMoreThanMinutes) {
  const std::vector<std::string> rare = {"run.checkpoint_interval=0", "run.evaluation_interval=0",
                                         "run.keep_checkpoints=100"};
  const auto steps = [&](const std::string& name, const char* minutes) {
    std::vector<std::string> settings = rare;
    settings.emplace_back(fmt::format("run.checkpoint_minutes={}", minutes));
    const ProgramResult result = pretrain(settings, {"--output", (folder() / name).string()});
    EXPECT_EQ(result.code, 0) << result.output;
    return checkpoint_steps(folder() / name / "checkpoints");
  };
  const std::vector<std::int64_t> at_ends = {7, 12};
  EXPECT_EQ(steps("never", "0"), at_ends);
  EXPECT_EQ(steps("later", "10"), at_ends);
  EXPECT_EQ(steps("each", "1e-9").size(), 12u);
  expect_equal_checkpoints(folder() / "never/checkpoints/step-00000012.h5",
                           folder() / "each/checkpoints/step-00000012.h5");
  EXPECT_EQ(Recipe().run.checkpoint_minutes, 10);
}

}  // namespace
}  // namespace comera::test
