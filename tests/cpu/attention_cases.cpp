#include <fmt/core.h>

#include <cmath>

#include "kernels/ops/attention.h"
#include "tests/cpu/world.h"

namespace comera::test {

namespace {
struct AttentionCase {
  const char* name;
  std::vector<std::int32_t> offsets;
  std::int64_t tokens, heads, size, longest;
  double dropout = 0;
};

void attention_cases(std::vector<OperationCase>& cases, const AttentionCase& c) {
  cases.push_back({fmt::format("AttentionForward_{}", c.name), 4e-6, [=](World& world) {
                     AttentionForward op;
                     const std::int64_t width = c.heads * c.size;
                     op.q = world.input({c.tokens, width}, 2);
                     op.k = world.input({c.tokens, width}, 2);
                     op.v = world.input({c.tokens, width});
                     op.sequence_offsets = world.integers(c.offsets);
                     op.heads = c.heads, op.longest = c.longest;
                     op.scale = 1 / std::sqrt(static_cast<double>(c.size));
                     op.dropout = {c.dropout, 5};
                     if (c.dropout > 0) op.step_inputs = world.step_inputs(example_step());
                     op.out = world.output("out", {c.tokens, width});
                     op.log_sum_exp = world.output("log_sum_exp", {c.heads, c.tokens});
                     world.run(op);
                   }});
  cases.push_back({fmt::format("AttentionBackward_{}", c.name), 1e-5, [=](World& world) {
                     AttentionForward forward;
                     const std::int64_t width = c.heads * c.size;
                     forward.q = world.input({c.tokens, width}, 2);
                     forward.k = world.input({c.tokens, width}, 2);
                     forward.v = world.input({c.tokens, width});
                     forward.sequence_offsets = world.integers(c.offsets);
                     forward.heads = c.heads, forward.longest = c.longest;
                     forward.scale = 1 / std::sqrt(static_cast<double>(c.size));
                     forward.dropout = {c.dropout, 5};
                     if (c.dropout > 0) forward.step_inputs = world.step_inputs(example_step());
                     forward.out = world.output("out", {c.tokens, width});
                     forward.log_sum_exp = world.output("log_sum_exp", {c.heads, c.tokens});
                     world.run(forward);
                     AttentionBackward op;
                     op.q = forward.q, op.k = forward.k, op.v = forward.v, op.out = forward.out;
                     op.log_sum_exp = forward.log_sum_exp;
                     op.sequence_offsets = forward.sequence_offsets;
                     op.heads = c.heads, op.longest = c.longest, op.scale = forward.scale;
                     op.dropout = forward.dropout, op.step_inputs = forward.step_inputs;
                     op.dout = world.input({c.tokens, width});
                     op.dq = world.output("dq", {c.tokens, width});
                     op.dk = world.output("dk", {c.tokens, width});
                     op.dv = world.output("dv", {c.tokens, width});
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
}

}  // namespace comera::test
