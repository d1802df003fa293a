#include <fmt/format.h>

#include "kernels/ops/elementwise/clicks.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
void bag_case(std::vector<OperationCase>& cases, std::int64_t bags, std::int64_t width) {
  cases.push_back({fmt::format("DivideBags_{}_{}", bags, width), 1e-6, [=](OpTestContext& world) {
                     std::vector<std::int32_t> offsets{0};
                     for (std::int64_t b = 0; b < bags; ++b)  // empty ones, and ones of a single id
                       offsets.push_back(offsets.back() + static_cast<int>(b * 5 % 7));
                     DivideBags op;
                     op.x = world.output("x", {bags, width}), op.offsets = world.integers(offsets);
                     world.run(op);
                   }});
}

void interaction_cases(std::vector<OperationCase>& cases, std::int64_t others, std::int64_t examples,
                       std::int64_t width) {
  const std::string name = fmt::format("{}_{}_{}", others, examples, width);
  const std::int64_t features = width + others * (others + 1) / 2;
  cases.push_back(
      {"DotInteractionForward_" + name, 4e-6, [=](OpTestContext& world) {
         DotInteractionForward op;
         op.first = world.input({examples, width}), op.others = world.input({others, examples, width});
         op.y = world.output("y", {examples, features});
         world.run(op);
       }});
  cases.push_back(
      {"DotInteractionBackward_" + name, 4e-6, [=](OpTestContext& world) {
         DotInteractionBackward op;
         op.first = world.input({examples, width}), op.others = world.input({others, examples, width});
         op.dy = world.input({examples, features});
         op.dfirst = world.output("dfirst", {examples, width});
         op.dothers = world.output("dothers", {others, examples, width});
         world.run(op);
       }});
}

// targets: of the loss that it is added to; -1: none.
void loss_cases(std::vector<OperationCase>& cases, std::int64_t examples, std::int32_t count, double range,
                std::int32_t targets = -1) {
  for (const bool gradient : {false, true})
    cases.push_back({fmt::format("BinaryCrossEntropy_{}_{}_{}{}{}", examples, count, range,
                                 targets < 0 ? "" : "_added", gradient ? "_gradient" : ""),
                     4e-6, [=](OpTestContext& world) {
                       std::vector<float> labels;
                       for (std::int64_t b = 0; b < examples; ++b) labels.push_back(b % 3 == 1 ? 1.F : 0.F);
                       BinaryCrossEntropy op;
                       op.logits = world.output("logits", {examples, 1}, range);
                       op.labels = world.floats(labels);
                       op.count = world.integers({count}), op.gradient = gradient;
                       if (targets >= 0) op.targets = world.integers({targets}), op.factor = 3;
                       StepResults before;
                       before.loss_sum = 0.5, before.target_count = 2, before.correct = 1;
                       before.detection.found = 1, before.detection.tokens = 7;
                       op.results = world.results(before);
                       world.run(op);
                     }});
}
}  // namespace

void add_click_cases(std::vector<OperationCase>& cases) {
  bag_case(cases, 1, 1);
  bag_case(cases, 37, 13);
  bag_case(cases, 130, 32);
  interaction_cases(cases, 1, 1, 1);
  interaction_cases(cases, 4, 7, 13);
  interaction_cases(cases, 16, 70, 8);
  interaction_cases(cases, 26, 131, 16);
  interaction_cases(cases, 32, 5, 64);
  loss_cases(cases, 1, 1, 2);
  loss_cases(cases, 37, 0, 2);
  loss_cases(cases, 1037, 1030, 5);
  loss_cases(cases, 71, 70, 900);  // exp() of these overflows
  loss_cases(cases, 37, 29, 4, 5);
  loss_cases(cases, 5, 0, 1, 0);
}

}  // namespace comera::test
