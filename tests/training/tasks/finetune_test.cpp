// What fine-tuning learns and keeps: tasks, ranks, the best model, stops and pretrained encoders.
#include <gmock/gmock.h>

#include <map>

#include "checkpoints/checkpoint_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"
#include "training/inference/trained_model.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST_F(Finetune, LearnsARuleOverBothTexts) {
  using Rates = std::pair<std::string, std::string>;  // of the phases
  const std::map<std::string, Rates> rates = {{"adamw", {"6e-3", "2e-3"}},
                                              {"muon",
                                               {"{cores=0.005, embedding=6e-3, gates=6e-3, other=6e-3}",
                                                "{cores=0.01, embedding=2e-3, gates=2e-3, other=2e-3}"}}};
  for (const auto& [optimizer, of_phases] : rates) {
    SCOPED_TRACE(optimizer);
    const Recipe recipe = this->recipe(
        optimizer,
        task({"optim.name=" + optimizer, "phase.0.steps=150", "phase.0.learning_rate=" + of_phases.first,
              "phase.1.steps=100", "phase.1.learning_rate=" + of_phases.second, "model.dropout=0",
              "model.attention_dropout=0", "model.embedding_std=0.5"}));
    const TrainingOutcome outcome = finetune(recipe);
    ASSERT_TRUE(outcome.evaluation);
    ASSERT_EQ(sets_of(*outcome.evaluation).size(), 1u);
    const data::TaskScores& scores = sets_of(*outcome.evaluation)[0];
    EXPECT_EQ(scores.examples, 120);
    EXPECT_GT(scores.accuracy, scores.majority + 5 * scores.standard_error);
    EXPECT_TRUE(fs::exists(outcome.best));
  }
}

// Each text by itself: the head has to compare.
TEST_F(Finetune, LearnsARuleFromTwoVectors) {
  for (const char* pooling : {"mean", "first"}) {
    const Recipe recipe = this->recipe(
        pooling, task({"model.pairs=separate", fmt::format("model.pooling={}", pooling), "phase.0.steps=150",
                       "phase.0.learning_rate=6e-3", "phase.1.steps=100", "phase.1.learning_rate=2e-3",
                       "model.dropout=0", "model.attention_dropout=0", "model.embedding_std=0.5"}));
    const TrainingOutcome outcome = finetune(recipe);
    ASSERT_TRUE(outcome.evaluation);
    EXPECT_GT(sets_of(*outcome.evaluation)[0].accuracy, 0.9) << pooling;
  }
  // One text is no pair.
  finetune(recipe("one", task({"model.pairs=separate", "task.text=first"})));
  EXPECT_EQ(load_recipe(folder() / "one/recipe.toml").model.pairs, PairEncoding::joint);
  EXPECT_THAT(
      [&] {
        finetune(recipe("short", task({"model.pairs=separate", "phase.1.tokens_per_micro_batch=40"})));
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("raise tokens_per_micro_batch")));
}

TEST_F(Finetune, LearnsScores) {
  const Recipe recipe = this->recipe(
      "scores", task({"task.kind=regression", "task.label=score", "phase.0.steps=150",
                      "phase.0.learning_rate=6e-3", "phase.1.steps=100", "phase.1.learning_rate=2e-3",
                      "model.dropout=0", "model.attention_dropout=0", "model.embedding_std=0.5"}));
  const TrainingOutcome outcome = finetune(recipe);
  ASSERT_TRUE(outcome.evaluation);
  EXPECT_GT(sets_of(*outcome.evaluation)[0].pearson, 0.7);
  EXPECT_EQ(outcome.evaluation->score, sets_of(*outcome.evaluation)[0].spearman);
}

// A late phase with evaluations before and after compactions: each is of the model of its step, and the best
// one has its size.
TEST_F(Finetune, RanksAdaptBetweenEvaluations) {
  const std::vector<std::string> settings =
      task({"phase.0.steps=10", "phase.0.objective=regularize", "phase.1.steps=40",
            "phase.1.objective=compress", "phase.1.learning_rate={cores=3e-3, gates=5e-2, other=2e-3}",
            "phase.1.schedule=constant", "phase.1.adaptation.threshold=0.15",
            "phase.1.adaptation.target_ratio=0.6", "phase.1.adaptation.compact_interval=5",
            "run.evaluation_interval=4", "run.checkpoint_interval=4", "run.keep_checkpoints=99"});
  const TrainingOutcome outcome = finetune(recipe("run", settings));
  EXPECT_GT(outcome.best_step, 10);
  const auto kept = load_rank_history(CheckpointReader(outcome.checkpoint));
  EXPECT_NE(kept.stages.back().ranks, kept.stages.front().ranks);
  std::ifstream stream(folder() / "run" / "metrics.jsonl");
  std::map<std::int64_t, double> losses, sizes;
  for (std::string line; std::getline(stream, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("validation")) losses[object["step"]] = object["validation"].begin().value()["loss"];
    if (object.contains("ranks")) sizes[object["step"]] = object["ranks"]["size"];
  }
  EXPECT_LE(sizes.at(outcome.best_step), 0.6);
  int compared = 0;
  for (const auto& [step, loss] : losses) {
    const fs::path file = folder() / "run" / "checkpoints" / fmt::format("step-{:08}.h5", step);
    if (!fs::exists(file)) continue;
    const ProgramResult result = run_program({"eval", file.string(), "--json"});
    ASSERT_EQ(result.code, 0) << result.output;
    const auto at = result.output.find("\"loss\":");
    ASSERT_NE(at, result.output.npos) << result.output;
    EXPECT_NEAR(std::stod(result.output.substr(at + 7)), loss, 1e-5 * loss) << step;
    ++compared;
  }
  EXPECT_GT(compared, 5);
  EXPECT_EQ(fs::exists(folder() / "run" / "best-phase-0.h5"), true);
}

TEST_F(Finetune, ResumesToTheBitAndKeepsTheBest) {
  for (const std::string decay : {"0.0", "0.8"}) {
    const std::vector<std::string> settings = task(
        {"run.evaluation_epochs=0.5", "phase.0.steps=20", "phase.1.steps=9", "optim.average_decay=" + decay});
    const TrainingOutcome whole = finetune(recipe("whole-" + decay, settings));
    for (const std::int64_t stop : {3, 13, 22}) finetune(recipe("parts-" + decay, settings), stop);
    const TrainingOutcome parts = finetune(recipe("parts-" + decay, settings));
    EXPECT_EQ(parts.step, 29);
    expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
    EXPECT_EQ(whole.best_step, parts.best_step);
    expect_equal_checkpoints(whole.best, parts.best);
    const CheckpointReader best(whole.best);
    EXPECT_EQ(best.integer("/trainer", "step"), whole.best_step);
    // It is what an evaluation of the best says.
    const LoadedModel loaded(folder() / ("whole-" + decay), {}, {}, "cpu");
    EXPECT_EQ(loaded.trained.checkpoint, whole.best);
    InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
    const data::Task found = task_of(loaded.recipe.task);
    const auto examples = data::Examples::read(found, found.validation, loaded.tokenizer, true, 32);
    const auto scores =
        score(engine, found, examples, "dev", data::capacity_for(96, 32, 0, 400), loaded.model.config());
    EXPECT_EQ(scores->accuracy, whole.best_score);
  }
}

// A stop may come at any moment, also within an evaluation, which is then made when the run goes on: no line
// of the metrics is missing, none is there twice, and the best model is the same.
TEST_F(Finetune, AStopDuringAnEvaluationLosesNothing) {
  const std::vector<std::string> settings =
      task({"run.evaluation_epochs=0.5", "phase.0.steps=6", "phase.1.steps=3"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  int stops = 0;
  TrainingOutcome parts;
  for (int calls = 1; !parts.finished; ++calls, ++stops) {
    ASSERT_LT(calls, 200);
    int left = calls;
    TrainingOptions options{.finetune = true, .mode = RunMode::automatic, .output = silent()};
    options.stop_requested = [&left] { return --left <= 0; };
    parts = TrainingRun(recipe("parts", settings), options).run();
  }
  EXPECT_GT(stops, 5);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  EXPECT_EQ(whole.best_step, parts.best_step);
  EXPECT_EQ(whole.best_score, parts.best_score);
  const auto evaluations = [&](const char* run) {
    std::vector<std::string> lines;
    std::ifstream stream(folder() / run / "metrics.jsonl");
    for (std::string line; std::getline(stream, line);)
      if (line.find("\"dev\"") != std::string::npos) lines.push_back(line);
    return lines;
  };
  EXPECT_FALSE(evaluations("whole").empty());
  EXPECT_EQ(evaluations("parts"), evaluations("whole"));
}

// More passes than it was begun with.
TEST_F(Finetune, AFinishedRunIsGivenMoreEpochs) {
  const auto settings = [&](const char* epochs) {
    return task({"phase.0.steps=4", fmt::format("phase.1.epochs={}", epochs), "run.evaluation_epochs=1"});
  };
  std::string text = recipe_text();
  const std::string key = "steps = 5";
  ASSERT_NE(text.find(key), std::string::npos);
  text.replace(text.find(key), key.size(), "epochs = 1");
  const auto tuned = [&](const char* epochs, RunMode mode) {
    std::vector<std::string> overrides = settings(epochs);
    overrides.push_back(fmt::format("run.output=\"{}\"", (folder() / "more").string()));
    TrainingRun run(parse_recipe(text, "test", overrides),
                    {.finetune = true, .mode = mode, .output = silent()});
    return run.run();
  };
  const TrainingOutcome one = tuned("1", RunMode::fresh), again = tuned("1", RunMode::resume);
  EXPECT_EQ(again.step, one.step);
  const TrainingOutcome two = tuned("2", RunMode::resume);
  EXPECT_TRUE(two.finished);
  EXPECT_EQ(two.step - 4, 2 * (one.step - 4));
}

// The best model so far was chosen by the held-out data.
TEST_F(Finetune, ARunGoesOnWithTheSameHeldOutDataOnly) {
  const Recipe recipe = this->recipe("held", task());
  finetune(recipe, 2);
  const std::string before = read_text(folder() / "dev.tsv");
  write_table("dev.tsv", 120, 3);
  EXPECT_THAT([&] { finetune(recipe); },
              testing::ThrowsMessage<UsageError>(HasSubstr("chose its best model on other held-out data")));
  std::ofstream(folder() / "dev.tsv") << before;
  EXPECT_TRUE(finetune(recipe).finished);
}

// The encoder is the pretrained one, the head is new.
TEST_F(Finetune, BeginsWithAPretrainedEncoder) {
  TrainingRun pretraining(recipe("pre"), {.output = silent()});
  const TrainingOutcome pretrained = pretraining.run();
  const Recipe from =
      recipe("from", task({fmt::format("run.initial_checkpoint=\"{}\"", (folder() / "pre").string()),
                           "phase.0.learning_rate=0", "phase.1.learning_rate=0"}));
  const TrainingOutcome tuned = finetune(from);
  const CheckpointReader a(pretrained.checkpoint), b(tuned.checkpoint);
  std::int64_t same = 0;
  for (const CheckpointTensor& tensor : a.tensors()) {
    if (!tensor.path.starts_with("/model/") || tensor.path.starts_with("/model/head.")) continue;
    EXPECT_EQ(b.tensor(tensor.path), tensor);
    ++same;
  }
  EXPECT_GT(same, 20);
  EXPECT_TRUE(b.has_tensor("/model/head.classifier.weight"));

  // A recipe without a model takes that of the checkpoint, tensor trains and all.
  const std::string text = recipe_text();
  const fs::path file = folder() / "modelless.toml";
  std::ofstream(file) << text.substr(text.find("[run]"));
  std::vector<std::string> program = arguments("finetune", {"--from", (folder() / "pre").string()});
  program[1] = file.string();
  const ProgramResult result = run_program(program);
  ASSERT_EQ(result.code, 0) << result.output;
  const CheckpointReader c(folder() / "run/checkpoints/step-00000012.h5");
  for (const CheckpointTensor& tensor : b.tensors()) {
    if (!tensor.path.starts_with("/model/")) continue;
    EXPECT_EQ(c.tensor(tensor.path).shape, tensor.shape);
  }

  // Another encoder is refused by the name of what differs.
  EXPECT_THAT(
      [&] {
        finetune(
            recipe("other", task({fmt::format("run.initial_checkpoint=\"{}\"", (folder() / "pre").string()),
                                  "model.layers=1"})));
      },
      testing::ThrowsMessage<Error>(HasSubstr("holds another model")));
}

// The same where the tables are narrow: a pooler has other outputs than the transform before the decoder, and
// the recipe's shape is fitted.
TEST_F(Finetune, BeginsWithNarrowTables) {
  const std::vector<std::string> narrow = {
      "model.embedding_size=12", "tensorized.embedding.column_modes=[2,3,2]",
      "tensorized.head={input_modes=[4,6], output_modes=[4,3], ranks=[4,7,3]}"};
  TrainingRun pretraining(recipe("pre", narrow), {.output = silent()});
  const TrainingOutcome pretrained = pretraining.run();
  EXPECT_EQ(CheckpointReader(pretrained.checkpoint).tensor("/model/head.norm.weight").shape,
            std::vector<std::int64_t>{12});
  std::vector<std::string> options = task(narrow);
  options.push_back(fmt::format("run.initial_checkpoint=\"{}\"", (folder() / "pre").string()));
  const TrainingOutcome tuned = finetune(recipe("from", options));
  const CheckpointReader reader(tuned.checkpoint);
  EXPECT_EQ(reader.tensor("/model/embedding.projection.weight").shape, (std::vector<std::int64_t>{12, 24}));
  EXPECT_EQ(reader.tensor("/model/head.pooler.bias").shape, std::vector<std::int64_t>{24});
  EXPECT_EQ(reader.tensor("/model/head.pooler.core.1").shape.back(), 7);

  options.emplace_back("model.embedding_size=0");
  options.emplace_back("tensorized.embedding.column_modes=[2,3,4]");
  options.emplace_back("tensorized.head={input_modes=[4,6], output_modes=[6,4], ranks=[4,7,4]}");
  EXPECT_THAT([&] { finetune(recipe("other", options)); },
              testing::ThrowsMessage<UsageError>(HasSubstr("was trained with model.embedding_size = 12")));
}

// The run ends where so many evaluations in a row were no better, also if it was stopped between them.
TEST_F(Finetune, PatienceEndsARun) {
  const auto patient = [&](const std::string& run, std::int64_t patience) {
    return recipe(run, task({"run.evaluation_interval=2", "phase.0.steps=40", "phase.0.learning_rate=1e-5",
                             "phase.0.warmup_steps=0", fmt::format("run.patience={}", patience)}));
  };
  const TrainingOutcome whole = finetune(patient("whole", 3));
  EXPECT_TRUE(whole.finished);
  EXPECT_LT(whole.step, 45);
  EXPECT_EQ(whole.step, whole.best_step + 2 * 3) << "it evaluates every second step";
  for (std::int64_t stop = 1; stop < whole.step; stop += 3)
    EXPECT_FALSE(finetune(patient("cut", 3), stop).finished);
  EXPECT_EQ(finetune(patient("cut", 3)).step, whole.step);
  expect_equal_checkpoints(whole.checkpoint, finetune(patient("cut", 3)).checkpoint);
  EXPECT_GT(finetune(patient("cut", 4)).step, whole.step) << "more patience continues it";
  EXPECT_THAT(
      [&] {
        finetune(recipe("none", task({"run.patience=1", "task.validation=[]"})));
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("has nothing to evaluate on")));
}

// As scikit-learn's compute_class_weight("balanced").
TEST(ClassWeightsTest, BalanceTheClasses) {
  EXPECT_EQ(class_weights({.balanced = true, .values = {}}, {10, 30, 60}),
            (std::vector<double>{100 / 30., 100 / 90., 100 / 180.}));
  EXPECT_EQ(class_weights({.balanced = false, .values = {1, 2}}, {10, 30}), (std::vector<double>{1, 2}));
}

// A step's loss is the weighted mean, so that weights of 2 change nothing, and a class without weight is
// hardly learned.
TEST_F(Finetune, ClassesMayWeighDifferently) {
  const auto tuned = [&](const std::string& run, const std::string& weights) {
    return finetune(recipe(run, task({"optim.clip_norm=0", "task.class_weights=" + weights})));
  };
  const TrainingOutcome plain = tuned("plain", "[]"), twice = tuned("twice", "[2, 2]");
  for (const CheckpointTensor& tensor : CheckpointReader(plain.checkpoint).tensors()) {
    if (tensor.dtype != DType::float32 || !tensor.path.starts_with("/model")) continue;
    const auto a = CheckpointReader(plain.checkpoint).read_values<float>(tensor.path),
               b = CheckpointReader(twice.checkpoint).read_values<float>(tensor.path);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << tensor.path;
  }
  EXPECT_NEAR(last_line(folder() / "plain/metrics.jsonl", "loss")["loss"].get<double>(),
              last_line(folder() / "twice/metrics.jsonl", "loss")["loss"].get<double>(), 1e-3);
  const auto predicted = [&](const std::string& run, const std::string& weights) {
    const TrainingOutcome outcome =
        finetune(recipe(run, task({"task.class_weights=" + weights, "phase.0.steps=60", "phase.1.steps=1"})));
    return sets_of(*outcome.evaluation)[0].accuracy;
  };
  const data::TaskScores scores = sets_of(*plain.evaluation)[0];
  const double all_other = predicted("other", "[100, 0.01]"), all_same = predicted("same", "[0.01, 100]");
  EXPECT_NEAR(all_other + all_same, 1, 1e-9) << "each predicts one class for all " << scores.examples;
  EXPECT_THAT(
      [&] { tuned("three", "[1, 2, 3]"); },
      testing::ThrowsMessage<UsageError>(HasSubstr("3 weights, but there are 2 classes: other, same")));
  EXPECT_THAT([&] { tuned("words", "even"); }, testing::Throws<UsageError>());
}

}  // namespace
}  // namespace comera::test
