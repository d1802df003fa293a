// `comera distill` as a program: the student it makes, and what it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/training/distillation_fixture.h"
#include "training/inference/trained_model.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DistillCommand : public DistillationRun {};

// Of a tuned teacher logits, and what its student of the same shapes can compare besides.
TEST_F(DistillCommand, TeachesATask) {
  finetune(recipe("teacher",
                  task({"tensorized.enabled=false", "phase.0.steps=20", "phase.0.learning_rate=3e-3"})));
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  const auto taught = [&](const char* name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "distill",           at("teacher"), "--input", at("train.tsv"),     "--text",
        "first,second",      "--label",     "label",   "--parameters",      "14000",
        "--output",          at(name),      "--set",   "phase.0.length=16", "--set",
        "phase.0.epochs=0.2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult made = run_program(arguments);
    EXPECT_EQ(made.code, 0) << made.output;
    return *load_recipe(folder() / name / "recipe.toml").distillation;
  };
  const DistillationSection all = taught("all", {}), cached = taught("cached", {"--cache"});
  EXPECT_EQ(all.logits, 1);
  EXPECT_EQ(all.hidden, 1);
  EXPECT_EQ(all.relations, 1);
  EXPECT_EQ(cached.logits, 1);
  EXPECT_EQ(cached.vectors, 1);
  EXPECT_EQ(cached.hidden + cached.relations, 0);
  // Classes are compared before a student is made, whoever names them.
  std::ofstream(folder() / "odd.tsv") << "first\tsecond\tlabel\ncount\ttotal\tx\nvalue\tindex\ty\n";
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"distill",      at("teacher"), "--input", at("odd.tsv"), "--text",
                                          "first,second", "--label",     "label",   "--output",    at("odd")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  expect(refused({}), 2, {"was trained with the labels other, same", "also has x, y"});
  expect(refused({"--set", "task.labels=[\"other\", \"same\"]"}), 2,
         {"odd.tsv has none of the labels other, same"});
  EXPECT_FALSE(std::filesystem::exists(folder() / "odd"));
}

TEST_F(DistillCommand, MakesAStudent) {
  make_teacher();
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  const std::string shapes = write_recipe().string();
  std::vector<std::string> own = {"distill",
                                  at("teacher"),
                                  "--input",
                                  at("train.tsv"),
                                  "--text",
                                  "first,second",
                                  "--shapes",
                                  shapes,
                                  "--cache",
                                  "--parameters",
                                  "14000",
                                  "--output",
                                  at("student"),
                                  "--set",
                                  "phase.0.length=16",
                                  "--set",
                                  "phase.0.epochs=0.2",
                                  "--set",
                                  "phase.0.tokens_per_micro_batch=256"};
  // A tenth of the table's rows, held out by their texts, has one text alone.
  expect(run_program([&] {
           std::vector<std::string> first = own;
           *(std::ranges::find(first, "--output") + 1) = at("same");
           return first;
         }()),
         1, {"no two new texts to compare", "set it to 0"});
  own.insert(own.end(), {"--set", "task.held_out=0"});
  // The folder of a dry run that was interrupted goes with the next one.
  std::filesystem::create_directories(folder() / "tmp/comera-dry-run-left/in it");
  setenv("TMPDIR", at("tmp").c_str(), 1);
  const ProgramResult dry = run_program([&] {
    std::vector<std::string> only = own;
    *(std::ranges::find(only, "--output") + 1) = at("dry");
    std::erase(only, "--cache");
    only.emplace_back("--dry-run");
    return only;
  }());
  unsetenv("TMPDIR");
  EXPECT_EQ(dry.code, 0) << dry.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder() / "tmp"));
  EXPECT_THAT(dry.output,
              AllOf(HasSubstr("by TT-SVD with an error"), HasSubstr("ms a step"), HasSubstr("making it "),
                    HasSubstr("MiB of memory, before the first step"), HasSubstr("nothing was written")));
  EXPECT_FALSE(std::filesystem::exists(folder() / "dry"));
  const ProgramResult made = run_program([&] {
    std::vector<std::string> first = own;
    first.insert(first.end(), {"--resume", "auto", "--stop-after", "1"});
    return first;
  }());
  ASSERT_EQ(made.code, 0) << made.output;
  EXPECT_THAT(made.output,
              AllOf(HasSubstr("student"), HasSubstr("by TT-SVD with an error"),
                    HasSubstr("as the teacher reads it"), HasSubstr("continue with: comera resume")));
  const std::filesystem::file_time_type time =
      std::filesystem::last_write_time(folder() / "student/student.h5");
  // A dry run takes what is there, and is refused where a run would be.
  std::vector<std::string> again = own;
  again.emplace_back("--dry-run");
  expect(run_program(again), 2, {"already holds a run"});
  again.insert(again.end(), {"--resume", "auto"});
  const ProgramResult planned = run_program(again);
  EXPECT_EQ(planned.code, 0) << planned.output;
  EXPECT_THAT(planned.output, AllOf(HasSubstr("ms a step"), testing::Not(HasSubstr("by TT-SVD")),
                                    testing::Not(HasSubstr("making it"))));
  *(std::ranges::find(again, "--parameters") + 1) = "13000";
  expect(run_program(again), 2,
         {at("student/student.h5") + ": was made for 14,000 parameters, not for 13,000"});
  own.insert(own.end(), {"--resume", "auto"});
  const ProgramResult whole = run_program(own);
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(std::filesystem::last_write_time(folder() / "student/student.h5"), time);
  EXPECT_THAT(whole.output, AllOf(HasSubstr("--similarity FILE"), HasSubstr("--tensor-trains")));
  EXPECT_THAT(run_program({"resume", at("student")}).output,
              HasSubstr("already finished; give it more with --set phase.0.epochs=... (now 0.2)"));
  EXPECT_THAT(made.output, HasSubstr("answers          of the teacher: "));
  EXPECT_TRUE(std::filesystem::exists(folder() / "student/answers.h5"));
  // A model like others, of vectors.
  EXPECT_EQ(run_program({"export", at("student"), "--to", at("exported")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder() / "exported/modules.json"));
  EXPECT_THAT(read_text(folder() / "exported/README.md"),
              AllOf(HasSubstr("by the answers of `teacher`"), HasSubstr("teacher = \"teacher\"")));
  ASSERT_EQ(run_program({"export", at("student/student.h5"), "--to", at("untrained")}).code, 0);
  EXPECT_THAT(read_text(folder() / "untrained/README.md"),
              AllOf(HasSubstr("None since the weights of a dense model were compacted"),
                    testing::Not(HasSubstr("Trained with"))));
  EXPECT_EQ(run_program(
                {"embed", at("student"), "--input", at("dev.tsv"), "--text", "first", "--output", at("v.h5")})
                .code,
            0);
  EXPECT_EQ(run_program({"finetune", "--from", at("student"), "--input", at("train.tsv"), "--text",
                         "first,second", "--label", "label", "--output", at("tuned"), "--set",
                         "phase.0.epochs=0.2", "--set", "phase.0.length=16"})
                .code,
            0);
  expect(run_program({"distill", at("teacher"), "--output", at("x")}), 2,
         {"nothing to learn from", "--input"});
  expect(
      run_program({"distill", at("teacher"), "--input", at("train.tsv"), "--text", "first", "--shapes",
                   shapes, "--set", "phase.0.length=16", "--parameters", "100", "--output", at("x")}),
      2,
      {"100 parameters are too few: a student of this teacher has at least", "with ranks of 1; give more"});
  expect(run_program({"distill", at("teacher"), "--input", at("train.tsv"), "--text", "first", "--set",
                      "phase.0.length=16", "--parameters", "100000000", "--output", at("x")}),
         2, {"--parameters 100000000: the teacher has", "give a smaller number"});
  expect(run_program({"distill", at("teacher"), "--input", at("train.tsv"), "--text", "first", "--shapes",
                      shapes, "--set", "phase.0.lenth=16", "--output", at("x")}),
         2, {"phase.0.lenth", "did you mean 'length'"});
  EXPECT_FALSE(std::filesystem::exists(folder() / "x"));
  std::filesystem::create_directory(folder() / "only");
  std::filesystem::copy_file(folder() / "student/student.h5", folder() / "only/student.h5");
  expect(run_program({"resume", at("only")}), 2, {"no checkpoints yet: repeat the distill command"});
  expect(run_program({"distill", at("nowhere"), "--input", at("train.tsv"), "--output", at("x")}), 2,
         {"there is no such teacher"});
  expect(run_program({"distill", at("teacher"), "--input", at("gone.tsv"), "--output", at("x")}), 2,
         {"gone.tsv"});
  expect(run_program({"distill", at("teacher"), "--input", at("train.tsv"), "--from", at("student"),
                      "--parameters", "9000", "--output", at("x")}),
         2, {"omit them, or --from"});
  // What was made in a folder is of one teacher and one size.
  std::vector<std::string> other = own;
  *(std::ranges::find(other, "--parameters") + 1) = "13000";
  expect(run_program(other), 2, {"student.h5", "was made for 14,000 parameters, not for 13,000"});
  std::vector<std::string> factors = own;
  const auto at_shapes = std::ranges::find(factors, "--shapes");
  factors.erase(at_shapes, at_shapes + 2);
  expect(run_program(factors), 2, {"student.h5", "was made by shapes of", "not by shapes of two factors"});
  const auto size = std::filesystem::file_size(folder() / "train.tsv");
  std::ofstream(folder() / "train.tsv", std::ios::app) << "400\tcount\tsame\ttotal\t1.5\n";
  expect(run_program(own), 2,
         {"student.h5", "begun by other texts than --input holds now", "choose another --output"});
  expect(run_program({"resume", at("student")}), 2,
         {"answers.h5", "other rows, columns or labels than the training files hold now"});
  std::filesystem::resize_file(folder() / "train.tsv", size);
  pretrain(recipe("second", {"tensorized.enabled=false", "run.seed=6"}));
  other = own;
  other[1] = at("second");
  expect(run_program(other), 2, {"student.h5", "is a student of another teacher"});
  // A size that cannot be had leaves the file that is there.
  const auto bytes = std::filesystem::file_size(folder() / "student/student.h5");
  EXPECT_EQ(run_program({"compact", "--from-dense", at("teacher"), "--recipe", shapes, "--parameters", "10",
                         "--overwrite", "--output", at("student/student.h5")})
                .code,
            2);
  EXPECT_EQ(std::filesystem::file_size(folder() / "student/student.h5"), bytes);
}

// All of a student's parameters are of use: no masked-language head, no positions that neither model reads.
TEST_F(DistillCommand, LeavesOutWhatVectorsDoNotNeed) {
  make_teacher({"model.max_positions=48", "model.embedding_size=12",  // it has read 32 positions
                "tensorized.embedding.column_modes=[2,2,3]", "tensorized.embedding.ranks=[6,7]"});
  write_sentences();
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  const auto distilled = [&](const char* output, int length, const std::vector<std::string>& more = {}) {
    return run_program(with({"distill", at("teacher"), "--input", at("train.tsv"), "--text", "first,second",
                             "--parameters", "9000", "--output", at(output), "--set", "task.held_out=0",
                             "--set", fmt::format("phase.0.length={}", length), "--stop-after", "1"},
                            more));
  };
  const auto positions = [&](const char* output, int length, const std::vector<std::string>& more = {}) {
    const ProgramResult made = distilled(output, length, more);
    EXPECT_EQ(made.code, 0) << made.output;
    EXPECT_THAT(made.output, HasSubstr("a second time with 50 % of its words of one piece replaced"));
    const CheckpointReader student(folder() / output / "student.h5");
    EXPECT_TRUE(std::ranges::none_of(student.tensors(), [](const CheckpointTensor& tensor) {
      return tensor.path.starts_with("/model/head.");
    }));
    return student.read_values<float>("/model/embedding.positions");
  };
  const CheckpointReader teacher(find_trained_model(folder() / "teacher").checkpoint);
  std::vector<float> all = teacher.read_values<float>("/model/embedding.positions");
  EXPECT_EQ(positions("all", 16, {"--set", "model.max_positions=48"}), all);
  EXPECT_EQ(positions("longer", 40), std::vector(all.begin(), all.begin() + 40 * 12));
  const std::string longer = "note: texts are read to 40 tokens, the teacher to 32";
  EXPECT_THAT(distilled("noted", 40).output, HasSubstr(longer));
  EXPECT_THAT(distilled("as-long", 32).output, testing::Not(HasSubstr("note: texts are read")));
  all.resize(32 * 12);
  EXPECT_EQ(positions("student", 16), all);
  EXPECT_EQ(run_program({"export", at("student/student.h5"), "--to", at("exported")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder() / "exported/modules.json"));
  // One that is there already, and too short.
  std::filesystem::create_directory(folder() / "again");
  std::filesystem::copy_file(folder() / "student/student.h5", folder() / "again/student.h5");
  expect(distilled("again", 40), 2,
         {"again/student.h5", "has 32 positions, and the phases read 40 tokens; choose another --output"});
  // A recipe with the teacher's positions, as runs of earlier versions have.
  std::string recipe = read_text(folder() / "student/recipe.toml");
  recipe.replace(recipe.find("max_positions = 32"), 18, "max_positions = 48");
  std::ofstream(folder() / "earlier.toml") << recipe;
  const std::vector<std::string> by_recipe = {
      "distill",       at("teacher"),  at("earlier.toml"), "--input",      at("train.tsv"),
      "--text",        "first,second", "--parameters",     "9000",         "--output",
      at("by-recipe"), "--set",        "task.held_out=0",  "--stop-after", "1"};
  const ProgramResult made = run_program(by_recipe);
  EXPECT_EQ(made.code, 0) << made.output;
}

// What a run reads is what it began with, also one of a version that replaced no words.
TEST_F(DistillCommand, KeepsWhatItReads) {
  make_teacher();
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  const auto distilled = [&](const std::vector<std::string>& more) {
    return run_program(
        with({"distill", at("teacher"), "--input", at("train.tsv"), "--text", "first,second", "--parameters",
              "14000", "--output", at("old"), "--set", "task.held_out=0", "--set", "phase.0.length=16"},
             more));
  };
  const ProgramResult begun = distilled(
      {"--set", "distillation.replaced_words=0", "--set", "phase.0.epochs=0.4", "--stop-after", "1"});
  ASSERT_EQ(begun.code, 0) << begun.output;
  const ProgramResult whole = distilled({"--resume", "auto"});
  EXPECT_EQ(whole.code, 0) << whole.output;
  const Recipe recipe = load_recipe(folder() / "old/recipe.toml");
  EXPECT_EQ(recipe.distillation->replaced_words, 0);
  EXPECT_EQ(recipe.phases[0].epochs, 0.4);
}

// A run without scored pairs is continued as it began, also one of an older version that evaluated on
// nothing.
TEST_F(DistillCommand, KeepsHowItEvaluates) {
  make_teacher();
  const auto at = [&](const char* name) { return (folder() / name).string(); };
  std::ofstream texts(folder() / "texts.txt");
  for (int i = 0; i < 300; ++i) texts << fmt::format("return the {} of value {}\n", i % 17 * 3, i);
  texts.close();
  const auto distilled = [&](const char* output, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"distill",      at("teacher"),
                                          "--input",      at("texts.txt"),
                                          "--parameters", "14000",
                                          "--output",     at(output),
                                          "--set",        "phase.0.length=16",
                                          "--set",        "phase.0.epochs=0.5",
                                          "--set",        "phase.0.tokens_per_micro_batch=256"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  const auto held_out = [&](const char* run) {
    return load_recipe(folder() / run / "recipe.toml").task.held_out;
  };
  ASSERT_EQ(distilled("old", {"--set", "task.held_out=0", "--stop-after", "2"}).code, 0);
  EXPECT_EQ(distilled("old", {"--resume", "auto"}).code, 0);
  EXPECT_EQ(held_out("old"), 0);
  const ProgramResult seeds = distilled("seeds", {"--seeds", "2", "--cache"});
  ASSERT_EQ(seeds.code, 0) << seeds.output;
  EXPECT_EQ(held_out("seeds/seed-2"), 0.1);
  EXPECT_THAT(seeds.output, AllOf(HasSubstr("held-out: Spearman"), HasSubstr("spearman x 100")));
  EXPECT_EQ(distilled("seeds", {"--seeds", "2", "--cache"}).code, 0);
  const ProgramResult given = distilled("given", {"--validation", at("texts.txt")});
  EXPECT_EQ(given.code, 0) << given.output;
  EXPECT_THAT(given.output, AllOf(HasSubstr("step 0: texts: Spearman"), HasSubstr("best             ")));
}

}  // namespace
}  // namespace comera::test
