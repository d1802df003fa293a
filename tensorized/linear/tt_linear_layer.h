#pragma once

#include "tensorized/decomposition/densify.h"
#include "tensorized/decomposition/tt_chain.h"
#include "tensorized/linear/linear.h"
#include "tensorized/linear/operand_rank.h"
#include "tensorized/linear/packed_tensors.h"

namespace comera {

// W_i is a tensor train, and is never formed unless the planner finds that cheaper (CoMERA, sections 2 and
// 4.2).
class TTLinear final : public Linear {
 public:
  TTLinear(ParameterStore& store, const Spec& spec, std::vector<TTShape> shapes, PlanKind plan);

  MergedFactors merge(const Context& context, std::int64_t tokens, Merging& merging) const override;
  std::string explain(std::int64_t tokens, const MachineModel& machine) const override;
  std::string shape_text(int output) const override { return shapes_[output].text(); }
  std::vector<double> matrix(int output) const override;
  const TTLinear* as_tensor_train() const override { return this; }
  std::vector<RankedLayer> ranked_layers() const override;
  bool removed(int output = 0) const override { return shapes_[output].removed() && !diagonals_[output]; }
  bool any_removed() const { return live_.size() < shapes_.size(); }
  bool any_diagonal() const;
  // The parameter of an output's diagonal.
  const std::optional<ParameterId>& diagonal(int i) const { return diagonals_[i]; }

  const TTCores& train(int i) const { return trains_[i]; }  // without cores if it is removed
  std::int64_t rank(int i) const { return trains_[i].shape.middle_rank(); }
  PlanKind plan() const { return plan_; }
  // Whether all of its products have 8-bit operands: true if it is evaluated by left and right factors,
  // without diagonals.
  bool in_float8(const LinearPlan& plan) const {
    return float8_ && fits_float8() && all_by_factors(plan) && !any_diagonal();
  }
  // A's columns as an operand; columns beyond the rank are zero.
  std::int64_t columns(int i, bool float8) const { return operand_rank(rank(i), store_.compute(), float8); }
  // B's rows: 8-bit operands are padded when they are quantised.
  std::int64_t rows(int i, bool float8) const { return float8 ? rank(i) : columns(i, false); }

 private:
  Saved run_forward(const Context& context, const Tensor& x, const Pass& pass) const override;
  void run_backward(const Context& context, const Saved& saved,
                    const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx, bool accumulate_dx,
                    MergedGradients* merged) const override;
  bool suits_float8(std::int64_t tokens, const MachineModel& machine) const override {
    return all_by_factors(plan_for(tokens, machine)) && !any_diagonal();
  }

  std::int64_t total_columns(bool float8) const;
  // The A's side by side (inputs, total columns), and behind them each B. Removed outputs have none.
  PackedTensors packed_factors(bool float8) const;
  MergedFactors unpacked(const PackedTensors& packed, const Tensor& whole) const;
  // The operation that makes them in a block of the master type.
  TTFactorsForward factors_in(const PackedTensors& packed, const Tensor& whole, bool float8) const;
  // Makes them in the arena, in the type of operands.
  MergedFactors own_factors(const Context& context, DType compute, bool float8) const;
  Float8Outputs float8_outputs() const;
  void add_diagonal(ParameterStore& store, int i);
  // Adds an output's diagonal, and its gradients, if it has one. du: of u_i.
  void diagonal_forward(const Context& context, const Tensor& x, int i, const Tensor& u) const;
  void diagonal_backward(const Context& context, const Tensor& x, int i, const Tensor& du,
                         const Tensor& dx) const;
  Tensor merge_to_dense(const Context& context, ArenaScope& scope, int i) const;
  LinearPlan plan_for(std::int64_t tokens, const MachineModel& machine) const;
  // Of a forward pass, in the arena.
  struct Activations {
    LinearPlan plan;
    MergedFactors factors;  // if it is evaluated by them
    Tensor xa;              // the same
  };
  void forward_by_factors(const Context& context, Saved& saved, Activations& kept) const;
  void backward_by_factors(const Context& context, const Saved& saved, const Activations& kept,
                           const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                           bool accumulate_dx, MergedGradients* merged) const;
  void input_gradient(const Context& context, PlanKind way, int i, const Tensor& dy, const Tensor& dx,
                      bool accumulate) const;
  void core_gradient(const Context& context, PlanKind way, int i, const Tensor& x, const Tensor& dy) const;

  std::vector<TTShape> shapes_;  // per output
  std::vector<TTCores> trains_;
  std::vector<int> live_;  // the outputs whose trains are not removed; only these are computed
  std::vector<TTShape> live_shapes_;
  std::vector<std::optional<ParameterId>> diagonals_;  // per output
  PlanKind plan_;
};

}  // namespace comera
