// `comera report`: what becomes of real runs, whole and broken.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

class ReportCommand : public Finetune {
 protected:
  std::string in(const std::string& name) const { return (folder() / name).string(); }
  void train(const std::string& name, const std::vector<std::string>& overrides = {}) const {
    TrainingRun run(recipe(name, overrides), {.output = silent()});
    run.run();
  }
  Json data(const std::string& file) const {
    const std::string page = read_text(in(file)), begin = "type=\"application/json\">";
    const std::size_t at = page.find(begin) + begin.size();
    return Json::parse(page.substr(at, page.find("</script>", at) - at));
  }
};

TEST_F(ReportCommand, ShowsRunsBesideOneAnother) {
  train("first");
  train("second", {"run.seed=5"});
  ASSERT_EQ(run_program(arguments("finetune", {"--from", in("first"), "--output", in("task")})).code, 0);
  const ProgramResult result =
      run_program({"report", in("first"), in("second"), in("task"), "--output", in("r.html"), "--fill",
                   "def [MASK](count):", "--examples", "2", "--tensorboard", in("events")});
  ASSERT_EQ(result.code, 0) << result.output;
  const Json page = data("r.html");
  ASSERT_EQ(page["runs"].size(), 3u);
  for (int i : {0, 1}) {
    const Json& run = page["runs"][i];
    EXPECT_EQ(run["notes"], Json::array()) << run["notes"];
    EXPECT_EQ(run["headline"][0], "held-out loss, nats");
    EXPECT_EQ(run["fillings"].size(), 3u);
    EXPECT_EQ(run["fillings"][0]["before"], "def ");
    EXPECT_EQ(run["fillings"][0]["truth"], nullptr);
    EXPECT_NE(run["fillings"][1]["truth"], nullptr);
    EXPECT_EQ(run["fillings"][1]["guesses"].size(), 3u);
    EXPECT_GT(run["layers"].size(), 10u);
  }
  EXPECT_THAT(page["runs"][2]["headline"][0].get<std::string>(), HasSubstr("accuracy"));
  bool seed = false;
  for (const Json& row : page["differences"]) seed = seed || row[0] == "run.seed";
  EXPECT_TRUE(seed) << page["differences"];
  EXPECT_EQ(page.dump().find(folder().string()), std::string::npos) << "nobody else's folders";
  EXPECT_TRUE(fs::exists(in("events/first/events.out.tfevents.comera")));
  expect(run_program({"report", in("first"), "--output", in("r.html")}), 2,
         {"already exists", "--overwrite"});
}

TEST_F(ReportCommand, SaysWhatIsMissing) {
  train("run");
  std::ofstream(in("run/metrics.jsonl"), std::ios::app) << "{\"step\": 12, \"lo";
  const fs::path checkpoint = folder() / "run/checkpoints/step-00000012.h5";
  fs::resize_file(checkpoint, fs::file_size(checkpoint) / 2);
  fs::remove(folder() / "run/best.h5");
  const ProgramResult result = run_program({"report", in("run"), "--output", in("r.html")});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("run: the last line of metrics.jsonl is incomplete and was skipped"));
  EXPECT_THAT(result.output, HasSubstr("run: no layers: "));
  EXPECT_THAT(data("r.html")["runs"][0]["notes"][1].get<std::string>(), HasSubstr("no layers: "));
  const std::string metrics = read_text(folder() / "run/metrics.jsonl");
  std::ofstream(in("run/metrics.jsonl")) << "{\"step\": tw\n" << metrics << "\n";
  EXPECT_THAT(run_program({"report", in("run"), "--output", in("r.html"), "--overwrite"}).output,
              HasSubstr("2 lines of metrics.jsonl cannot be read and are left out; the first is line 1"));
  EXPECT_TRUE(data("r.html")["runs"][0]["series"].contains("validation_loss"));

  fs::remove(in("run/metrics.jsonl"));
  EXPECT_EQ(run_program({"report", in("run"), "--output", in("s.html")}).code, 0);
  expect(run_program({"report", in("gone"), "--output", in("t.html")}), 2, {"no such folder"});
  fs::create_directory(in("empty"));
  expect(run_program({"report", in("empty"), "--output", in("t.html")}), 2, {"is not a run of comera"});
  expect(run_program({"report", in("run")}), 2, {"--output report.html, --tensorboard DIR"});
  for (const char* name : {"r.pdf", "r"})
    expect(run_program({"report", in("run"), "--output", in(name)}), 2,
           {name, "the report is an HTML page; give it a name in .html"});
  EXPECT_FALSE(fs::exists(in("r.pdf")));
  EXPECT_FALSE(fs::exists(in("t.html")));
}

TEST_F(ReportCommand, RunsOfOneNameAreToldApart) {
  train("a/run");
  train("b/run");
  const ProgramResult both = run_program(
      {"report", in("a/run"), in("b/run/"), "--output", in("r.html"), "--tensorboard", in("events")});
  ASSERT_EQ(both.code, 0) << both.output;
  EXPECT_EQ(data("r.html")["runs"][0]["name"], "a/run");
  EXPECT_EQ(data("r.html")["runs"][1]["name"], "b/run");
  EXPECT_TRUE(fs::exists(in("events/a/run/events.out.tfevents.comera")));
  EXPECT_TRUE(fs::exists(in("events/b/run/events.out.tfevents.comera")));
  expect(run_program({"report", in("a/run"), in("a/./run"), "--output", in("s.html")}), 2,
         {"is given twice"});
  expect(run_program({"report", in("a/run"), "--output", in("s.html"), "--fill", "no mark"}), 2,
         {"'no mark' has no [MASK]"});
  std::string text = "[MASK]";
  for (int i = 0; i < 4000; ++i) text += " a";
  expect(run_program({"report", in("a/run"), "--output", in("s.html"), "--fill", text}), 2,
         {"'[MASK] a a", "shorten it"});
  fs::create_directory(in("c"));
  fs::copy(in("a/run/checkpoints"), in("c/checkpoints"));
  fs::create_directory(in("c/metrics.jsonl"));
  const ProgramResult folder_of_metrics = run_program({"report", in("c"), "--output", in("c.html")});
  EXPECT_EQ(folder_of_metrics.code, 0) << folder_of_metrics.output;
  EXPECT_THAT(folder_of_metrics.output, HasSubstr("metrics.jsonl: is a folder, expected a run's metrics"));
  expect(run_program({"report", in("a/run"), "--tensorboard", in("events"), "--fill", "a [MASK]"}), 2,
         {"--fill is for the page"});
  EXPECT_FALSE(fs::exists(in("s.html")));
}

TEST_F(ReportCommand, GlueHasItsTable) {
  fs::create_directory(in("glue"));
  std::ofstream(in("glue/glue.json"))
      << R"({"tasks": [{"task": "rte", "numbers": [{"set": "dev", "metric": "accuracy",
    "mean": 0.5, "deviation": 0.1}], "seeds": [{}, {}]}], "average": 0.5})";
  const ProgramResult result = run_program({"report", in("glue"), "--output", in("r.html")});
  EXPECT_EQ(result.code, 0) << result.output;
  expect(run_program({"report", in("glue"), "--tensorboard", in("events")}), 2,
         {"glue: has no curves for TensorBoard; give the folders in", "glue/runs"});
  EXPECT_EQ(data("r.html")["tables"][0]["rows"][0],
            Json::parse(R"(["rte", "dev", "accuracy", 0.5, 0.1, 2])"));
  std::ofstream(in("glue/glue.json")) << "{}";
  expect(run_program({"report", in("glue"), "--output", in("s.html")}), 1,
         {"was not written by comera glue"});
}

}  // namespace
}  // namespace comera::test
