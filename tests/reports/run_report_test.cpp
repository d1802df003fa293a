#include "reports/page/run_report.h"

#include <gmock/gmock.h>

#include "reports/metrics_file.h"

namespace comera {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

Json training(int step, double loss, double ms = 3600) {
  return {{"step", step}, {"phase", "short"}, {"loss", loss}, {"ms_per_step", ms}, {"tokens", 100 * step}};
}
Json evaluation(int step, double loss) {
  return {{"step", step}, {"validation_loss", loss}, {"validation_accuracy", 0.25}, {"unigram_loss", 6}};
}

// The object that the page draws.
Json data_of(const std::string& page) {
  const std::string begin = "type=\"application/json\">";
  const std::size_t at = page.find(begin) + begin.size();
  return Json::parse(page.substr(at, page.find("</script>", at) - at));
}
Json data_of(const std::vector<ReportedRun>& runs, const std::vector<ReportedTable>& tables = {}) {
  return data_of(report_page(runs, tables, "now"));
}

TEST(RunReport, CurvesAreOverStepsAndHours) {
  const ReportedRun run{
      .name = "first",
      .metrics = {training(500, 5), evaluation(500, 4.5), training(1000, 4), evaluation(1000, 4.25)}};
  const Json data = data_of({run});
  const Json& series = data["runs"][0]["series"];
  EXPECT_EQ(series["loss"], Json::parse("[[500.0,0.5,5.0],[1000.0,1.0,4.0]]"));
  EXPECT_EQ(series["validation_loss"], Json::parse("[[500.0,0.5,4.5],[1000.0,1.0,4.25]]"));
  EXPECT_EQ(data["charts"][0]["title"], "Loss, nats");
  EXPECT_EQ(data["runs"][0]["headline"], Json::parse(R"(["held-out loss, nats", 4.25])"));
  EXPECT_FALSE(series.contains("ranks/size"));
}

TEST(RunReport, LossesOfPhasesDoNotCompare) {
  Json second = training(200, 5);
  second["phase"] = "long";
  const ReportedRun run{.name = "two phases",
                        .metrics = {training(100, 1e-310), evaluation(100, 3), second, evaluation(200, 4.5),
                                    evaluation(200, 4.75)}};
  const Json rows = data_of({run})["runs"][0]["tables"][0]["rows"];
  EXPECT_EQ(rows[0], Json::parse(R"(["held-out loss", 4.75])"));
  EXPECT_EQ(rows[1], Json::parse(R"(["best held-out loss", 4.5])"));
}

TEST(RunReport, LongRunsAreThinnedByMeans) {
  ReportedRun run{.name = "long"};
  for (int step = 1; step <= 100000; ++step) run.metrics.push_back(training(step, step % 2));
  const std::string page = report_page({run}, {}, "now");
  EXPECT_LT(page.size(), 200'000u);
  const Json points = data_of(page)["runs"][0]["series"]["loss"];
  EXPECT_EQ(points.size(), 500u);
  EXPECT_EQ(points.back()[0], 100000.0);
  for (const Json& point : points) EXPECT_EQ(point[2], 0.5);
}

TEST(RunReport, NoTextLeavesItsPlace) {
  const std::string hostile = "</script><script>alert(1)</script><!-- \" ' & \xff\xfe";
  ReportedRun run{.name = hostile, .metrics = {training(1, 1)}, .notes = {hostile}};
  run.fillings.push_back(
      {.before = hostile, .behind = hostile, .truth = hostile, .rank = 1, .guesses = {{hostile, 0.5}}});
  const std::string page = report_page(
      {run}, {{.title = hostile, .titles = {hostile}, .rows = Json::array({Json::array({hostile})})}},
      hostile);
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<!-- \"")));
  EXPECT_EQ(data_of(page)["runs"][0]["name"].get<std::string>().substr(0, 9), "</script>");
}

TEST(RunReport, SaysWhatDiffers) {
  Recipe first, second;
  first.phases = second.phases = {PhaseSection{.name = "short"}, PhaseSection{.name = "long"}};
  second.phases[1].length = 512;
  second.run.seed = 7;
  first.run.output = "/home/somebody/a", second.run.output = "/home/somebody/b";
  first.data.train = "/home/somebody/shards", second.data.train = "/data/shards";
  const Json data = data_of({{.name = "a", .recipe = first}, {.name = "b", .recipe = second}});
  EXPECT_EQ(data["differences"], Json::parse(R"([["run.seed", "1", "7"], ["phase.1.length", "", "512"]])"));
  EXPECT_THAT(data.dump(), Not(HasSubstr("somebody")));
  EXPECT_EQ(data["charts"].size(), 0u);
}

TEST(RunReport, RanksOfLayersAreOneDifference) {
  Recipe first, second;
  for (const char* layer : {"encoder.0.ffn.up", "encoder.1.ffn.up"}) {
    first.tensorized.ranks[layer] = {8};
    second.tensorized.ranks[layer] = {4};
  }
  const Json data = data_of({{.name = "a", .recipe = first}, {.name = "b", .recipe = second}});
  EXPECT_EQ(data["differences"], Json::parse(R"([["tensorized.ranks", "of 2 layers", "of 2 layers"]])"));
}

TEST(RunReport, ATasksLossIsNotBesideAPretrainings) {
  const ReportedRun pretraining{.name = "first", .metrics = {training(10, 5), evaluation(10, 4.5)}};
  const ReportedRun task{
      .name = "task",
      .metrics = {training(10, 0.5),
                  Json{{"step", 10}, {"validation", {{"dev", {{"accuracy", 0.75}, {"loss", 0.5}}}}}}}};
  const Json data = data_of({pretraining, task});
  EXPECT_FALSE(data["runs"][1]["series"].contains("loss"));
  EXPECT_TRUE(data["runs"][1]["series"].contains("task/loss"));
  EXPECT_EQ(data["charts"][0]["title"], "Loss, nats");
  EXPECT_EQ(data["charts"][1]["title"], "Loss of the task");
}

TEST(RunReport, QuantitiesHaveTheirUnits) {
  Json first = training(10, 5, 1000), last = training(20, 4, 1000);
  first["peak_memory"] = {{"parameters", 3.5 * 1048576}};
  last["peak_memory"] = {{"parameters", 1.8 * 1048576}};
  const ReportedRun run{
      .name = "first", .recipe = Recipe(), .facts = {{"machine", "a computer"}}, .metrics = {first, last}};
  const Json data = data_of({run});
  const std::string text = data.dump();
  EXPECT_THAT(text, HasSubstr(R"(["training time","0.3 min"])"));
  EXPECT_THAT(text, HasSubstr(R"(["parameters","3.5 MiB"])")) << "the largest of the run";
  EXPECT_THAT(text, HasSubstr(R"(["machine","a computer"])"));
}

TEST(RunReport, ScoresOfTasksHaveTheirNames) {
  ReportedRun run{.name = "task"};
  run.metrics = {training(10, 0.5), Json{{"step", 10},
                                         {"validation",
                                          {{"matched", {{"accuracy", 0.75}, {"loss", 0.5}}},
                                           {"mismatched", {{"accuracy", 0.5}, {"loss", 0.75}}}}}}};
  const Json data = data_of({run});
  EXPECT_EQ(data["runs"][0]["headline"], Json::parse(R"(["accuracy, matched", 0.75])"));
  EXPECT_EQ(data["runs"][0]["tables"][1]["titles"], Json::parse(R"(["", "accuracy", "loss"])"));
  EXPECT_EQ(data["runs"][0]["tables"][1]["rows"][1], Json::parse(R"(["mismatched", 0.5, 0.75])"));
  EXPECT_EQ(data["runs"][0]["series"]["validation/matched/accuracy"], Json::parse("[[10.0,0.01,0.75]]"));
}

TEST(RunReport, ShowsTheScoresOfTheBestModel) {
  const auto scored = [](int step, double accuracy) {
    return Json{{"step", step}, {"validation", {{"dev", {{"accuracy", accuracy}}}}}, {"score", accuracy}};
  };
  ReportedRun run{.name = "task"};
  run.metrics = {scored(0, 0.875), training(10, 0.5), scored(10, 0.5), scored(20, 0.75), scored(30, 0.625)};
  const Json data = data_of({run})["runs"][0];
  EXPECT_EQ(data["headline"], Json::parse(R"(["accuracy, dev", 0.75])"));
  EXPECT_EQ(data["tables"][1]["title"], "Best scores, step 20");
  EXPECT_EQ(data["tables"][1]["rows"][0], Json::parse(R"(["dev", 0.75])"));
}

TEST(RunReport, LayersHaveTheirRanksAtTheStartAndNow) {
  CheckpointRanks ranks;
  ranks.layers = {{.name = "encoder.0.ffn.up",
                   .matrix = 1000,
                   .modes = "[2 | 5]",
                   .sizes = {2, 5},
                   .held = {4},
                   .live = {3}},
                  {.name = "encoder.0.ffn.down",
                   .matrix = 1000,
                   .modes = "[5 | 2]",
                   .sizes = {5, 2},
                   .held = {0},
                   .live = {0}},
                  {.name = "head", .matrix = 50}};
  ranks.history.stages = {
      {.name = "start", .ranks = {{"encoder.0.ffn.up", {8}}, {"encoder.0.ffn.down", {8}}}}};
  ranks.dense_baseline = 4000;
  const Json layers = data_of({{.name = "a", .ranks = ranks}})["runs"][0]["layers"];
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0]["first"], Json::parse("[8]"));
  EXPECT_EQ(layers[0]["live"], Json::parse("[3]"));
  EXPECT_FALSE(layers[0]["removed"].get<bool>());
  EXPECT_TRUE(layers[1]["removed"].get<bool>());
  EXPECT_EQ(layers[1]["first"], Json::parse("[8]"));
  EXPECT_EQ(layers[2]["first"], Json::array());
}

}  // namespace
}  // namespace comera
