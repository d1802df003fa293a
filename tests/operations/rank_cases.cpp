#include <cstring>
#include <limits>

#include "kernels/ops/tensor_trains/ranks.h"
#include "tests/operations/op_test_context.h"
#include "tests/operations/rank_model.h"

namespace comera::test {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

RankTables tables_in(OpTestContext& world, const RankModel& model) {
  RankTables tables;
  tables.layers = world.bytes(model.layers.data(), model.layers.size() * sizeof(RankLayer));
  tables.cores = world.bytes(model.cores.data(), model.cores.size() * sizeof(RankCore));
  tables.bonds = world.bytes(model.bonds.data(), model.bonds.size() * sizeof(RankBond));
  tables.layer_count = static_cast<std::int64_t>(model.layers.size());
  tables.core_count = static_cast<std::int64_t>(model.cores.size());
  tables.bond_count = static_cast<std::int64_t>(model.bonds.size());
  tables.entries = model.gates_count;
  tables.initial_size = model.initial_size;
  tables.initial_norm = 123.5;
  return tables;
}

Tensor state_in(OpTestContext& world, const RankState& state) {
  std::vector<double> numbers(rank_state_numbers);
  std::memcpy(numbers.data(), &state, sizeof state);
  return world.chosen_double("state", numbers);
}

struct ObjectiveCase {
  const char* name;
  RankObjectiveOptions options;
  double targets = 37, loss = 80, urgency = 1;
  double target_now = -1;  // negative: the options' target
  bool nonfinite = false;  // the step is skipped
  RankModel (*model)() = rank_model;
};

void add_objective(std::vector<OperationCase>& cases, const ObjectiveCase& c) {
  cases.push_back({std::string("RankObjective_") + c.name, 2e-6, [c](OpTestContext& world) {
                     const RankModel model = c.model();
                     RankObjective op;
                     op.tables = tables_in(world, model);
                     op.options = c.options;
                     op.parameters = world.chosen("parameters", {model.elements}, model.values);
                     op.gradients = world.output("gradients", {model.elements});
                     op.cores_end = model.gates_begin;
                     StepInputs inputs;
                     inputs.targets = c.targets, inputs.rank_urgency = c.urgency;
                     inputs.rank_target = c.target_now < 0 ? c.options.size_target : c.target_now;
                     StepResults results;
                     results.loss_sum = c.loss, results.target_count = c.targets;
                     results.gradient_scale = c.targets > 0 ? 0.6 / c.targets : 0;
                     results.nonfinite = c.nonfinite ? 1 : 0;
                     op.step_inputs = world.step_inputs(inputs), op.results = world.results(results);
                     op.importance = world.chosen("importance", {model.gates_count}, model.importance);
                     op.state = state_in(world, {.loss_average = 0.5, .loss_weight = 0.2});
                     world.run(op);
                   }});
}

RankObjectiveOptions late(double size_target, double loss_target = 0) {
  RankObjectiveOptions options;
  options.stage = RankStage::compress;
  options.size_target = size_target, options.loss_target = loss_target;
  return options;
}

struct PruneCase {
  const char* name;
  double threshold = 0.4, size_target = -1;
  bool nonfinite = false;
  RankOrder order = RankOrder::fisher;
  RankModel (*model)() = rank_model;
};

void add_prune(std::vector<OperationCase>& cases, const PruneCase& c) {
  cases.push_back({std::string("PruneRanks_") + c.name, 1e-12, [c](OpTestContext& world) {
                     const RankModel model = c.model();
                     PruneRanks op;
                     op.tables = tables_in(world, model);
                     op.threshold = c.threshold, op.to_target = c.size_target >= 0;
                     op.order = c.order,
                     op.importance = world.chosen("importance", {model.gates_count}, model.importance);
                     StepInputs inputs;
                     inputs.rank_target = c.size_target;
                     op.step_inputs = world.step_inputs(inputs);
                     op.parameters = world.chosen("parameters", {model.elements}, model.values);
                     op.moment1 = world.output("moment1", {model.elements});
                     op.moment2 = world.output("moment2", {model.elements});
                     StepResults results;
                     results.nonfinite = c.nonfinite ? 1 : 0;
                     op.results = world.results(results);
                     op.state = state_in(world, {});
                     world.run(op);
                   }});
}

}  // namespace

void add_rank_cases(std::vector<OperationCase>& cases) {
  RankObjectiveOptions options;
  options.gamma = 0.3;
  add_objective(cases, {"early", options});
  add_objective(cases, {"early_without_targets", options, 0, 0});
  add_objective(cases, {"early_nonfinite_loss", options, 37, infinity});
  add_objective(cases, {.name = "early_skipped", .options = options, .nonfinite = true});
  add_objective(cases, {"early_one_target", options, 1, 2});
  add_objective(cases, {.name = "early_keeping", .options = options, .model = keeping_rank_model});
  add_objective(cases, {.name = "early_one_bond", .options = options, .model = one_bond_rank_model});
  add_objective(cases, {.name = "early_no_bond", .options = options, .model = no_bond_rank_model});
  add_objective(cases, {.name = "early_empty", .options = options, .model = empty_rank_model});
  options.penalty = RankPenalty::mean_gate, options.beta = 0;
  add_objective(cases, {"early_mean_gate", options});
  add_objective(cases, {.name = "early_mean_gate_keeping", .options = options, .model = keeping_rank_model});
  // The average is (0.98 * 0.5 + 0.02 * 80 / 37) / (0.98 * 0.2 + 0.02).
  add_objective(cases, {"late_hold", late(1)});
  add_objective(cases, {"late_by_loss", late(0.6, 0.1)});
  add_objective(cases, {"late_by_size", late(0.1, 2.4), 37, 80, 3});
  add_objective(cases, {"late_without_loss_target", late(0.3), 37, 80, 3});
  add_objective(cases, {"late_on_the_way", late(0.3), 37, 80, 3, 0.5});
  add_objective(cases, {"late_has_time", late(0.3), 37, 80, 3, 1});
  options = late(0.3);
  options.order = RankOrder::magnitude;
  add_objective(cases, {"late_by_magnitude", options, 37, 80, 3, 0.5});
  options = late(0.3);
  options.smallest_first = options.relative_size = options.hold = false;
  add_objective(cases, {"late_all_alike", options});
  options.penalty = RankPenalty::mean_gate, options.smallest_first = true;
  options.loss_target = 1, options.loss_weight = 0.5, options.size_weight = 3;
  add_objective(cases, {"late_mean_gate", options});
  options.weighted_branches = true;
  add_objective(cases, {"late_weighted_size", options});
  options.loss_weight = 5;
  add_objective(cases, {"late_weighted_loss", options});

  add_prune(cases, {"nothing", 0.0001});
  add_prune(cases, {"some"});
  add_prune(cases, {"most", 0.95});
  add_prune(cases, {"all", 10});
  add_prune(cases, {"to_a_target", 10, 0.31});
  add_prune(cases, {"to_a_target_by_threshold", 0.2, 0.05});
  add_prune(cases, {"to_a_target_by_magnitude", 10, 0.31, false, RankOrder::magnitude});
  add_prune(cases, {"at_its_target", 10, 1});
  add_prune(cases, {"nonfinite", 0.4, -1, true});
  add_prune(cases, {.name = "keeping", .threshold = 10, .model = keeping_rank_model});
  add_prune(cases, {.name = "one_bond", .threshold = 10, .model = one_bond_rank_model});
  add_prune(cases, {.name = "no_bond", .model = no_bond_rank_model});
  add_prune(cases, {.name = "empty", .model = empty_rank_model});
}

}  // namespace comera::test
