#include "tensorized/tt_feed_forward.h"

#include "kernels/ops/layout.h"
#include "kernels/ops/tt_feed_forward.h"

namespace comera {

TTFeedForward::TTFeedForward(const ParameterStore& store, const TTLinear& up, const TTLinear& down)
    : store_(store), up_(up), down_(down) {
  COMERA_CHECK(up.outputs() == 1 && down.outputs() == 1 && up.spec().output_size == down.spec().input_size,
               "{} does not fit before {}", up.spec().name, down.spec().name);
}

bool TTFeedForward::pays(std::int64_t tokens) const {
  for (const TTLinear* linear : {&up_, &down_})
    if (!all_by_halves(choose_plan(linear->train(0).shape, tokens, linear->plan(), store_.compute())))
      return false;
  return true;
}

TTFeedForward::Saved TTFeedForward::forward(const Context& context, const Tensor& x,
                                            Activation activation) const {
  const std::int64_t tokens = x.dim(0), inner = up_.spec().output_size;
  const DType dtype = x.dtype();
  Arena& arena = context.arena;
  const Saved saved{.x = x,
                    .a_up = arena.saved({x.dim(1), up_.rank(0)}, dtype),
                    .b_up = arena.saved({up_.rank(0), inner}, dtype),
                    .a_down = arena.saved({inner, down_.rank(0)}, dtype),
                    .b_down = arena.saved({down_.rank(0), down_.spec().output_size}, dtype),
                    .xa = arena.saved({tokens, up_.rank(0)}, dtype),
                    .ha = arena.saved({tokens, down_.rank(0)}, dtype),
                    .y = arena.saved({tokens, down_.spec().output_size}, dtype)};
  up_.merge(context, saved.a_up, {saved.b_up});
  down_.merge(context, saved.a_down, {saved.b_down});
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
  const auto zeros_like = [&](const Tensor& value) {
    const Tensor tensor = scope.tensor(value.shape(), store_.dtype());
    run(context, Fill{.x = tensor, .value = 0});
    return tensor;
  };
  const Tensor da_up = zeros_like(saved.a_up), db_up = zeros_like(saved.b_up);
  const Tensor da_down = zeros_like(saved.a_down), db_down = zeros_like(saved.b_down);
  run(context, TTFeedForwardBackward{.x = saved.x,
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
                                     .accumulate_dx = accumulate_dx});
  merge_halves_backward(context, store_, up_.train(0), da_up, up_.rank(0), db_up);
  merge_halves_backward(context, store_, down_.train(0), da_down, down_.rank(0), db_down);
}

}  // namespace comera
