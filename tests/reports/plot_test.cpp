#include "reports/plot.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace comera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

int times_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Every opened tag is closed, in order, and there are no characters that XML forbids.
bool is_well_formed(std::string_view xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find("?>") + 2; at < xml.size();) {
    if (xml[at] == '&') {
      const std::string_view rest = xml.substr(at, 6);
      if (!rest.starts_with("&amp;") && !rest.starts_with("&lt;") && !rest.starts_with("&gt;") &&
          !rest.starts_with("&quot;"))
        return false;
    }
    if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n') return false;
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const std::size_t end = xml.find('>', at);
    if (end == std::string_view::npos) return false;
    const std::string_view tag = xml.substr(at + 1, end - at - 1);
    if (std::ranges::count(tag, '"') % 2 != 0 || tag.find('<') != std::string_view::npos) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
    at = end + 1;
  }
  return open.empty();
}

Plot one_curve(std::vector<PlotPoint> points, PlotStyle style = PlotStyle::line) {
  return {.title = "run",
          .x_title = "step",
          .panels = {{.title = "Loss", .series = {{"training", "#0072b2", style, std::move(points)}}}}};
}

TEST(AxisTicks, AreRoundAndInclude) {
  EXPECT_THAT(axis_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_ticks(0, 4362, 5), ElementsAre(0, 1000, 2000, 3000, 4000, 5000));
  EXPECT_THAT(axis_ticks(-0.3, 0.9, 5), ElementsAre(-0.5, 0, 0.5, 1));
  EXPECT_THAT(axis_ticks(7, 7, 5), Not(testing::IsEmpty()));
}

TEST(AxisTicks, AreSoForWhateverThereIs) {
  const double infinity = std::numeric_limits<double>::infinity(), huge = 1.7e308, tiny = 5e-324;
  const std::vector<std::pair<double, double>> ranges = {
      {0, 0},     {0, tiny},   {tiny, tiny},      {-huge, huge}, {huge, huge},          {1e15, 1e15 + 2},
      {-5, -5},   {1, 1.0001}, {1e-20, 2e-20},    {0, 1e9},      {-infinity, infinity}, {0.1, 0.3},
      {-1e-9, 0}, {3, 17},     {0.9999, 1.00001}, {0, 1}};
  for (const auto& [low, high] : ranges)
    for (const int wanted : {2, 5, 8}) {
      const std::vector<double> ticks = axis_ticks(low, high, wanted);
      ASSERT_GE(ticks.size(), 2) << low << " to " << high;
      EXPECT_LE(ticks.size(), 2 * wanted + 3) << low << " to " << high;
      for (std::size_t i = 1; i < ticks.size(); ++i) EXPECT_GT(ticks[i], ticks[i - 1]);
      if (std::abs(low) < 1e300 && std::abs(high) < 1e300) {
        const double slack = 1e-6 * (ticks[1] - ticks[0]);
        EXPECT_LE(ticks.front(), low + slack);
        EXPECT_GE(ticks.back(), high - slack);
      }
    }
}

TEST(Plot, EscapesWhatAUserNamed) {
  Plot plot = one_curve({{1, 2}, {2, 1}});
  plot.title = "a<b>&\"c\"\x01";
  plot.spans = {{0, "x && <y>"}};
  plot.panels[0].series[0].name = "<set>";
  const std::string svg = svg_of(plot);
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_THAT(svg, HasSubstr(">a&lt;b&gt;&amp;&quot;c&quot; <"));
  EXPECT_THAT(svg, HasSubstr(">x &amp;&amp; &lt;y&gt;<"));
  EXPECT_THAT(svg, HasSubstr(">&lt;set&gt;<"));
}

// x from 76 to 824 and y from 312 to 86 are the frame of the first panel.
TEST(Plot, PutsPointsWhereTheyBelong) {
  const std::string svg = svg_of(one_curve({{0, 0}, {5, 5}, {10, 10}}));
  EXPECT_THAT(svg, HasSubstr("points=\"76.0,312.0 450.0,199.0 824.0,86.0\""));
  EXPECT_TRUE(is_well_formed(svg));
}

TEST(Plot, AStepHoldsUntilTheNext) {
  EXPECT_THAT(svg_of(one_curve({{0, 0}, {5, 5}, {10, 10}}, PlotStyle::steps)),
              HasSubstr("points=\"76.0,312.0 450.0,312.0 450.0,199.0 824.0,199.0 824.0,86.0\""));
}

TEST(Plot, GapsAreLeftWhereThereIsNoNumber) {
  const std::string svg =
      svg_of(one_curve({{0, 0}, {2, 4}, {3, NAN}, {4, INFINITY}, {5, 5}, {6, NAN}, {8, 1}, {10, 10}}));
  EXPECT_EQ(times_in(svg, "<polyline"), 2);
  EXPECT_EQ(times_in(svg, "<circle"), 1) << "a point by itself";
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Plot, OfNothingIsStillAnImage) {
  for (const Plot& plot : {one_curve({}), one_curve({{3, NAN}}), one_curve({{0, 0}})}) {
    const std::string svg = svg_of(plot);
    EXPECT_TRUE(is_well_formed(svg)) << svg;
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
  }
}

TEST(Plot, ThinsCurvesButKeepsTheirExtremes) {
  std::vector<PlotPoint> points;
  for (int i = 0; i <= 200000; ++i)
    points.push_back({static_cast<double>(i), i == 123457 ? 10.0 : i % 3 + 1.0});
  points[77777].y = 0;
  const std::string svg = svg_of(one_curve(points));
  EXPECT_LT(svg.size(), 120000);
  EXPECT_THAT(svg, HasSubstr(fmt::format("{:.1f},86.0", 76 + 748 * 123457 / 200000.0)));
  EXPECT_THAT(svg, HasSubstr(fmt::format("{:.1f},312.0", 76 + 748 * 77777 / 200000.0)));
}

TEST(Plot, PanelsLieBelowOneAnotherAndShareTheirSteps) {
  Plot plot = one_curve({{0, 0}, {10, 10}});
  plot.panels.push_back({.title = "Size",
                         .series = {{"target", "#707070", PlotStyle::dashed, {{5, 0.5}, {10, 0.5}}}},
                         .from_zero = true});
  plot.panels.push_back(
      {.title = "Ranks", .series = {{"removed", "#d55e00", PlotStyle::steps, {{0, 0}, {10, 1}}, true}}});
  plot.spans = {
      {0, "one"}, {4, "a name that is too long for its place in the image, as anyone can see"}, {6, "3"}};
  const std::string svg = svg_of(plot);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 900 900\""));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 4\""));
  EXPECT_THAT(svg, HasSubstr("removed (right axis)"));
  EXPECT_EQ(times_in(svg, "class=\"span\""), 2 * 3) << "boundaries in each panel, none at the start";
  EXPECT_THAT(svg, HasSubstr("a name that"));
  EXPECT_THAT(svg, HasSubstr("…"));
  EXPECT_THAT(svg, Not(HasSubstr("anyone can see")));
  EXPECT_EQ(times_in(svg, ">step<"), 1) << "below the last one only";
}

TEST(Plot, NumbersOnAxesAreWrittenShort) {
  EXPECT_THAT(svg_of(one_curve({{0, 0}, {10000, 0.04}})),
              testing::AllOf(HasSubstr(">10,000<"), HasSubstr(">0.04<"), HasSubstr(">0.00<")));
  EXPECT_THAT(svg_of(one_curve({{0, -12000}, {1, 9000}})), HasSubstr(">-10,000<"));
  EXPECT_THAT(svg_of(one_curve({{0, 0}, {1, 4e12}})), HasSubstr(">4e+12<"));
}

}  // namespace
}  // namespace comera
