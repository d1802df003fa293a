// The report in a real browser: its script draws everything, and the pointer shows values. Skipped without
// Chromium.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>

#include "reports/page/run_report.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  pclose(pipe);
  return text;
}

// The document after its scripts, and one more that we add, have run.
std::string document_of(std::string page, const std::string& script) {
  const TemporaryFolder folder;
  page.insert(page.find("</body>"), fmt::format("<script>{}</script>", script));
  const std::filesystem::path file = folder.write("page.html", page);
  return output_of(fmt::format(
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir={} --window-size=1300,2000 "
      "--dump-dom file://{} 2> /dev/null",
      (folder / "profile").string(), file.string()));
}

ReportedRun run_named(const std::string& name, double loss) {
  ReportedRun run{.name = name};
  for (int step = 100; step <= 1000; step += 100) {
    run.metrics.push_back({{"step", step}, {"phase", "short"}, {"loss", loss}, {"ms_per_step", 3600}});
    run.metrics.push_back({{"step", step}, {"validation_loss", loss}, {"unigram_loss", 6}});
  }
  CheckpointRanks ranks;
  ranks.layers = {{.name = "encoder.0.ffn.up",
                   .matrix = 1000,
                   .modes = "[2 | 5]",
                   .sizes = {2, 5},
                   .held = {4},
                   .live = {3}}};
  run.ranks = ranks;
  run.fillings.push_back({.before = "for i in ",
                          .behind = "(10):",
                          .truth = "<b>range</b>",
                          .rank = 1,
                          .guesses = {{"range", 0.75}}});
  return run;
}

class BrowserReport : public testing::Test {
 protected:
  void SetUp() override {
    if (output_of("command -v chromium").empty()) GTEST_SKIP() << "chromium was not found";
  }
};

TEST_F(BrowserReport, DrawsEverythingAndShowsValuesAtThePointer) {
  const std::string page = report_page({run_named("first", 4.125), run_named("second", 3.5)}, {}, "made now");
  const std::string document = document_of(page, R"(
    const figure = document.querySelector("figure"), box = figure.querySelector("svg").getBoundingClientRect();
    figure.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 50, bubbles: true}));)");
  EXPECT_THAT(document, HasSubstr("data-drawn=\"all\""));
  EXPECT_THAT(document, HasSubstr("first, second – comera</title>"));
  const std::size_t tip = document.find("class=\"tip\"");
  ASSERT_NE(tip, std::string::npos);
  const std::string shown = document.substr(tip, document.find("class=\"legend\"") - tip);
  EXPECT_THAT(shown, HasSubstr("step 500"));
  EXPECT_THAT(shown, HasSubstr("<b>4.125</b>"));
  EXPECT_THAT(shown, HasSubstr("<b>3.500</b>"));
  EXPECT_THAT(document, HasSubstr("&lt;b&gt;range&lt;/b&gt;"));
  EXPECT_THAT(document, HasSubstr("live ranks 3 of 4"));
}

// How many points the curve of this colour has in the picture of this title.
std::string count_points(const std::string& title, const std::string& colour) {
  return fmt::format(
      "for (const figure of document.querySelectorAll('figure')) if "
      "(figure.querySelector('figcaption').textContent "
      ".startsWith('{}')) for (const path of figure.querySelectorAll('path')) if "
      "(path.getAttribute('stroke') === '{}') "
      "document.body.dataset.points = path.getAttribute('d').split(/[ML]/).length - 1;"
      "for (const figure of document.querySelectorAll('figure')) figure.dispatchEvent(new "
      "PointerEvent('pointermove', "
      "{{clientX: 400, clientY: 50, bubbles: true}})); document.body.dataset.moved = 'all';",
      title, colour);
}

// A target that stays the same is no baseline, and losses that are all above unigram are drawn all the same.
TEST_F(BrowserReport, NoPointIsLeftOut) {
  ReportedRun run = run_named("young", 8);
  for (auto& line : run.metrics)
    if (line.contains("phase"))
      line["ranks"] = {{"size", 1 - line["step"].get<double>() / 2000}, {"target", 0.5}};
  const std::string page = report_page({run}, {}, "made now");
  for (const auto& [title, colour] :
       {std::pair("Size of the tensor trains", "#0072b2"), std::pair("Loss, nats", "#0072b2"),
        std::pair("Loss, nats", "#d55e00")}) {
    const std::string document = document_of(page, count_points(title, colour));
    EXPECT_THAT(document, HasSubstr("data-points=\"10\"")) << title << colour;
    EXPECT_THAT(document, HasSubstr("data-moved=\"all\""));
  }
}

TEST_F(BrowserReport, TablesAloneAreAPageToo) {
  const std::string document = document_of(
      report_page({},
                  {{.title = "GLUE: mine", .titles = {"task"}, .rows = Json::array({Json::array({"rte"})})}},
                  "now"),
      "");
  EXPECT_THAT(document, HasSubstr("<h1>GLUE: mine</h1>"));
  EXPECT_THAT(document, Not(HasSubstr("The run</h2>")));
  EXPECT_THAT(document, HasSubstr("data-drawn=\"all\""));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The same data give nearly the same unigram loss, whichever pieces were masked.
TEST_F(BrowserReport, RunsShareOneUnigramLine) {
  ReportedRun first = run_named("first", 4.125), second = run_named("second", 3.5);
  for (auto& line : second.metrics)
    if (line.contains("unigram_loss")) line["unigram_loss"] = 6.01;
  const std::string document = document_of(report_page({first, second}, {}, "made now"), "");
  EXPECT_EQ(count_of(document, "</span>unigram</span>"), 1U);
  EXPECT_EQ(count_of(document, ", unigram</span>"), 0U);
}

TEST_F(BrowserReport, EachScoreHasItsColour) {
  std::vector<ReportedRun> runs;
  for (const char* name : {"first", "second"}) {
    ReportedRun run{.name = name};
    for (int step = 10; step <= 30; step += 10)
      run.metrics.push_back({{"step", step}, {"validation", {{"dev", {{"accuracy", 0.5}, {"f1", 0.25}}}}}});
    runs.push_back(run);
  }
  const std::string document =
      document_of(report_page(runs, {}, "made now"),
                  "const strokes = [...document.querySelectorAll('figure path')].map(path => "
                  "path.getAttribute('stroke'));"
                  "document.body.dataset.colours = strokes.length + ' ' + new Set(strokes).size;");
  EXPECT_THAT(document, HasSubstr("data-colours=\"4 4\""));
}

TEST_F(BrowserReport, ShortRunsAreMeasuredInMinutes) {
  ReportedRun run = run_named("short", 4.125);
  for (auto& line : run.metrics)
    if (line.contains("ms_per_step")) line["ms_per_step"] = 36;
  const std::string document =
      document_of(report_page({run}, {}, "made now"), "document.getElementById('axis1').click();");
  EXPECT_THAT(document, HasSubstr("minutes of training</text>"));
  EXPECT_THAT(document, HasSubstr("the model's first guess is right"));
}

TEST_F(BrowserReport, CurvesGoOverHoursToo) {
  const std::string page = report_page({run_named("first", 4.125)}, {}, "made now");
  const std::string document = document_of(page, "document.getElementById('axis1').click();");
  EXPECT_THAT(document, HasSubstr("hours of training</text>"));
  EXPECT_THAT(document, Not(HasSubstr(">steps</text>")));
}

}  // namespace
}  // namespace comera::test
