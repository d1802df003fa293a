// Regressions learn standardised scores (EncoderArchitecture::score_of).
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "exchange/export_model.h"
#include "recipes/encoder_config.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"
#include "training/inference/inference_engine.h"
#include "training/inference/trained_model.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ScoreScaleTest : public Finetune {
 protected:
  // The table with scores of 1.5 and -0.5 as `shift` + `factor` x these.
  std::string scaled(const std::string& name, double shift, double factor) const {
    std::ifstream from(folder() / "train.tsv");
    std::ofstream to(folder() / name);
    std::string line;
    std::getline(from, line);
    to << line << "\n";
    while (std::getline(from, line)) {
      const std::size_t tab = line.rfind('\t');
      to << line.substr(0, tab + 1) << fmt::format("{}", shift + factor * std::stod(line.substr(tab + 1)))
         << "\n";
    }
    return (folder() / name).string();
  }
  std::vector<std::string> scores(const std::string& table, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"task.kind=regression",
                                    "task.label=score",
                                    fmt::format("task.train=\"{}\"", table),
                                    fmt::format("task.validation=\"{}\"", table),
                                    "phase.0.steps=12",
                                    "phase.1.steps=4",
                                    "phase.0.learning_rate=3e-3",
                                    "phase.1.learning_rate=1e-3"};
    all.insert(all.end(), more.begin(), more.end());
    return task(all);
  }
  void write_pretrained() const {
    TrainingRun(recipe("pre", {"phase.0.warmup_steps=0", "phase.0.steps=2", "phase.1.steps=2"}),
                {.output = silent()})
        .run();
  }
  std::vector<double> answers(const fs::path& model, const std::vector<std::string>& settings = {}) const {
    const LoadedModel loaded(model, {}, settings, "cpu");
    InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
    data::Task found = task_of(loaded.recipe.task, TaskUse::inference);
    found.text = {"first", "second"};
    const auto examples =
        data::Examples::read(found, {{"dev", folder() / "dev.tsv"}}, loaded.tokenizer, false, 32);
    std::vector<double> values(static_cast<std::size_t>(examples.count()));
    engine.run(samples_for(loaded.model.config(), found, examples, 32), data::capacity_for(96, 32, 0, 400),
               [&](std::int64_t sample, std::span<const double> score) { values.at(sample) = score[0]; });
    return values;
  }
  static void expect_near(const std::vector<double>& values, const std::vector<double>& expected,
                          double error) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], error) << i;
  }
};

// A model of other units is the same model: training never sees them.
TEST_F(ScoreScaleTest, MakeNoDifferenceToTraining) {
  const std::string near = scaled("near.tsv", 0, 1), far = scaled("far.tsv", 1000, 300);
  const TrainingOutcome one = finetune(recipe("near", scores(near)));
  const TrainingOutcome other = finetune(recipe("far", scores(far)));
  const Recipe learned = load_recipe(folder() / "far/recipe.toml");
  // Half of the scores are 1.5, the others -0.5.
  EXPECT_NEAR(*learned.model.score_mean, 1150, 60);
  EXPECT_NEAR(*learned.model.score_std, 300, 10);
  std::vector<double> expected = answers(one.checkpoint);
  for (double& score : expected) score = 1000 + 300 * score;
  expect_near(answers(other.checkpoint), expected, 0.05);
  const auto loss = [&](const char* run) {
    return last_line(folder() / run / "metrics.jsonl", "loss")["loss"].get<double>();
  };
  EXPECT_NEAR(loss("far") / loss("near"), 300 * 300, 100);
  const data::TaskScores &first = sets_of(*one.evaluation)[0], &second = sets_of(*other.evaluation)[0];
  EXPECT_NEAR(second.loss / first.loss, 300 * 300, 100);
  EXPECT_NEAR(first.variance, 1, 0.05);
  EXPECT_NEAR(second.variance / first.variance, 300 * 300, 1);
  // Scores as they are, for whoever asks for it.
  finetune(recipe("plain", scores(far, {"model.score_mean=0", "model.score_std=1"})));
  EXPECT_GT(loss("plain"), 5 * loss("far"));
}

TEST_F(ScoreScaleTest, AnswersAreNotRounded) {
  const TrainingOutcome outcome =
      finetune(recipe("run", scores(scaled("t.tsv", 0, 1), {"precision.compute=bf16"})));
  const LoadedModel loaded(outcome.checkpoint, {}, {}, "cpu");
  const ModelSection& model = loaded.recipe.model;
  int fine = 0;
  for (const double score : answers(outcome.checkpoint)) {
    const auto output = static_cast<float>((score - *model.score_mean) / *model.score_std);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &output, sizeof bits);
    fine += (bits & 0xfff0) != 0 && (bits & 0xfff0) != 0xfff0 ? 1 : 0;
  }
  EXPECT_GT(fine, 100) << "of 120";
}

TEST_F(ScoreScaleTest, StayWhereAModelGoes) {
  const std::string far = scaled("far.tsv", 1000, 300);
  const TrainingOutcome outcome = finetune(recipe("run", scores(far)));
  const std::vector<double> before = answers(outcome.checkpoint);
  // With settings of other units.
  expect_near(answers(outcome.checkpoint, {"model.score_mean=-7", "model.score_std=0.5"}), before, 0.01);
  // Other programs know none.
  for (const bool trains : {false, true}) {
    const LoadedModel loaded(outcome.checkpoint, {}, {}, "cpu");
    const fs::path hf = folder() / fmt::format("hf-{}", trains);
    exchange::export_model(loaded, folder() / "run", hf, {.tensor_trains = trains});
    const std::string back = (folder() / fmt::format("back-{}.h5", trains)).string();
    ASSERT_EQ(run_program({"import", hf.string(), "--output", back}).code, 0);
    EXPECT_EQ(LoadedModel(back, {}, {}, "cpu").recipe.model.score_std, 1);
    expect_near(answers(back), before, 0.02);
  }
  // A run from it on other scores begins with what it knows, by the commands too.
  const ProgramResult next = run_program({"finetune",
                                          "--from",
                                          outcome.checkpoint.string(),
                                          "--input",
                                          scaled("near.tsv", 0, 1),
                                          "--text",
                                          "first,second",
                                          "--label",
                                          "score",
                                          "--output",
                                          (folder() / "next").string(),
                                          "--set",
                                          "phase.0.epochs=0.1",
                                          "--set",
                                          "phase.0.learning_rate=1e-12",
                                          "--set",
                                          "phase.0.warmup_share=0",
                                          "--set",
                                          "precision.compute=fp32",
                                          "--set",
                                          "phase.0.tokens_per_micro_batch=256"});
  ASSERT_EQ(next.code, 0) << next.output;
  EXPECT_THAT(next.output, HasSubstr("scores: standardised by a mean of 0."));
  EXPECT_NEAR(*load_recipe(folder() / "next/recipe.toml").model.score_std, 1, 0.05);
  expect_near(answers(folder() / "next"), before, 0.05);
  // Another layer has nothing of it, nor its bias.
  finetune(
      recipe("separate",
             scores(scaled("near.tsv", 0, 1),
                    {"model.pairs=separate", "phase.0.steps=1", "phase.1.steps=1",
                     "phase.0.learning_rate=1e-12", "phase.1.learning_rate=1e-12", "phase.0.warmup_steps=0",
                     fmt::format("run.initial_checkpoint=\"{}\"", outcome.checkpoint.string())})));
  const CheckpointReader separate(find_trained_model(folder() / "separate").checkpoint);
  EXPECT_NEAR(separate.read_values<float>("/model/head.classifier.bias")[0], 0, 1e-6);
}

TEST_F(ScoreScaleTest, OfOtherDataIsSaid) {
  write_pretrained();
  const std::string table = scaled("far.tsv", 1000, 300);
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"finetune",     "--from",  (folder() / "pre").string(),
                                    "--input",      table,     "--text",
                                    "first,second", "--label", "score",
                                    "--dry-run",    "--set",   "task.kind=regression"};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult result = run_program(all);
    EXPECT_EQ(result.code, 0) << result.output;
    return result.output;
  };
  EXPECT_THAT(said({}), testing::AllOf(HasSubstr("scores: standardised by a mean of 11"),
                                       testing::Not(HasSubstr("learns faster"))));
  EXPECT_THAT(said({"--set", "model.score_mean=0", "--set", "model.score_std=1"}),
              HasSubstr("by a mean of 0 and a standard deviation of 1; these files have 11"));
}

// A folder of seeds that an earlier version began is continued with scores as they are.
TEST_F(ScoreScaleTest, SeedsHaveOne) {
  write_pretrained();
  const auto seeds = [&](const char* list, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"finetune",
                                    "--from",
                                    (folder() / "pre").string(),
                                    "--input",
                                    scaled("far.tsv", 30, 10),
                                    "--text",
                                    "first,second",
                                    "--label",
                                    "score",
                                    "--output",
                                    (folder() / "seeds").string(),
                                    "--seeds",
                                    list,
                                    "--set",
                                    "task.kind=regression",
                                    "--set",
                                    "phase.0.epochs=1",
                                    "--set",
                                    "phase.0.tokens_per_micro_batch=256"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  ASSERT_EQ(seeds("1,2").code, 0);
  const fs::path result = folder() / "seeds/seed-1/result.json";
  ASSERT_TRUE(fs::exists(result));
  std::string text = read_text(result);
  for (const char* key : {"score_mean", "score_std"}) {
    const std::size_t at = text.find(key);
    ASSERT_NE(at, text.npos);
    text.erase(at, text.find("\\n", at) + 2 - at);
  }
  std::ofstream(result) << text;
  fs::remove_all(folder() / "seeds/seed-2");
  const ProgramResult again = seeds("1,2");
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(load_recipe(folder() / "seeds/seed-2/recipe.toml").model.score_std, 1);
  // Also where none was finished.
  for (const char* seed : {"seed-1", "seed-2"}) fs::remove_all(folder() / "seeds" / seed);
  ASSERT_EQ(
      seeds("2", {"--stop-after", "1", "--set", "model.score_mean=0", "--set", "model.score_std=1"}).code, 0);
  EXPECT_FALSE(fs::exists(folder() / "seeds/seed-2/result.json"));
  const ProgramResult continued = seeds("2");
  EXPECT_EQ(continued.code, 0) << continued.output;
  EXPECT_EQ(load_recipe(folder() / "seeds/seed-2/recipe.toml").model.score_std, 1);
}

// So does a run that learns scores as they are, which is what stored recipes without a scale mean.
TEST_F(ScoreScaleTest, AResumedRunKeepsThem) {
  const std::string table = scaled("far.tsv", 30, 10);
  const std::vector<std::string> plain = {"model.score_mean=0", "model.score_std=1"};
  const TrainingOutcome whole = finetune(recipe("whole", scores(table, plain)));
  finetune(recipe("parts", scores(table, plain)), 5);
  const TrainingOutcome parts = finetune(recipe("parts", scores(table)));
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  std::string text = to_toml(load_recipe(folder() / "whole/recipe.toml"));
  for (const char* key : {"score_mean", "score_std"}) {
    const std::size_t at = text.find(key);
    ASSERT_NE(at, text.npos);
    text.erase(at, text.find('\n', at) + 1 - at);
  }
  const Recipe old = parse_stored_recipe(text, "old");
  EXPECT_EQ(old.model.score_mean, 0);
  EXPECT_EQ(old.model.score_std, 1);
  finetune(recipe("other", scores(table)), 5);
  EXPECT_THAT([&] { finetune(recipe("other", scores(table, plain))); },
              testing::ThrowsMessage<UsageError>(HasSubstr("another model.score_mean")));
}

// A teacher's scores are the same in the units of any student, also where they are kept: a student that stays
// as it is has the distance between both as its loss.
TEST_F(ScoreScaleTest, TeachersSpeakThoseOfTheirStudents) {
  const std::string far = scaled("far.tsv", 1000, 300);
  const std::vector<double> wanted = answers(finetune(recipe("teacher", scores(far))).checkpoint);
  for (const bool keeps : {false, true})
    for (const double mean : {5000.0, 0.0}) {
      const std::string name = fmt::format("student-{}-{}", keeps, mean);
      std::vector<std::string> settings = {
          fmt::format("distillation.teacher=\"{}\"", (folder() / "teacher").string()),
          "distillation.logits=1",
          "distillation.targets=false",
          fmt::format("model.score_mean={}", mean),
          "model.score_std=10",
          "phase.0.length=32",
          "phase.0.learning_rate=1e-12",
          "phase.1.learning_rate=1e-12"};
      if (keeps)
        settings.push_back(fmt::format("distillation.cache=\"{}\"", (folder() / "kept.h5").string()));
      const TrainingOutcome outcome = finetune(recipe(name, scores(far, settings)));
      const std::vector<double> own = answers(outcome.checkpoint);
      double expected = 0;
      for (std::size_t i = 0; i < own.size(); ++i)
        expected += (own[i] - wanted[i]) * (own[i] - wanted[i]) / static_cast<double>(own.size());
      const double loss = last_line(folder() / name / "metrics.jsonl", "loss")["loss"];
      EXPECT_NEAR(loss / expected, 1, 0.1) << name;
    }
}

}  // namespace
}  // namespace comera::test
