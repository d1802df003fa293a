#include "model/layers/attention.h"

#include <cmath>

#include "kernels/ops/attention/attention.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/elementwise/rotary.h"

namespace comera {

Attention::Attention(ParameterStore& store, const EncoderConfig& config, const PositionTables& positions,
                     std::int64_t layer)
    : hidden_(config.hidden),
      heads_(config.heads),
      positions_(positions),
      dropout_(config.attention_dropout),
      site_(config.place.dropout_sites + dropout_site::attention(static_cast<std::uint32_t>(layer))) {
  const std::string name = fmt::format("{}encoder.{}.attention", config.place.prefix, layer);
  const TensorizedConfig& tensorized = config.tensorized;
  const Linear::Spec projections{
      .name = name, .outputs = {"query", "key", "value"}, .input_size = hidden_, .output_size = hidden_};
  const Linear::Spec output{
      .name = name + ".output", .outputs = {""}, .input_size = hidden_, .output_size = hidden_};
  projections_ = make_linear(store, projections, config.form_of(tensorized.attention, projections));
  output_ = make_linear(store, output, config.form_of(tensorized.attention, output));
  const TTLinear* projected = projections_->as_tensor_train();
  const TTLinear* output_train = output_->as_tensor_train();
  if (projected == nullptr || output_train == nullptr)
    never_ = "not all layers are tensor trains";
  else if (tensorized.plan != PlanKind::automatic)
    never_ = "tensorized.plan is given";
  else if (output_train->any_removed())
    never_ = "the output projection is removed";
  else if (projected->any_diagonal() || output_train->any_diagonal())
    never_ = "diagonals add to queries, keys and values, which must be formed for that";
  else if (config.distillation.relations > 0 && layer + 1 == config.layers)
    never_ = "queries, keys and values are compared with a teacher's, and must be formed for that";
  else if (config.positions == Positions::rotary)
    never_ = "rotary positions turn queries and keys, which must be formed for that";
  else
    between_factors_ = std::make_unique<TTAttention>(store, *projected, *output_train, heads_);
}

std::optional<std::string> Attention::why_not_between_factors(const MachineModel& machine,
                                                              std::int64_t tokens, std::int64_t length,
                                                              std::int64_t rows) const {
  if (never_ != nullptr) return never_;
  return between_factors_->why_not(machine, tokens, length, rows, dropout_ > 0);
}

TTAttention::Inputs Attention::inputs(const EncoderStep& step, const RowSubset* rows) const {
  return {.sequence_offsets = step.batch.sequence_offsets,
          .longest = step.batch.capacity.longest,
          .dropout = step.dropout(dropout_, site_),
          .step_inputs = step.inputs,
          .slopes = positions_.slopes(),
          .biases = positions_.biases(),
          .rows = rows};
}

void Attention::turn(const EncoderStep& step, const Tensor& q, const Tensor& k, bool backward) const {
  if (!positions_.turns()) return;
  for (const Tensor& x : {q, k})
    run(step.context, Rotary{.x = x,
                             .position_ids = step.batch.position_ids,
                             .turns = positions_.turns(),
                             .backward = backward});
}

Attention::Merged Attention::merge(const EncoderStep& step, const RowSubset* rows, Merging& merging) const {
  if (output_->removed()) return {};
  const std::int64_t tokens = step.batch.capacity.tokens, of_y = rows ? rows->most : tokens;
  Merged merged;
  if (why_not_between_factors(step.context.backend.machine(), tokens, step.batch.capacity.longest, of_y)) {
    merged.projections = projections_->merge(step.context, tokens, merging);
    merged.output = output_->merge(step.context, of_y, merging);
  } else {
    merged.between_factors = between_factors_->merge(merging);
  }
  return merged;
}

Attention::Saved Attention::forward(const EncoderStep& step, const Merged& merged, const Tensor& x,
                                    const RowSubset* rows) const {
  Arena& arena = step.context.arena;
  Saved saved;
  if (output_->removed()) {
    saved.y = arena.saved({rows ? rows->most : x.dim(0), hidden_}, x.dtype());
    run(step.context, Fill{.x = saved.y, .value = 0});
    return saved;
  }
  if (merged.between_factors) {
    saved.between_factors =
        between_factors_->forward(step.context, inputs(step, rows), *merged.between_factors, x);
    saved.y = saved.between_factors->y;
    return saved;
  }
  saved.projections =
      projections_->forward(step.context, x, {.training = step.training, .merged = merged.projections});
  turn(step, saved.projections.u[0], saved.projections.u[1], false);
  saved.context = arena.saved(x.shape(), x.dtype());
  saved.log_sum_exp = arena.saved({heads_, x.dim(0)}, master_of(x.dtype()));
  const ProductPlace place(step.context.products, projections_->spec().name, scores_stay_wide);
  run(step.context,
      AttentionForward{.q = saved.projections.u[0],
                       .k = saved.projections.u[1],
                       .v = saved.projections.u[2],
                       .sequence_offsets = step.batch.sequence_offsets,
                       .heads = heads_,
                       .longest = step.batch.capacity.longest,
                       .scale = 1 / std::sqrt(static_cast<double>(hidden_) / static_cast<double>(heads_)),
                       .dropout = step.dropout(dropout_, site_),
                       .step_inputs = step.inputs,
                       .out = saved.context,
                       .log_sum_exp = saved.log_sum_exp,
                       .slopes = positions_.slopes(),
                       .biases = positions_.biases(),
                       .queries = rows ? rows->of_each_sequence : 0});
  saved.read = saved.context;
  if (rows) {
    saved.read = arena.saved({rows->most, hidden_}, x.dtype());
    gather(step.context, *rows, saved.context, saved.read);
  }
  saved.output = output_->forward(step.context, saved.read,
                                  {.biased = false, .training = step.training, .merged = merged.output});
  saved.y = saved.output.output();
  return saved;
}

void Attention::backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                         bool accumulate_dx, const RowSubset* rows, MergedGradients& gradients) const {
  if (output_->removed()) {
    if (!accumulate_dx) run(step.context, Fill{.x = dx, .value = 0});
    return;
  }
  if (saved.between_factors)
    return between_factors_->backward(step.context, inputs(step, rows), *saved.between_factors, dy, dx,
                                      accumulate_dx, gradients);
  ArenaScope scope(step.context.arena);
  const Shape shape = saved.context.shape();
  const Tensor dcontext = scope.tensor(shape, dy.dtype());
  const Tensor dread = rows ? scope.tensor(saved.read.shape(), dy.dtype()) : dcontext;
  output_->backward(step.context, saved.output, {dy}, dread, false, &gradients);
  if (rows) scatter(step.context, *rows, dread, dcontext);
  const Tensor dq = gradients.operand(scope, shape, dy.dtype()),
               dk = gradients.operand(scope, shape, dy.dtype()),
               dv = gradients.operand(scope, shape, dy.dtype());
  const ProductPlace place(step.context.products, projections_->spec().name, scores_stay_wide);
  run(step.context,
      AttentionBackward{.q = saved.projections.u[0],
                        .k = saved.projections.u[1],
                        .v = saved.projections.u[2],
                        .out = saved.context,
                        .log_sum_exp = saved.log_sum_exp,
                        .sequence_offsets = step.batch.sequence_offsets,
                        .heads = heads_,
                        .longest = step.batch.capacity.longest,
                        .scale = 1 / std::sqrt(static_cast<double>(hidden_) / static_cast<double>(heads_)),
                        .dropout = step.dropout(dropout_, site_),
                        .step_inputs = step.inputs,
                        .dout = dcontext,
                        .dq = dq,
                        .dk = dk,
                        .dv = dv,
                        .slopes = positions_.slopes(),
                        .biases = positions_.biases(),
                        .queries = rows ? rows->of_each_sequence : 0});
  for (const auto& [more, gradient] :
       {std::pair{saved.more_gradients[0], dq}, std::pair{saved.more_gradients[1], dk},
        std::pair{saved.more_gradients[2], dv}})
    if (more) run(step.context, Add{.x = more, .y = gradient});
  turn(step, dq, dk, true);
  projections_->backward(step.context, saved.projections, {dq, dk, dv}, dx, accumulate_dx, &gradients);
}

}  // namespace comera
