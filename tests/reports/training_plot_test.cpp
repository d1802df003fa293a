#include "reports/training_plot.h"

#include <gmock/gmock.h>

#include <cmath>

#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

const std::string fixed_lines = R"({"step":10,"phase":"warm","loss":6.5,"tokens":100}
{"step":20,"phase":"warm","loss":5.5}
{"step":20,"validation_loss":5.75,"validation_accuracy":0.1}
)";
const std::string ranked_lines =
    R"({"step":30,"phase":"early","loss":5,"ranks":{"stage":"early","size":0.9,"live":100,"removed":0}}
{"step":40,"phase":"late","loss":null,"ranks":{"stage":"late","branch":"hold","size":0.8,"target":0.5,"live":90,"removed":1}}
)";

MATCHER_P2(IsPoint, x, y, "") { return arg.x == x && (arg.y == y || (std::isnan(arg.y) && std::isnan(y))); }

class TrainingPlot : public testing::Test {
 protected:
  Plot plot_of(const std::string& text) const {
    return training_plot(folder_.write("run/metrics.jsonl", text));
  }
  std::string refusal(const std::string& text) const {
    return error_of([&] { plot_of(text); });
  }

  TemporaryFolder folder_;
};

TEST_F(TrainingPlot, ShowsLossSizeAndRanks) {
  const Plot plot = plot_of(fixed_lines + ranked_lines);
  EXPECT_EQ(plot.title, "run");
  ASSERT_EQ(plot.panels.size(), 3);
  const auto& loss = plot.panels[0].series;
  ASSERT_EQ(loss.size(), 2);
  EXPECT_THAT(loss[0].points,
              ElementsAre(IsPoint(10, 6.5), IsPoint(20, 5.5), IsPoint(30, 5), IsPoint(40, NAN)));
  EXPECT_THAT(loss[1].points, ElementsAre(IsPoint(20, 5.75)));
  const auto& size = plot.panels[1].series;
  ASSERT_EQ(size.size(), 2);
  EXPECT_THAT(size[0].points, ElementsAre(IsPoint(30, 0.9), IsPoint(40, 0.8)));
  EXPECT_EQ(size[1].style, PlotStyle::dashed);
  EXPECT_THAT(size[1].points, ElementsAre(IsPoint(30, NAN), IsPoint(40, 0.5)));
  const auto& ranks = plot.panels[2].series;
  ASSERT_EQ(ranks.size(), 2);
  EXPECT_THAT(ranks[0].points, ElementsAre(IsPoint(30, 100), IsPoint(40, 90)));
  EXPECT_THAT(ranks[1].points, ElementsAre(IsPoint(30, 0), IsPoint(40, 1)));
  EXPECT_TRUE(ranks[1].right_axis);
}

// A phase ends at its last line's step.
TEST_F(TrainingPlot, PhasesAreItsSpans) {
  const Plot plot = plot_of(fixed_lines + ranked_lines);
  const auto is_span = [](double begin, const char* name) {
    return AllOf(Field(&PlotSpan::begin, begin), Field(&PlotSpan::name, name));
  };
  EXPECT_THAT(plot.spans, ElementsAre(is_span(0, "warm"), is_span(20, "early"), is_span(30, "late")));
}

TEST_F(TrainingPlot, OfARunThatAdaptsNoRanksIsItsLoss) {
  const Plot plot = plot_of(fixed_lines);
  ASSERT_EQ(plot.panels.size(), 1);
  EXPECT_EQ(plot.panels[0].series.size(), 2);
}

TEST_F(TrainingPlot, WithoutATargetThereIsNoLineForIt) {
  const Plot plot = plot_of(ranked_lines.substr(0, ranked_lines.find('\n') + 1));
  ASSERT_EQ(plot.panels.size(), 3);
  EXPECT_EQ(plot.panels[1].series.size(), 1);
  EXPECT_EQ(plot.panels[0].series.size(), 1) << "nor one for evaluations that there were none of";
}

TEST_F(TrainingPlot, ShowsEachHeldOutSetOfATask) {
  const Plot plot = plot_of(
      R"({"step":5,"phase":"a","loss":1}
{"step":5,"validation":{"matched":{"examples":9,"loss":1.5},"mismatched":{"loss":1.25}},"score":0.4}
)");
  const auto& loss = plot.panels[0].series;
  ASSERT_EQ(loss.size(), 3);
  EXPECT_EQ(loss[1].name, "matched");
  EXPECT_THAT(loss[1].points, ElementsAre(IsPoint(5, 1.5)));
  EXPECT_EQ(loss[2].name, "mismatched");
  EXPECT_NE(loss[1].colour, loss[2].colour);
}

TEST_F(TrainingPlot, ATruncatedLastLineIsIgnored) {
  const std::string whole = fixed_lines + ranked_lines;
  const std::size_t last = fixed_lines.size() + ranked_lines.find('\n') + 1;
  for (const std::size_t end : {last, last + 1, last + 9, last + 40, whole.size() - 2}) {
    const Plot plot = plot_of(whole.substr(0, end));
    EXPECT_EQ(plot.panels[0].series[0].points.size(), 3) << end;
  }
  EXPECT_EQ(plot_of(whole.substr(0, whole.size() - 1)).panels[0].series[0].points.size(), 4) << "it is whole";
}

TEST_F(TrainingPlot, OtherFilesAreRefusedInOneSentence) {
  EXPECT_THAT(error_of([&] { training_plot(folder_ / "run/metrics.jsonl"); }),
              HasSubstr("metrics.jsonl: there is no such file; give the folder of a run that has started"));
  EXPECT_THAT(refusal(""), HasSubstr("has no losses yet"));
  EXPECT_THAT(refusal("{\"step\":3,\"pha"), HasSubstr("has no losses yet"));
  EXPECT_THAT(refusal("\n" + fixed_lines), HasSubstr("line 1 is not a line of a run's metrics"));
  for (const char* middle : {"{\"step\":25", "{}", "[1]", "7", "{\"step\":\"x\"}", "{\"step\":25}}", "\xff"})
    EXPECT_THAT(refusal(fixed_lines + middle + "\n" + ranked_lines),
                HasSubstr("line 4 is not a line of a run's metrics"))
        << middle;
}

// Members of other kinds than ours are no reason to fail.
TEST_F(TrainingPlot, IgnoresWhatItDoesNotKnow) {
  const Plot plot = plot_of(
      R"({"step":5,"phase":"a","loss":"high","ranks":7}
{"step":6,"phase":"a","loss":2,"ranks":{}}
{"step":7,"validation":[1,2],"other":{}}
{"step":8,"validation":{"x":3}}
{"step":9,"phase":4}
)");
  ASSERT_EQ(plot.panels.size(), 1);
  EXPECT_THAT(plot.panels[0].series[0].points, ElementsAre(IsPoint(5, NAN), IsPoint(6, 2)));
}

}  // namespace
}  // namespace comera
