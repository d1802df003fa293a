// Contrastive fine-tuning as a whole: what it learns, keeps, resumes and refuses.
#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Contrastive : public Finetune {
 protected:
  Contrastive() {
    write_pairs("train.tsv", 200, 1);
    write_pairs("dev.tsv", 40, 7);
    std::ofstream scored(folder() / "scored.tsv");
    scored << "sentence1\tsentence2\tscore\n";
    const std::vector<std::string> words = {"count", "total", "value", "index"};
    for (std::size_t i = 0; i < 16; ++i)
      scored << fmt::format("{0} of {2}\t{1} is {2}\t{3:.1f}\n", words[i / 4], words[i % 4], i % 3,
                            i / 4 == i % 4 ? 4.5 : 0.5);
  }

  // A question and its answer share a word; the rest says nothing.
  void write_pairs(const std::string& name, unsigned rows, unsigned seed) const {
    const std::vector<std::string> words = {"count", "total", "value", "index",
                                            "data",  "list",  "name",  "text"};
    std::ofstream stream(folder() / name);
    stream << "anchor\tpositive\tkind\n";
    for (unsigned i = 0; i < rows; ++i) {
      seed = seed * 1664525u + 1013904223u;
      stream << fmt::format("{} of {}\treturn {} {}\tyes\n", words[(seed >> 10) % 8], (seed >> 14) % 10,
                            words[(seed >> 10) % 8], (seed >> 20) % 50);
    }
  }

  std::vector<std::string> pairs(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"task.kind=contrastive",
                                    "task.text=[\"anchor\", \"positive\"]",
                                    "task.label=''",
                                    "model.pooling=mean",
                                    "run.evaluation_interval=0",
                                    "phase.0.steps=60",
                                    "phase.0.learning_rate=6e-3",
                                    "phase.1.steps=30",
                                    "phase.1.learning_rate=2e-3"};
    all.insert(all.end(), more.begin(), more.end());
    return task(all);
  }
};

TEST_F(Contrastive, LearnsWhatBelongsTogether) {
  for (const char* symmetric : {"false", "true"}) {
    const TrainingOutcome outcome = finetune(recipe(
        symmetric, pairs({fmt::format("task.symmetric={}", symmetric), "phase.0.steps=120",
                          fmt::format("task.similarity=\"{}\"", (folder() / "scored.tsv").string())})));
    ASSERT_TRUE(outcome.evaluation);
    const auto& sets = sets_of(*outcome.evaluation);
    ASSERT_EQ(sets.size(), 2u);
    // Of eight words, of which several documents have each.
    EXPECT_GT(sets[0].mrr, 0.3);
    EXPECT_GT(sets[0].recall_at_10, 0.8);
    EXPECT_EQ(outcome.evaluation->score, sets[0].mrr);
    EXPECT_GT(sets[1].spearman, 0.2);  // at most 0.77, since scores are tied
    EXPECT_TRUE(std::filesystem::exists(outcome.best));
    EXPECT_EQ(load_recipe(folder() / symmetric / "recipe.toml").model.head, HeadKind::contrastive);
  }
}

TEST_F(Contrastive, ResumesToTheBitWithMicroBatchesAndRanks) {
  const std::vector<std::string> settings = pairs(
      {"phase.0.steps=8", "phase.1.steps=8", "phase.0.micro_batches_per_step=2", "run.evaluation_interval=5",
       "phase.1.objective=compress", "phase.1.learning_rate={cores=3e-3, gates=5e-2, other=2e-3}",
       "phase.1.adaptation.threshold=0.15", "phase.1.adaptation.target_ratio=0.8",
       "phase.1.adaptation.compact_interval=3"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  for (const std::int64_t stop : {3, 10}) finetune(recipe("parts", settings), stop);
  const TrainingOutcome parts = finetune(recipe("parts", settings));
  ASSERT_EQ(parts.step, 16);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
}

// Vectors of another width than the encoder's: learned, kept, given out and taken over by another run.
TEST_F(Contrastive, VectorsBehindALayerAreLearned) {
  const std::vector<std::string> settings =
      pairs({"phase.0.steps=120", "model.vector_size=24", "model.vector_tanh=true"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  EXPECT_GT(sets_of(*whole.evaluation)[0].mrr, 0.3);
  finetune(recipe("parts", settings), 70);
  const TrainingOutcome parts = finetune(recipe("parts", settings));
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  const LoadedModel loaded(folder() / "whole", {}, {}, "cpu");
  EXPECT_EQ(InferenceEngine(loaded.model, InferenceEngine::Output::mean, loaded.processor).width(), 24);
  // From its weights nothing is lost; behind another pooling, or without tanh, they are refused.
  const auto further = [&](const char* name, std::vector<std::string> more) {
    more.insert(more.end(), {"phase.0.steps=3", "phase.1.steps=1", "phase.0.learning_rate=1e-9",
                             "phase.1.learning_rate=1e-9", "model.vector_size=24"});
    Recipe next = recipe(name, pairs(more));
    next.run.initial_checkpoint = (folder() / "whole").string();
    return finetune(next);
  };
  const TrainingOutcome after = further("further", {"model.vector_tanh=true"});
  const LoadedModel next(after.checkpoint, {}, {}, "cpu");
  const auto weights = [](const LoadedModel& of) {
    const ParameterStore& store = of.model.parameters();
    return read_tensor(store.value(*store.find("head.vectors.weight")));
  };
  const std::vector<double> before = weights(loaded), behind = weights(next);
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(behind[i], before[i], 1e-6);
  EXPECT_THAT(error_of([&] {
                further("other", {"model.vector_tanh=true", "model.pooling=first"});
              }),
              HasSubstr("another model.pooling"));
  EXPECT_THAT(error_of([&] { further("linear", {"model.vector_tanh=false"}); }),
              HasSubstr("model.vector_tanh"));
}

// Whatever the pooling of the recipe is; another head has no such layer, and gives none to the next run.
TEST_F(Contrastive, LayersKeepTheirPooling) {
  finetune(recipe("layered", pairs({"phase.0.steps=3", "phase.1.steps=1", "model.pooling=first",
                                    "model.vector_size=24"})));
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  const auto tune = [&](std::vector<std::string> command, const char* output) {
    command.insert(command.end(), {"--output", at(output), "--set", "phase.0.epochs=0.1", "--set",
                                   "phase.0.tokens_per_micro_batch=512", "--set", "phase.0.length=32"});
    const ProgramResult result = run_program(command);
    EXPECT_EQ(result.code, 0) << result.output;
    return load_recipe(folder() / output / "recipe.toml").model;
  };
  const std::vector<std::string> vectors = {"finetune", "vectors",         "--input", at("train.tsv"),
                                            "--text",   "anchor,positive", "--from"};
  const auto from = [&](const char* name) {
    std::vector<std::string> command = vectors;
    command.push_back(at(name));
    return command;
  };
  const ModelSection further = tune(from("layered"), "further");
  EXPECT_EQ(further.pooling, Pooling::first);
  EXPECT_EQ(further.vector_size, 24);
  const ModelSection scores = tune({"finetune", "--from", at("layered"), "--input", at("scored.tsv"),
                                    "--text", "sentence1,sentence2", "--label", "score"},
                                   "scores");
  EXPECT_EQ(scores.vector_size, 0);
  EXPECT_EQ(tune(from("scores"), "again").vector_size, 0);
}

// One text, whose two sequences differ by their dropout masks alone.
TEST_F(Contrastive, OneTextIsEvaluatedByScores) {
  const auto one = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"task.text=anchor", "phase.0.steps=3", "phase.1.steps=2"};
    all.insert(all.end(), more.begin(), more.end());
    return recipe("one", pairs(all));
  };
  EXPECT_THAT([&] { finetune(one({})); },
              testing::ThrowsMessage<UsageError>(HasSubstr("a text finds itself")));
  const TrainingOutcome outcome = finetune(
      one({"task.validation=[]", fmt::format("task.similarity=\"{}\"", (folder() / "scored.tsv").string())}));
  ASSERT_TRUE(outcome.evaluation);
  EXPECT_EQ(outcome.evaluation->score, sets_of(*outcome.evaluation)[0].spearman);
}

TEST_F(Contrastive, RefusesWhatContradictsItself) {
  const auto expect_refusal = [&](const std::vector<std::string>& more, const std::string& part) {
    EXPECT_THAT([&] { finetune(recipe("refused", pairs(more))); },
                testing::ThrowsMessage<UsageError>(HasSubstr(part)));
  };
  expect_refusal({"task.label=kind"}, "name the labels to learn from");
  expect_refusal({"task.labels=[\"yes\"]"}, "name that column");
  expect_refusal({"task.metric=spearman"}, "needs a table of scored pairs");
  expect_refusal({"task.metric=accuracy"}, "does not fit a contrastive task");
  expect_refusal({"task.text=anchor", "task.validation=[]", "model.dropout=0", "model.attention_dropout=0"},
                 "set it: --set model.dropout=0.1");
  expect_refusal({"phase.0.sequences_per_micro_batch=3"}, "each other's negatives");
  expect_refusal({"task.kind=classification", "task.label=kind", "task.similarity=\"x.tsv\""},
                 "task.similarity is for");
}

TEST_F(Contrastive, SeedsAreScoredByWhatTheyFind) {
  const auto command = [&] {
    return run_program(arguments(
        "finetune", {"--seeds", "2", "--output", (folder() / "seeds").string()},
        pairs({"phase.0.steps=3", "phase.1.steps=3", "phase.1.warmup_steps=0", "phase.0.warmup_steps=0",
               fmt::format("task.similarity=\"{}\"", (folder() / "scored.tsv").string())})));
  };
  const ProgramResult result = command();
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("dev, seed"), HasSubstr("recall_at_10, %"),
                                   HasSubstr("scored, seed"), HasSubstr("spearman x 100")));
  // Read back instead of trained again.
  const ProgramResult again = command();
  EXPECT_EQ(again.output.substr(again.output.find("dev, seed")),
            result.output.substr(result.output.find("dev, seed")));
}

// The program by itself: a table without a recipe of one's own, its vectors, its scores.
TEST_F(Contrastive, TheProgramTunesScoresAndEmbeds) {
  TrainingRun pretraining(recipe("pre", {"phase.0.warmup_steps=0", "phase.0.steps=2", "phase.1.steps=2"}),
                          {.output = silent()});
  pretraining.run();
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  const ProgramResult tuned =
      run_program({"finetune", "vectors", "--from", at("pre"), "--input", at("train.tsv"), "--label", "kind",
                   "--set", "task.labels=[\"yes\"]", "--output", at("run"), "--set", "phase.0.epochs=1",
                   "--set", "phase.0.tokens_per_micro_batch=512", "--set", "phase.0.length=32"});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, AllOf(HasSubstr("texts            anchor, positive, which belong together"),
                                  HasSubstr("held out by their texts"), HasSubstr("best             mrr")));
  const ProgramResult scored =
      run_program({"eval", at("run"), "--json", "--pairs", at("dev.tsv"), "--similarity", at("scored.tsv")});
  ASSERT_EQ(scored.code, 0) << scored.output;
  const auto json = nlohmann::json::parse(scored.output.substr(scored.output.find('{')));
  EXPECT_EQ(json["dev"]["examples"], 40);
  EXPECT_TRUE(json["scored"].contains("spearman")) << json;
  // The same of an encoder that was not tuned for vectors.
  const ProgramResult before =
      run_program({"eval", at("pre"), "--pairs", at("dev.tsv"), "--similarity", at("scored.tsv")});
  ASSERT_EQ(before.code, 0) << before.output;
  EXPECT_THAT(before.output, AllOf(HasSubstr("dev: MRR"), HasSubstr("scored: Spearman")));
  const ProgramResult vectors = run_program({"embed", at("run"), "--input", at("dev.tsv"), "--text", "anchor",
                                             "--normalize", "--output", at("v.jsonl")});
  ASSERT_EQ(vectors.code, 0) << vectors.output;
  std::ifstream lines(folder() / "v.jsonl");
  std::string line;
  std::getline(lines, line);
  const auto first = nlohmann::json::parse(line);
  double squares = 0;
  for (const double value : first["vector"]) squares += value * value;
  EXPECT_NEAR(squares, 1, 1e-5);
  // The column is found where that is plain.
  std::ofstream(folder() / "other.tsv") << "id\treview\n1\tcount of 3\n2\ttotal of 4\n";
  const ProgramResult other =
      run_program({"embed", at("run"), "--input", at("other.tsv"), "--output", at("o.h5")});
  ASSERT_EQ(other.code, 0) << other.output;
  EXPECT_THAT(other.output, HasSubstr("using column 'review' as the text"));
  std::ofstream(folder() / "pairs.tsv") << "id\tsentence1\tsentence2\n1\ta\tb\n";
  expect(run_program({"embed", at("run"), "--input", at("pairs.tsv"), "--output", at("p.h5")}), 2,
         {"each text of a pair separately", "--text sentence1"});
  std::ofstream(folder() / "bare.tsv") << "count of 3 or more\ntotal of 4 or less\n";
  expect(run_program({"embed", at("run"), "--input", at("bare.tsv"), "--output", at("p.h5")}), 2,
         {"its first line seems to be a text", "--set task.header=false"});
  // One that has learned from no table takes `text`, whatever else there is, and --set is meant as it says.
  std::ofstream(folder() / "titled.tsv") << "title\ttext\nx\tcount of 3\ny\ttotal of 4\n";
  const auto vectors_of = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"embed",    at("pre"),     "--input",    at("titled.tsv"),
                                    "--output", at("t.jsonl"), "--overwrite"};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult made = run_program(all);
    EXPECT_EQ(made.code, 0) << made.output;
    std::ifstream stream(folder() / "t.jsonl");
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_EQ(vectors_of({}), vectors_of({"--text", "text"}));
  expect(run_program({"embed", at("run"), "--input", at("other.tsv"), "--set", "task.text=[\"txet\"]",
                      "--output", at("p.h5")}),
         1, {"no column 'txet'"});
  std::ofstream(folder() / "rows.jsonl") << "{\"title\": \"a title of words\"}\n{\"text\": \"count of 3\"}\n";
  const ProgramResult rows_of_json =
      run_program({"embed", at("pre"), "--input", at("rows.jsonl"), "--output", at("j.h5")});
  EXPECT_THAT(rows_of_json.output, HasSubstr("wrote 1 vectors"));
  // A folder's passages are found by what they say, in the order of their cosines.
  std::filesystem::create_directory(folder() / "code");
  std::ofstream(folder() / "code/a.py") << "def total(values):\n    return sum(values)\n";
  std::ofstream(folder() / "code/b.py") << "def name(index):\n    return list[index]\n";
  const ProgramResult indexed =
      run_program({"embed", at("run"), "--input", at("code"), "--output", at("code.h5")});
  ASSERT_EQ(indexed.code, 0) << indexed.output;
  EXPECT_THAT(indexed.output, HasSubstr("2 passages of 2 files"));
  const ProgramResult found =
      run_program({"search", at("code.h5"), "def total(values):\n    return sum(values)", "--json"});
  ASSERT_EQ(found.code, 0) << found.output;
  const auto best = nlohmann::json::parse(found.output.substr(0, found.output.find('\n')));
  EXPECT_THAT(best["path"].get<std::string>(), testing::EndsWith("code/a.py"));
  EXPECT_NEAR(best["score"].get<double>(), 1, 1e-3);
  EXPECT_EQ(best["line"], 1);
  EXPECT_EQ(best["text"], "def total(values):");
  // Of a table, by its lines.
  ASSERT_EQ(run_program({"embed", at("run"), "--input", at("dev.tsv"), "--text", "positive", "--normalize",
                         "--output", at("dev.h5")})
                .code,
            0);
  const ProgramResult rows = run_program({"search", at("dev.h5"), "count of 3", "total", "--top", "2"});
  ASSERT_EQ(rows.code, 0) << rows.output;
  EXPECT_THAT(rows.output, AllOf(HasSubstr("dev.tsv:"), HasSubstr("return "), HasSubstr("\ntotal\n")));
  expect(run_program({"search", at("dev.h5"), " "}), 2, {"nothing to search for"});
  expect(run_program({"search", at("dev.h5"), "x", "--model", at("pre")}), 2, {"is another model"});
  expect(run_program({"search", at("train.tsv"), "x"}), 2, {"train.tsv", "comera embed MODEL"});
  std::filesystem::rename(folder() / "run", folder() / "moved");
  expect(run_program({"search", at("dev.h5"), "x"}), 2, {"no longer there", "--model"});
  EXPECT_EQ(run_program({"search", at("dev.h5"), "x", "--model", at("moved")}).code, 0);
  std::filesystem::rename(folder() / "moved", folder() / "run");
  expect(run_program({"predict", at("run"), "--input", at("dev.tsv"), "--output", at("p.tsv")}), 2,
         {"use `comera embed`"});
}

}  // namespace
}  // namespace comera::test
