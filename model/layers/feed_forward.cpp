#include "model/layers/feed_forward.h"

#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/layout.h"
#include "tensorized/linear/in_type.h"

namespace comera {

FeedForward::FeedForward(ParameterStore& store, const EncoderConfig& config, std::int64_t layer)
    : ffn_(config.ffn), activation_(config.activation) {
  const std::string name = fmt::format("{}encoder.{}.ffn", config.place.prefix, layer);
  const Linear::Spec up{
      .name = name + ".up", .outputs = {""}, .input_size = config.hidden, .output_size = config.ffn};
  const Linear::Spec down{
      .name = name + ".down", .outputs = {""}, .input_size = config.ffn, .output_size = config.hidden};
  up_ = make_linear(store, up, config.form_of(config.tensorized.ffn_up, up));
  down_ = make_linear(store, down, config.form_of(config.tensorized.ffn_down, down));
  const TTLinear* upward = up_->as_tensor_train();
  const TTLinear* downward = down_->as_tensor_train();
  if (upward == nullptr || downward == nullptr)
    never_ = "not all layers are tensor trains";
  else if (upward->any_removed() || downward->any_removed())
    never_ = "a layer is removed";
  else
    in_one_pass_.emplace(store, *upward, *downward);
}

std::optional<std::string> FeedForward::why_not_in_one_pass(const MachineModel& machine,
                                                            std::int64_t tokens) const {
  if (never_ != nullptr) return never_;
  return in_one_pass_->why_not(machine, tokens);
}

std::optional<std::string> FeedForward::why_inner_is_stored(const MachineModel& machine,
                                                            std::int64_t tokens) const {
  if (auto reason = why_not_in_one_pass(machine, tokens)) return reason;
  return in_one_pass_->why_inner_is_stored(activation_);
}

FeedForward::Merged FeedForward::merge(const EncoderStep& step, std::int64_t tokens, Merging& merging) const {
  if (why_not_in_one_pass(step.context.backend.machine(), tokens)) return {};
  return in_one_pass_->merge(merging);
}

FeedForward::Saved FeedForward::forward(const EncoderStep& step, const Merged& merged,
                                        const Tensor& x) const {
  Saved saved;
  if (down_->removed()) {
    saved.y = step.context.arena.saved(x.shape(), x.dtype());
    run(step.context, Fill{.x = saved.y, .value = 0});
    return saved;
  }
  if (merged) {
    saved.in_one_pass = in_one_pass_->forward(step.context, *merged, x, activation_);
    saved.y = saved.in_one_pass->y;
    return saved;
  }
  if (up_->removed()) {
    saved.up =
        up_->forward(step.context, x.rows(0, 1), {.activation = activation_, .training = step.training});
    saved.down =
        down_->forward(step.context, saved.up.output(), {.biased = false, .training = step.training});
    saved.y = step.context.arena.saved(x.shape(), x.dtype());
    run(step.context, Fill{.x = saved.y, .value = 0});
    ArenaScope scope(step.context.arena);
    const Tensor row =
        in_type(step.context, scope, saved.down.output().reshape({x.dim(1)}), master_of(x.dtype()));
    run(step.context,
        BiasActivationForward{.u = saved.y, .bias = row, .activation = Activation::none, .y = {}});
    return saved;
  }
  saved.up = up_->forward(step.context, x, {.activation = activation_, .training = step.training});
  saved.down = down_->forward(step.context, saved.up.output(), {.biased = false, .training = step.training});
  saved.y = saved.down.output();
  return saved;
}

void FeedForward::backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                           bool accumulate_dx, MergedGradients& gradients) const {
  if (down_->removed()) {
    if (!accumulate_dx) run(step.context, Fill{.x = dx, .value = 0});
    return;
  }
  if (saved.in_one_pass)
    return in_one_pass_->backward(step.context, *saved.in_one_pass, activation_, dy, dx, accumulate_dx,
                                  gradients);
  ArenaScope scope(step.context.arena);
  if (up_->removed()) {
    const Tensor sum = scope.tensor({dy.dim(1)}, master_of(dy.dtype()));
    run(step.context, Fill{.x = sum, .value = 0});
    run(step.context, BiasActivationBackward{
                          .u = saved.y, .y = {}, .activation = Activation::none, .dy = dy, .dbias = sum});
    const Tensor row = in_type(step.context, scope, sum, dy.dtype()).reshape({1, dy.dim(1)});
    const Tensor dinner = scope.tensor({1, ffn_}, dy.dtype()),
                 none = scope.tensor({1, dx.dim(1)}, dx.dtype());
    down_->backward(step.context, saved.down, {row}, dinner, false);
    up_->backward(step.context, saved.up, {dinner}, none, false);
    if (!accumulate_dx) run(step.context, Fill{.x = dx, .value = 0});
    return;
  }
  const Tensor dinner = scope.tensor({dy.dim(0), ffn_}, dy.dtype());
  down_->backward(step.context, saved.down, {dy}, dinner, false);
  up_->backward(step.context, saved.up, {dinner}, dx, accumulate_dx);
}

}  // namespace comera
