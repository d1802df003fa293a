#include "reports/precision_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/backends/processors.h"
#include "kernels/ops/product_log.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "reports/text/text_table.h"

namespace comera {

namespace {

using Entry = ProductLog::Entry;

ProductLog log_of(const EncoderConfig& config, std::int64_t tokens, std::int64_t length) {
  const Processor processor = cpu_processor();
  const Model model(config, processor.allocator, true);
  const std::int64_t sequences = (tokens + length - 1) / length;
  const PackedBatch batch =
      PackedBatch::measuring({.tokens = tokens,
                              .sequences = config.pairs == PairEncoding::separate ? 2 * sequences : sequences,
                              .longest = length,
                              .masked = (tokens * 15 + 99) / 100,
                              .unique_ids = std::min(tokens, config.vocabulary)});
  Buffer inputs(processor.allocator, sizeof(StepInputs), MemoryKind::workspace),
      results(processor.allocator, sizeof(StepResults), MemoryKind::workspace);
  Arena arena = Arena::measuring({});
  ProductLog log;
  const Context context{processor.backend, arena, processor.allocator.stream(), &log};
  model.run_micro_batch({{.context = context,
                          .store = model.parameters(),
                          .inputs = inputs.tensor({sizeof(StepInputs)}, DType::uint8),
                          .results = results.tensor({sizeof(StepResults)}, DType::uint8)},
                         batch},
                        true);
  return log;
}

// "encoder.0.ffn.up" as "encoder.*.ffn.up".
std::string kind_of(const std::string& place) {
  constexpr std::string_view blocks = "encoder.";
  if (!place.starts_with(blocks)) return place;
  const std::size_t end = place.find('.', blocks.size());
  return end == std::string::npos ? place : fmt::format("{}*{}", blocks, place.substr(end));
}

// Locations of one kind with the same products, and these products, each with its number of executions.
struct Alike {
  std::string first, kind;
  std::int64_t places = 1;
  std::vector<std::pair<Entry, int>> products;
};

std::vector<std::pair<Entry, int>> counted(const std::vector<Entry>& entries) {
  std::vector<std::pair<Entry, int>> list;
  for (Entry entry : entries) {
    entry.place.clear();
    const auto same = std::ranges::find(list, entry, &std::pair<Entry, int>::first);
    if (same == list.end())
      list.emplace_back(entry, 1);
    else
      ++same->second;
  }
  return list;
}

std::vector<Alike> without_repeats(const ProductLog& log) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<Entry>> places;
  for (const Entry& entry : log.entries()) {
    if (!places.contains(entry.place)) order.push_back(entry.place);
    places[entry.place].push_back(entry);
  }
  std::vector<Alike> list;
  for (const std::string& place : order) {
    Alike next{.first = place, .kind = kind_of(place), .products = counted(places[place])};
    const auto same = std::ranges::find_if(
        list, [&](const Alike& other) { return other.kind == next.kind && other.products == next.products; });
    if (same == list.end())
      list.push_back(std::move(next));
    else
      ++same->places;
  }
  return list;
}

// In the terms of recipes and of the formats.
std::string type_text(DType type, Compute compute) {
  switch (type) {
    case DType::float8_e4m3:
      return "fp8 e4m3";
    case DType::float8_e5m2:
      return "fp8 e5m2";
    case DType::bfloat16:
      return "bf16";
    case DType::float64:
      return "fp64";
    default:
      return compute == Compute::tf32 ? "tf32" : "fp32";
  }
}

std::string line_of(const std::string& operation, const std::string& sizes, const std::string& times,
                    const std::string& type, const std::string& why) {
  std::string line = fmt::format("  {:<18}{:<28}{:>5}  {:<10}{}", operation, sizes, times, type, why);
  line.erase(line.find_last_not_of(' ') + 1);
  if (columns_of(line) > terminal_columns && !why.empty())  // the reason in a line of its own
    line = line.substr(0, line.find_last_not_of(' ', line.size() - why.size() - 1) + 1) + "\n      " + why;
  return line + '\n';
}

std::string share_lines(const ProductLog& log, Compute compute) {
  std::map<std::string, double> work;
  double all = 0;
  for (const Entry& entry : log.entries()) {
    work[type_text(entry.type, compute)] += entry.flops();
    all += entry.flops();
  }
  std::string text;
  for (const auto& [type, flops] : work)
    text += fmt::format("{:<10}{:>10.3f} GFLOP{:>8.1f} %\n", type, flops * 1e-9, 100 * flops / all);
  return text;
}

std::string headline(const PrecisionSection& precision, const EncoderConfig& config, std::int64_t tokens,
                     std::int64_t length) {
  std::string text = fmt::format("compute {}, activations {}", name_of(precision.compute),
                                 type_text(config.compute, Compute::fp32));
  if (config.float8)
    text += fmt::format(", {} scales, format {}", name_of(config.float8->scaling),
                        name_of(config.float8->format));
  if (precision.compute == Compute::tf32) text += " (on a GPU; the CPU multiplies fp32)";
  return text +
         fmt::format("; a training step on a micro-batch of {} tokens in sequences of {}\n", tokens, length);
}

}  // namespace

std::string precision_report(const Recipe& recipe, std::int64_t vocabulary, std::int64_t tokens,
                             std::int64_t length) {
  const EncoderConfig config = encoder_config(recipe, vocabulary);
  const Compute compute = recipe.precision.compute;
  length = std::min({length, tokens, config.max_positions});
  const ProductLog log = log_of(config, tokens, length);
  std::string text = headline(recipe.precision, config, tokens, length);
  text += '\n' + line_of("product of", "m x n x k", "times", "type", "why that one");
  for (const Alike& alike : without_repeats(log)) {
    text += alike.places > 1 ? fmt::format("\n{} ({} layers alike)\n", alike.kind, alike.places)
                             : fmt::format("\n{}\n", alike.first);
    for (const auto& [entry, times] : alike.products) {
      const std::string batch = entry.batch > 1 ? fmt::format("{} x ", entry.batch) : "";
      text += line_of(entry.operation, fmt::format("{}{} x {} x {}", batch, entry.m, entry.n, entry.k),
                      std::to_string(times), type_text(entry.type, compute), entry.why);
    }
  }
  return text + "\n" + share_lines(log, compute);
}

}  // namespace comera
