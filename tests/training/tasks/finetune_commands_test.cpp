// Fine-tuning, evaluation, predictions and vectors by the program, and what it says about mistakes.
#include <gmock/gmock.h>

#include <map>

#include "checkpoints/checkpoint_file.h"
#include "storage/hdf5.h"
#include "tests/training/finetune_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST_F(Finetune, TheProgramGoesAllTheWay) {
  const std::string run = (folder() / "run").string();
  const ProgramResult tuned = run_program(arguments("finetune", {}, {"run.evaluation_epochs=1"}));
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, HasSubstr("best             accuracy"));
  EXPECT_THAT(tuned.output, HasSubstr("train: 400 examples, 0 truncated"));
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

TEST_F(Finetune, APairOfTextsThatAreEncodedApartHasNoVector) {
  const ProgramResult tuned =
      run_program(arguments("finetune", {}, {"model.pairs=separate", "phase.0.steps=5", "phase.1.steps=5"}));
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  const std::string run = (folder() / "run").string(), dev = (folder() / "dev.tsv").string();
  const ProgramResult pair =
      run_program({"embed", run, "--input", dev, "--output", (folder() / "v.h5").string()});
  EXPECT_EQ(pair.code, 2);
  EXPECT_THAT(pair.output, HasSubstr("encodes each text of a pair separately"));
  EXPECT_THAT(pair.output, HasSubstr("--text first"));
  EXPECT_EQ(
      run_program({"embed", run, "--input", dev, "--text", "first", "--output", (folder() / "v.h5").string()})
          .code,
      0);
}

// A recipe for pretraining can be fine-tuned too: its masks are said to have no effect, and have none.
TEST_F(Finetune, MasksOfARecipeForPretrainingChangeNothing) {
  const fs::path run = folder() / "run";
  const auto losses = [&](std::vector<std::string> settings, const std::string& said) {
    fs::remove_all(run);
    settings.emplace_back("run.log_interval=1");
    const ProgramResult tuned = run_program(arguments("finetune", {}, settings));
    EXPECT_EQ(tuned.code, 0) << tuned.output;
    EXPECT_THAT(tuned.output, HasSubstr(said));
    std::vector<double> values;
    std::ifstream stream(run / "metrics.jsonl");
    for (std::string line; std::getline(stream, line);)
      if (const auto metrics = nlohmann::json::parse(line); metrics.contains("loss"))
        values.push_back(metrics["loss"]);
    return values;
  };
  const std::vector<double> plain = losses({}, "best"),
                            masked =
                                losses({"phase.0.mask_probability=0.3", "phase.1.final_mask_probability=0.1"},
                                       "note: phase.0.mask_probability is for pretraining and has no effect");
  EXPECT_GT(plain.size(), 10u);
  EXPECT_EQ(plain, masked);
}

class InvalidFinetuneInput : public Finetune {
 protected:
  void expect(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& parts) {
    TrainingFixture::expect(run_program(arguments), code, parts);
  }
};

TEST_F(InvalidFinetuneInput, IsToldWhatIsMissingOrWrong) {
  expect({"finetune", write_recipe().string()}, 2, {"task.name is missing"});
  expect(arguments("finetune", {}, {"task.text=[]"}), 2, {"task.text is missing"});
  expect(arguments("finetune", {}, {"task.name=mnli", "task.train=[]"}), 2, {"task.folder is missing"});
  expect(arguments("finetune", {}, {"task.validation=\"\""}), 2,
         {"task.validation has an empty file name; name a table, or remove it"});
  expect(arguments("finetune", {}, {"task.name=mnly", "task.folder=glue"}), 2,
         {"task.name = \"mnly\" is not a GLUE task; did you mean 'mnli'?"});
  expect(arguments("finetune", {}, {"task.text=\"frist\""}), 1, {"no column 'frist'", "number, second"});
  expect(arguments("finetune", {}, {"task.label=number"}), 1, {"400 different", "label"});
  expect(arguments("finetune", {}, {"task.labels=[\"yes\", \"no\"]"}), 1,
         {"unknown label ('other', 'same'): 400", "yes, no"});
  expect(arguments("finetune", {}, {"task.kind=regression"}), 1, {"score is not a number"});
  expect(arguments("finetune", {}, {"task.metric=pearson"}), 2, {"pearson", "classification"});
  expect(arguments("finetune", {}, {"run.evaluation_batches=3"}), 2, {"evaluation_batches"});
  expect(arguments("finetune", {"--from", (folder() / "none").string()}), 2, {"no such checkpoint"});
  expect(arguments("pretrain", {}, {"model.head=classification"}), 2, {"finetune"});
  EXPECT_FALSE(fs::exists(folder() / "run"));  // nothing of what failed
  const fs::path gone = folder() / "train.tsv";
  fs::remove(gone);
  expect(arguments("finetune", {}), 2, {"train.tsv: no such file"});
}

// What a run was begun with may be gone when it is resumed, and is not exchanged for something else.
TEST_F(InvalidFinetuneInput, AResumedRunKeepsItsOrigin) {
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
  expect(tune((folder() / "another").string(), {"--resume", "auto"}), 2, {"was started from", "pre"});
  // One resume without it does not make the run another's.
  ASSERT_EQ(
      run_program(arguments("finetune", {"--output", run, "--resume", "auto", "--stop-after", "4"})).code, 0);
  EXPECT_THAT(load_recipe(folder() / "run/recipe.toml", {}).run.initial_checkpoint, HasSubstr("pre"));
  ASSERT_EQ(run_program(tune(pre, {"--resume", "auto", "--stop-after", "5"})).code, 0);
  expect(tune("/", {"--resume", "auto"}), 2, {"was started from", "pre"});
  // The same folder by other names, also where an earlier version had kept the name as it was typed.
  EXPECT_TRUE(fs::path(load_recipe(folder() / "run/recipe.toml", {}).run.initial_checkpoint).is_absolute());
  fs::create_directory_symlink(pre, folder() / "link");
  const auto resumes_with = [&](const fs::path& from) {  // and has nothing more to do
    expect(tune(from.string(), {"--resume", "auto", "--stop-after", "5"}), 2, {"has already done 5 steps"});
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
TEST_F(InvalidFinetuneInput, EmptyLabelsAndSpacesAreNoClasses) {
  std::ofstream(folder() / "train.tsv", std::ios::app)
      << "1\tcount\t\ttotal\t0\n2\tcount\t same \tcount\t1\n";
  const ProgramResult tuned = run_program(arguments("finetune", {}));
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, HasSubstr("train: 401 examples"));
  EXPECT_THAT(tuned.output, HasSubstr("no label: 1 (first in line 402)"));
  EXPECT_EQ(load_recipe(folder() / "run/recipe.toml", {}).task.labels,
            (std::vector<std::string>{"other", "same"}));
}

// A warm-up that the phase's passes never end.
TEST_F(InvalidFinetuneInput, MoreWarmUpThanSteps) {
  std::string text = recipe_text();
  text.replace(text.find("steps = 7"), 9, "epochs = 0.01");
  EXPECT_THAT(
      [&] { finetune(parse_recipe(text, "test", task())); },
      testing::ThrowsMessage<UsageError>(HasSubstr("phase.0.warmup_steps = 3 is more than the 1 steps")));
}

TEST_F(InvalidFinetuneInput, OfAPretrainedModelIsToldWhatToDo) {
  ASSERT_EQ(run_program({"pretrain", write_recipe().string()}).code, 0);
  const std::string run = (folder() / "run").string(), dev = (folder() / "dev.tsv").string();
  expect({"predict", run, "--input", dev, "--output", (folder() / "p.tsv").string()}, 2,
         {"fine-tune it first"});
  expect({"predict", run, "--input", dev, "--output", (folder() / "p.xls").string()}, 2,
         {".tsv, .csv, .jsonl"});
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
              1e-8);
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
  EXPECT_EQ(run_program({"eval", run}).code, 0) << "a checkpoint carries its tokenizer";
}

}  // namespace
}  // namespace comera::test
