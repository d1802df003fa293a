#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/ops/optimizers/directions.h"
#include "kernels/ops/optimizers/muon.h"
#include "kernels/ops/optimizers/optimizer.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
// Each behind a gap.
std::vector<ParameterSegment> segments_of(const std::vector<std::int64_t>& counts, std::int64_t gap) {
  std::vector<ParameterSegment> segments;
  std::int64_t offset = 0;
  for (std::int64_t count : counts) {
    const auto i = static_cast<std::int32_t>(segments.size());
    offset += gap;
    segments.push_back({offset, count, i % max_parameter_groups, i % 2, offset});
    offset += count;
  }
  return segments;
}

// Segments with gaps between them, of which those of two dimensions are tables that change by rows: marks at
// both ends and in between.
struct Tables {
  std::vector<ParameterSegment> segments;
  std::vector<std::int32_t> marks;
};
Tables tables_of(const std::vector<Shape>& shapes) {
  std::vector<std::int64_t> counts;
  for (const Shape& shape : shapes) counts.push_back(shape.elements());
  Tables tables{segments_of(counts, 3), {}};
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    if (shapes[s].dims() < 2) continue;
    tables.segments[s].width = shapes[s][1];
    tables.segments[s].marks = std::ssize(tables.marks);
    for (std::int64_t row = 0; row < shapes[s][0]; ++row)
      tables.marks.push_back(row == 0 || row + 1 == shapes[s][0] || row % 5 == 2 ? 1 : 0);
  }
  return tables;
}

void table_cases(std::vector<OperationCase>& cases, std::int64_t rows, std::int64_t width) {
  const std::string size = fmt::format("{}_{}", rows, width);
  const Tables tables = tables_of({{rows, width}});
  cases.push_back({"ClearTouchedRows_" + size, 1e-30, [=](OpTestContext& world) {
                     ClearTouchedRows op;
                     op.gradient = world.output("gradient", {rows, width});
                     op.marks = world.chosen_integers("marks", tables.marks);
                     world.run(op);
                   }});
  cases.push_back({"TouchRows_" + size, 1e-30, [=](OpTestContext& world) {
                     std::vector<std::int32_t> ids;
                     for (std::int64_t row = 0; row < rows; row += 3)
                       ids.push_back(static_cast<std::int32_t>(row));
                     const auto some = static_cast<std::int32_t>(ids.size());
                     ids.insert(ids.end(), 2, static_cast<std::int32_t>(rows / 2));  // not counted
                     TouchRows op;
                     op.ids = world.integers(ids), op.count = world.integers({some});
                     op.marks = world.chosen_integers("marks", tables.marks);
                     op.parameters = world.master();
                     world.run(op);
                   }});
}

void touched_row_cases(std::vector<OperationCase>& cases, const std::string& name,
                       const std::vector<Shape>& shapes) {
  const Tables tables = tables_of(shapes);
  const std::int64_t elements = tables.segments.back().offset + tables.segments.back().count + 3;
  const auto count = std::ssize(tables.segments);
  const std::size_t bytes = tables.segments.size() * sizeof(ParameterSegment);
  cases.push_back({"GradientNorm_rows_" + name, 1e-12, [=](OpTestContext& world) {
                     GradientNorm op;
                     op.gradients = world.input({elements});
                     op.segments = world.bytes(tables.segments.data(), bytes);
                     op.norms = world.output_double("norms", {count});
                     op.marks = world.integers(tables.marks);
                     StepInputs inputs;
                     inputs.targets = 37;
                     op.step_inputs = world.step_inputs(inputs), op.results = world.results();
                     world.run(op);
                   }});
  cases.push_back({"AdamW_rows_" + name, 4e-6, [=](OpTestContext& world) {
                     AdamW op;
                     op.parameters = world.output("parameters", {elements});
                     op.gradients = world.input({elements});
                     op.moment1 = world.output("moment1", {elements});
                     op.moment2 = world.output("moment2", {elements}, 0);
                     op.segments = world.bytes(tables.segments.data(), bytes), op.segment_count = count;
                     op.marks = world.integers(tables.marks);
                     op.weight_decay = 0.01;
                     StepInputs inputs;
                     inputs.bias_correction1 = 0.4, inputs.bias_correction2 = 0.02;
                     for (int i = 0; i < max_parameter_groups; ++i) inputs.learning_rate[i] = 0.01 * (i + 1);
                     op.step_inputs = world.step_inputs(inputs);
                     StepResults results;
                     results.gradient_scale = 0.5;
                     op.results = world.results(results);
                     world.run(op);
                   }});
}

struct NormCase {
  const char* name;
  double targets, max_norm;
};

struct NonfiniteCase {
  const char* name;
  std::vector<int> places;
  float planted;
  double max_norm = 0;
  std::vector<std::int64_t> counts = {3, 4, 5, 6};
};

void optimizer_cases(std::vector<OperationCase>& cases, const std::string& name,
                     const std::vector<std::int64_t>& counts, std::int64_t gap = 0) {
  const auto segments = segments_of(counts, gap);
  const std::int64_t elements = segments.back().offset + segments.back().count + gap;
  const auto count = static_cast<std::int64_t>(segments.size());
  const std::size_t bytes = segments.size() * sizeof(ParameterSegment);
  for (const NormCase& c : {NormCase{"", 37, 0}, NormCase{"_clipped", 37, 0.01},
                            NormCase{"_no_targets", 0, 1}, NormCase{"_half_a_target", 0.5, 0.25}}) {
    cases.push_back({"GradientNorm_" + name + c.name, 1e-12, [=](OpTestContext& world) {
                       GradientNorm op;
                       op.gradients = world.input({elements});
                       op.segments = world.bytes(segments.data(), bytes);
                       op.norms = world.output_double("norms", {count});
                       StepInputs inputs;
                       inputs.targets = c.targets, inputs.max_norm = c.max_norm;
                       op.step_inputs = world.step_inputs(inputs), op.results = world.results();
                       world.run(op);
                     }});
  }
  for (bool nonfinite : {false, true}) {
    cases.push_back({"AdamW_" + name + (nonfinite ? "_skipped" : ""), 4e-6, [=](OpTestContext& world) {
                       AdamW op;
                       op.parameters = world.output("parameters", {elements});
                       op.gradients = world.input({elements});
                       op.moment1 = world.output("moment1", {elements});
                       // Second moments are not negative.
                       op.moment2 = world.output("moment2", {elements}, 0);
                       op.segments = world.bytes(segments.data(), bytes), op.segment_count = count;
                       op.weight_decay = 0.01;
                       StepInputs inputs;
                       inputs.bias_correction1 = 0.4, inputs.bias_correction2 = 0.02;
                       for (int i = 0; i < max_parameter_groups; ++i)
                         inputs.learning_rate[i] = 0.01 * (i + 1);
                       op.step_inputs = world.step_inputs(inputs);
                       StepResults results;
                       results.gradient_scale = 0.5, results.nonfinite = nonfinite ? 1 : 0;
                       op.results = world.results(results);
                       world.run(op);
                     }});
  }
}

// Some parameters are 0: their averages become 0.
void average_cases(std::vector<OperationCase>& cases, std::int64_t elements) {
  for (const double weight : {0.01, 1.0})
    for (const bool nonfinite : {false, true})
      cases.push_back({fmt::format("AverageParameters_{}_{}{}", elements, weight < 1 ? "late" : "first",
                                   nonfinite ? "_skipped" : ""),
                       1e-6, [=](OpTestContext& world) {
                         AverageParameters op;
                         std::vector<float> parameters(elements);
                         for (std::int64_t i = 0; i < elements; ++i)
                           parameters[i] = i % 5 == 3 ? 0 : std::sin(static_cast<float>(i + 1));
                         op.parameters = world.chosen("parameters", {elements}, parameters);
                         op.average = world.output("average", {elements});
                         StepInputs inputs;
                         inputs.average_weight = weight;
                         StepResults results;
                         results.nonfinite = nonfinite ? 1 : 0;
                         op.step_inputs = world.step_inputs(inputs), op.results = world.results(results);
                         world.run(op);
                       }});
}

// Adam's directions with moments in another order, LAMB's ratios with a parameter of zeros and a direction of
// zeros among them, and the steps.
void direction_cases(std::vector<OperationCase>& cases, const std::string& name,
                     const std::vector<std::int64_t>& counts, std::int64_t gap = 0) {
  auto segments = segments_of(counts, gap);
  const std::int64_t elements = segments.back().offset + segments.back().count + gap;
  const auto count = static_cast<std::int64_t>(segments.size());
  const std::size_t bytes = segments.size() * sizeof(ParameterSegment);
  auto moved = segments;
  std::int64_t end = 2;
  for (std::int64_t s = count; s-- > 0;) moved[s].moments = end, end += moved[s].count;
  StepInputs inputs;
  inputs.bias_correction1 = 0.4, inputs.bias_correction2 = 0.02;
  for (int i = 0; i < max_parameter_groups; ++i) inputs.learning_rate[i] = 0.01 * (i + 1);
  for (const bool nonfinite : {false, true}) {
    StepResults results;
    results.gradient_scale = 0.5, results.nonfinite = nonfinite ? 1 : 0;
    const std::string skipped = nonfinite ? "_skipped" : "";
    for (const bool before : {false, true})
      cases.push_back({"AdamDirection_" + name + (before ? "_eps_before" : "") + skipped, 4e-6,
                       [=](OpTestContext& world) {
                         AdamDirection op;
                         op.directions = world.output("directions", {elements});
                         op.moment1 = world.output("moment1", {end});
                         op.moment2 = world.output("moment2", {end}, 0);
                         op.segments = world.bytes(moved.data(), bytes), op.segment_count = count;
                         op.elements = elements, op.eps = 1e-3, op.eps_before_correction = before;
                         op.step_inputs = world.step_inputs(inputs), op.results = world.results(results);
                         world.run(op);
                       }});
    for (const int zeros : {0, 1, 2})
      cases.push_back(
          {fmt::format("TrustRatios_{}{}{}", name, zeros, skipped), 1e-6, [=](OpTestContext& world) {
             TrustRatios op;
             op.parameters = world.output("parameters", {elements}, zeros == 1 ? 0 : 1);
             op.directions = world.output("directions", {elements}, zeros == 2 ? 0 : 1);
             op.segments = world.bytes(segments.data(), bytes);
             op.ratios = world.output_double("ratios", {count});
             op.elements = elements, op.weight_decay = 0.25;
             op.results = world.results(results);
             world.run(op);
           }});
    cases.push_back({"FollowDirections_" + name + skipped, 1e-6, [=](OpTestContext& world) {
                       std::vector<double> factors;
                       for (std::int64_t s = 0; s < count; ++s)
                         factors.push_back(0.5 + static_cast<double>(s));
                       FollowDirections op;
                       op.parameters = world.output("parameters", {elements});
                       op.directions = world.input({elements});
                       op.segments = world.bytes(segments.data(), bytes);
                       op.factors = world.chosen_double("factors", factors);
                       op.elements = elements, op.weight_decay = 0.25;
                       op.step_inputs = world.step_inputs(inputs), op.results = world.results(results);
                       world.run(op);
                     }});
  }
}

struct Sides {
  std::int32_t rows, columns;
};

// Matrices side by side with gaps; one in three decays. Not of the matrix `without`: a gradient, nor a
// momentum above `momentum`.
void muon_cases(std::vector<OperationCase>& cases, const std::string& name, const std::vector<Sides>& sides,
                int without = -1, float momentum = 0, bool rounds = false) {
  std::vector<MuonMatrix> matrices;
  MuonSizes sizes;
  std::vector<float> gradients(2), momenta(2);
  const auto drawn = [](std::size_t i) {
    return static_cast<float>(std::sin(static_cast<double>(7 * i * i % 1000003)));
  };
  for (const Sides& side : sides) {
    const auto i = static_cast<int>(matrices.size());
    MuonMatrix matrix{.offset = static_cast<std::int64_t>(gradients.size()),
                      .rows = side.rows,
                      .columns = side.columns,
                      .group = i % max_parameter_groups,
                      .decays = i % 3 == 0 ? 1 : 0};
    sizes.append(matrix);
    matrices.push_back(matrix);
    for (std::int32_t j = 0; j < side.rows * side.columns; ++j) {
      gradients.push_back(i == without ? 0 : drawn(gradients.size()));
      momenta.push_back((i == without ? momentum : 1) * drawn(gradients.size() + 1));
    }
    gradients.insert(gradients.end(), 3, 0), momenta.insert(momenta.end(), 3, 0);
  }
  const auto elements = static_cast<std::int64_t>(gradients.size());
  for (bool nonfinite : {false, true})
    cases.push_back(
        {"Muon_" + name + (nonfinite ? "_skipped" : ""), rounds ? 3e-3 : 5e-5, [=](OpTestContext& world) {
           Muon op;
           op.parameters = world.output("parameters", {elements});
           op.gradients = world.chosen("gradients", {elements}, gradients);
           op.momentum = world.chosen("momentum", {elements}, momenta);
           op.matrices = world.bytes(matrices.data(), matrices.size() * sizeof matrices[0]);
           op.sizes = sizes;
           op.weight_decay = 0.1;
           op.rounds = rounds;
           StepInputs inputs;
           for (int i = 0; i < max_parameter_groups; ++i) inputs.learning_rate[i] = 0.5 * (i + 1);
           op.step_inputs = world.step_inputs(inputs);
           StepResults results;
           results.gradient_scale = 0.5, results.nonfinite = nonfinite ? 1 : 0;
           op.results = world.results(results);
           world.run(op);
         }});
}
}  // namespace

void add_optimizer_cases(std::vector<OperationCase>& cases) {
  optimizer_cases(cases, "one", {1});
  optimizer_cases(cases, "several", {13, 1, 240, 7, 16385, 50001, 3});
  optimizer_cases(cases, "gaps", {5, 1, 240, 7, 3}, 3);
  // Rows that no piece ends with, and rows longer than a piece.
  touched_row_cases(cases, "one", {{1, 1}});
  touched_row_cases(cases, "several", {{7}, {300, 16}, {5}, {4001, 5}, {7}, {2, 20000}, {33, 70}});
  for (const auto& [rows, width] : {std::pair{1, 1}, {300, 16}, {1001, 5}, {2, 700}, {33, 70}})
    table_cases(cases, rows, width);
  for (const std::int64_t elements : {1, 37, 16389}) average_cases(cases, elements);
  direction_cases(cases, "one", {1});
  direction_cases(cases, "several", {13, 1, 240, 7, 16385, 50001, 3});
  direction_cases(cases, "gaps", {5, 1, 240, 7, 3}, 3);
  muon_cases(cases, "one_number", {{1, 1}});
  muon_cases(cases, "row_and_column", {{1, 37}, {37, 1}});
  muon_cases(cases, "sizes",
             {{5, 6}, {6, 5}, {3, 5}, {16, 16}, {17, 33}, {33, 17}, {8, 70}, {70, 8}, {64, 32}, {65, 40}});
  muon_cases(cases, "large", {{96, 130}, {130, 96}, {64, 64}, {200, 70}});
  muon_cases(cases, "no_gradient", {{4, 6}, {5, 3}, {2, 2}}, 1);
  muon_cases(cases, "momentum_alone", {{4, 6}, {5, 3}, {2, 2}}, 1, 0.25F);
  muon_cases(cases, "denormal_momentum", {{4, 6}, {5, 3}, {2, 2}}, 1, 1e-42F);
  muon_cases(cases, "rounds", {{5, 6}, {17, 33}, {33, 17}, {64, 32}, {96, 130}, {200, 70}}, -1, 0, true);
  // The first of them, the second with the fourth, and none but the loss; squares that a float32 cannot hold,
  // and as large ones that clipping makes small.
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const NonfiniteCase& c :
       {NonfiniteCase{"first", {2}, infinity}, NonfiniteCase{"second", {8, 20}, infinity},
        NonfiniteCase{"loss", {}, infinity}, NonfiniteCase{"squares", {8, 20}, 1e20F},
        NonfiniteCase{"clipped_squares", {8, 20}, 1e20F, 1},
        NonfiniteCase{"of_many", {3 * 250 + 1, 3 * 299 + 1}, infinity, 0, std::vector<std::int64_t>(300, 2)},
        NonfiniteCase{"last_of_many", {3 * 299 + 1}, infinity, 0, std::vector<std::int64_t>(300, 2)},
        NonfiniteCase{"last_squares_of_many", {3 * 299 + 1}, 1e20F, 0, std::vector<std::int64_t>(300, 2)}})
    cases.push_back({"GradientNorm_nonfinite_" + std::string(c.name), 1e-12, [c](OpTestContext& world) {
                       const auto segments = segments_of(c.counts, 1);
                       const std::int64_t elements = segments.back().offset + segments.back().count + 1;
                       std::vector<float> gradients(elements, 0.5F);
                       for (const int place : c.places) gradients[place] = c.planted;
                       GradientNorm op;
                       op.gradients = world.chosen("gradients", {elements}, gradients);
                       op.segments = world.bytes(segments.data(), segments.size() * sizeof segments[0]);
                       op.norms = world.output_double("norms", {std::ssize(segments)});
                       StepInputs inputs;
                       inputs.targets = 2, inputs.max_norm = c.max_norm;
                       StepResults results;
                       if (c.places.empty()) results.loss_sum = std::numeric_limits<double>::quiet_NaN();
                       op.step_inputs = world.step_inputs(inputs), op.results = world.results(results);
                       world.run(op);
                     }});
}

}  // namespace comera::test
