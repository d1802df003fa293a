#include "kernels/ops/tensor_trains/ranks.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

double bytes_of_tables(const RankTables& tables, DType dtype) {
  return once(tables.layers, tables.cores, tables.bonds) + bytes_of(tables.entries, dtype);
}

}  // namespace

void RankTables::check(const char* operation) const {
  check_step_values(operation, "layers", layers, static_cast<std::size_t>(layer_count) * sizeof(RankLayer));
  check_step_values(operation, "cores", cores, static_cast<std::size_t>(core_count) * sizeof(RankCore));
  check_step_values(operation, "bonds", bonds, static_cast<std::size_t>(bond_count) * sizeof(RankBond));
  COMERA_CHECK(initial_size > 0 && initial_norm > 0,
               "{}: the sizes that it divides by are {} and {}, not positive", operation, initial_size,
               initial_norm);
}

void RankObjective::check() const {
  const char* name = "RankObjective";
  tables.check(name);
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "gradients", gradients, parameters.elements(), compute());
  check_elements(name, "importance", importance, tables.entries, compute());
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
  check_elements(name, "state", state, rank_state_numbers, DType::float64);
  COMERA_CHECK(cores_end >= 0 && cores_end <= parameters.elements(), "{}: cores end at {} of {} parameters",
               name, cores_end, parameters.elements());
}

Work work_of(const RankObjective& op) {
  return {0, bytes_of_tables(op.tables, op.compute()) + once(op.parameters) + twice(op.gradients)};
}

void PruneRanks::check() const {
  const char* name = "PruneRanks";
  tables.check(name);
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "importance", importance, tables.entries, compute());
  check_elements(name, "moment1", moment1, moment1.elements(), compute());
  check_elements(name, "moment2", moment2, moment1.elements(), compute());
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
  check_elements(name, "state", state, rank_state_numbers, DType::float64);
}

// In most steps nothing is pruned.
Work work_of(const PruneRanks& op) { return {0, bytes_of_tables(op.tables, op.compute())}; }

}  // namespace comera
