#include <fmt/core.h>

#include <cmath>

#include "kernels/ops/attention/attention.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
struct AttentionCase {
  const char* name;
  std::vector<std::int32_t> offsets;
  std::int64_t tokens, heads, size, longest;
  double dropout = 0;
  // Keys and values of one head for all: their sizes, and columns around them in memory.
  bool shared = false;
  std::int64_t value_size = 0, extra = 0;
  bool append_one = false;

  bool room = false;     // for the one
  bool opposed = false;  // queries against keys: every score far below zero
  bool slopes = false;   // some of which hide one side
  bool biases = false;   // of more positions than there are
  double scale = 1;      // of what it is otherwise
  std::int64_t queries = 0;
  std::int64_t used_values = 0;  // the other columns of v are not zero here: they must not be read

  std::int64_t values() const { return value_size > 0 ? value_size : size; }
  std::int64_t stored_values() const { return values() + (room ? 1 : 0); }
  std::int64_t kv_heads() const { return shared ? 1 : heads; }
};

// Rows of keys or values with `extra` columns behind them; without any, a plain matrix.
Shape rows_shape(const AttentionCase& c, std::int64_t width) {
  return c.extra > 0 ? Shape{c.tokens * (width + c.extra)} : Shape{c.tokens, width};
}

template <class Operation>
void set_common(const AttentionCase& c, OpTestContext& world, Operation& op) {
  if (c.opposed) {
    const Shape shape{c.tokens, c.heads * c.size};
    std::vector<float> keys;
    for (int i = 0; i < shape.elements(); ++i) keys.push_back(-5 - 0.25F * static_cast<float>(i % 7 % 3));
    op.q = world.chosen("q", shape, std::vector<float>(keys.size(), 5.F));
    op.k = world.chosen("k", shape, keys);
  } else {
    op.q = world.input({c.tokens, c.heads * c.size}, 2);
    op.k = world.input(rows_shape(c, c.kv_heads() * c.size), 2);
  }
  op.v = world.input(rows_shape(c, c.kv_heads() * c.stored_values()));
  op.sequence_offsets = world.integers(c.offsets);
  op.heads = c.heads, op.longest = c.longest, op.queries = c.queries;
  op.scale = c.scale / std::sqrt(static_cast<double>(c.size));
  op.dropout = {c.dropout, 5};
  if (c.dropout > 0) op.step_inputs = world.step_inputs(example_step());
  op.shared_keys = c.shared, op.append_one = c.append_one, op.room_for_one = c.room;
  if (c.slopes) {
    std::vector<float> slopes;
    for (int h = 0; h < c.heads; ++h)
      slopes.insert(slopes.end(),
                    {h % 3 == 1 ? 1e4F : 0.3F / static_cast<float>(1 + h), h % 3 == 0 ? 0.F : 0.1F});
    op.slopes = world.chosen_master({c.heads, 2}, slopes);
  }
  if (c.biases) op.biases = world.master({c.heads, 2 * c.longest + 5});
  op.used_values = c.used_values;
  if (c.extra > 0) op.k_stride = c.kv_heads() * c.size + c.extra;
  if (c.extra > 0) op.v_stride = c.kv_heads() * c.stored_values() + c.extra;
}

void attention_cases(std::vector<OperationCase>& cases, const AttentionCase& c) {
  const Shape out_shape{c.tokens, c.heads * (c.values() + (c.append_one ? 1 : 0))};
  cases.push_back(
      {fmt::format("AttentionForward_{}", c.name), c.opposed ? 4e-5 : 4e-6, [=](OpTestContext& world) {
         AttentionForward op;
         set_common(c, world, op);
         op.out = world.output("out", out_shape);
         op.log_sum_exp = world.statistic("log_sum_exp", {c.heads, c.tokens});
         world.run(op);
       }});
  cases.push_back(
      {fmt::format("AttentionBackward_{}", c.name), c.opposed ? 1e-4 : 1e-5, [=](OpTestContext& world) {
         AttentionForward forward;
         set_common(c, world, forward);
         forward.out = world.output("out", out_shape);
         forward.log_sum_exp = world.statistic("log_sum_exp", {c.heads, c.tokens});
         world.run(forward);
         AttentionBackward op;
         op.q = forward.q, op.k = forward.k, op.v = forward.v, op.out = forward.out;
         op.log_sum_exp = forward.log_sum_exp;
         op.sequence_offsets = forward.sequence_offsets;
         op.heads = c.heads, op.longest = c.longest, op.scale = forward.scale;
         op.dropout = forward.dropout, op.step_inputs = forward.step_inputs;
         op.shared_keys = c.shared, op.append_one = c.append_one, op.room_for_one = c.room;
         op.k_stride = forward.k_stride, op.v_stride = forward.v_stride;
         op.slopes = forward.slopes, op.biases = forward.biases, op.queries = forward.queries;
         op.used_values = forward.used_values;
         op.dout = world.input(out_shape);
         op.dq = world.output("dq", forward.q.shape());
         op.dk = world.output("dk", forward.k.shape());
         op.dv = world.output("dv", forward.v.shape());
         world.run(op);
       }});
}
}  // namespace

void add_attention_cases(std::vector<OperationCase>& cases) {
  attention_cases(cases, {"one_token", {0, 1}, 1, 1, 1, 1});
  attention_cases(cases, {"primes", {0, 3, 16, 16, 47}, 47, 3, 7, 31});
  attention_cases(cases, {"primes_dropout", {0, 3, 16, 16, 47}, 47, 3, 7, 31, 0.1});
  attention_cases(cases, {"padding", {0, 1, 18, 33, 33, 33}, 41, 2, 16, 24, 0.3});
  attention_cases(cases, {"heads_of_64", {0, 64, 100, 228}, 256, 2, 64, 128, 0.1});
  attention_cases(cases, {"long", {0, 277, 300}, 300, 1, 24, 300, 0.1});
  attention_cases(cases, {"longest_512", {0, 512}, 512, 1, 16, 512, 0});
  attention_cases(cases, {.name = "opposed",
                          .offsets = {0, 5, 9},
                          .tokens = 10,
                          .heads = 1,
                          .size = 16,
                          .longest = 5,
                          .opposed = true});
  // Kernels have ways of their own for keys that are all there, and for biases: all must round alike.
  attention_cases(cases, {.name = "opposed_tiles",
                          .offsets = {0, 70},
                          .tokens = 70,
                          .heads = 1,
                          .size = 16,
                          .longest = 70,
                          .opposed = true});
  attention_cases(cases, {.name = "opposed_one_short",
                          .offsets = {0, 63},
                          .tokens = 63,
                          .heads = 1,
                          .size = 16,
                          .longest = 63,
                          .opposed = true});
  attention_cases(cases, {.name = "opposed_slopes",
                          .offsets = {0, 5, 9},
                          .tokens = 10,
                          .heads = 3,
                          .size = 16,
                          .longest = 5,
                          .opposed = true,
                          .slopes = true});
  // On both sides of the tiles that kernels work with, and of the head sizes that they are made for.
  const std::vector<std::int32_t> tiles = {0, 33, 97, 162, 291};
  attention_cases(cases, {"tiles_of_32", tiles, 293, 1, 32, 129});
  attention_cases(cases, {"tiles_of_33", {0, 17, 66}, 66, 1, 33, 49, 0.1});
  attention_cases(cases, {"one_short_of_32", {0, 63, 94, 109}, 110, 1, 32, 63});
  attention_cases(cases, {"one_short_of_64", {0, 63, 94, 109}, 110, 1, 64, 63, 0.1});
  attention_cases(cases, {"tiles_of_65", {0, 17, 33, 65}, 65, 1, 65, 32});
  // Most are dropped: decisions are made in another way beyond a half.
  attention_cases(cases, {"dropout_beyond_half", {0, 5, 69}, 70, 2, 9, 64, 129.0 / 256});
  attention_cases(cases, {"dropout_of_most", {0, 5, 69}, 70, 2, 9, 64, 0.7});
  attention_cases(cases, {"shared_dropout_of_most", {0, 5, 69}, 70, 3, 9, 66, 0.9, true, 8, 0, true});
  attention_cases(cases, {"shared_one_head", {0, 3, 9}, 9, 1, 5, 6, 0, true, 3, 0, true});
  attention_cases(cases, {"shared_primes", {0, 3, 16, 16, 47}, 53, 3, 7, 31, 0.1, true, 5, 4, true});
  attention_cases(cases, {"shared_groups", {0, 64, 100, 228}, 229, 11, 30, 128, 0.1, true, 30, 31, true});
  attention_cases(cases, {"shared_no_ones", {0, 40, 73}, 73, 6, 16, 40, 0, true, 32, 0, false});
  attention_cases(cases, {"shared_long", {0, 277, 300}, 300, 9, 12, 300, 0.1, true, 33, 7, true});
  // Columns that pad the values: on both sides of the head sizes that kernels are made for.
  attention_cases(cases, {.name = "used_values",
                          .offsets = {0, 64, 100, 228, 228},
                          .tokens = 231,
                          .heads = 5,
                          .size = 32,
                          .longest = 128,
                          .shared = true,
                          .value_size = 39,
                          .extra = 24,
                          .append_one = true,
                          .room = true,
                          .used_values = 32});
  attention_cases(cases, {.name = "used_values_queries",
                          .offsets = {0, 3, 16, 47},
                          .tokens = 53,
                          .heads = 3,
                          .size = 7,
                          .longest = 31,
                          .shared = true,
                          .value_size = 9,
                          .append_one = true,
                          .queries = 2,
                          .used_values = 5});
  // By 16 bytes, 4 and 2 in bfloat16.
  const auto with_room = [&](AttentionCase c) {
    c.room = true;
    attention_cases(cases, c);
  };
  with_room({"room_32", {0, 64, 100, 228}, 229, 11, 32, 128, 0.1, true, 31, 64, true});
  with_room({"room_6", {0, 3, 16, 16, 47}, 53, 3, 6, 31, 0.1, true, 5, 0, true});
  with_room({"room_9", {0, 40, 73}, 75, 2, 7, 40, 0, true, 8, 1, true});
  with_room({"room_40", {0, 70}, 70, 3, 40, 70, 0, true, 39, 8, true});
  const auto sloped = [&](AttentionCase c) {
    c.slopes = true;
    attention_cases(cases, c);
  };
  sloped({"slopes", {0, 3, 16, 16, 47}, 49, 3, 7, 31, 0.1});
  sloped({"slopes_tiles", tiles, 293, 4, 32, 129});
  sloped({"slopes_long", {0, 277, 300}, 300, 2, 24, 300});
  sloped({"slopes_shared", {0, 64, 100, 228}, 229, 11, 30, 128, 0.1, true, 30, 31, true});
  const auto biased = [&](AttentionCase c) {
    c.biases = true;
    attention_cases(cases, c);
  };
  biased({"biases", {0, 3, 16, 16, 47}, 49, 3, 7, 31, 0.1});
  biased({"biases_tiles", tiles, 293, 4, 32, 129});
  biased({"biases_long", {0, 277, 300}, 300, 2, 24, 300});
  biased({"biases_shared", {0, 64, 100, 228}, 229, 11, 30, 128, 0.1, true, 30, 31, true});
  // What is hidden must stay so.
  for (const auto& [name, scale] : {std::pair("scale_of_0", 0.), std::pair("scale_below_0", -0.5)})
    attention_cases(cases, {.name = name,
                            .offsets = {0, 3, 16, 16, 47},
                            .tokens = 49,
                            .heads = 3,
                            .size = 7,
                            .longest = 31,
                            .scale = scale});
  // Of each sequence the first ones: fewer and more than there are, within a tile and beyond one.
  const auto first = [&](std::int64_t queries, AttentionCase c) {
    c.queries = queries;
    attention_cases(cases, c);
  };
  first(1, {"queries_1", {0, 1, 18, 33, 33, 33}, 41, 2, 16, 24, 0.3});
  first(1, {"queries_1_shared", {0, 64, 100, 228}, 229, 11, 30, 128, 0.1, true, 30, 31, true});
  first(17, {"queries_17", {0, 3, 16, 16, 47}, 49, 3, 7, 31, 0.1});
  first(65, {"queries_65", {0, 64, 100, 300}, 301, 2, 64, 200});
  first(130, {"queries_130", {0, 277, 300}, 300, 9, 12, 300, 0.1, true, 33, 7, true});
  first(30, {"queries_all", {0, 20, 33}, 35, 3, 8, 20, 0.2});
  attention_cases(cases, {.name = "queries_slopes",
                          .offsets = {0, 64, 100, 228},
                          .tokens = 229,
                          .heads = 3,
                          .size = 32,
                          .longest = 128,
                          .dropout = 0.1,
                          .shared = true,
                          .value_size = 31,
                          .extra = 64,
                          .append_one = true,
                          .room = true,
                          .slopes = true,
                          .queries = 40});
  attention_cases(cases, {"apart", {0, 20, 33}, 35, 3, 8, 20, 0.2, false, 9, 5, true});
}

}  // namespace comera::test
