// Students beside their teachers as whole runs: what they learn, keep, resume and refuse.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "measurements/phase_costs.h"
#include "tests/training/distillation_fixture.h"
#include "training/distillation/trained_teacher.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/tasks/sequence_task.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(DistillationRun, MaskedLanguageStudentsResumeToTheBit) {
  make_teacher();
  const std::vector<std::string> settings = {from("teacher"),
                                             "distillation.logits=1",
                                             "distillation.hidden=0.5",
                                             "distillation.all_layers=true",
                                             "distillation.relations=0.5",
                                             "distillation.targets=true",
                                             "phase.1.objective=compress",
                                             "phase.1.learning_rate={cores=3e-3, gates=5e-2, other=2e-3}",
                                             "phase.1.adaptation.target_ratio=0.8"};
  const TrainingOutcome whole = pretrain(recipe("whole", settings));
  for (const std::int64_t stop : {3, 10}) pretrain(recipe("parts", settings), stop);
  const TrainingOutcome parts = pretrain(recipe("parts", settings));
  ASSERT_EQ(parts.step, whole.step);
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  // Evaluated by the masked pieces alone.
  ASSERT_TRUE(parts.evaluation);
  EXPECT_LT(parts.evaluation->loss, 10);
}

TEST_F(DistillationRun, APlanCountsTheTeacher) {
  make_teacher();
  const Recipe student = recipe("student", {from("teacher"), "distillation.logits=1", "distillation.hidden=1",
                                            "distillation.targets=true", "run.device='cpu'"});
  TrainingRun run(student, {.output = silent()});
  run.run();
  const data::Tokenizer tokenizer = load_tokenizer(student.data.tokenizer);
  const auto bytes = [&](const PhaseCosts& costs, MemoryKind kind) {
    return costs.phases.back().bytes[static_cast<int>(kind)];
  };
  const PhaseCosts with_teacher = measure_phases(run.recipe(), tokenizer.vocabulary(), 1, &tokenizer),
                   alone = measure_phases(run.recipe(), tokenizer.vocabulary());
  EXPECT_EQ(bytes(with_teacher, MemoryKind::parameters),
            run.engine().allocator().use(MemoryKind::parameters).current);
  EXPECT_EQ(bytes(with_teacher, MemoryKind::parameters) - bytes(alone, MemoryKind::parameters),
            with_teacher.teacher[static_cast<int>(MemoryKind::parameters)]);
  EXPECT_GT(with_teacher.teacher[static_cast<int>(MemoryKind::parameters)], 0u);
}

TEST_F(DistillationRun, VectorsBecomeThoseOfTheTeacher) {
  make_teacher();
  const std::vector<std::string> longer = {"phase.0.steps=80", "phase.0.learning_rate=6e-3",
                                           "phase.1.steps=40", "phase.1.learning_rate=2e-3",
                                           "run.log_interval=1"};
  finetune(recipe("student", vectors(longer)));
  std::ifstream lines(folder() / "student/metrics.jsonl");
  std::vector<double> losses;
  for (std::string line; std::getline(lines, line);)
    if (const auto json = nlohmann::json::parse(line); json.contains("loss")) losses.push_back(json["loss"]);
  ASSERT_GT(losses.size(), 100u);
  EXPECT_LT(losses.back(), 0.2 * losses.front());
  const Recipe used = load_recipe(folder() / "student/recipe.toml");
  ASSERT_TRUE(used.distillation);
  EXPECT_EQ(used.distillation->vectors, 1);
  EXPECT_EQ(used.distillation->similarities, 1);
  EXPECT_EQ(used.distillation->width, 0);
  EXPECT_FALSE(used.distillation->targets);
}

TEST_F(DistillationRun, VectorsOfANarrowerStudentResumeToTheBit) {
  make_teacher({"model.hidden=48", "model.ffn=48"});
  const std::vector<std::string> settings = vectors({"phase.0.micro_batches_per_step=2"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  for (const std::int64_t stop : {2, 7}) finetune(recipe("parts", settings), stop);
  const TrainingOutcome parts = finetune(recipe("parts", settings));
  expect_equal_checkpoints(whole.checkpoint, parts.checkpoint);
  EXPECT_EQ(load_recipe(folder() / "whole/recipe.toml").distillation->width, 48);
  // The projection belongs to training alone.
  const LoadedModel loaded(whole.checkpoint, {}, {}, "cpu");
  EXPECT_FALSE(loaded.model.parameters().find("distillation.projection.weight"));
  EXPECT_EQ(run_program(
                {"export", (folder() / "whole").string(), "--to", (folder() / "exported").string(), "--onnx"})
                .code,
            0);
}

TEST_F(DistillationRun, ClassesAreLearnedFromATunedTeacher) {
  finetune(recipe("teacher",
                  task({"tensorized.enabled=false", "phase.0.steps=60", "phase.0.learning_rate=3e-3"})));
  const std::vector<std::string> settings =
      task({from("teacher"), "distillation.logits=1", "phase.0.steps=4", "phase.1.steps=4"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  for (const std::int64_t stop : {2, 5}) finetune(recipe("parts", settings), stop);
  expect_equal_checkpoints(whole.checkpoint, finetune(recipe("parts", settings)).checkpoint);
  EXPECT_THAT([&] { finetune(recipe("apart", with(settings, {"model.pairs=separate"}))); },
              ThrowsMessage<UsageError>(HasSubstr("in another way than the student")));
  EXPECT_THAT(
      [&] { finetune(recipe("other", with(settings, {"task.labels=[\"same\", \"other\"]"}))); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("was trained with the labels"), HasSubstr("their order"))));
  // Before a student is made.
  std::ofstream table(folder() / "other.tsv");
  table << "first\tsecond\tlabel\n";
  for (int i = 0; i < 40; ++i)
    table << fmt::format("a {}\tb {}\t{}\n", i, i % 7, i % 2 == 0 ? "left" : "right");
  table.close();
  expect(run_program({"distill", (folder() / "teacher").string(), "--input",
                      (folder() / "other.tsv").string(), "--text", "first,second", "--output",
                      (folder() / "new/student").string(), "--set", "phase.0.length=16"}),
         2, {"was trained with the labels", "also has left, right"});
  EXPECT_FALSE(std::filesystem::exists(folder() / "new"));
  // The teacher's classes keep its order, which is not that of the alphabet.
  finetune(recipe("backwards", task({"tensorized.enabled=false", "phase.0.steps=4", "phase.1.steps=2",
                                     "task.labels=[\"same\", \"other\"]"})));
  std::vector<std::string> begun = {"distill",      (folder() / "backwards").string(),
                                    "--input",      (folder() / "train.tsv").string(),
                                    "--parameters", "9000",
                                    "--text",       "first,second",
                                    "--label",      "label",
                                    "--output",     (folder() / "begun").string(),
                                    "--set",        "phase.0.length=16",
                                    "--set",        "phase.0.epochs=1",
                                    "--resume",     "auto"};
  std::vector<std::string> first = begun;
  first.insert(first.end(), {"--stop-after", "1"});
  const ProgramResult stopped = run_program(first);
  ASSERT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_EQ(load_recipe(folder() / "begun/recipe.toml").task.labels,
            (std::vector<std::string>{"same", "other"}));
  const ProgramResult continued = run_program(begun);
  EXPECT_EQ(continued.code, 0) << continued.output;
  std::erase(begun, "--resume"), std::erase(begun, "auto");
  expect(run_program(begun), 2, {"already holds a run"});
}

// Answers from a file teach the same as the teacher itself.
TEST_F(DistillationRun, KeptVectorsTeachTheSame) {
  make_teacher({"model.hidden=48", "model.ffn=48"});
  const auto cached = [&](const std::vector<std::string>& more = {}) {
    return with(vectors({fmt::format("distillation.cache=\"{}\"", (folder() / "answers.h5").string()),
                         "phase.1.length=16", "run.log_interval=1"}),
                more);
  };
  const TrainingOutcome asked =
      finetune(recipe("asked", vectors({"phase.1.length=16", "run.log_interval=1"})));
  const TrainingOutcome whole = finetune(recipe("whole", cached()));
  const auto losses = [&](const char* run) { return losses_in(folder() / run); };
  const std::vector<double> own = losses("asked"), kept = losses("whole");
  ASSERT_EQ(own.size(), 10u);
  ASSERT_EQ(kept.size(), 10u);
  for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(kept[i], own[i], 1e-4 * own[i]) << i;
  const auto time = std::filesystem::last_write_time(folder() / "answers.h5");
  for (const std::int64_t stop : {2, 7}) finetune(recipe("parts", cached()), stop);
  expect_equal_checkpoints(whole.checkpoint, finetune(recipe("parts", cached())).checkpoint);
  EXPECT_EQ(std::filesystem::last_write_time(folder() / "answers.h5"), time);
  const auto refused = [&](const std::vector<std::string>& settings, const std::string& part) {
    EXPECT_THAT([&] { finetune(recipe("refused", settings)); }, ThrowsMessage<UsageError>(HasSubstr(part)));
  };
  refused(cached({"phase.0.length=12", "phase.1.length=12"}), "of another kind, length");
  refused(cached({"phase.1.length=32"}), "phases have 16 and 32");
  refused(cached({"distillation.hidden=1"}), "not for its tokens");
  refused(cached({"distillation.targets=true", "model.dropout=0.1"}), "pairs of texts that are compared");
  refused(cached({"precision.compute=fp64"}), "of another kind");
  refused(cached({"distillation.replaced_words=0.5"}), "a share of 0 of the words is replaced; set");
  std::filesystem::remove_all(folder() / "teacher");
  make_teacher({"model.hidden=48", "model.ffn=48", "phase.0.learning_rate=1e-3"});
  refused(cached(), "has the answers of another teacher");
  std::filesystem::resize_file(folder() / "answers.h5", 100);
  EXPECT_THROW(finetune(recipe("refused", cached())), Error);
  std::filesystem::copy_file(folder() / "whole/checkpoints" / whole.checkpoint.filename(),
                             folder() / "answers.h5", std::filesystem::copy_options::overwrite_existing);
  refused(cached(), "is no file of a teacher's answers");
}

// The teacher also answers texts with other words, at once or from a file.
TEST_F(DistillationRun, ReplacedWordsAreAnswered) {
  make_teacher();
  write_sentences();
  const auto settings = [&](double share, const std::vector<std::string>& more = {}) {
    return with(vectors({"phase.1.length=16", "run.log_interval=1",
                         fmt::format("distillation.replaced_words={}", share)}),
                more);
  };
  const auto kept_in = [&](const char* name) {
    return fmt::format("distillation.cache=\"{}\"", (folder() / name).string());
  };
  finetune(recipe("plain", settings(0, {kept_in("plain.h5")})));
  const TrainingOutcome whole = finetune(recipe("whole", settings(0.5, {kept_in("answers.h5")})));
  finetune(recipe("parts", settings(0.5, {kept_in("answers.h5")})), 3);
  expect_equal_checkpoints(whole.checkpoint,
                           finetune(recipe("parts", settings(0.5, {kept_in("answers.h5")}))).checkpoint);
  finetune(recipe("asked", settings(0.5)), 3);
  const auto refused = [&](const char* run, const std::vector<std::string>& changed,
                           const std::string& part) {
    EXPECT_THAT([&] { finetune(recipe(run, changed)); }, ThrowsMessage<UsageError>(HasSubstr(part)));
  };
  refused("asked", settings(0.4), "was trained with distillation.replaced_words = 0.5");
  refused("other", settings(0.4, {kept_in("answers.h5")}), "a share of 0.5 of the words is replaced; set");
  finetune(recipe("asked", settings(0.5)));
  const std::vector<double> kept = losses_in(folder() / "whole"), asked = losses_in(folder() / "asked");
  ASSERT_EQ(kept.size(), 10u);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_NEAR(kept[i], asked[i], 1e-4 * asked[i]) << i;
  EXPECT_NE(kept, losses_in(folder() / "plain"));
  EXPECT_EQ(KeptAnswers(folder() / "answers.h5").count(), 2 * KeptAnswers(folder() / "plain.h5").count());
}

TEST_F(DistillationRun, KeptLogitsTeachTheSame) {
  finetune(recipe("teacher",
                  task({"tensorized.enabled=false", "phase.0.steps=60", "phase.0.learning_rate=3e-3"})));
  EXPECT_THAT(
      [&] {
        finetune(
            recipe("apart", task({from("teacher"), "distillation.logits=1", "distillation.vectors=1",
                                  "model.pairs=separate", "distillation.cache=x.h5", "phase.1.length=16"})));
      },
      ThrowsMessage<UsageError>(HasSubstr("both texts of a pair have one")));
  for (const char* vectors : {"0", "0.5"}) {
    SCOPED_TRACE(vectors);
    const std::vector<std::string> settings =
        task({from("teacher"), "distillation.logits=1", fmt::format("distillation.vectors={}", vectors),
              "phase.0.steps=4", "phase.1.steps=4", "phase.1.length=16"});
    const std::string name = fmt::format("kept-{}", vectors);
    const TrainingOutcome asked = finetune(recipe("asked-" + name, settings));
    const TrainingOutcome kept = finetune(recipe(
        name, with(settings, {fmt::format("distillation.cache=\"{}.h5\"", (folder() / name).string())})));
    const CheckpointReader a(asked.checkpoint), b(kept.checkpoint);
    for (const CheckpointTensor& tensor : a.tensors()) {
      if (!tensor.path.starts_with("/model/")) continue;
      const std::vector<float> own = a.read_values<float>(tensor.path),
                               other = b.read_values<float>(tensor.path);
      for (std::size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], other[i], 2e-4) << tensor.path;
    }
  }
}

// Without scored pairs held-out texts say how like the teacher's a student's vectors are; a table whose texts
// are all learned has none.
TEST_F(DistillationRun, HeldOutTextsAreComparedWithTheTeacher) {
  make_teacher({"model.hidden=48", "model.ffn=48"});
  const auto scores = [&](const char* run) {
    std::ifstream lines(folder() / run / "metrics.jsonl");
    std::vector<double> all;
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("score")) all.push_back(json["score"]);
    return all;
  };
  std::ofstream texts(folder() / "texts.tsv");
  texts << "text\n";
  for (int i = 0; i < 300; ++i) texts << fmt::format("return the {} of value {}\n", i % 17 * 3, i);
  texts.close();
  const std::vector<std::string> settings =
      vectors({fmt::format("task.train=\"{}\"", (folder() / "texts.tsv").string()), "task.text=[\"text\"]",
               "task.held_out=0.3", "run.evaluation_interval=20", "phase.0.steps=80", "phase.1.steps=40",
               "phase.0.learning_rate=6e-3", "phase.1.learning_rate=2e-3", "phase.1.length=16"});
  const TrainingOutcome whole = finetune(recipe("whole", settings));
  ASSERT_TRUE(whole.evaluation);
  const std::vector<double> of_whole = scores("whole");
  ASSERT_GT(of_whole.size(), 4u);
  EXPECT_GT(of_whole.back(), 0.6);
  // The teacher itself orders all pairs as the teacher, from the start on, which is evaluated once: also if a
  // stop interrupts that. The start is no best model.
  const auto as_teacher = [&](const char* run, const std::filesystem::path& start) {
    return recipe(run, with(settings, {"tensorized.enabled=false", "model.hidden=48", "model.ffn=48",
                                       "phase.0.learning_rate=1e-9", "phase.1.learning_rate=1e-9",
                                       fmt::format("run.initial_checkpoint=\"{}\"", start.string())}));
  };
  const TrainingOutcome same = finetune(as_teacher("same", folder() / "teacher"));
  EXPECT_GT(scores("same").front(), 0.9999);
  EXPECT_GT(scores("same").back(), 0.9999);
  EXPECT_EQ(scores("same").size(), of_whole.size() + 1);
  EXPECT_GT(same.best_step, 0);
  TrainingOptions stopping{.finetune = true, .mode = RunMode::automatic, .output = silent()};
  bool asked = false;
  stopping.stop_requested = [&] { return asked; };
  {
    TrainingRun stopped(as_teacher("stopped", folder() / "teacher"), stopping);
    asked = true;
    EXPECT_EQ(stopped.run().step, 0);
  }
  expect_equal_checkpoints(same.checkpoint, finetune(as_teacher("stopped", folder() / "teacher")).checkpoint);
  EXPECT_EQ(scores("stopped"), scores("same"));
  // A head that an import lacked is not in a model of vectors.
  const TrainedModel teacher = find_trained_model(folder() / "teacher");
  const std::filesystem::path headless = folder() / "teacher/headless.h5";
  copy_checkpoint(teacher.checkpoint, headless, [](const std::string&, std::vector<float>&) { return true; },
                  {{"/import", {{"random_parameters", std::string("head.transform.weight, head.bias")}}}});
  const LoadedModel loaded(headless, {}, {}, "cpu"), of_vectors(same.checkpoint, {}, {}, "cpu");
  EXPECT_TRUE(has_random_head(*loaded.trained.reader, loaded.model.parameters()));
  EXPECT_FALSE(has_random_head(*loaded.trained.reader, of_vectors.model.parameters()));
  EXPECT_FALSE(has_random_head(*teacher.reader, loaded.model.parameters()));
  EXPECT_EQ(load_recipe(folder() / "whole/recipe.toml").task.metric, data::TaskMetric::spearman);
  for (const std::int64_t stop : {30, 90}) finetune(recipe("parts", settings), stop);
  expect_equal_checkpoints(whole.checkpoint, finetune(recipe("parts", settings)).checkpoint);
  EXPECT_EQ(scores("parts"), of_whole);
  finetune(recipe("kept", with(settings, {fmt::format("distillation.cache=\"{}\"",
                                                      (folder() / "answers.h5").string())})));
  ASSERT_EQ(scores("kept").size(), of_whole.size());
  EXPECT_NEAR(scores("kept").back(), of_whole.back(), 0.01);
  EXPECT_THAT([&] { finetune(recipe("old-texts", vectors({"task.held_out=0.3"}))); },
              ThrowsMessage<Error>(HasSubstr("no two new texts")));
  expect(run_program({"eval", (folder() / "whole").string()}), 2,
         {"compared it with its teacher", "--similarity FILE"});
}

TEST_F(DistillationRun, AnotherTeacherIsAnotherRun) {
  make_teacher();
  finetune(recipe("student", vectors()), 3);
  std::filesystem::remove_all(folder() / "teacher");
  make_teacher({"phase.0.learning_rate=1e-3"});
  EXPECT_THAT([&] { finetune(recipe("student", vectors())); },
              ThrowsMessage<UsageError>(HasSubstr("has learned from another teacher")));
}

TEST_F(DistillationRun, WhatCannotBeLearnedIsRefused) {
  make_teacher();
  const auto refused = [&](const std::vector<std::string>& settings, const std::string& part) {
    EXPECT_THAT([&] { finetune(recipe("refused", settings)); }, ThrowsMessage<UsageError>(HasSubstr(part)));
  };
  refused(vectors({"distillation.logits=1"}), "is not for model.head = \"contrastive\"");
  refused(vectors({"distillation.width=7"}), "remove it");
  refused(vectors({"distillation.teacher=nowhere"}), "no such checkpoint or run's folder");
  refused(task({from("teacher"), "distillation.logits=1"}), "their logits have nothing in common");
  refused(task({from("teacher")}), "has no weight above 0; give distillation.logits");
  refused(vectors({"distillation.vectors=0", "distillation.similarities=0"}), "has no weight above 0");
  refused(task({from("teacher"), "distillation.hidden=1"}), "would learn nothing and stay random");
  refused(task({from("teacher"), "distillation.logits=1", "task.class_weights=balanced"}),
          "remove one of them");
  refused(vectors({"distillation.targets=true", "task.symmetric=true"}), "set it to false");
  refused(vectors({"model.types=3"}), "segment types");
  refused(vectors({"distillation.replaced_words=0.3", "distillation.targets=true", "model.dropout=0.1"}),
          "not the targets of the data; set it to 0, or distillation.targets to false");
  refused(vectors({"distillation.replaced_words=1"}), "less than 1");
  refused(vectors({"distillation.relations=1", "distillation.relation_heads=5"}),
          "is not divisible by distillation.relation_heads = 5");
  refused(vectors({"distillation.hidden=1", "distillation.all_layers=true", "model.layers=9"}),
          "fewer than the student's 9");
  finetune(recipe("trains", task({"phase.0.steps=4", "phase.1.steps=4"})));
  refused(vectors({"distillation.relations=1",
                   "distillation.teacher=\"" + (folder() / "trains").string() + "\""}),
          "has attention of tensor trains");
}

// A checkpoint that was imported from sentence-transformers says how its vectors are made.
TEST_F(DistillationRun, TheTeachersPoolingIsItsOwn) {
  make_teacher();
  const std::filesystem::path checkpoint = find_trained_model(folder() / "teacher").checkpoint;
  std::vector<double> losses;
  for (const char* pooling : {"mean", "first", "weightedmean"}) {
    // In the run's folder, where the tokenizer is.
    const std::filesystem::path imported = folder() / "teacher" / fmt::format("{}.h5", pooling);
    copy_checkpoint(checkpoint, imported, [](const std::string&, std::vector<float>&) { return true; },
                    {{"/import", {{"pooling", std::string(pooling)}}}});
    const auto run = [&] {
      return finetune(recipe(
          pooling, vectors({fmt::format("distillation.teacher=\"{}\"", imported.string()), "phase.0.steps=1",
                            "phase.0.warmup_steps=0", "phase.1.steps=1", "run.log_interval=1"})));
    };
    if (std::string_view(pooling) == "weightedmean") {
      EXPECT_THAT(run, ThrowsMessage<UsageError>(HasSubstr("by weightedmean, which is not available")));
      continue;
    }
    run();
    std::ifstream lines(folder() / pooling / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("loss")) {
        losses.push_back(json["loss"]);
        break;
      }
  }
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NE(losses[0], losses[1]);
}

}  // namespace
}  // namespace comera::test
