#include <fmt/core.h>

#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/sequence.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
struct LossCase {
  std::int64_t outer, rows, inner, classes;
  std::int32_t count;
  std::int64_t row_begin;
  bool bias, gradient;
  bool weights = false;
};

void loss_case(std::vector<OperationCase>& cases, const LossCase& c) {
  cases.push_back(
      {fmt::format("SoftmaxCrossEntropy_{}_{}_{}_{}{}{}{}", c.outer, c.rows, c.inner, c.count,
                   c.bias ? "_bias" : "", c.gradient ? "_gradient" : "", c.weights ? "_weights" : ""),
       4e-6, [=](OpTestContext& world) {
         SoftmaxCrossEntropy op;
         // Without a gradient they may be left with their bias added, or not.
         const Shape shape{c.outer, c.rows, c.inner};
         op.logits = c.gradient ? world.output("logits", shape, 3) : world.input(shape, 3);
         if (c.bias) op.bias = world.master({c.classes});
         if (c.bias && c.gradient) op.dbias = world.master_output("dbias", {c.classes});
         std::vector<std::int32_t> targets;
         for (std::int64_t r = 0; r < c.row_begin + c.rows; ++r) {
           targets.push_back(static_cast<std::int32_t>(r * 7919 % c.classes));
         }
         std::vector<float> weights;
         for (std::size_t r = 0; r < targets.size(); ++r) weights.push_back(static_cast<float>(r % 7) * 0.5F);
         if (c.weights) op.weights = world.floats(weights);
         op.targets = world.integers(targets), op.count = world.integers({c.count});
         op.row_begin = c.row_begin, op.classes = c.classes, op.gradient = c.gradient;
         StepResults before;
         before.loss_sum = 0.5, before.correct = 1;
         op.results = world.results(before);
         world.run(op);
       }});
}

void divergence_case(std::vector<OperationCase>& cases, const LossCase& c, double temperature) {
  cases.push_back({fmt::format("SoftmaxDivergence_{}_{}_{}_{}{}{}_{:.0f}", c.outer, c.rows, c.inner, c.count,
                               c.bias ? "_bias" : "", c.gradient ? "_gradient" : "", 10 * temperature),
                   4e-6, [=](OpTestContext& world) {
                     SoftmaxDivergence op;
                     const Shape shape{c.outer, c.rows, c.inner};
                     op.logits = c.gradient ? world.output("logits", shape, 3) : world.input(shape, 3);
                     if (c.bias) op.bias = world.master({c.classes});
                     if (c.bias && c.gradient) op.dbias = world.master_output("dbias", {c.classes});
                     op.teacher = world.master({c.row_begin + c.rows, c.classes}, 3);
                     op.count = world.integers({c.count});
                     op.row_begin = c.row_begin, op.classes = c.classes, op.gradient = c.gradient;
                     op.temperature = temperature, op.factor = 0.7, op.counts = c.bias;
                     StepResults before;
                     before.loss_sum = 0.5, before.target_count = 2, before.correct = 1;
                     op.results = world.results(before);
                     world.run(op);
                   }});
}

void draw_case(std::vector<OperationCase>& cases, const LossCase& c) {
  cases.push_back(
      {fmt::format("DrawClasses_{}_{}_{}_{}{}", c.outer, c.rows, c.inner, c.count, c.bias ? "_bias" : ""),
       1e-30, [=](OpTestContext& world) {
         DrawClasses op;
         op.logits = world.output("logits", {c.outer, c.rows, c.inner}, 6);
         if (c.bias) op.bias = world.master({c.classes}, 2);
         op.count = world.integers({c.count});
         op.row_begin = c.row_begin, op.classes = c.classes, op.site = 2;
         op.step_inputs = world.step_inputs(example_step());
         const std::vector<std::int32_t> before(static_cast<std::size_t>(c.row_begin + c.rows), -1);
         op.drawn = world.chosen_integers("drawn", before);
         world.run(op);
       }});
}

void distance_cases(std::vector<OperationCase>& cases, std::int64_t rows, std::int32_t count,
                    std::int64_t width, bool square) {
  for (const bool gradient : {false, true})
    cases.push_back({fmt::format("SquaredDistance_{}_{}_{}{}{}", rows, count, width, square ? "_square" : "",
                                 gradient ? "_gradient" : ""),
                     4e-6, [=](OpTestContext& world) {
                       SquaredDistance op;
                       op.x = gradient ? world.output("x", {rows, width}, 2) : world.input({rows, width}, 2);
                       op.to = world.input({rows, width});
                       op.count = world.integers({count}), op.targets = world.integers({11});
                       op.square = square, op.counts = gradient, op.factor = 0.3, op.gradient = gradient;
                       StepResults before;
                       before.loss_sum = 0.5, before.target_count = 2;
                       op.results = world.results(before);
                       world.run(op);
                     }});
}

void relation_cases(std::vector<OperationCase>& cases, std::int64_t rows, std::int32_t count,
                    std::int64_t width, std::int64_t taught, std::int64_t heads) {
  for (const bool gradient : {false, true})
    cases.push_back({fmt::format("RelationDivergence_{}_{}_{}_{}_{}{}", rows, count, width, taught, heads,
                                 gradient ? "_gradient" : ""),
                     4e-6, [=](OpTestContext& world) {
                       RelationDivergence op;
                       op.x = world.input({rows, width}, 2), op.y = world.input({rows, taught}, 2);
                       op.attended = world.input({rows, width});
                       op.taught_attended = world.input({rows, taught});
                       op.log_sums = world.master({heads, rows}, 3);
                       op.taught_log_sums = world.master({heads, rows}, 3);
                       if (gradient) {
                         op.own_attended = world.output("dx", {rows, width}, 2);
                         op.own_turned = world.input({rows, width});
                         op.taught_turned = world.input({rows, width});
                       }
                       op.scale = 0.4, op.taught_scale = 0.7, op.factor = 0.3;
                       op.count = world.integers({count}), op.targets = world.integers({11});
                       op.counts = gradient, op.gradient = gradient;
                       StepResults before;
                       before.loss_sum = 0.5, before.target_count = 2;
                       op.results = world.results(before);
                       world.run(op);
                     }});
}

void sequence_cases(std::vector<OperationCase>& cases, std::int64_t sequences, std::int32_t count,
                    std::int64_t width) {
  const std::string name = fmt::format("{}_{}_{}", sequences, count, width);
  cases.push_back({"SequenceMean_" + name, 4e-6, [=](OpTestContext& world) {
                     std::vector<std::int32_t> offsets{0};
                     for (std::int64_t s = 0; s < sequences; ++s)
                       offsets.push_back(offsets.back() + static_cast<int>((5 + s * 7) % 13));
                     SequenceMean op;
                     op.x = world.input({offsets.back() + 3, width});
                     op.offsets = world.integers(offsets), op.count = world.integers({count});
                     op.y = world.output("y", {sequences, width});
                     world.run(op);
                   }});
  cases.push_back({"PairFeaturesForward_" + name, 4e-6, [=](OpTestContext& world) {
                     PairFeaturesForward op;
                     op.x = world.input({2 * sequences + 1, width}), op.count = world.integers({count});
                     op.y = world.output("y", {sequences, 4 * width});
                     world.run(op);
                   }});
  cases.push_back({"PairFeaturesBackward_" + name, 4e-6, [=](OpTestContext& world) {
                     PairFeaturesBackward op;
                     op.x = world.input({2 * sequences + 1, width}), op.count = world.integers({count});
                     op.dy = world.input({sequences, 4 * width});
                     op.dx = world.output("dx", {2 * sequences + 1, width});
                     world.run(op);
                   }});
  cases.push_back({"SequenceMeanBackward_" + name, 4e-6, [=](OpTestContext& world) {
                     std::vector<std::int32_t> offsets{0};
                     for (std::int64_t s = 0; s < sequences; ++s)
                       offsets.push_back(offsets.back() + static_cast<int>((5 + s * 7) % 13));
                     SequenceMeanBackward op;
                     op.dy = world.input({sequences, width});
                     op.offsets = world.integers(offsets), op.count = world.integers({count});
                     op.dx = world.output("dx", {offsets.back() + 3, width});
                     world.run(op);
                   }});
  for (const bool gradient : {false, true})
    cases.push_back({"SquaredError_" + name + (gradient ? "_gradient" : ""), 4e-6, [=](OpTestContext& world) {
                       std::vector<float> scores;
                       for (std::int64_t s = 0; s < sequences; ++s)
                         scores.push_back(static_cast<float>(s % 11) * 0.5F - 2);
                       SquaredError op;
                       op.predictions = world.output("predictions", {sequences, 1}, 3);
                       op.scores = world.floats(scores);
                       op.count = world.integers({count}), op.gradient = gradient;
                       StepResults before;
                       before.loss_sum = 0.5, before.target_count = 2;
                       op.results = world.results(before);
                       world.run(op);
                     }});
}
// The largest of a row twice: the first is the prediction.
void tie_case(std::vector<OperationCase>& cases, std::int64_t classes, std::int64_t apart,
              const std::vector<std::int32_t>& first) {
  cases.push_back({fmt::format("SoftmaxCrossEntropy_ties_{}", classes), 4e-6, [=](OpTestContext& world) {
                     const auto rows = std::ssize(first);
                     std::vector<float> logits(2 * rows * classes, -1.F);
                     std::vector<std::int32_t> targets = first;
                     for (std::int64_t row = 0; row < 2 * rows; ++row) {
                       const std::int64_t largest = row * classes + first[row % rows];
                       logits[largest] = logits[largest + apart] = 2;
                       if (row >= rows)
                         targets.push_back(first[row - rows] + static_cast<std::int32_t>(apart));
                     }
                     SoftmaxCrossEntropy op;
                     op.logits = world.chosen("logits", {1, 2 * rows, classes}, logits);
                     op.targets = world.integers(targets);
                     op.count = world.integers({static_cast<std::int32_t>(2 * rows)});
                     op.classes = classes, op.gradient = true;
                     op.results = world.results();
                     world.run(op);
                   }});
}

void decoder_case(std::vector<OperationCase>& cases, std::int64_t classes, std::int64_t width,
                  std::int64_t rows, std::int32_t count) {
  cases.push_back({fmt::format("DenseMaskedCrossEntropy_{}_{}_{}", classes, width, rows), 4e-6,
                   [=](OpTestContext& world) {
                     DenseMaskedCrossEntropy op;
                     op.h = world.input({rows, width}), op.table = world.input({classes, width});
                     op.dtable = world.master_output("dtable", {classes, width});
                     op.bias = world.master({classes}), op.dbias = world.master_output("dbias", {classes});
                     std::vector<std::int32_t> targets;
                     for (std::int64_t r = 0; r < rows; ++r)
                       targets.push_back(static_cast<std::int32_t>((classes - 1) - r * 7919 % classes));
                     op.targets = world.integers(targets), op.count = world.integers({count});
                     op.gradient = true;
                     op.dh = world.output("dh", {rows, width});
                     op.results = world.results();
                     world.run(op);
                   }});
}

}  // namespace

void add_loss_cases(std::vector<OperationCase>& cases) {
  sequence_cases(cases, 1, 1, 1);
  sequence_cases(cases, 17, 13, 71);
  sequence_cases(cases, 5, 0, 8);
  loss_case(cases, {1, 1, 1, 1, 1, 0, false, true});
  loss_case(cases, {1, 37, 3, 3, 37, 0, true, true});
  loss_case(cases, {1, 29, 2500, 2477, 50, 30, true, true});
  loss_case(cases, {13, 67, 21, 260, 60, 0, true, true});
  loss_case(cases, {13, 19, 21, 251, 19, 0, false, true});
  loss_case(cases, {5, 67, 71, 341, 160, 100, true, false});
  loss_case(cases, {5, 6, 71, 341, 0, 0, true, true});
  loss_case(cases, {5, 6, 3, 14, 5, 0, true, true});
  loss_case(cases, {5, 6, 3, 13, 29, 30, false, true});
  loss_case(cases, {1, 37, 3, 3, 31, 0, false, true, true});
  loss_case(cases, {1, 29, 80, 77, 50, 30, true, true, true});
  loss_case(cases, {5, 67, 71, 341, 160, 100, true, false, true});
  // Rows that begin at multiples of 16 bytes, with padding; enough of them for partial sums of the bias.
  loss_case(cases, {1, 300, 80, 77, 290, 0, true, true});
  loss_case(cases, {3, 270, 16, 35, 260, 0, true, true});
  loss_case(cases, {2, 9, 2104, 4201, 9, 0, true, false});
  divergence_case(cases, {1, 1, 1, 1, 1, 0, false, true}, 1);
  divergence_case(cases, {1, 37, 3, 3, 31, 0, false, true}, 2);
  divergence_case(cases, {1, 29, 2500, 2477, 50, 30, true, true}, 1.5);
  divergence_case(cases, {13, 67, 21, 260, 60, 0, true, true}, 2);
  divergence_case(cases, {5, 67, 71, 341, 160, 100, true, false}, 1);
  divergence_case(cases, {3, 270, 16, 35, 260, 0, true, true}, 4);
  divergence_case(cases, {5, 6, 71, 341, 0, 0, true, true}, 1);
  draw_case(cases, {1, 1, 1, 1, 1, 0, false, false});
  draw_case(cases, {1, 37, 3, 3, 31, 0, true, false});
  draw_case(cases, {1, 29, 2500, 2477, 50, 30, true, false});
  draw_case(cases, {13, 67, 21, 260, 60, 0, true, false});
  draw_case(cases, {5, 67, 71, 341, 160, 100, false, false});
  draw_case(cases, {3, 9, 704, 2100, 9, 0, true, false});
  draw_case(cases, {5, 6, 71, 341, 0, 0, true, false});
  distance_cases(cases, 1, 1, 1, false);
  distance_cases(cases, 17, 13, 71, false);
  distance_cases(cases, 19, 19, 19, true);
  distance_cases(cases, 35, 12, 35, true);
  distance_cases(cases, 5, 0, 8, false);
  relation_cases(cases, 1, 1, 1, 1, 1);
  relation_cases(cases, 17, 13, 71, 24, 3);
  relation_cases(cases, 33, 33, 8, 130, 5);
  relation_cases(cases, 5, 0, 8, 16, 2);
  tie_case(cases, 70, 1, {0, 1, 31, 33, 63, 68});
  tie_case(cases, 3000, 1500, {0, 3, 1023, 1024, 1400});
  decoder_case(cases, 300, 24, 9, 7);
  decoder_case(cases, 20003, 16, 9, 7);  // in parts, of other sizes in other number formats
}

}  // namespace comera::test
