#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/checkpoint_file.h"
#include "kernels/backends/backends.h"
#include "storage/hdf5.h"
#include "tests/training/training_fixture.h"
#include "training/sequence_task.h"
#include "training/trained_model.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Pairs of words with a rule that has to be learnt from both: are they the same?
class Finetune : public TrainingFixture {
 protected:
  Finetune() {
    write_table("train.tsv", 400, 1);
    write_table("dev.tsv", 120, 2);
  }

  void write_table(const std::string& name, int rows, unsigned seed) const {
    const std::vector<std::string> words = {"count", "total", "value", "index"};
    std::ofstream stream(folder() / name);
    stream << "number\tsecond\tlabel\tfirst\tscore\n";
    for (int i = 0; i < rows; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const std::size_t a = (seed >> 10) % 4, other = (seed >> 20) % 3;
      const bool same = (seed >> 28) % 2 == 0;
      const std::size_t b = same ? a : (a + 1 + other) % 4;
      stream << fmt::format("{}\t{}\t{}\t{}\t{}\n", i, words[b], same ? "same" : "other", words[a],
                            same ? 1.5 : -0.5);
    }
  }

  std::vector<std::string> task(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"task.name=words",
                                    "task.text=[\"first\", \"second\"]",
                                    "task.label=label",
                                    fmt::format("task.train=\"{}\"", (folder() / "train.tsv").string()),
                                    fmt::format("task.validation=\"{}\"", (folder() / "dev.tsv").string()),
                                    "run.evaluation_interval=0",
                                    "run.checkpoint_interval=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The options above for the program.
  std::vector<std::string> arguments(const std::string& command, const std::vector<std::string>& more,
                                     const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {command, write_recipe().string()};
    for (const std::string& override : task(overrides)) all.insert(all.end(), {"--set", override});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TrainingOutcome finetune(const Recipe& recipe, std::int64_t stop_after = 0,
                           RunMode mode = RunMode::automatic) const {
    TrainingRun run(recipe, {.finetune = true, .mode = mode, .stop_after = stop_after, .output = silent()});
    return run.run();
  }
  static std::FILE* silent() {
    static std::FILE* const file = std::fopen("/dev/null", "w");
    return file;
  }
  static nlohmann::json last_line(const fs::path& file, const std::string& member) {
    std::ifstream stream(file);
    nlohmann::json found;
    for (std::string line; std::getline(stream, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains(member)) found = object;
    }
    return found;
  }
};

TEST_F(Finetune, LearnsARuleOverBothTexts) {
  using Rates = std::pair<std::string, std::string>;  // of the phases
  const std::map<std::string, Rates> rates = {{"adamw", {"6e-3", "2e-3"}},
                                              {"muon",
                                               {"{cores=0.005, embedding=6e-3, gates=6e-3, rest=6e-3}",
                                                "{cores=0.01, embedding=2e-3, gates=2e-3, rest=2e-3}"}}};
  for (const auto& [optimizer, of_phases] : rates) {
    SCOPED_TRACE(optimizer);
    const Recipe recipe = this->recipe(
        optimizer,
        task({"optim.name=" + optimizer, "phase.0.steps=150", "phase.0.learning_rate=" + of_phases.first,
              "phase.1.steps=100", "phase.1.learning_rate=" + of_phases.second, "model.dropout=0",
              "model.attention_dropout=0", "model.embedding_std=0.5"}));
    const TrainingOutcome outcome = finetune(recipe);
    ASSERT_TRUE(outcome.evaluation);
    ASSERT_EQ(outcome.evaluation->sets.size(), 1u);
    const data::TaskScores& scores = outcome.evaluation->sets[0];
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
    EXPECT_GT(outcome.evaluation->sets[0].accuracy, 0.9) << pooling;
  }
  EXPECT_THAT(
      [&] {
        finetune(recipe("one", task({"model.pairs=separate", "task.text=first"})));
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("compares two texts")));
  EXPECT_THAT(
      [&] {
        finetune(recipe("short", task({"model.pairs=separate", "phase.1.tokens_per_pack=40"})));
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("raise tokens_per_pack")));
}

TEST_F(Finetune, LearnsScores) {
  const Recipe recipe = this->recipe(
      "scores", task({"task.kind=regression", "task.label=score", "phase.0.steps=150",
                      "phase.0.learning_rate=6e-3", "phase.1.steps=100", "phase.1.learning_rate=2e-3",
                      "model.dropout=0", "model.attention_dropout=0", "model.embedding_std=0.5"}));
  const TrainingOutcome outcome = finetune(recipe);
  ASSERT_TRUE(outcome.evaluation);
  EXPECT_GT(outcome.evaluation->sets[0].pearson, 0.7);
  EXPECT_EQ(outcome.evaluation->score, outcome.evaluation->sets[0].spearman);
}

// A late phase with evaluations before and after compactions: each is of the model of its step, and the best
// one has its size.
TEST_F(Finetune, RanksAdaptBetweenEvaluations) {
  const std::vector<std::string> settings =
      task({"phase.0.steps=10", "phase.0.objective=early", "phase.1.steps=40", "phase.1.objective=late",
            "phase.1.learning_rate={cores=3e-3, gates=5e-2, rest=2e-3}", "phase.1.schedule=constant",
            "phase.1.adaptation.threshold=0.15", "phase.1.adaptation.target_ratio=0.6",
            "phase.1.adaptation.compact_interval=5", "run.evaluation_interval=4", "run.checkpoint_interval=4",
            "run.keep_checkpoints=99"});
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
  const std::vector<std::string> settings =
      task({"run.evaluation_epochs=0.5", "phase.0.steps=20", "phase.1.steps=9"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  for (const std::int64_t stop : {3, 13, 22}) finetune(recipe("parts", settings), stop);
  const TrainingOutcome parts = finetune(recipe("parts", settings));
  EXPECT_EQ(parts.step, 29);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  EXPECT_EQ(whole.best_step, parts.best_step);
  expect_equal_checkpoints(whole.best, parts.best);
  const CheckpointReader best(whole.best);
  EXPECT_EQ(best.integer("/trainer", "step"), whole.best_step);
  // It is what an evaluation of the best says.
  const LoadedModel loaded(folder() / "whole", {}, {}, "cpu");
  EXPECT_EQ(loaded.trained.checkpoint, whole.best);
  InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
  const data::Task found = task_of(loaded.recipe.task);
  const auto examples = data::Examples::read(found, found.validation, loaded.tokenizer, true, 32);
  const auto scores =
      score(engine, found, examples, "dev", data::capacity_for(96, 32, 0, 400), loaded.model.config());
  EXPECT_EQ(scores->accuracy, whole.best_score);
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
      testing::ThrowsMessage<Error>(HasSubstr("holds another encoder")));
}

TEST_F(Finetune, TheProgramGoesAllTheWay) {
  const std::string run = (folder() / "run").string();
  const ProgramResult tuned = run_program(arguments("finetune", {}, {"run.evaluation_epochs=1"}));
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, HasSubstr("best             accuracy"));
  EXPECT_THAT(tuned.output, HasSubstr("train: 400 examples, 0 cut"));
  EXPECT_THAT(tuned.output, testing::ContainsRegex("classes: other \\([0-9]+\\), same \\([0-9]+\\)"));

  const std::string dev = (folder() / "dev.tsv").string();
  const ProgramResult json = run_program({"eval", run, "--json"});
  ASSERT_EQ(json.code, 0) << json.output;
  const auto scores = nlohmann::json::parse(json.output.substr(json.output.find('{')));
  EXPECT_EQ(scores["dev"]["examples"], 120);
  // metrics.jsonl has the best model's score, which is what eval scores.
  EXPECT_NEAR(scores["dev"]["accuracy"].get<double>(),
              CheckpointReader(folder() / "run/best.h5").number("/trainer", "best_score"), 1e-12);

  const fs::path tsv = folder() / "p.tsv", jsonl = folder() / "p.jsonl";
  ASSERT_EQ(run_program({"predict", run, "--input", dev, "--output", tsv.string()}).code, 0);
  ASSERT_EQ(run_program({"predict", run, "--input", dev, "--output", jsonl.string()}).code, 0);
  std::ifstream table(tsv), objects(jsonl), truth(dev);
  std::string line, wanted;
  std::getline(table, line);
  EXPECT_EQ(line, "line\tlabel\tother\tsame");
  std::getline(truth, wanted);
  int rows = 0, correct = 0;
  for (std::string object;
       std::getline(table, line) && std::getline(objects, object) && std::getline(truth, wanted); ++rows) {
    const auto prediction = nlohmann::json::parse(object);
    EXPECT_EQ(prediction["line"], rows + 2);
    const auto& shares = prediction["probabilities"];
    EXPECT_NEAR(shares["same"].get<double>() + shares["other"].get<double>(), 1, 1e-9);
    EXPECT_THAT(
        line, testing::StartsWith(fmt::format("{}\t{}\t", rows + 2, prediction["label"].get<std::string>())));
    correct +=
        wanted.find(fmt::format("\t{}\t", prediction["label"].get<std::string>())) != std::string::npos;
  }
  EXPECT_EQ(rows, 120);
  EXPECT_NEAR(correct / 120.0, scores["dev"]["accuracy"].get<double>(), 1e-9);

  // Files that are there stay as they are unless they are to be replaced, and never the input.
  const ProgramResult refused = run_program({"predict", run, "--input", dev, "--output", tsv.string()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--overwrite"));
  EXPECT_EQ(run_program({"predict", run, "--input", dev, "--output", tsv.string(), "--overwrite"}).code, 0);
  const ProgramResult itself = run_program({"predict", run, "--input", dev, "--output", dev, "--overwrite"});
  EXPECT_EQ(itself.code, 2);
  EXPECT_THAT(itself.output, HasSubstr("is the input"));

  // Two files of one name are told apart.
  fs::create_directories(folder() / "other");
  fs::copy(dev, folder() / "other/dev.tsv");
  const ProgramResult both =
      run_program({"eval", run, "--json", "--input", dev, (folder() / "other/dev.tsv").string()});
  EXPECT_EQ(nlohmann::json::parse(both.output.substr(both.output.find('{'))).size(), 2u) << both.output;
  EXPECT_EQ(run_program({"eval", run, "--data", corpus().string()}).code, 2);
  const ProgramResult moved = run_program({"eval", run, "--set", "task.validation=gone.tsv"});
  EXPECT_EQ(moved.code, 2);
  EXPECT_THAT(moved.output, HasSubstr("gone.tsv: no such file or folder (from the recipe of"));

  // Vectors: both formats hold the same, and equal texts have equal vectors wherever they stand.
  const fs::path h5 = folder() / "v.h5", vectors = folder() / "v.jsonl";
  ASSERT_EQ(run_program({"embed", run, "--input", dev, "--text", "first", "--output", h5.string()}).code, 0);
  ASSERT_EQ(run_program({"embed", run, "--input", dev, "--text", "first", "--output", vectors.string()}).code,
            0);
  const auto file = storage::hdf5::File::open(h5);
  ASSERT_EQ(file.info("vectors").shape, (std::vector<std::int64_t>{120, 24}));
  const std::vector<float> values = file.read<float>("vectors");
  std::ifstream stream(vectors), again(dev);
  std::getline(again, wanted);
  std::map<std::string, std::vector<double>> of_word;
  for (int i = 0; std::getline(stream, line); ++i) {
    const auto object = nlohmann::json::parse(line);
    const auto vector = object["vector"].get<std::vector<double>>();
    for (int j = 0; j < 24; ++j) ASSERT_EQ(static_cast<float>(vector[j]), values[i * 24 + j]);
    std::getline(again, wanted);
    std::stringstream fields(wanted);
    std::string word;
    for (int column = 0; column < 4; ++column) std::getline(fields, word, '\t');
    const auto [known, fresh] = of_word.emplace(word, vector);
    for (int j = 0; j < 24; ++j) ASSERT_NEAR(vector[j], known->second[j], 1e-5) << word;
  }
  EXPECT_EQ(of_word.size(), 4u);
  EXPECT_NE(of_word.begin()->second, std::next(of_word.begin())->second);
}

class CarelessFinetune : public Finetune {
 protected:
  void expect(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& parts) {
    TrainingFixture::expect(run_program(arguments), code, parts);
  }
};

TEST_F(CarelessFinetune, IsToldWhatIsMissingOrWrong) {
  expect({"finetune", write_recipe().string()}, 2, {"task.name is missing"});
  expect(arguments("finetune", {}, {"task.text=[]"}), 2, {"task.text is missing"});
  expect(arguments("finetune", {}, {"task.name=mnli", "task.train=[]"}), 2, {"task.folder is missing"});
  expect(arguments("finetune", {}, {"task.text=\"frist\""}), 1, {"no column 'frist'", "number, second"});
  expect(arguments("finetune", {}, {"task.label=number"}), 1, {"400 different", "label"});
  expect(arguments("finetune", {}, {"task.labels=[\"yes\", \"no\"]"}), 1,
         {"unknown label ('other', 'same') 400", "yes, no"});
  expect(arguments("finetune", {}, {"task.kind=regression"}), 1, {"score that is no number"});
  expect(arguments("finetune", {}, {"task.metric=pearson"}), 2, {"pearson", "classification"});
  expect(arguments("finetune", {}, {"run.evaluation_batches=3"}), 2, {"evaluation_batches"});
  expect(arguments("finetune", {"--from", (folder() / "none").string()}), 2, {"no such checkpoint"});
  expect(arguments("pretrain", {}, {"model.head=classification"}), 2, {"finetune"});
  EXPECT_FALSE(fs::exists(folder() / "run"));  // nothing of what failed
  const fs::path gone = folder() / "train.tsv";
  fs::remove(gone);
  expect(arguments("finetune", {}), 1, {"train.tsv", "No such file"});
}

// What a run was begun with may be gone when it is resumed, and is not exchanged for something else.
TEST_F(CarelessFinetune, AResumedRunKeepsItsOrigin) {
  const std::string pre = (folder() / "pre").string(), run = (folder() / "run").string();
  for (const char* name : {"pre", "another"}) {
    TrainingRun pretraining(recipe(name), {.output = silent()});
    pretraining.run();
  }
  const auto tune = [&](const std::string& from, std::vector<std::string> more) {
    more.insert(more.end(), {"--from", from, "--output", run});
    return arguments("finetune", more);
  };
  ASSERT_EQ(run_program(tune(pre, {"--stop-after", "3"})).code, 0);
  expect(tune((folder() / "another").string(), {"--resume", "auto"}), 2, {"was begun with", "pre"});
  // One resume without it does not make the run another's.
  ASSERT_EQ(
      run_program(arguments("finetune", {"--output", run, "--resume", "auto", "--stop-after", "4"})).code, 0);
  EXPECT_THAT(load_recipe(folder() / "run/recipe.toml", {}).run.initial_checkpoint, HasSubstr("pre"));
  ASSERT_EQ(run_program(tune(pre, {"--resume", "auto", "--stop-after", "5"})).code, 0);
  expect(tune("/", {"--resume", "auto"}), 2, {"was begun with", "pre"});
  // The same folder by other names, also where an earlier version had kept the name as it was typed.
  EXPECT_TRUE(fs::path(load_recipe(folder() / "run/recipe.toml", {}).run.initial_checkpoint).is_absolute());
  fs::create_directory_symlink(pre, folder() / "link");
  const auto resumes_with = [&](const fs::path& from) {  // and has nothing more to do
    expect(tune(from.string(), {"--resume", "auto", "--stop-after", "5"}), 2, {"has done 5 steps already"});
  };
  resumes_with(folder() / "link");
  resumes_with(fs::relative(pre));
  // What the run keeps of its own may be lost or damaged.
  fs::remove(folder() / "run/tokenizer.model");
  ASSERT_EQ(run_program(tune(pre, {"--resume", "auto", "--stop-after", "6"})).code, 0);
  EXPECT_TRUE(fs::exists(folder() / "run/tokenizer.model"));
  std::ofstream(folder() / "run/recipe.toml") << "[model";
  ASSERT_EQ(run_program(tune(pre, {"--resume", "auto", "--stop-after", "7"})).code, 0);
  EXPECT_THAT(load_recipe(folder() / "run/recipe.toml", {}).run.initial_checkpoint, HasSubstr("pre"));
  fs::remove_all(pre);
  ASSERT_EQ(run_program(arguments("finetune", {"--from", pre, "--resume", "auto", "--stop-after", "8"},
                                  {fmt::format("run.output=\"{}\"", run)}))
                .code,
            0);
  const ProgramResult resumed = run_program(tune(pre, {"--resume", "auto"}));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(load_recipe(folder() / "run/recipe.toml", {}).run.initial_checkpoint, HasSubstr("pre"));
}

// A label that is missing is no class, and spaces around one do not make another.
TEST_F(CarelessFinetune, EmptyLabelsAndSpacesAreNoClasses) {
  std::ofstream(folder() / "train.tsv", std::ios::app)
      << "1\tcount\t\ttotal\t0\n2\tcount\t same \tcount\t1\n";
  const ProgramResult tuned = run_program(arguments("finetune", {}));
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, HasSubstr("train: 401 examples"));
  EXPECT_THAT(tuned.output, HasSubstr("no label 1 (first in line 402)"));
  EXPECT_EQ(load_recipe(folder() / "run/recipe.toml", {}).task.labels,
            (std::vector<std::string>{"other", "same"}));
}

// A warm-up that the phase's passes never end.
TEST_F(CarelessFinetune, MoreWarmUpThanSteps) {
  std::string text = recipe_text();
  text.replace(text.find("steps = 7"), 9, "epochs = 0.01");
  EXPECT_THAT(
      [&] { finetune(parse_recipe(text, "test", task())); },
      testing::ThrowsMessage<UsageError>(HasSubstr("phase.0.warmup_steps = 3 is more than the 1 steps")));
}

TEST_F(CarelessFinetune, OfAPretrainedModelIsToldWhatToDo) {
  ASSERT_EQ(run_program({"pretrain", write_recipe().string()}).code, 0);
  const std::string run = (folder() / "run").string(), dev = (folder() / "dev.tsv").string();
  expect({"predict", run, "--input", dev, "--output", (folder() / "p.tsv").string()}, 2,
         {"fine-tune it first"});
  expect({"predict", run, "--input", dev, "--output", (folder() / "p.csv").string()}, 2, {".tsv or .jsonl"});
  // What cannot be written is found out before the work.
  std::ofstream(folder() / "file") << "x";
  expect({"embed", run, "--input", dev, "--text", "first", "--output", (folder() / "file/v.h5").string()}, 1,
         {"file: could not create the directory"});
  expect({"embed", run, "--input", dev, "--text", "a,b,c", "--output", (folder() / "v.h5").string()}, 2,
         {"one or two columns"});
  expect({"embed", run, "--input", dev, "--text", "first", "--length", "1000", "--output",
          (folder() / "v.h5").string()},
         2, {"max_positions"});
  // A pretrained model is scored on held-out shards.
  const ProgramResult scored = run_program({"eval", run, "--json"});
  ASSERT_EQ(scored.code, 0) << scored.output;
  const auto object = nlohmann::json::parse(scored.output.substr(scored.output.find('{')));
  EXPECT_NEAR(object["validation_loss"].get<double>(),
              last_line(folder() / "run/metrics.jsonl", "validation_loss")["validation_loss"].get<double>(),
              1e-9);
  expect({"eval", run, "--input", dev}, 2, {"--data"});
  expect({"eval", run, "--set", "data.validation=gone"}, 2,
         {"gone: no such", "from the recipe of", "--data"});
  const std::string readme = (folder() / "README.md").string(), vectors = (folder() / "r.h5").string();
  std::ofstream(readme) << "some text\n";
  expect({"embed", run, "--input", readme, "--text", "first", "--output", vectors}, 1,
         {"no column 'first'; it has text", "plain text"});
  EXPECT_EQ(run_program({"embed", run, "--input", readme, "--output", vectors}).code, 0);
  // A folder with held-out shards alone will do.
  fs::create_directories(folder() / "held-out");
  fs::copy(corpus() / "validation-00000.h5", folder() / "held-out");
  const ProgramResult alone = run_program({"eval", run, "--data", (folder() / "held-out").string()});
  EXPECT_EQ(alone.code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("unigram"));
  fs::remove(folder() / "run/tokenizer.model");
  expect({"eval", run}, 2, {"--tokenizer"});
}

}  // namespace
}  // namespace comera::test
