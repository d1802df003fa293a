// Fine-tuning on questions whose answers are spans of a text.
#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// The answer is the word behind "def".
class Answers : public Finetune {
 protected:
  Answers() {
    write("train.json", 600, 1);
    write("dev.json", 40, 2);
  }

  // unanswerable: every third question asks for what its text has not.
  void write(const std::string& name, int texts, unsigned seed, bool unanswerable = false) const {
    const std::vector<std::string> words = {"count", "value", "index", "node", "total", "other"};
    json paragraphs = json::array();
    for (int i = 0; i < texts; ++i) {
      const auto draw = [&](unsigned below) {
        seed = seed * 1664525u + 1013904223u;
        return (seed >> 16) % below;
      };
      std::string context;
      const unsigned place = unanswerable && i % 3 == 0 ? 6 : draw(6);
      int start = 0;
      std::string answer;
      for (unsigned k = 0; k < 6; ++k) {
        if (k == place) {
          context += "def ";
          start = static_cast<int>(context.size());
          answer = words[draw(6)];
          context += answer + " ";
        } else {
          context += words[draw(6)] + " ";
        }
      }
      json answers = json::array();
      if (!answer.empty()) answers.push_back({{"text", answer}, {"answer_start", start}});
      json question = {{"id", std::to_string(i)}, {"question", "def"}, {"answers", answers}};
      if (unanswerable) question["is_impossible"] = answer.empty();
      paragraphs.push_back({{"context", context}, {"qas", json::array({question})}});
    }
    std::ofstream(folder() / name) << json{{"data", {{{"paragraphs", paragraphs}}}}};
  }

  std::vector<std::string> of_answers(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"task.name=answers",
                                    "task.kind=question_answering",
                                    fmt::format("task.train=\"{}\"", at("train.json")),
                                    fmt::format("task.validation=\"{}\"", at("dev.json")),
                                    "phase.0.length=32",
                                    "run.evaluation_interval=0",
                                    "run.checkpoint_interval=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string at(const std::string& name) const { return (folder() / name).string(); }
};

TEST_F(Answers, AreFoundByTheirSurroundings) {
  const TrainingOutcome outcome = finetune(
      recipe("answers", of_answers({"phase.0.steps=300", "phase.0.learning_rate=6e-3", "phase.1.steps=100",
                                    "phase.1.learning_rate=2e-3", "model.dropout=0",
                                    "model.attention_dropout=0", "model.embedding_std=0.5"})));
  ASSERT_TRUE(outcome.evaluation);
  const data::TaskScores& scores = sets_of(*outcome.evaluation).at(0);
  EXPECT_EQ(scores.examples, 40);
  EXPECT_GT(scores.exact_match, 0.5) << data::describe(scores);
  EXPECT_GE(scores.f1, scores.exact_match);
  EXPECT_EQ(outcome.evaluation->score, scores.f1);
  EXPECT_EQ(last_line(folder() / "answers/metrics.jsonl", "validation")["validation"]["dev"]["exact_match"],
            scores.exact_match);
}

// As in SQuAD 2.0: the file says that there are such, the run remembers it, and all commands know.
TEST_F(Answers, MayBeNone) {
  write("train2.json", 900, 3, true);
  write("dev2.json", 60, 4, true);
  TrainingRun pretraining(recipe("pre", {"phase.0.warmup_steps=0", "phase.0.steps=2", "phase.1.steps=2"}),
                          {.output = silent()});
  pretraining.run();
  const std::vector<std::string> settings = {
      "--set", "phase.0.steps=400",     "--set", "phase.0.learning_rate=6e-3", "--set", "phase.0.length=32",
      "--set", "model.dropout=0",       "--set", "model.attention_dropout=0",  "--set", "run.seed=3",
      "--set", "precision.compute=fp32"};
  std::vector<std::string> line = {"finetune",     "--from",        at("pre"),  "--input", at("train2.json"),
                                   "--validation", at("dev2.json"), "--output", at("run2")};
  line.insert(line.end(), settings.begin(), settings.end());
  const ProgramResult tuned = run_program(line);
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, AllOf(HasSubstr("600 with an answer in their text, 300 without"),
                                  HasSubstr("20 without: "), HasSubstr("best F1")));
  const auto eval = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "eval", at("run2"), "--input", at("dev2.json"), "--json", "--set", "precision.compute=fp32"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult scored = run_program(words);
    EXPECT_EQ(scored.code, 0) << scored.output;
    return json::parse(scored.output.substr(scored.output.find('{')))["dev2"];
  };
  const json scores = eval({});
  EXPECT_EQ(scores["unanswerable"], 20);
  EXPECT_GT(scores["recognised"], 0.8);
  EXPECT_GT(scores["answerable_exact_match"], 0.5);
  EXPECT_GE(scores["best_f1"], scores["f1"]);
  // No threshold is high enough: every question gets a span.
  EXPECT_EQ(eval({"--set", "task.no_answer_threshold=1000"})["recognised"], 0);
  ASSERT_EQ(run_program({"predict", at("run2"), "--input", at("dev2.json"), "--output", at("out2.json"),
                         "--set", "precision.compute=fp32"})
                .code,
            0);
  const json answers = json::parse(read_text(at("out2.json")));
  const auto none = [&](bool impossible) {
    std::int64_t count = 0;
    for (int i = 0; i < 60; ++i)
      count += (i % 3 == 0) == impossible && answers[std::to_string(i)] == json("") ? 1 : 0;
    return static_cast<double>(count);
  };
  EXPECT_EQ(none(true) / 20, scores["recognised"].get<double>());
  EXPECT_LT(none(false), 20);
  // A file whose questions all have an answer is one of them, too; it has no score of the others.
  const ProgramResult answerable = run_program({"eval", at("run2"), "--input", at("dev.json"), "--json"});
  ASSERT_EQ(answerable.code, 0) << answerable.output;
  EXPECT_FALSE(
      json::parse(answerable.output.substr(answerable.output.find('{')))["dev"].contains("recognised"));
  // A model that has learned only questions with answers says so.
  line = {"eval", at("run2"), "--input", at("dev2.json"), "--set", "task.unanswerable=false"};
  expect(run_program(line), 2, {"question 0 has no answer; give it one"});
  line.insert(line.end(), {"--set", "task.no_answer_threshold=1"});
  expect(run_program(line), 2, {"task.no_answer_threshold is for questions that may have no answer"});
}

TEST_F(Answers, ResumeToTheBit) {
  const std::vector<std::string> settings =
      of_answers({"run.evaluation_epochs=0.5", "phase.0.steps=11", "phase.1.steps=9"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  for (const std::int64_t stop : {3, 14}) finetune(recipe("parts", settings), stop);
  const TrainingOutcome parts = finetune(recipe("parts", settings));
  EXPECT_EQ(parts.step, 20);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
}

TEST_F(Answers, NeedNoMoreThanTheModelAndTheFile) {
  TrainingRun pretraining(recipe("pre", {"phase.0.warmup_steps=0", "phase.0.steps=2", "phase.1.steps=2"}),
                          {.output = silent()});
  pretraining.run();
  const ProgramResult tuned =
      run_program({"finetune", "--from", at("pre"), "--input", at("train.json"), "--output", at("run"),
                   "--set", "phase.0.epochs=1", "--set", "phase.0.tokens_per_micro_batch=256"});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output,
              AllOf(HasSubstr("train.json, 600 with an answer"), HasSubstr("10 % of the questions, held out"),
                    HasSubstr("newly initialised: head.spans"), HasSubstr("best             f1")));
  const ProgramResult scored = run_program({"eval", at("run"), "--input", at("dev.json"), "--json"});
  ASSERT_EQ(scored.code, 0) << scored.output;
  EXPECT_EQ(json::parse(scored.output.substr(scored.output.find('{')))["dev"]["examples"], 40);
  const auto predict = [&](const std::string& model, const std::string& output) {
    const ProgramResult result =
        run_program({"predict", at(model), "--input", at("dev.json"), "--output", at(output), "--length",
                     "16", "--set", "precision.compute=fp32"});
    EXPECT_EQ(result.code, 0) << result.output;
    return read_text(at(output));
  };
  const json answers = json::parse(predict("run", "out.json"));
  EXPECT_EQ(answers.size(), 40U);
  EXPECT_TRUE(answers["0"].is_string());
  EXPECT_THAT(predict("run", "out.jsonl"), HasSubstr("\"answer_start\":"));
  // The export is the same model.
  ASSERT_EQ(run_program({"export", at("run"), "--to", at("exported")}).code, 0);
  ASSERT_EQ(run_program({"import", at("exported"), "--output", at("again.h5")}).code, 0);
  EXPECT_EQ(json::parse(predict("again.h5", "again.json")), answers);
  // A table's name is none for answers, nor the other way round.
  expect(run_program({"predict", at("run"), "--input", at("dev.json"), "--output", at("out.tsv")}), 2,
         {"must end with .json or .jsonl"});
  expect(run_program({"finetune", "--from", at("pre"), "--input", at("train.json"), "--output", at("other"),
                      "--label", "x"}),
         2, {"--label is about a table's columns"});
}

}  // namespace
}  // namespace comera::test
