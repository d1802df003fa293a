#include "reports/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "reports/plot_colours.h"

namespace comera {

namespace {

constexpr double width = 900, left = 76, right = 824;
constexpr double head = 66, panel_height = 256, panel_head = 30, gap = 18, foot = 48;
constexpr double names_height = 20;  // of the spans, above the first panel
constexpr double letter = 6.6;       // approximate width of a letter of 12 pixels

// Text for XML 1.0, which cannot represent most control characters.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// The first letters of UTF-8 text with an ellipsis for the rest.
std::string shortened(const std::string& text, std::size_t letters) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  if (static_cast<std::size_t>(std::ranges::count_if(text, begins)) <= letters) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if (begins(text[end]) && ++seen == letters) break;
  return text.substr(0, end) + "…";
}

// Two numbers, drawn at the two ends of an axis.
struct Axis {
  std::vector<double> ticks;
  double from = 0, to = 0;  // pixels

  double at(double value) const {
    const double low = ticks.front(), high = ticks.back();
    return from + (value - low) / (high - low) * (to - from);
  }
  std::string label(double tick) const {
    const double step = ticks[1] - ticks[0], largest = std::max(std::abs(ticks.front()), ticks.back());
    if (largest >= 1e9 || step < 1e-6) return fmt::format("{:.3g}", tick);
    const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
    std::string text = fmt::format("{:.{}f}", tick, decimals);
    if (decimals == 0)
      for (int at = static_cast<int>(text.size()) - 3; at > (tick < 0 ? 1 : 0); at -= 3)
        text.insert(text.begin() + at, ',');
    return text;
  }
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::string text_at(double x, double y, const std::string& text, std::string_view attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y, attributes.empty() ? "" : " ",
                     attributes, escaped(text));
}

std::string line_between(double x1, double y1, double x2, double y2, std::string_view attributes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                     attributes);
}

// A piece of a curve without gaps, in pixels.
using Piece = std::vector<PlotPoint>;

std::vector<Piece> pieces_of(const PlotSeries& series, const Axis& x, const Axis& y) {
  std::vector<Piece> pieces(1);
  for (const PlotPoint& point : series.points) {
    if (std::isfinite(point.y))
      pieces.back().push_back({x.at(point.x), y.at(point.y)});
    else if (!pieces.back().empty())
      pieces.emplace_back();
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

// Within half a pixel, only the first and last points and the extremes are visible.
Piece thinned(const Piece& piece) {
  Piece thin;
  for (std::size_t begin = 0, end = 0; begin < piece.size(); begin = end) {
    const auto column = [](const PlotPoint& point) { return std::floor(point.x * 2); };
    while (end < piece.size() && column(piece[end]) == column(piece[begin])) ++end;
    const auto [low, high] =
        std::minmax_element(piece.begin() + static_cast<long>(begin), piece.begin() + static_cast<long>(end),
                            [](const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; });
    std::vector<std::size_t> kept{begin, static_cast<std::size_t>(low - piece.begin()),
                                  static_cast<std::size_t>(high - piece.begin()), end - 1};
    std::ranges::sort(kept);
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::size_t i : kept) thin.push_back(piece[i]);
  }
  return thin;
}

std::string stroke_of(const PlotSeries& series) {
  const bool dashed = series.style == PlotStyle::dashed;
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}",
                     series.colour, dashed ? "1.4" : "1.8", dashed ? " stroke-dasharray=\"6 4\"" : "");
}

std::string dot_at(double x, double y, const std::string& colour) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, colour);
}

std::string curve(const PlotSeries& series, const Axis& x, const Axis& y) {
  std::string text;
  for (const Piece& whole : pieces_of(series, x, y)) {
    const Piece piece = thinned(whole);
    std::string path;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (series.style == PlotStyle::steps && i > 0)
        path += fmt::format("{:.1f},{:.1f} ", piece[i].x, piece[i - 1].y);
      path += fmt::format("{:.1f},{:.1f} ", piece[i].x, piece[i].y);
    }
    if (!path.empty()) path.pop_back();
    if (piece.size() > 1) text += fmt::format("<polyline points=\"{}\" {}/>\n", path, stroke_of(series));
    if (series.style == PlotStyle::marked || piece.size() == 1)
      for (const PlotPoint& point : piece) text += dot_at(point.x, point.y, series.colour);
  }
  return text;
}

// In the line of the panel's title, right-aligned.
std::string legend(const PlotPanel& panel, double y) {
  std::string text;
  double x = right;
  for (auto series = panel.series.rbegin(); series != panel.series.rend(); ++series) {
    const std::string name = series->name + (series->right_axis ? " (right axis)" : "");
    x -= static_cast<double>(name.size()) * letter;
    text += text_at(x, y, name, "");
    text += line_between(x - 30, y - 4, x - 6, y - 4, stroke_of(*series));
    if (series->style == PlotStyle::marked) text += dot_at(x - 18, y - 4, series->colour);
    x -= 48;
  }
  return text;
}

Axis value_axis(const PlotPanel& panel, bool right_axis, double top, double bottom) {
  Range range;
  for (const PlotSeries& series : panel.series)
    if (series.right_axis == right_axis)
      for (const PlotPoint& point : series.points) range.add(point.y);
  if (range.empty()) range = {0, 1};
  if (panel.from_zero || right_axis) range.add(0);
  Axis axis{axis_ticks(range.low, range.high, 5), bottom, top};
  // Counts have no fractions.
  if (right_axis && axis.ticks[1] - axis.ticks[0] < 1)
    axis.ticks = axis_ticks(0, std::max(range.high, 2.0), 2);
  return axis;
}

std::string boundaries(const std::vector<PlotSpan>& spans, const Axis& x, double top, double bottom) {
  std::string text;
  for (std::size_t i = 1; i < spans.size(); ++i)
    text += line_between(x.at(spans[i].begin), top, x.at(spans[i].begin), bottom, "class=\"span\"");
  return text;
}

// The names, shortened to the available space.
std::string span_names(const std::vector<PlotSpan>& spans, const Axis& x, double y) {
  std::string text;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const double begin = x.at(spans[i].begin), end = i + 1 < spans.size() ? x.at(spans[i + 1].begin) : right;
    const double letters = (end - begin - 8) / letter;
    if (letters >= 2)
      text += text_at(begin + (i == 0 ? 0 : 5), y,
                      shortened(spans[i].name, static_cast<std::size_t>(letters)), "class=\"name\"");
  }
  return text;
}

std::string panel_svg(const Plot& plot, std::size_t index, const Axis& x) {
  const PlotPanel& panel = plot.panels[index];
  const bool first = index == 0, last = index + 1 == plot.panels.size();
  const double top = head + static_cast<double>(index) * (panel_height + gap) + panel_head - 10;
  const double bottom = top + panel_height - panel_head;
  const double title = first ? top - 9 - names_height : top - 9;
  std::string text = text_at(left, title, panel.title, "class=\"title\"") + legend(panel, title);
  if (first) text += span_names(plot.spans, x, top - 6);
  text += boundaries(plot.spans, x, first ? top - names_height : top, bottom);
  const auto has_right = std::ranges::any_of(panel.series, &PlotSeries::right_axis);
  const Axis y = value_axis(panel, false, top, bottom), y2 = value_axis(panel, true, top, bottom);
  for (const double tick : y.ticks) {
    text += line_between(left, y.at(tick), right, y.at(tick), "class=\"grid\"");
    text += text_at(left - 8, y.at(tick) + 4, y.label(tick), "text-anchor=\"end\"");
  }
  if (has_right)
    for (const double tick : y2.ticks) {
      text += line_between(right, y2.at(tick), right + 4, y2.at(tick), "class=\"axis\"");
      text += text_at(right + 8, y2.at(tick) + 4, y2.label(tick), "");
    }
  for (const double tick : x.ticks) {
    text += line_between(x.at(tick), bottom, x.at(tick), bottom + 4, "class=\"axis\"");
    if (last) text += text_at(x.at(tick), bottom + 18, x.label(tick), "text-anchor=\"middle\"");
  }
  text += fmt::format(
      "<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" fill=\"none\" class=\"axis\"/>\n", left,
      top, right - left, bottom - top);
  for (const PlotSeries& series : panel.series) text += curve(series, x, series.right_axis ? y2 : y);
  if (last) text += text_at((left + right) / 2, bottom + 38, plot.x_title, "text-anchor=\"middle\"");
  return text;
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int wanted) {
  // Beyond that, not even the differences are finite; below 1e-300, neither are steps.
  low = std::clamp(low, -1e300, 1e300);
  high = std::clamp(high, -1e300, 1e300);
  const double largest = std::max(std::abs(low), std::abs(high));
  if (!(high - low > std::max(1e-9 * largest, 1e-300))) {
    const double half = largest < 1e-290 ? 0.5 : largest * 0.05;
    low -= half;
    high += half;
  }
  const double rough = (high - low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  std::vector<double> ticks;
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string svg_of(const Plot& plot) {
  Range range;
  for (const PlotPanel& panel : plot.panels)
    for (const PlotSeries& series : panel.series)
      for (const PlotPoint& point : series.points) range.add(point.x);
  if (range.empty()) range.add(1);
  const Axis x{axis_ticks(std::min(0.0, range.low), range.high, 8), left, right};
  const auto panels = static_cast<double>(plot.panels.size());
  const double height = head + panels * panel_height + (panels - 1) * gap + foot - gap;
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n"
      "<style>text {{ font-size: 12px; fill: #222 }} .title {{ font-size: 14px; font-weight: bold }} "
      ".axis {{ stroke: #444 }} .grid {{ stroke: #e4e4e4 }} "
      ".span {{ stroke: {2}; stroke-dasharray: 2 3 }} .name {{ fill: {2} }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height, plot_colours::grey);
  text += text_at(left, 22, plot.title, "class=\"title\"");
  for (std::size_t i = 0; i < plot.panels.size(); ++i) text += panel_svg(plot, i, x);
  return text + "</svg>\n";
}

}  // namespace comera
