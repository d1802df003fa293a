// Encoders that learn which tokens a generator has replaced, as whole runs.
#include <gmock/gmock.h>

#include "tests/training/finetune_fixture.h"
#include "training/inference/trained_model.h"
#include "training/tasks/masked_language_task.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class ReplacedTokensRun : public Finetune {
 protected:
  std::vector<std::string> settings(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"model.head=replaced_tokens", "generator.width=0.5",
                                    "generator.weight=20"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TrainingOutcome pretrain(const Recipe& recipe, std::int64_t stop_after = 0) const {
    TrainingRun run(recipe, {.mode = RunMode::automatic, .stop_after = stop_after, .output = silent()});
    return run.run();
  }
  std::string at(const std::string& name) const { return (folder() / name).string(); }
};

TEST_F(ReplacedTokensRun, ResumesToTheBit) {
  const std::vector<std::string> compressed =
      settings({"phase.1.objective=compress", "phase.1.adaptation.target_ratio=0.8",
                "phase.1.learning_rate={cores=3e-3, gates=5e-2, other=2e-3}", "model.positions=relative"});
  const TrainingOutcome whole = pretrain(recipe("whole", compressed));
  for (const std::int64_t stop : {3, 7, 10}) pretrain(recipe("parts", compressed), stop);
  const TrainingOutcome parts = pretrain(recipe("parts", compressed));
  ASSERT_EQ(parts.step, whole.step);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
}

TEST_F(ReplacedTokensRun, BothNetworksLearn) {
  const std::vector<std::string> longer =
      settings({"phase.0.steps=150", "phase.0.learning_rate=2e-3", "phase.1.steps=10", "model.dropout=0",
                "run.evaluation_interval=40"});
  const TrainingOutcome outcome = pretrain(recipe("run", longer));
  ASSERT_TRUE(outcome.evaluation);
  const auto scores = *outcome.evaluation->details_as<MaskedLanguageDetails>().detection;
  std::ifstream lines(folder() / "run/metrics.jsonl");
  std::vector<nlohmann::json> evaluations;
  for (std::string line; std::getline(lines, line);)
    if (auto json = nlohmann::json::parse(line); json.contains("generator_loss"))
      evaluations.push_back(std::move(json));
  ASSERT_GE(evaluations.size(), 4u);
  const nlohmann::json &first = evaluations.front(), &last = evaluations.back();
  EXPECT_LT(last["generator_loss"], first["generator_loss"]);
  EXPECT_DOUBLE_EQ(last["generator_loss"], scores.generator_loss);
  EXPECT_DOUBLE_EQ(last["replaced_found"], scores.found);
  // What is known without looking: how many tokens are replaced.
  const double share = scores.replaced,
               guessing = -share * std::log(share) - (1 - share) * std::log(1 - share);
  EXPECT_GT(share, 0.02);
  EXPECT_LT(share, 0.2);
  EXPECT_LT(scores.loss, guessing) << nlohmann::json(evaluations).dump();
  EXPECT_FALSE(last.contains("unigram_loss"));
  // The model that is used is the last one, and an evaluation of it is always the same.
  EXPECT_FALSE(std::filesystem::exists(folder() / "run/best.h5"));
  const ProgramResult once = run_program({"eval", at("run"), "--json"});
  ASSERT_EQ(once.code, 0) << once.output;
  EXPECT_EQ(run_program({"eval", at("run"), "--json"}).output, once.output);
  EXPECT_NEAR(nlohmann::json::parse(once.output)["generator_loss"], scores.generator_loss, 1e-6);
  EXPECT_THAT(run_program({"eval", at("run")}).output, HasSubstr("replaced tokens found"));
}

TEST_F(ReplacedTokensRun, TheDiscriminatorIsTheModel) {
  const TrainingOutcome outcome = pretrain(recipe("run", settings()));
  EXPECT_TRUE(LoadedModel(outcome.checkpoint, {}, {}, "cpu")
                  .model.parameters()
                  .find("generator.encoder.0.attention.query.weight"));
  const ProgramResult tuned = run_program(
      {"finetune", "--from", at("run"), "--input", at("train.tsv"), "--text", "first,second", "--label",
       "label", "--output", at("tuned"), "--set", "phase.0.epochs=0.2", "--set", "phase.0.length=16"});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  const LoadedModel loaded(find_trained_model(at("tuned")).checkpoint, {}, {}, "cpu");
  for (ParameterId id = 0; id < loaded.model.parameters().size(); ++id)
    EXPECT_THAT(loaded.model.parameters().info(id).name, Not(HasSubstr("generator")));
  const ProgramResult exported = run_program({"export", at("run"), "--to", at("exported"), "--onnx"});
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_TRUE(std::filesystem::exists(folder() / "exported/modules.json"));
  EXPECT_EQ(
      run_program({"embed", at("run"), "--input", at("dev.tsv"), "--text", "first", "--output", at("v.h5")})
          .code,
      0);
  const ProgramResult inspected = run_program({"inspect", at("run")});
  EXPECT_THAT(inspected.output, HasSubstr("generator, without tables"));
  expect(run_program({"fill", at("run"), "a <mask> b"}), 2, {"has learned to find replaced tokens"});
  expect(run_program({"predict", at("run"), "--input", at("dev.tsv"), "--output", at("p.tsv")}), 2,
         {"pretrained model without a task"});
  // Another run begins with its encoder, whatever its objective.
  EXPECT_EQ(pretrain(recipe("again", {fmt::format("run.initial_checkpoint=\"{}\"", at("run"))})).step, 12);
  EXPECT_EQ(
      pretrain(recipe("back", settings({fmt::format("run.initial_checkpoint=\"{}\"", at("again"))}))).step,
      12);
}

TEST_F(ReplacedTokensRun, WhatIsImpossibleIsRefused) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& part) {
    EXPECT_THAT([&] { pretrain(recipe("refused", settings(more))); },
                ThrowsMessage<UsageError>(HasSubstr(part)));
  };
  refused({"generator.width=0.3"}, "which is no width of a generator; choose a share");
  refused({"generator.width=1.5"}, "expected a number from 0 to 1");
  refused({"run.patience=2"}, "do not rank models");
  pretrain(recipe("begun", settings()), 3);
  EXPECT_THAT([&] { pretrain(recipe("begun", settings({"generator.width=0.25"}))); },
              ThrowsMessage<UsageError>(HasSubstr("generator.width is 0.5 in the checkpoint, 0.25 here")));
  refused({"generator.width=0"}, "generator.width");
  refused({"generator.weight=0"}, "generator.weight");
  refused({"distillation.teacher=x", "distillation.logits=1"}, "");
}

}  // namespace
}  // namespace comera::test
