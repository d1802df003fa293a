// Fine-tuning on words with labels.
#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A name is the word behind "def"; of two words if "total" comes first.
class Tokens : public Finetune {
 protected:
  Tokens() {
    write("train.conll", 300, 1);
    write("dev.conll", 60, 2);
  }

  void write(const std::string& name, int sentences, unsigned seed) const {
    const std::vector<std::string> words = {"count", "value", "index", "node"};
    std::ofstream stream(folder() / name);
    for (int i = 0; i < sentences; ++i) {
      const auto draw = [&](unsigned below) {
        seed = seed * 1664525u + 1013904223u;
        return (seed >> 16) % below;
      };
      for (unsigned k = 0; k < 2 + draw(3); ++k) {
        if (draw(2) == 0) {
          stream << words[draw(4)] << " x O\n";
          continue;
        }
        const bool two = draw(2) == 0;
        stream << "def x O\n" << (two ? "total" : words[draw(4)]) << " x B-NAME\n";
        if (two) stream << words[draw(4)] << " x I-NAME\n";
      }
      stream << "return x O\n\n";
    }
  }

  std::vector<std::string> of_words(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"task.name=names",
                                    "task.kind=token_classification",
                                    fmt::format("task.train=\"{}\"", at("train.conll")),
                                    fmt::format("task.validation=\"{}\"", at("dev.conll")),
                                    "phase.0.length=32",
                                    "run.evaluation_interval=0",
                                    "run.checkpoint_interval=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string at(const std::string& name) const { return (folder() / name).string(); }
};

TEST_F(Tokens, LearnsEntitiesFromTheirSurroundings) {
  const TrainingOutcome outcome =
      finetune(recipe("names", of_words({"phase.0.steps=200", "phase.0.learning_rate=6e-3",
                                         "phase.1.steps=80", "phase.1.learning_rate=2e-3", "model.dropout=0",
                                         "model.attention_dropout=0", "model.embedding_std=0.5"})));
  ASSERT_TRUE(outcome.evaluation);
  const data::TaskScores& scores = sets_of(*outcome.evaluation).at(0);
  EXPECT_EQ(scores.examples, 60);
  EXPECT_GT(scores.words, 200);
  ASSERT_TRUE(scores.entities);
  EXPECT_GT(scores.entities->f1, 0.8) << data::describe(scores);
  EXPECT_GT(scores.accuracy, scores.majority + 0.1);
  EXPECT_EQ(outcome.evaluation->score, scores.entities->f1);
  const nlohmann::json line = last_line(folder() / "names/metrics.jsonl", "validation");
  EXPECT_EQ(line["validation"]["dev"]["f1"], scores.entities->f1);
  EXPECT_EQ(line["validation"]["dev"]["types"]["NAME"]["entities"], scores.entities->entities);
}

TEST_F(Tokens, ResumesToTheBit) {
  const std::vector<std::string> settings =
      of_words({"run.evaluation_epochs=0.5", "phase.0.steps=11", "phase.1.steps=9"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  for (const std::int64_t stop : {3, 14}) finetune(recipe("parts", settings), stop);
  const TrainingOutcome parts = finetune(recipe("parts", settings));
  EXPECT_EQ(parts.step, 20);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  EXPECT_EQ(whole.best_step, parts.best_step);
}

// Ranks adapt as in any run, and the head stays.
TEST_F(Tokens, RanksAdapt) {
  const TrainingOutcome outcome = finetune(recipe(
      "ranks",
      of_words({"phase.0.steps=10", "phase.0.objective=regularize", "phase.1.steps=40",
                "phase.1.objective=compress", "phase.1.learning_rate={cores=3e-3, gates=5e-2, other=2e-3}",
                "phase.1.schedule=constant", "phase.1.adaptation.threshold=0.15",
                "phase.1.adaptation.target_ratio=0.6", "phase.1.adaptation.compact_interval=5"})));
  ASSERT_TRUE(outcome.evaluation);
  const CheckpointReader before(at("ranks/checkpoints/step-00000010.h5")), after(outcome.checkpoint);
  EXPECT_LT(fs::file_size(after.path()), fs::file_size(before.path()));
}

// Tuning, scoring and predicting with nothing but the model and the file; from a pretrained model and its
// export.
TEST_F(Tokens, NeedNoMoreThanTheModelAndTheFile) {
  TrainingRun pretraining(recipe("pre", {"phase.0.warmup_steps=0", "phase.0.steps=2", "phase.1.steps=2"}),
                          {.output = silent()});
  pretraining.run();
  const ProgramResult tuned =
      run_program({"finetune", "--from", at("pre"), "--input", at("train.conll"), "--output", at("run"),
                   "--set", "phase.0.epochs=1", "--set", "phase.0.tokens_per_micro_batch=256"});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(
      tuned.output,
      AllOf(HasSubstr("train.conll, 300 with"), HasSubstr("words            column 1 of 3"),
            HasSubstr("labels           column 3, 3 classes"), HasSubstr("10 % of the sentences, held out"),
            HasSubstr("newly initialised: head.labels"), HasSubstr("best             f1")));
  const ProgramResult scored = run_program({"eval", at("run"), "--input", at("dev.conll")});
  ASSERT_EQ(scored.code, 0) << scored.output;
  EXPECT_THAT(scored.output, AllOf(HasSubstr("dev: F1 "), HasSubstr("60 sentences")));
  const ProgramResult predicted = run_program(
      {"predict", at("run"), "--input", at("dev.conll"), "--output", at("out.conll"), "--length", "8"});
  ASSERT_EQ(predicted.code, 0) << predicted.output;
  EXPECT_THAT(predicted.output, HasSubstr("longer than 8 tokens are read in"));
  EXPECT_THAT(read_text(at("out.conll")), HasSubstr("return\tx\tO\t"));
  // The export is the same model.
  ASSERT_EQ(run_program({"export", at("run"), "--to", at("exported")}).code, 0);
  const ProgramResult imported = run_program({"import", at("exported"), "--output", at("again.h5")});
  EXPECT_THAT(imported.output, HasSubstr("its classes: B-NAME, I-NAME, O"));
  const std::vector<std::string> exact = {"--set", "precision.compute=fp32"};
  for (const char* model : {"run", "again.h5"}) {
    std::vector<std::string> words = {"predict",       at(model),  "--input",
                                      at("dev.conll"), "--output", at(std::string(model) + ".tsv")};
    words.insert(words.end(), exact.begin(), exact.end());
    ASSERT_EQ(run_program(words).code, 0);
  }
  EXPECT_EQ(read_text(at("run.tsv")), read_text(at("again.h5.tsv")));
}

TEST_F(Tokens, RefuseWhatDoesNotFit) {
  const auto refusal = [&](const std::vector<std::string>& settings) -> std::string {
    try {
      finetune(recipe("refused", of_words(settings)));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({"phase.0.length=16"}), HasSubstr("give all phases one length"));
  EXPECT_THAT(refusal({"task.metric=spearman"}), HasSubstr("does not fit a token classification"));
  EXPECT_THAT(refusal({"task.class_weights=balanced"}), HasSubstr("is for classes"));
  EXPECT_THAT(refusal({"task.label=\"7\""}), HasSubstr("has 3 columns, but task.label is 7"));
  EXPECT_THAT(refusal({"task.label=\"2\""}), HasSubstr("have 1 different labels"));
}

}  // namespace
}  // namespace comera::test
