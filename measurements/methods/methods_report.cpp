#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "measurements/methods/methods_benchmark.h"
#include "reports/number_text.h"
#include "reports/plot.h"
#include "reports/plot_colours.h"
#include "reports/text/text_table.h"
#include "training/logging/json.h"

namespace comera {

namespace {

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / 1048576; }

}  // namespace

std::string methods_text(const MethodsReport& report) {
  std::string text = fmt::format("{}; {}; whole steps of sequences of {} tokens\n", report.model,
                                 report.machine, report.length);
  for (const MethodResult& result : report.results) {
    text += fmt::format("  {:<14} {} parameters; {}", result.name, grouped(result.parameters), result.detail);
    if (result.occasional.steps > 0)
      text += fmt::format("; {} takes {:.3f} s every {} steps, spread over them here", result.occasional.name,
                          result.occasional.seconds, result.occasional.steps);
    text += '\n';
  }
  const MethodResult& first = report.results.front();
  for (std::size_t b = 0; b < first.costs.size(); ++b) {
    std::vector<std::string> titles = {fmt::format("batch {}", first.costs[b].batch), "ms a step",
                                       "least to most", "times"};
    for (int kind = 0; kind < memory_kinds; ++kind)
      titles.emplace_back(name_of(static_cast<MemoryKind>(kind)));
    titles.insert(titles.end(), {"MiB", "times"});
    TextTable table(std::move(titles));
    table.align_right(1);
    for (const MethodResult& result : report.results) {
      const MethodCost& cost = result.costs[b];
      std::vector<std::string> row = {
          result.name, fmt::format("{:.1f}", result.mean_seconds(cost) * 1e3),
          fmt::format("{:.0f} to {:.0f}", cost.least * 1e3, cost.most * 1e3),
          fmt::format("{:.2f}", result.mean_seconds(cost) / first.mean_seconds(first.costs[b]))};
      for (const std::size_t bytes : cost.bytes) row.push_back(fmt::format("{:.1f}", mebibytes(bytes)));
      row.push_back(fmt::format("{:.1f}", mebibytes(cost.total_bytes())));
      row.push_back(fmt::format("{:.2f}", static_cast<double>(cost.total_bytes()) /
                                              static_cast<double>(first.costs[b].total_bytes())));
      table.add(std::move(row));
    }
    text += '\n';
    text += table.text();
  }
  return text;
}

std::string methods_json(const MethodsReport& report) {
  Json methods = Json::array();
  for (const MethodResult& result : report.results) {
    Json costs = Json::array();
    for (const MethodCost& cost : result.costs) {
      Json memory;
      for (int kind = 0; kind < memory_kinds; ++kind)
        memory[name_of(static_cast<MemoryKind>(kind))] = cost.bytes[kind];
      costs.push_back({{"batch", cost.batch},
                       {"ms", result.mean_seconds(cost) * 1e3},
                       {"ms_without_occasional", cost.seconds * 1e3},
                       {"ms_least", cost.least * 1e3},
                       {"ms_most", cost.most * 1e3},
                       {"bytes", cost.total_bytes()},
                       {"bytes_by_kind", memory}});
    }
    methods.push_back({{"method", result.name},
                       {"detail", result.detail},
                       {"parameters", result.parameters},
                       {"occasional_work", result.occasional.name},
                       {"occasional_seconds", result.occasional.seconds},
                       {"occasional_steps", result.occasional.steps},
                       {"steps", costs}});
  }
  const Json all = {
      {"model", report.model}, {"machine", report.machine}, {"length", report.length}, {"methods", methods}};
  return json_text(all) + "\n";
}

std::string methods_svg(const MethodsReport& report) {
  Plot plot{.title = "Methods to train " + report.model, .x_title = "sequences of a step"};
  plot.panels = {{.title = "peak memory, MiB", .from_zero = true}, {.title = "ms a step", .from_zero = true}};
  for (std::size_t m = 0; m < report.results.size(); ++m) {
    const MethodResult& result = report.results[m];
    PlotSeries memory{.name = result.name, .colour = plot_colours::of_curve(m), .style = PlotStyle::marked};
    PlotSeries time = memory;
    for (const MethodCost& cost : result.costs) {
      const auto batch = static_cast<double>(cost.batch);
      memory.points.push_back({batch, mebibytes(cost.total_bytes())});
      time.points.push_back({batch, result.mean_seconds(cost) * 1e3});
    }
    plot.panels[0].series.push_back(std::move(memory));
    plot.panels[1].series.push_back(std::move(time));
  }
  return svg_of(plot);
}

}  // namespace comera
