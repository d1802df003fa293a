#include "recipes/fit_shapes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace comera {

namespace {

using Modes = std::vector<std::int64_t>;

std::int64_t product(const Modes& modes) {
  return std::accumulate(modes.begin(), modes.end(), std::int64_t{1}, std::multiplies<>());
}

// `count` factors above 1, ascending and as equal as possible: those with the smallest sum. Empty if there
// are none.
Modes factors(std::int64_t size, std::size_t count, std::int64_t least = 2) {
  if (count == 1) return size >= least ? Modes{size} : Modes();
  Modes best;
  for (std::int64_t first = least; first <= size / first; ++first) {
    if (size % first != 0) continue;
    Modes rest = factors(size / first, count - 1, first);
    if (rest.empty()) continue;
    rest.insert(rest.begin(), first);
    if (best.empty() || std::reduce(rest.begin(), rest.end()) < std::reduce(best.begin(), best.end()))
      best = rest;
  }
  return best;
}

Modes modes_for(const std::string& key, std::int64_t size, std::size_t count) {
  Modes modes = factors(size, count);
  if (modes.empty())
    throw UsageError(
        fmt::format("tensorized.{}: {} is not a product of {} numbers above 1, as the recipe's shapes need; "
                    "give other modes and their ranks: --set tensorized.{}=[...]",
                    key, size, count, key));
  return modes;
}

// Limits each bond to the sizes of its two sides.
void limit_ranks(std::vector<std::int64_t>& ranks, const Modes& sizes) {
  for (std::size_t bond = 0; bond < ranks.size(); ++bond) {
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(bond) + 1;
    ranks[bond] = std::min({ranks[bond], product({sizes.begin(), middle}), product({middle, sizes.end()})});
  }
}

void fit(const std::string& key, std::optional<TTShape>& shape, std::int64_t inputs, std::int64_t outputs,
         std::vector<std::string>& notes) {
  if (!shape || (shape->input_size() == inputs && shape->output_size() == outputs)) return;
  const std::string before = shape->text();
  if (shape->input_size() != inputs)
    shape->input_modes = modes_for(key + ".input_modes", inputs, shape->input_modes.size());
  if (shape->output_size() != outputs) {
    shape->output_modes = modes_for(key + ".output_modes", outputs, shape->output_modes.size());
    std::ranges::reverse(shape->output_modes);
  }
  Modes sizes = shape->input_modes;
  sizes.insert(sizes.end(), shape->output_modes.begin(), shape->output_modes.end());
  limit_ranks(shape->ranks, sizes);
  notes.push_back(fmt::format("tensorized.{}: {} fits another width; {} is used for {} x {}", key, before,
                              shape->text(), inputs, outputs));
}

// Modes as equal as possible, whose product is just large enough.
Modes rows_for(std::int64_t vocabulary, std::size_t count) {
  Modes modes;
  for (std::size_t left = count; left > 0; --left) {
    auto mode = static_cast<std::int64_t>(
        std::floor(std::pow(static_cast<double>(vocabulary), 1.0 / static_cast<double>(left))));
    const auto reaches = [&] {
      return std::pow(static_cast<double>(mode), static_cast<double>(left)) >=
             static_cast<double>(vocabulary);
    };
    while (mode < 2 || !reaches()) ++mode;
    modes.push_back(mode);
    vocabulary = (vocabulary + mode - 1) / mode;
  }
  return modes;
}

void fit_table(std::optional<TTMShape>& table, std::int64_t width, std::int64_t vocabulary,
               std::vector<std::string>& notes) {
  if (!table) return;
  const bool rows_fit = table->rows() >= vocabulary && table->rows() <= 2 * vocabulary,
             columns_fit = table->projection ? table->columns() < width : table->columns() == width;
  const bool frequent_fit = table->frequent_rows < vocabulary;
  if (rows_fit && columns_fit && frequent_fit) return;
  const std::string before = table->text();
  if (!frequent_fit) table->frequent_rows = vocabulary / 2;
  if (!rows_fit) table->row_modes = rows_for(vocabulary, table->row_modes.size());
  if (!columns_fit) {
    table->projection = table->projection && width % 2 == 0;
    table->column_modes = modes_for("embedding.column_modes", table->projection ? width / 2 : width,
                                    table->column_modes.size());
  }
  Modes sizes;
  for (std::size_t k = 0; k < table->row_modes.size(); ++k)
    sizes.push_back(table->row_modes[k] * table->column_modes[k]);
  limit_ranks(table->ranks, sizes);
  notes.push_back(fmt::format("tensorized.embedding: {} fits another size; {} is used for {} tokens of {}",
                              before, table->text(), vocabulary, width));
}

}  // namespace

void fit_head(TensorizedConfig& shapes, const EncoderArchitecture& model, std::vector<std::string>& notes) {
  fit("head", shapes.head, model.hidden, model.head_outputs(), notes);
}

void two_factors(TensorizedConfig& shapes, const EncoderArchitecture& model, std::int64_t vocabulary) {
  const auto matrix = [](std::int64_t inputs, std::int64_t outputs) {
    return TTShape{.input_modes = {inputs}, .output_modes = {outputs}, .ranks = {std::min(inputs, outputs)}};
  };
  shapes.attention = matrix(model.hidden, model.hidden);
  shapes.ffn_up = matrix(model.hidden, model.ffn);
  shapes.ffn_down = matrix(model.ffn, model.hidden);
  shapes.head = matrix(model.hidden, model.head_outputs());
  const std::int64_t width = model.table_width();
  shapes.embedding = TTMShape{
      .row_modes = {vocabulary, 1}, .column_modes = {1, width}, .ranks = {std::min(vocabulary, width)}};
}

bool has_two_factors(const TTMShape& table) {
  return table.order() == 2 && !table.projection && table.column_modes[0] == 1 && table.row_modes[1] == 1;
}

std::vector<std::string> fit_shapes(TensorizedConfig& shapes, const EncoderArchitecture& model,
                                    std::int64_t vocabulary) {
  std::vector<std::string> notes;
  fit("attention", shapes.attention, model.hidden, model.hidden, notes);
  fit("ffn_up", shapes.ffn_up, model.hidden, model.ffn, notes);
  fit("ffn_down", shapes.ffn_down, model.ffn, model.hidden, notes);
  fit_head(shapes, model, notes);
  fit_table(shapes.embedding, model.table_width(), vocabulary, notes);
  return notes;
}

}  // namespace comera
