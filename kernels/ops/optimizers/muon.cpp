#include "kernels/ops/optimizers/muon.h"

#include <algorithm>

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void MuonSizes::append(MuonMatrix& matrix) {
  const std::int64_t small = std::min(matrix.rows, matrix.columns),
                     large = std::max(matrix.rows, matrix.columns);
  matrix.elements_before = elements, matrix.squares_before = squares;
  ++count;
  elements += small * large;
  squares += small * small;
  smaller = std::max(smaller, small);
  larger = std::max(larger, large);
  largest = std::max(largest, small * large);
  // The gram matrix and U; in each iteration G², and, except in the first or last, P Q, P G and P G P.
  constexpr int squarings = muon_iterations + 3 * (muon_iterations - 1);
  const auto side = static_cast<double>(small);
  operations += 2 * side * side * (2 * static_cast<double>(large) + squarings * side);
}

void Muon::check() const {
  const char* name = "Muon";
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "gradients", gradients, parameters.elements(), compute());
  check_elements(name, "momentum", momentum, parameters.elements(), compute());
  check_step_values(name, "matrices", matrices, sizes.count * sizeof(MuonMatrix));
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const Muon& op) {
  return {op.sizes.operations, once(op.matrices) + 5 * bytes_of(op.sizes.elements, op.compute())};
}

}  // namespace comera
