// The benchmark as the program runs it, on tables of words.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "data/tables/glue.h"
#include "reports/text/text_table.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"
#include "training/glue/glue_results.h"
#include "training/inference/trained_model.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class GlueCommand : public Finetune {
 protected:
  // A pretrained model, and the files of RTE and STS-B.
  GlueCommand() {
    TrainingRun(recipe("pretrained"), {.stop_after = 3, .output = silent()}).run();
    write("RTE", "index\tsentence1\tsentence2\tlabel\n", 60,
          [](int i) { return i % 3 != 0 ? "entailment" : "not_entailment"; });
    write("STS-B", "index\tsentence1\tsentence2\tscore\n", 60,
          [](int i) { return fmt::format("{}.5", i % 5); });
    fs::create_directories(folder() / "glue/CoLA");
    std::ofstream(folder() / "recipe.toml")
        << "[[phase]]\nname = \"task\"\nlength = 16\ntokens_per_micro_batch = 64\n"
           "epochs = 1\nlearning_rate = 1e-3\n[run]\noutput = \"x\"\n"
           "evaluation_epochs = 1\n";
  }

  void write(const std::string& task, const std::string& header, int rows,
             const std::function<std::string(int)>& answer) const {
    const fs::path of_task = folder() / "glue" / task;
    fs::create_directories(of_task);
    for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) {
      const bool test = std::string(name) == "test.tsv";
      std::ofstream file(of_task / name);
      file << (test ? header.substr(0, header.rfind('\t')) + "\n" : header);
      for (int i = 0; i < rows; ++i) {
        file << fmt::format("{}\tcount the {}\ttotal of {}", i, i % 7, i % 4);
        if (!test) file << "\t" << answer(i);
        file << "\n";
      }
    }
  }

  std::vector<std::string> arguments(const std::string& output, const std::vector<std::string>& more = {},
                                     const std::string& seeds = "2") const {
    std::vector<std::string> all = {"glue",
                                    "--from",
                                    (folder() / "pretrained").string(),
                                    "--data",
                                    (folder() / "glue").string(),
                                    "--output",
                                    (folder() / output).string(),
                                    "--recipe",
                                    (folder() / "recipe.toml").string(),
                                    "--seeds",
                                    seeds,
                                    "--small-epochs",
                                    "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  json results(const std::string& output) const {
    json all = json::parse(read_text(folder() / output / "glue.json"));
    for (json& task : all["tasks"]) task.erase("recipe");  // it has the run's folder
    return all;
  }
};

TEST_F(GlueCommand, PairsAreOfTasksThatHaveThem) {
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    std::ofstream file(folder() / "glue/CoLA" / name);
    for (int i = 0; i < 60; ++i) file << fmt::format("x\t{}\t\tcount the {}\n", i % 3 != 0 ? 1 : 0, i % 7);
  }
  const ProgramResult result = run_program(arguments("out", {"--set", "model.pairs=separate"}, "1"));
  ASSERT_EQ(result.code, 0) << result.output;
  const json all = json::parse(read_text(folder() / "out/glue.json"));
  ASSERT_EQ(all["tasks"].size(), 3U);
  for (const json& task : all["tasks"])
    EXPECT_THAT(task["recipe"].get<std::string>(),
                HasSubstr(task["task"] == "cola" ? "pairs = \"joint\"" : "pairs = \"separate\""));
}

TEST_F(GlueCommand, MakesTheTableOfWhatIsThere) {
  const ProgramResult result = run_program(arguments("out"));
  ASSERT_EQ(result.code, 0) << result.output;
  const json all = results("out");
  ASSERT_EQ(all["tasks"].size(), 2U);
  EXPECT_EQ(all["tasks"][0]["task"], "stsb");
  EXPECT_EQ(all["tasks"][0]["numbers"][1]["metric"], "spearman");
  const json& rte = all["tasks"][1];
  EXPECT_EQ(rte["seeds"].size(), 2U);
  EXPECT_EQ(rte["seeds"][1]["seed"], 2);
  EXPECT_EQ(rte["seeds"][0]["examples"], 60);
  EXPECT_THAT(all["left_out"]["cola"].get<std::string>(), HasSubstr("CoLA has no train.tsv"));
  EXPECT_EQ(all["left_out"].size(), 7U);
  const double stsb = (all["tasks"][0]["numbers"][0]["mean"].get<double>() +
                       all["tasks"][0]["numbers"][1]["mean"].get<double>()) /
                      2;
  EXPECT_NEAR(all["average"].get<double>(), (stsb + rte["numbers"][0]["mean"].get<double>()) / 2, 1e-12);
  EXPECT_THAT(result.output, HasSubstr("rte   accuracy"));
  EXPECT_EQ(read_text(folder() / "out/glue.txt").substr(0, 4), "task");

  // What the table says is what `eval` says of the model that was kept.
  const ProgramResult eval = run_program({"eval", (folder() / "out/runs/rte-2").string(), "--json"});
  const json scores = json::parse(eval.output.substr(eval.output.find('{')));
  EXPECT_NEAR(scores["dev"]["accuracy"].get<double>(), rte["seeds"][1]["numbers"][0].get<double>(), 1e-12);

  std::ifstream submission(folder() / "out/submission/RTE.tsv");
  std::string line;
  std::getline(submission, line);
  EXPECT_EQ(line, "index\tprediction");
  int rows = 0;
  for (; std::getline(submission, line); ++rows)
    EXPECT_THAT(line, testing::MatchesRegex(fmt::format("{}\t(not_)?entailment", rows)));
  EXPECT_EQ(rows, 60);
  EXPECT_TRUE(fs::exists(folder() / "out/submission/STS-B.tsv"));

  // Nothing is left to do, and other settings have a table of their own.
  const ProgramResult again = run_program(arguments("out"));
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, testing::Not(HasSubstr("seed 1 of 2")));
  EXPECT_EQ(results("out"), all);
  const ProgramResult other = run_program(arguments("out", {"--set", "phase.0.learning_rate=2e-3"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("is a run with other settings: phase.0.learning_rate"));
}

TEST_F(GlueCommand, OneTableIsOfOneSetOfData) {
  ASSERT_EQ(run_program(arguments("out", {"--tasks", "rte"}, "1")).code, 0);
  const fs::path predictions = folder() / "out/submission/RTE.tsv", rte = folder() / "glue/RTE";
  const std::string all = read_text(predictions);
  // Fewer rows to predict: they are predicted again.
  const std::string test = read_text(rte / "test.tsv");
  std::ofstream(rte / "test.tsv") << test.substr(0, test.rfind("\n57\t") + 1);
  ASSERT_EQ(run_program(arguments("out", {"--tasks", "rte"}, "1")).code, 0);
  EXPECT_LT(read_text(predictions).size(), all.size());
  // Other labels: the table was of others.
  write("RTE", "index\tsentence1\tsentence2\tlabel\n", 60,
        [](int i) { return i % 3 == 0 ? "entailment" : "not_entailment"; });
  expect(run_program(arguments("out", {"--tasks", "rte"}, "1")), 2,
         {"rte-1: is a run with other data than", "another --output"});
}

TEST_F(GlueCommand, GoesOnWhereItWasKilled) {
  ASSERT_EQ(run_program(arguments("whole")).code, 0);
  // Three times in the middle of a task: when a run has begun, and not yet its result.
  for (const char* run : {"stsb-1", "stsb-2", "rte-2"}) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<std::string> arguments_of = arguments("killed");
      std::vector<char*> argv{const_cast<char*>(COMERA_PROGRAM)};
      for (std::string& argument : arguments_of) argv.push_back(argument.data());
      argv.push_back(nullptr);
      std::freopen("/dev/null", "w", stdout);
      std::freopen("/dev/null", "w", stderr);
      execv(COMERA_PROGRAM, argv.data());
      _exit(127);
    }
    const fs::path metrics = folder() / "killed/runs" / run / "metrics.jsonl";
    for (int i = 0; i < 3000 && !fs::exists(metrics); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(fs::exists(metrics)) << run;
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
  }
  const ProgramResult last = run_program(arguments("killed"));
  ASSERT_EQ(last.code, 0) << last.output;
  EXPECT_EQ(results("killed"), results("whole"));
  for (const char* file : {"RTE.tsv", "STS-B.tsv"})
    EXPECT_EQ(read_text(folder() / "killed/submission" / file),
              read_text(folder() / "whole/submission" / file));
}

TEST_F(GlueCommand, SaysWhatIsWrong) {
  const ProgramResult unknown = run_program(arguments("out", {"--tasks", "mnlj"}));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("'mnlj' is not a GLUE task; choose from cola"));
  const ProgramResult nothing = run_program(arguments("out", {"--tasks", "mnli"}));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("MNLI has no train.tsv; give --data the folder"));
  ASSERT_EQ(run_program(arguments("out", {"--tasks", "rte"}, "1")).code, 0);
  std::ofstream(folder() / "out/runs/rte-1/result.json") << "{";
  const ProgramResult damaged = run_program(arguments("out", {"--tasks", "rte"}, "1"));
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.output, HasSubstr("result.json: is damaged; remove it"));
  fs::remove(folder() / "out/runs/rte-1/result.json");
  EXPECT_EQ(run_program(arguments("out", {"--tasks", "rte"}, "1")).code, 0);
}

TEST_F(GlueCommand, RefusesWhatItSaysItself) {
  for (const char* key : {"run.seed=7", "task.name=\"mrpc\"", "task.folder=\"x\"", "run.output=\"x\""})
    expect(run_program(arguments("out", {"--set", key})), 2, {"comera glue sets it for each task and seed"});
  EXPECT_FALSE(fs::exists(folder() / "out"));
}

TEST_F(GlueCommand, OneTableIsOfOneModel) {
  ASSERT_EQ(run_program(arguments("out", {"--tasks", "rte"}, "1")).code, 0);
  // The table keeps what the folder holds.
  ASSERT_EQ(run_program(arguments("out", {"--tasks", "stsb"}, "1")).code, 0);
  ASSERT_EQ(results("out")["tasks"].size(), 2U);
  EXPECT_EQ(results("out")["tasks"][1]["task"], "rte");
  // The pretraining has gone on.
  TrainingRun(recipe("longer"), {.stop_after = 6, .output = silent()}).run();
  fs::remove_all(folder() / "pretrained");
  fs::rename(folder() / "longer", folder() / "pretrained");
  expect(run_program(arguments("out", {}, "2")), 2,
         {"its runs started from another model than", "another --output"});
}

// Random weights of the same shapes, other ones for each seed; a table has one kind of runs.
TEST_F(GlueCommand, FromScratchItBeginsWithRandomWeights) {
  const std::vector<std::string> still = {"--tasks", "rte", "--set", "phase.0.learning_rate=1e-30"};
  std::vector<std::string> scratch = still;
  scratch.push_back("--scratch");
  ASSERT_EQ(run_program(arguments("whole", still)).code, 0);
  const ProgramResult result = run_program(arguments("scratch", scratch));
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_TRUE(json::parse(read_text(folder() / "scratch/glue.json"))["scratch"].get<bool>());
  const auto weights = [&](const fs::path& model) {
    return CheckpointReader(find_trained_model(folder() / model).checkpoint)
        .read_values<float>("/model/encoder.0.ffn.up.core.0");
  };
  EXPECT_EQ(weights("whole/runs/rte-1"), weights("pretrained"));
  EXPECT_NE(weights("scratch/runs/rte-1"), weights("pretrained"));
  EXPECT_NE(weights("scratch/runs/rte-1"), weights("scratch/runs/rte-2"));
  // The same command goes on.
  fs::remove(folder() / "scratch/runs/rte-2/result.json");
  EXPECT_EQ(run_program(arguments("scratch", scratch)).code, 0);
  const ProgramResult mixed = run_program(arguments("scratch", still));
  EXPECT_EQ(mixed.code, 2);
  EXPECT_THAT(mixed.output, HasSubstr("with --scratch unlike this call"));
}

TEST_F(GlueCommand, MnlisModelsAreThoseOfTheFolder) {
  const auto from_mnli = [&](const std::string& seeds) {
    return run_program(arguments("out", {"--tasks", "rte", "--from-mnli"}, seeds));
  };
  expect(from_mnli("1"), 2, {"--from-mnli: ", "out/runs/mnli-1 is not a finished run of MNLI"});
  EXPECT_FALSE(fs::exists(folder() / "out"));
  const fs::path mnli = folder() / "glue/MNLI";
  write("MNLI", "index\tsentence1\tsentence2\tgold_label\n", 60, [](int i) {
    return std::vector<std::string>{"entailment", "neutral",
                                    "contradiction"}[static_cast<std::size_t>(i % 3)];
  });
  fs::copy_file(mnli / "dev.tsv", mnli / "dev_matched.tsv");
  fs::copy_file(mnli / "dev.tsv", mnli / "dev_mismatched.tsv");
  ASSERT_EQ(run_program(arguments("out", {"--tasks", "mnli"}, "1")).code, 0);
  ASSERT_EQ(from_mnli("1").code, 0);
  EXPECT_THAT(read_text(folder() / "out/runs/rte-1/recipe.toml"), HasSubstr("runs/mnli-1/best.h5"));
  expect(from_mnli("2"), 2, {"out/runs/mnli-2 is not a finished run of MNLI"});
  // More seeds later, of both.
  const ProgramResult more = run_program(arguments("out", {"--tasks", "mnli,rte", "--from-mnli"}, "2"));
  EXPECT_EQ(more.code, 0) << more.output;
  EXPECT_THAT(read_text(folder() / "out/runs/rte-2/recipe.toml"), HasSubstr("runs/mnli-2/best.h5"));
}

TEST_F(GlueCommand, ATestSetThatCannotBeReadIsNamedAndTheRestGoesOn) {
  const fs::path test = folder() / "glue/STS-B/test.tsv";
  std::ofstream(test) << "index\tother\n0\tx\n";
  const ProgramResult result = run_program(arguments("out", {}, "1"));
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("note: no predictions STS-B.tsv: "));
  EXPECT_EQ(results("out")["tasks"].size(), 2U);
  // Predictions that are there already are not made again.
  const fs::path made = folder() / "out/submission/RTE.tsv";
  const auto when = fs::last_write_time(made);
  ASSERT_EQ(run_program(arguments("out", {}, "1")).code, 0);
  EXPECT_EQ(fs::last_write_time(made), when);
  ASSERT_EQ(run_program(arguments("out", {}, "2")).code, 0);
  EXPECT_NE(fs::last_write_time(made), when);
}

TEST_F(GlueCommand, RowsThatCannotBeReadHaveAPredictionTooInTheirPlace) {
  std::ofstream(folder() / "glue/RTE/test.tsv", std::ios::app) << "60\tonly one text\n61\tcount\ttotal\n";
  const ProgramResult result = run_program(arguments("out", {"--tasks", "rte"}, "1"));
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("1 rows cannot be read"));
  const std::string text = read_text(folder() / "out/submission/RTE.tsv");
  EXPECT_THAT(text, HasSubstr("\n60\tentailment\n61\t"));
}

TEST(GlueTable, MeansAreOfTasksAndWnliIsLeftOut) {
  Recipe recipe;
  recipe.phases.emplace_back();
  GlueTable table;
  const auto add = [&](const std::string& task, std::int64_t seed, std::vector<double> numbers) {
    table.add({.task = task,
               .seed = seed,
               .numbers = std::move(numbers),
               .majority = task == "mrpc" ? std::optional(0.684) : std::nullopt,
               .recipe = recipe});
  };
  add("mrpc", 1, {0.8, 0.7});
  add("mrpc", 2, {0.9, 0.6});
  add("rte", 1, {0.5});
  add("wnli", 1, {0.1});
  const Json all = table.json();
  EXPECT_NEAR(all["average"].get<double>(), (0.75 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(all["tasks"][0]["numbers"][0]["deviation"].get<double>(), std::sqrt(0.005), 1e-12);
  EXPECT_EQ(table.best_of("mrpc").seed, 1);
  EXPECT_THAT(table.text(), HasSubstr("mrpc  f1        85.0 ± 7.1"));
  EXPECT_THAT(table.text(), HasSubstr("      accuracy  65.0 ± 7.1           68.4\n"));
  EXPECT_THAT(table.text(), HasSubstr("\nmrpc, rte, wnli: adamw,"));
  EXPECT_THAT(table.text(), HasSubstr("average 62.5 over 2 tasks (WNLI is left out)"));
}

TEST(GlueTable, FitsATerminal) {
  Recipe recipe;
  recipe.phases.emplace_back();
  GlueTable table;
  EXPECT_TRUE(table.empty());
  for (const std::string& task : data::glue_tasks_by_size())
    for (const std::int64_t seed : {1, 2}) {
      const std::vector<double> numbers(data::glue_numbers(task).size(),
                                        0.5 + 0.1 * static_cast<double>(seed));
      table.add({.task = task, .seed = seed, .numbers = numbers, .majority = 0.5, .recipe = recipe});
    }
  EXPECT_FALSE(table.empty());
  std::istringstream lines(table.text());
  std::string line;
  // The last lines name all tasks with their settings.
  while (std::getline(lines, line) && !line.starts_with("average"))
    EXPECT_LE(columns_of(line), terminal_columns) << line;
}

TEST(Glue, TasksHaveSeveralSpellings) {
  for (const char* name : {"SST-2", "sst2", "SST2", "sst-2", "Sst_2"})
    EXPECT_EQ(data::glue_task_named(name), "sst2");
  EXPECT_EQ(data::glue_task_named("STS-B"), "stsb");
  EXPECT_EQ(data::glue_task_named("RTE"), "rte");
  EXPECT_EQ(data::glue_task_named("CoLA"), "cola");
  EXPECT_EQ(data::glue_task_named("snli"), "snli");
}

TEST_F(GlueCommand, TasksWithoutFilesAreNamed) {
  const ProgramResult result = run_program(arguments("out", {"--tasks", "QNLI"}, "1"));
  expect(result, 2, {"QNLI has no train.tsv"});
  const std::ofstream test(folder() / "glue/RTE/test.tsv", std::ios::app);
  EXPECT_EQ(run_program(arguments("out", {"--tasks", "RTE"}, "1")).code, 0);
}

TEST(Glue, TestFilesHaveTheServersNames) {
  const TemporaryFolder data;
  for (const char* file :
       {"MNLI/test_matched.tsv", "MNLI/test_mismatched.tsv", "AX/diagnostic.tsv", "CoLA/test.tsv"})
    data.write(file, "x");
  std::vector<std::string> names;
  for (const auto& test : data::glue_tests("mnli", data.path())) names.push_back(test.submission);
  EXPECT_EQ(names, (std::vector<std::string>{"MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"}));
  const auto cola = data::glue_tests("cola", data.path());
  ASSERT_EQ(cola.size(), 1U);
  EXPECT_TRUE(cola[0].task.header);  // its training file has none
  EXPECT_EQ(cola[0].task.text, std::vector<std::string>{"sentence"});
  EXPECT_TRUE(data::glue_tests("rte", data.path()).empty());
}

}  // namespace
}  // namespace comera::test
