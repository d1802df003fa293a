#include "tensorized/fused/tt_feed_forward.h"

#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "kernels/ops/tensor_trains/tt_inner.h"

namespace comera {

TTFeedForward::TTFeedForward(const ParameterStore& store, const TTLinear& up, const TTLinear& down)
    : store_(store), up_(up), down_(down) {
  COMERA_CHECK(up.outputs() == 1 && down.outputs() == 1 && up.spec().output_size == down.spec().input_size,
               "{} does not fit before {}", up.spec().name, down.spec().name);
}

std::optional<std::string> TTFeedForward::why_not(const MachineModel& machine, std::int64_t tokens) const {
  for (const TTLinear* linear : {&up_, &down_})
    if (!all_by_factors(
            choose_plan(machine, linear->train(0).shape, tokens, linear->plan(), store_.compute())))
      return not_by_factors;
  return {};
}

std::optional<std::string> TTFeedForward::why_inner_is_stored(Activation activation) const {
  if (in_float8()) return "operands are 8-bit numbers";
  if (up_.any_diagonal() || down_.any_diagonal()) return "a layer has a diagonal";
  return why_no_gpu_kernel(store_.compute(), activation, up_.spec().output_size, up_.rows(0, false),
                           down_.columns(0, false));
}

TTFeedForward::Merged TTFeedForward::merge(Merging& merging) const {
  const bool float8 = in_float8();
  const auto columns = [&](const TTLinear& linear) { return linear.columns(0, float8); };
  const std::int64_t inputs = up_.spec().input_size, inner = up_.spec().output_size,
                     outputs = down_.spec().output_size;
  const PackedTensors together{{inputs, columns(up_)},
                               {up_.rows(0, float8), inner},
                               {inner, columns(down_)},
                               {down_.rows(0, float8), outputs}};
  const Merging::Operands whole =
      merging.take(together.elements(), float8 ? store_.dtype() : store_.compute());
  const std::vector<Tensor> kept = together.in(whole.kept), made = together.in(whole.computed);
  const auto add = [&](const TTLinear& linear, const Tensor& a, const Tensor& b) {
    TTFactorsForward::Factors factors =
        factors_of(store_, linear.train(0), a, columns(linear), columns(linear), b);
    factors.place = linear.spec().name;
    merging.add(factors);
  };
  add(up_, made[0], made[1]);
  add(down_, made[2], made[3]);
  const Merged merged{.a_up = kept[0], .b_up = kept[1], .a_down = kept[2], .b_down = kept[3]};
  merging.will_have_gradients(gradients_of(merged).elements());
  return merged;
}

Tensor TTFeedForward::value_of(const std::optional<ParameterId>& id) const {
  return id ? store_.value(*id) : Tensor();
}
Tensor TTFeedForward::gradient_of(const std::optional<ParameterId>& id) const {
  return id ? store_.gradient(*id) : Tensor();
}

TTFeedForward::Saved TTFeedForward::forward(const Context& context, const Merged& merged, const Tensor& x,
                                            Activation activation) const {
  const std::int64_t tokens = x.dim(0);
  const DType dtype = x.dtype();
  Arena& arena = context.arena;
  const Saved saved{.x = x,
                    .merged = merged,
                    .xa = arena.saved({tokens, merged.a_up.dim(1)}, dtype),
                    .ha = arena.saved({tokens, merged.a_down.dim(1)}, dtype),
                    .y = arena.saved({tokens, down_.spec().output_size}, dtype),
                    .float8 = in_float8()};
  const ProductPlace place = up_.place(context);
  if (saved.float8) {
    forward_in_float8(context, saved, activation);
    return saved;
  }
  run(context, TTFeedForwardForward{.x = x,
                                    .a_up = saved.merged.a_up,
                                    .b_up = saved.merged.b_up,
                                    .bias = store_.value(up_.bias()),
                                    .a_down = saved.merged.a_down,
                                    .b_down = saved.merged.b_down,
                                    .diagonal_up = value_of(up_.diagonal(0)),
                                    .diagonal_down = value_of(down_.diagonal(0)),
                                    .activation = activation,
                                    .xa = saved.xa,
                                    .ha = saved.ha,
                                    .y = saved.y});
  return saved;
}

void TTFeedForward::backward(const Context& context, const Saved& saved, Activation activation,
                             const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                             MergedGradients& gradients) const {
  const std::vector<Tensor> factors = gradients.zeros(gradients_of(saved.merged));
  const Tensor &da_up = factors[0], &db_up = factors[1], &da_down = factors[2], &db_down = factors[3];
  ArenaScope scope(context.arena);
  TTFeedForwardBackward operation{.x = saved.x,
                                  .a_up = saved.merged.a_up,
                                  .b_up = saved.merged.b_up,
                                  .bias = store_.value(up_.bias()),
                                  .a_down = saved.merged.a_down,
                                  .b_down = saved.merged.b_down,
                                  .diagonal_up = value_of(up_.diagonal(0)),
                                  .diagonal_down = value_of(down_.diagonal(0)),
                                  .activation = activation,
                                  .xa = saved.xa,
                                  .ha = saved.ha,
                                  .dy = dy,
                                  .da_up = da_up,
                                  .db_up = db_up,
                                  .dbias = store_.gradient(up_.bias()),
                                  .da_down = da_down,
                                  .db_down = db_down,
                                  .ddiagonal_up = gradient_of(up_.diagonal(0)),
                                  .ddiagonal_down = gradient_of(down_.diagonal(0)),
                                  .dx = dx,
                                  .accumulate_dx = accumulate_dx,
                                  .dxa = {}};
  if (gradients.later() != nullptr && !saved.float8) {
    operation.later = gradients.later();
    operation.dxa = gradients.operand(scope, saved.xa.shape(), dy.dtype());
  }
  {
    const ProductPlace place = up_.place(context);
    if (saved.float8)
      backward_in_float8(context, saved, operation);
    else
      run(context, operation);
  }
  const auto add = [&](const TTLinear& linear, const Tensor& da, const Tensor& db) {
    TTFactorsBackward::Factors to_cores = factor_gradients_of(store_, linear.train(0), da, da.dim(1), db);
    to_cores.place = linear.spec().name;
    gradients.add(to_cores);
  };
  add(up_, da_up, db_up);
  add(down_, da_down, db_down);
}

Float8LinearForward TTFeedForward::inner_in_float8(const Saved& saved, const Tensor& u) const {
  TTLinearForward up{.x = saved.x, .a = saved.merged.a_up, .xa = saved.xa, .outputs = 1, .output = {}};
  up.output[0] = {.b = saved.merged.b_up, .bias = store_.value(up_.bias()), .u = u, .y = {}};
  return {.linear = up, .scales = up_.float8()->scales(), .options = up_.float8()->options()};
}

void TTFeedForward::forward_in_float8(const Context& context, const Saved& saved,
                                      Activation activation) const {
  ArenaScope scope(context.arena);
  const Tensor u = scope.tensor({saved.x.dim(0), up_.spec().output_size}, saved.x.dtype());
  run(context, inner_in_float8(saved, u));
  const ProductPlace place = down_.place(context);
  TTLinearForward down{.x = u, .a = saved.merged.a_down, .xa = saved.ha, .outputs = 1, .output = {}};
  down.output[0] = {.b = saved.merged.b_down, .bias = {}, .u = saved.y, .y = {}};
  run(context, Float8LinearForward{.linear = down,
                                   .scales = down_.float8()->scales(),
                                   .options = down_.float8()->options(),
                                   .input_activation = activation});
}

void TTFeedForward::backward_in_float8(const Context& context, const Saved& saved,
                                       const TTFeedForwardBackward& to) const {
  const DType dtype = saved.x.dtype();
  const Shape inner{saved.x.dim(0), up_.spec().output_size};
  ArenaScope scope(context.arena);
  const Tensor u = scope.tensor(inner, dtype), dh = scope.tensor(inner, dtype);
  Float8LinearForward again = inner_in_float8(saved, u);
  again.again = true;
  run(context, again);
  TTLinearBackward down{.x = u,
                        .a = saved.merged.a_down,
                        .xa = saved.ha,
                        .da = to.da_down,
                        .dx = dh,
                        .outputs = 1,
                        .output = {},
                        .dxa = {}};
  down.output[0] = {.b = saved.merged.b_down, .db = to.db_down, .dbias = {}, .u = {}, .y = {}, .dy = to.dy};
  {
    const ProductPlace place = down_.place(context);
    run(context, Float8LinearBackward{.linear = down,
                                      .scales = down_.float8()->scales(),
                                      .options = down_.float8()->options(),
                                      .input_activation = to.activation});
  }
  // gelu's derivative is computed from u; the others' from their value, which replaces u now.
  if (slope_by_value(to.activation))
    run(context, BiasActivationForward{.u = u, .bias = {}, .activation = to.activation, .y = u});
  TTLinearBackward up{.x = saved.x,
                      .a = saved.merged.a_up,
                      .xa = saved.xa,
                      .da = to.da_up,
                      .dx = to.dx,
                      .accumulate_dx = to.accumulate_dx,
                      .outputs = 1,
                      .output = {},
                      .dxa = {}};
  up.output[0] = {.b = saved.merged.b_up,
                  .db = to.db_up,
                  .dbias = to.dbias,
                  .activation = to.activation,
                  .u = u,
                  .y = u,
                  .dy = dh};
  run(context, Float8LinearBackward{
                   .linear = up, .scales = up_.float8()->scales(), .options = up_.float8()->options()});
}

}  // namespace comera
