#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/elementwise/gather.h"
#include "kernels/ops/elementwise/rotary.h"
#include "kernels/ops/lookups/replaced_tokens.h"
#include "kernels/ops/tensor_trains/ttm_chain.h"
#include "kernels/ops/tensor_trains/ttm_rows.h"
#include "kernels/ops/tensor_trains/ttm_table.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
using Integers = std::vector<std::int32_t>;

Integers drawn(std::int64_t count, std::int64_t below, std::uint32_t seed) {
  Integers values(static_cast<std::size_t>(count));
  for (auto& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<std::int32_t>((seed >> 8) % static_cast<std::uint32_t>(below));
  }
  return values;
}

Integers shuffled(std::int64_t count, std::uint32_t seed) {
  Integers values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  const Integers keys = drawn(count, 1 << 20, seed);
  std::sort(values.begin(), values.end(),
            [&](int a, int b) { return std::pair(keys[a], a) < std::pair(keys[b], b); });
  return values;
}

void table_gradient_case(std::vector<OperationCase>& cases, std::int64_t tokens, std::int64_t width,
                         std::int64_t rows, std::int64_t count) {
  cases.push_back(
      {fmt::format("TableGradient_{}_{}_{}", tokens, width, rows), 4e-6, [=](OpTestContext& world) {
         TableGradient op;
         op.dy = world.input({tokens, width}), op.ids = world.integers(drawn(tokens, rows, 4));
         op.count = world.integers({static_cast<std::int32_t>(count)});
         op.dtable = world.master_output("dtable", {rows, width});
         world.run(op);
       }});
}

void id_cases(std::vector<OperationCase>& cases, std::int64_t tokens, std::int32_t count, std::int64_t below,
              std::int64_t right_rows) {
  cases.push_back({fmt::format("OrderIds_{}_{}_{}_{}", tokens, count, below, right_rows), 1e-30,
                   [=](OpTestContext& world) {
                     const std::int64_t room = std::min(tokens, below);
                     const auto out = [&](const char* name, std::int64_t size) {
                       return world.chosen_integers(name, Integers(static_cast<std::size_t>(size), -7));
                     };
                     OrderIds op;
                     op.ids = world.integers(drawn(tokens, below, 4)), op.count = world.integers({count});
                     op.right_rows = right_rows, op.parameters = world.master();
                     op.unique_ids = out("ids", room), op.unique_count = out("number", 1);
                     op.unique_index = out("index", tokens), op.unique_order = out("order", tokens);
                     op.unique_offsets = out("offsets", room + 1), op.right_order = out("right", room);
                     world.run(op);
                   }});
}

void replacement_case(std::vector<OperationCase>& cases, std::int64_t tokens, std::int64_t masked,
                      std::int32_t count) {
  cases.push_back(
      {fmt::format("ReplaceTokens_{}_{}_{}", tokens, masked, count), 1e-30, [=](OpTestContext& world) {
         Integers positions;
         for (std::int64_t p = 0; p < masked; ++p)
           positions.push_back(static_cast<std::int32_t>(p < count ? p * tokens / masked : 0));
         ReplaceTokens op;
         op.token_ids = world.integers(drawn(tokens, 50, 4));
         op.positions = world.integers(positions), op.count = world.integers({count});
         op.targets = world.integers(drawn(masked, 3, 5));
         op.drawn = world.integers(drawn(masked, 3, 6));
         op.parameters = world.master();
         op.y = world.chosen_integers("y", Integers(static_cast<std::size_t>(tokens), -7));
         op.replaced = world.chosen_float("replaced", std::vector<float>(static_cast<std::size_t>(tokens)));
         world.run(op);
       }});
}

void rotary_cases(std::vector<OperationCase>& cases, std::int64_t tokens, std::int64_t heads,
                  std::int64_t size) {
  for (const bool backward : {false, true})
    cases.push_back({fmt::format("Rotary_{}_{}_{}{}", tokens, heads, size, backward ? "_backward" : ""), 1e-6,
                     [=](OpTestContext& world) {
                       Rotary op;
                       op.x = world.output("x", {tokens, heads * size});
                       op.position_ids = world.integers(drawn(tokens, 19, 5));
                       op.turns = world.master({19, size});
                       op.backward = backward;
                       world.run(op);
                     }});
}

// The first `count` segments are real. `rows` of dy: some are summed several times, others never; 0: as many
// as tokens, each once.
void segment_cases_of(std::vector<OperationCase>& cases, const std::string& name, std::int64_t tokens,
                      std::int64_t width, const Integers& offsets, std::int64_t count, int rows = 0) {
  const auto segments = static_cast<std::int64_t>(offsets.size()) - 1;
  for (bool with_ids : {false, true}) {
    cases.push_back({"SegmentSum_" + name + (with_ids ? "_ids" : ""), 4e-6, [=](OpTestContext& world) {
                       SegmentSum op;
                       op.dy = world.input({rows > 0 ? rows : tokens, width});
                       op.order = world.integers(rows > 0 ? drawn(tokens, rows, 6) : shuffled(tokens, 6));
                       op.offsets = world.integers(offsets);
                       op.count = world.integers({static_cast<std::int32_t>(count)});
                       if (with_ids) {
                         Integers ids(static_cast<std::size_t>(segments));
                         for (std::size_t i = 0; i < ids.size(); ++i)
                           ids[i] = static_cast<std::int32_t>(2 * i);
                         op.ids = world.integers(ids);
                       }
                       op.out = world.master_output("out", {with_ids ? 2 * segments : segments, width});
                       world.run(op);
                     }});
  }
}

// Offsets are drawn: some segments are empty.
void segment_cases(std::vector<OperationCase>& cases, std::int64_t tokens, std::int64_t width,
                   std::int64_t segments, int rows = 0) {
  Integers offsets = drawn(segments + 1, tokens + 1, 5);
  std::sort(offsets.begin(), offsets.end());
  const std::string of_rows = rows > 0 ? fmt::format("_of_{}", rows) : "";
  segment_cases_of(cases, fmt::format("{}_{}_{}{}", tokens, width, segments, of_rows), tokens, width, offsets,
                   segments - segments / 4, rows);
}

void table_cases(std::vector<OperationCase>& cases, std::int64_t tokens, std::int64_t width) {
  table_gradient_case(cases, tokens, width, 5, tokens - tokens / 5);
  const std::string name = fmt::format("{}_{}", tokens, width);
  cases.push_back({"EmbeddingSum_" + name, 1e-6, [=](OpTestContext& world) {
                     EmbeddingSum op;
                     op.rows = world.master({31, width}), op.index = world.integers(drawn(tokens, 31, 1));
                     op.positions = world.master({17, width});
                     op.position_ids = world.integers(drawn(tokens, 17, 2));
                     op.types = world.master({2, width}), op.type_ids = world.integers(drawn(tokens, 2, 3));
                     op.y = world.output("y", {tokens, width});
                     world.run(op);
                   }});
  cases.push_back({"EmbeddingSum_no_positions_" + name, 1e-6, [=](OpTestContext& world) {
                     EmbeddingSum op;
                     op.rows = world.master({31, width}), op.index = world.integers(drawn(tokens, 31, 1));
                     op.types = world.master({2, width}), op.type_ids = world.integers(drawn(tokens, 2, 3));
                     op.position_ids = world.integers(drawn(tokens, 17, 2));
                     op.y = world.output("y", {tokens, width});
                     world.run(op);
                   }});
  segment_cases(cases, tokens, width, std::max<std::int64_t>(1, tokens / 3));
  cases.push_back({"GatherRows_" + name, 0, [=](OpTestContext& world) {
                     GatherRows op;
                     op.x = world.input({19, width}), op.indices = world.integers(drawn(tokens + 3, 19, 7));
                     op.count = world.integers({static_cast<std::int32_t>(tokens - tokens / 5)});
                     op.y = world.output("y", {tokens, width});
                     world.run(op);
                   }});
  cases.push_back({"ScatterRows_" + name, 0, [=](OpTestContext& world) {
                     ScatterRows op;
                     op.dy = world.input({tokens, width}), op.indices = world.integers(shuffled(tokens, 8));
                     op.count = world.integers({static_cast<std::int32_t>(tokens - tokens / 5)});
                     op.dx = world.output("dx", {tokens, width});
                     world.run(op);
                   }});
}

struct Factors {
  std::int64_t lefts, nl, rank, rights, nr, ids, count;
};

void ttm_cases(std::vector<OperationCase>& cases, const Factors& h, std::int64_t frequent = 0) {
  const std::string name = fmt::format("{}_{}_{}_{}_{}{}", h.lefts, h.nl, h.rank, h.rights, h.nr,
                                       frequent > 0 ? fmt::format("_frequent_{}", frequent) : "");
  const auto ids = [=] {
    Integers all = shuffled(h.lefts * h.rights, 9);
    all.resize(static_cast<std::size_t>(h.ids));
    std::sort(all.begin(), all.begin() + h.count);
    return all;
  };
  cases.push_back({"TTMRowsForward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTMRowsForward op;
                     op.left = world.input({h.lefts, h.nl, h.rank});
                     op.right = world.input({h.rights, h.rank, h.nr});
                     op.ids = world.integers(ids());
                     op.count = world.integers({static_cast<std::int32_t>(h.count)});
                     if (frequent > 0) op.frequent = world.input({frequent, h.nl * h.nr});
                     op.rows = world.output("rows", {h.ids, h.nl * h.nr});
                     world.run(op);
                   }});
  cases.push_back({"TTMRowsBackward_" + name, 4e-6, [=](OpTestContext& world) {
                     const Integers all = ids();
                     Integers order(all.size());
                     std::iota(order.begin(), order.end(), 0);
                     std::sort(order.begin(), order.begin() + h.count, [&](int a, int b) {
                       return std::pair(all[a] % h.rights, all[a]) < std::pair(all[b] % h.rights, all[b]);
                     });
                     TTMRowsBackward op;
                     op.left = world.input({h.lefts, h.nl, h.rank});
                     op.right = world.input({h.rights, h.rank, h.nr});
                     op.ids = world.integers(all), op.right_order = world.integers(order);
                     op.count = world.integers({static_cast<std::int32_t>(h.count)});
                     op.drows = world.input({h.ids, h.nl * h.nr});
                     op.dleft = world.output("dleft", {h.lefts, h.nl, h.rank});
                     op.dright = world.output("dright", {h.rights, h.rank, h.nr});
                     if (frequent > 0) op.dfrequent = world.output("dfrequent", {frequent, h.nl * h.nr});
                     world.run(op);
                   }});
  if (frequent > 0) return;
  cases.push_back({"TTMTableForward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTMTableForward op;
                     op.left = world.master({h.lefts, h.nl, h.rank});
                     op.right = world.master({h.rank, h.rights, h.nr});
                     op.rows = world.output("rows", {h.lefts * h.rights, h.nl * h.nr});
                     world.run(op);
                   }});
  cases.push_back({"TTMTableBackward_" + name, 8e-6, [=](OpTestContext& world) {
                     TTMTableBackward op;
                     op.left = world.master({h.lefts, h.nl, h.rank});
                     op.right = world.master({h.rank, h.rights, h.nr});
                     op.drows = world.input({h.lefts * h.rights, h.nl * h.nr});
                     op.dleft = world.master_output("dleft", {h.lefts, h.nl, h.rank});
                     op.dright = world.master_output("dright", {h.rank, h.rights, h.nr});
                     world.run(op);
                   }});
}
// Modes of rows and columns, and the ranks between.
struct ChainShape {
  std::vector<std::int64_t> rows, columns, ranks;
  std::int64_t ids, count;
};

void chain_cases(std::vector<OperationCase>& cases, const ChainShape& shape) {
  const int cores = static_cast<int>(shape.rows.size());
  std::int64_t rows = 1, width = 1;
  for (int k = 0; k < cores; ++k) rows *= shape.rows[k], width *= shape.columns[k];
  const std::string name = fmt::format("{}_cores_{}_{}", cores, rows, width);
  const auto core_shape = [=](int k) {
    return Shape{k == 0 ? 1 : shape.ranks[k - 1], shape.rows[k], shape.columns[k],
                 k + 1 == cores ? 1 : shape.ranks[k]};
  };
  const auto count = static_cast<std::int32_t>(shape.count);
  cases.push_back({"TTMChainForward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTMChainForward op;
                     op.cores = cores;
                     for (int k = 0; k < cores; ++k) {
                       op.core[k] = world.input(core_shape(k));
                       if (k + 1 < cores) op.gate[k] = world.input({shape.ranks[k]});
                     }
                     op.ids = world.integers(drawn(shape.ids, rows, 10)), op.count = world.integers({count});
                     op.rows = world.output("rows", {shape.ids, width});
                     world.run(op);
                   }});
  cases.push_back({"TTMChainBackward_" + name, 1e-5, [=](OpTestContext& world) {
                     TTMChainBackward op;
                     op.cores = cores;
                     for (int k = 0; k < cores; ++k) {
                       op.core[k] = world.input(core_shape(k));
                       op.dcore[k] = world.output(fmt::format("dcore{}", k), core_shape(k));
                       if (k + 1 == cores) continue;
                       op.gate[k] = world.input({shape.ranks[k]});
                       op.dgate[k] = world.output(fmt::format("dgate{}", k), {shape.ranks[k]});
                     }
                     op.ids = world.integers(drawn(shape.ids, rows, 10)), op.count = world.integers({count});
                     op.drows = world.input({shape.ids, width});
                     world.run(op);
                   }});
}
}  // namespace

void add_embedding_cases(std::vector<OperationCase>& cases) {
  id_cases(cases, 1, 1, 1, 0);
  id_cases(cases, 37, 29, 11, 4);
  id_cases(cases, 700, 683, 1000, 32);
  id_cases(cases, 300, 257, 90, 0);
  id_cases(cases, 9, 0, 20, 5);
  replacement_case(cases, 1, 1, 1);
  replacement_case(cases, 71, 13, 11);
  replacement_case(cases, 600, 90, 88);
  replacement_case(cases, 9, 3, 0);
  rotary_cases(cases, 1, 1, 2);
  rotary_cases(cases, 41, 3, 10);
  rotary_cases(cases, 70, 2, 64);
  table_cases(cases, 1, 1);
  table_cases(cases, 71, 37);
  table_cases(cases, 300, 261);
  segment_cases(cases, 700, 8, 9);       // long segments, which a block sums together on a GPU
  segment_cases(cases, 700, 133, 5);     // and of more columns than one has
  segment_cases(cases, 71, 13, 9, 5);    // rows that are summed several times
  segment_cases(cases, 700, 8, 2, 900);  // long segments of few of the rows
  // On a GPU segments are long from 33 rows on, and a block looks at every 32nd row.
  segment_cases_of(cases, "lengths_about_32", 230, 4, {0, 1, 34, 64, 97, 128, 160, 193, 225}, 8);
  segment_cases_of(cases, "33", 33, 4, {0, 33}, 1);
  table_gradient_case(cases, 5000, 4, 300, 4999);  // more tokens than a block lists at once on a GPU
  table_gradient_case(cases, 300, 8, 130, 299);    // so many rows that a block goes over all tokens
  table_gradient_case(cases, 299, 3, 10, 299);     // the last part has fewer tokens than the others
  table_gradient_case(cases, 150, 8, 6, 149);      // two parts
  ttm_cases(cases, {1, 1, 1, 1, 1, 1, 1});
  ttm_cases(cases, {7, 5, 3, 11, 13, 40, 33});
  ttm_cases(cases, {20, 16, 32, 25, 48, 300, 260});
  ttm_cases(cases, {12, 16, 48, 9, 8, 70, 55});
  ttm_cases(cases, {5, 30, 20, 6, 16, 28, 28});
  for (const std::int64_t frequent : {1, 40, 76}) ttm_cases(cases, {7, 5, 3, 11, 13, 40, 33}, frequent);
  ttm_cases(cases, {3, 21, 35, 40, 17, 120, 117});  // more rows of a left factor than warps share on a GPU
  ttm_cases(cases, {3, 21, 35, 40, 17, 120, 117}, 70);
  chain_cases(cases, {{3}, {5}, {}, 4, 3});
  chain_cases(cases, {{2, 3}, {3, 2}, {4}, 9, 9});
  chain_cases(cases, {{2, 3}, {2, 1}, {2}, 1030, 1028});  // more ids than a grid has blocks
  chain_cases(cases, {{5, 3, 2, 4}, {2, 3, 5, 4}, {3, 7, 5}, 40, 33});
}

}  // namespace comera::test
