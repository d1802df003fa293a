// Regressions learn their scores in units of these (EncoderArchitecture::score_of).
#include <cstring>

#include "exchange/export_model.h"
#include "recipes/encoder_config.h"
#include "tests/training/finetune_fixture.h"
#include "training/inference/inference_engine.h"
#include "training/inference/trained_model.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ScoreUnits : public Finetune {
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
TEST_F(ScoreUnits, MakeNoDifferenceToTraining) {
  const std::string near = scaled("near.tsv", 0, 1), far = scaled("far.tsv", 1000, 300);
  const TrainingOutcome one = finetune(recipe("near", scores(near)));
  const TrainingOutcome other = finetune(recipe("far", scores(far)));
  const Recipe learned = load_recipe(folder() / "far/recipe.toml");
  // Half of the scores are 1.5, the others -0.5.
  EXPECT_NEAR(*learned.model.score_mean, 1150, 60);
  EXPECT_NEAR(*learned.model.score_deviation, 300, 10);
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
  finetune(recipe("plain", scores(far, {"model.score_mean=0", "model.score_deviation=1"})));
  EXPECT_GT(loss("plain"), 5 * loss("far"));
}

TEST_F(ScoreUnits, AnswersAreNotRounded) {
  const TrainingOutcome outcome =
      finetune(recipe("run", scores(scaled("t.tsv", 0, 1), {"precision.compute=bf16"})));
  const LoadedModel loaded(outcome.checkpoint, {}, {}, "cpu");
  const ModelSection& model = loaded.recipe.model;
  int fine = 0;
  for (const double score : answers(outcome.checkpoint)) {
    const auto output = static_cast<float>((score - *model.score_mean) / *model.score_deviation);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &output, sizeof bits);
    fine += (bits & 0xfff0) != 0 && (bits & 0xfff0) != 0xfff0 ? 1 : 0;
  }
  EXPECT_GT(fine, 100) << "of 120";
}

TEST_F(ScoreUnits, StayWhereAModelGoes) {
  const std::string far = scaled("far.tsv", 1000, 300);
  const TrainingOutcome outcome = finetune(recipe("run", scores(far)));
  const std::vector<double> before = answers(outcome.checkpoint);
  // With settings of other units.
  expect_near(answers(outcome.checkpoint, {"model.score_mean=-7", "model.score_deviation=0.5"}), before,
              0.01);
  // Other programs know none.
  for (const bool trains : {false, true}) {
    const LoadedModel loaded(outcome.checkpoint, {}, {}, "cpu");
    const fs::path hf = folder() / fmt::format("hf-{}", trains);
    exchange::export_model(loaded, folder() / "run", hf, {.tensor_trains = trains});
    const std::string back = (folder() / fmt::format("back-{}.h5", trains)).string();
    ASSERT_EQ(run_program({"import", hf.string(), "--output", back}).code, 0);
    EXPECT_FALSE(LoadedModel(back, {}, {}, "cpu").recipe.model.score_mean);
    expect_near(answers(back), before, 0.02);
  }
  // A run from it on scores of other units begins with what it knows.
  const std::string still = "phase.0.learning_rate=1e-12";
  finetune(
      recipe("next", scores(scaled("near.tsv", 0, 1),
                            {still, "phase.0.steps=1", "phase.1.steps=1", "phase.1.learning_rate=1e-12",
                             "phase.0.warmup_steps=0",
                             fmt::format("run.initial_checkpoint=\"{}\"", outcome.checkpoint.string())})));
  EXPECT_NEAR(*load_recipe(folder() / "next/recipe.toml").model.score_deviation, 1, 0.05);
  expect_near(answers(folder() / "next/checkpoints"), before, 0.05);
}

// So does a run that began when scores were learned as they are.
TEST_F(ScoreUnits, AResumedRunKeepsThem) {
  const std::string table = scaled("far.tsv", 30, 10);
  const std::vector<std::string> plain = {"model.score_mean=0", "model.score_deviation=1"};
  const TrainingOutcome whole = finetune(recipe("whole", scores(table, plain)));
  finetune(recipe("parts", scores(table, plain)), 5);
  const TrainingOutcome parts = finetune(recipe("parts", scores(table)));
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  finetune(recipe("other", scores(table)), 5);
  EXPECT_THAT([&] { finetune(recipe("other", scores(table, plain))); },
              testing::ThrowsMessage<UsageError>(HasSubstr("another model.score_mean")));
}

// A teacher's scores are the same in the units of any student, also where they are kept: a student that stays
// as it is has the distance between both as its loss.
TEST_F(ScoreUnits, TeachersSpeakThoseOfTheirStudents) {
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
          "model.score_deviation=10",
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
