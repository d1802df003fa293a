#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera {

// Curves over a common x axis, which begins at 0, in panels one below the other.

struct PlotPoint {
  double x = 0;
  double y = 0;  // non-finite: leaves a gap
};

enum class PlotStyle : std::uint8_t {
  line,
  marked,  // with a dot at each point
  dashed,
  steps,  // a value holds until the next one
};

struct PlotSeries {
  std::string name;  // for the legend
  std::string colour;
  PlotStyle style = PlotStyle::line;
  std::vector<PlotPoint> points = {};  // x ascending
  bool right_axis = false;
};

struct PlotPanel {
  std::string title;
  std::vector<PlotSeries> series = {};
  bool from_zero = false;  // for the left axis; the right one always starts at 0
};

// From a boundary to the next one.
struct PlotSpan {
  double begin = 0;
  std::string name;
};

struct Plot {
  std::string title, x_title;
  std::vector<PlotPanel> panels = {};
  std::vector<PlotSpan> spans = {};  // ascending
};

// Equidistant round numbers whose first and last one enclose [low, high]: about `wanted` of them.
std::vector<double> axis_ticks(double low, double high, int wanted);

// A whole SVG file, 900 wide and 900 high with three panels.
std::string svg_of(const Plot& plot);

}  // namespace comera
