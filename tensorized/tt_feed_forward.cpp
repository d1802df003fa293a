#include "tensorized/tt_feed_forward.h"

#include "kernels/ops/bias_activation.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/tt_feed_forward.h"
#include "tensorized/in_type.h"
#include "tensorized/together.h"

namespace comera {

TTFeedForward::TTFeedForward(const ParameterStore& store, const TTLinear& up, const TTLinear& down)
    : store_(store), up_(up), down_(down) {
  COMERA_CHECK(up.outputs() == 1 && down.outputs() == 1 && up.spec().output_size == down.spec().input_size,
               "{} does not fit before {}", up.spec().name, down.spec().name);
}

bool TTFeedForward::pays(const MachineModel& machine, std::int64_t tokens) const {
  for (const TTLinear* linear : {&up_, &down_})
    if (!all_by_halves(
            choose_plan(machine, linear->train(0).shape, tokens, linear->plan(), store_.compute())))
      return false;
  return true;
}

TTFeedForward::Saved TTFeedForward::forward(const Context& context, const Tensor& x,
                                            Activation activation) const {
  const std::int64_t tokens = x.dim(0), inner = up_.spec().output_size;
  const bool float8 = up_.float8() && up_.fits_float8() && down_.fits_float8();
  const DType dtype = x.dtype(), halves = float8 ? store_.dtype() : dtype;
  const auto columns = [&](const TTLinear& linear) { return linear.columns(0, float8); };
  Arena& arena = context.arena;
  const std::int64_t inputs = x.dim(1), outputs = down_.spec().output_size;
  const Together together{{inputs, columns(up_)},
                          {up_.rows(0, float8), inner},
                          {inner, columns(down_)},
                          {down_.rows(0, float8), outputs}};
  const Tensor whole = arena.saved({together.elements()}, halves);
  const std::vector<Tensor> half = together.in(whole);
  const Saved saved{.x = x,
                    .a_up = half[0],
                    .b_up = half[1],
                    .a_down = half[2],
                    .b_down = half[3],
                    .xa = arena.saved({tokens, columns(up_)}, dtype),
                    .ha = arena.saved({tokens, columns(down_)}, dtype),
                    .y = arena.saved({tokens, outputs}, dtype),
                    .float8 = float8};
  {
    ArenaScope scope(context.arena);
    const InMasterType master(context, scope, whole);
    const std::vector<Tensor> made = together.in(master.tensor());
    TTHalvesForward merge{
        {halves_of(store_, up_.train(0), made[0], columns(up_), columns(up_), made[1]),
         halves_of(store_, down_.train(0), made[2], columns(down_), columns(down_), made[3])}};
    merge.halves[0].place = up_.spec().name;
    merge.halves[1].place = down_.spec().name;
    run(context, merge);
    master.write_back();
  }
  const ProductPlace place = up_.place(context);
  if (float8) {
    forward_in_float8(context, saved, activation);
    return saved;
  }
  run(context, TTFeedForwardForward{.x = x,
                                    .a_up = saved.a_up,
                                    .b_up = saved.b_up,
                                    .bias = store_.value(up_.bias()),
                                    .a_down = saved.a_down,
                                    .b_down = saved.b_down,
                                    .activation = activation,
                                    .xa = saved.xa,
                                    .ha = saved.ha,
                                    .y = saved.y});
  return saved;
}

void TTFeedForward::backward(const Context& context, const Saved& saved, Activation activation,
                             const Tensor& dy, const Tensor& dx, bool accumulate_dx) const {
  ArenaScope scope(context.arena);
  const Together together{saved.a_up.shape(), saved.b_up.shape(), saved.a_down.shape(), saved.b_down.shape()};
  const Tensor whole = scope.tensor({together.elements()}, store_.dtype());
  run(context, Fill{.x = whole, .value = 0});
  const std::vector<Tensor> half = together.in(whole);
  const Tensor &da_up = half[0], &db_up = half[1], &da_down = half[2], &db_down = half[3];
  const TTFeedForwardBackward gradients{.x = saved.x,
                                        .a_up = saved.a_up,
                                        .b_up = saved.b_up,
                                        .bias = store_.value(up_.bias()),
                                        .a_down = saved.a_down,
                                        .b_down = saved.b_down,
                                        .activation = activation,
                                        .xa = saved.xa,
                                        .ha = saved.ha,
                                        .dy = dy,
                                        .da_up = da_up,
                                        .db_up = db_up,
                                        .dbias = store_.gradient(up_.bias()),
                                        .da_down = da_down,
                                        .db_down = db_down,
                                        .dx = dx,
                                        .accumulate_dx = accumulate_dx};
  {
    const ProductPlace place = up_.place(context);
    if (saved.float8)
      backward_in_float8(context, saved, gradients);
    else
      run(context, gradients);
  }
  TTHalvesBackward to_cores{{half_gradients_of(store_, up_.train(0), da_up, da_up.dim(1), db_up),
                             half_gradients_of(store_, down_.train(0), da_down, da_down.dim(1), db_down)}};
  to_cores.halves[0].place = up_.spec().name;
  to_cores.halves[1].place = down_.spec().name;
  run(context, to_cores);
}

Float8LinearForward TTFeedForward::inner_in_float8(const Saved& saved, const Tensor& u) const {
  TTLinearForward up{.x = saved.x, .a = saved.a_up, .xa = saved.xa, .outputs = 1, .output = {}};
  up.output[0] = {.b = saved.b_up, .bias = store_.value(up_.bias()), .u = u, .y = {}};
  return {.linear = up, .scales = up_.float8()->scales(), .options = up_.float8()->options()};
}

void TTFeedForward::forward_in_float8(const Context& context, const Saved& saved,
                                      Activation activation) const {
  ArenaScope scope(context.arena);
  const Tensor u = scope.tensor({saved.x.dim(0), up_.spec().output_size}, saved.x.dtype());
  run(context, inner_in_float8(saved, u));
  const ProductPlace place = down_.place(context);
  TTLinearForward down{.x = u, .a = saved.a_down, .xa = saved.ha, .outputs = 1, .output = {}};
  down.output[0] = {.b = saved.b_down, .bias = {}, .u = saved.y, .y = {}};
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
                        .a = saved.a_down,
                        .xa = saved.ha,
                        .da = to.da_down,
                        .dx = dh,
                        .outputs = 1,
                        .output = {},
                        .dxa = {}};
  down.output[0] = {.b = saved.b_down, .db = to.db_down, .dbias = {}, .u = {}, .y = {}, .dy = to.dy};
  {
    const ProductPlace place = down_.place(context);
    run(context, Float8LinearBackward{.linear = down,
                                      .scales = down_.float8()->scales(),
                                      .options = down_.float8()->options(),
                                      .input_activation = to.activation});
  }
  // gelu's derivative is taken at u, others' from their value, which takes the place of u now.
  if (slope_by_value(to.activation))
    run(context, BiasActivationForward{.u = u, .bias = {}, .activation = to.activation, .y = u});
  TTLinearBackward up{.x = saved.x,
                      .a = saved.a_up,
                      .xa = saved.xa,
                      .da = to.da_up,
                      .dx = to.dx,
                      .accumulate_dx = to.accumulate_dx,
                      .outputs = 1,
                      .output = {},
                      .dxa = {}};
  up.output[0] = {.b = saved.b_up,
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
