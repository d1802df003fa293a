#include "training/step_metrics.h"

#include "reports/model_report.h"

namespace comera {

JsonObject step_metrics(const PhaseSection& phase, double rate_factor, StepEngine& engine,
                        const EncoderConfig& config, const RunState& state, const Speed& speed) {
  const Arena::Plan& plan = engine.arena_plan();
  const Allocator& allocator = engine.allocator();
  const std::int64_t parameters = engine.model().parameters().count();
  JsonObject rates, memory;
  phase.learning_rate.for_each([&](const char* name, double rate) { rates.add(name, rate * rate_factor); });
  memory.add("parameters", allocator.use(MemoryKind::parameters).peak)
      .add("gradients", allocator.use(MemoryKind::gradients).peak)
      .add("optimizer", allocator.use(MemoryKind::optimizer).peak)
      .add("activations", plan.saved)
      .add("workspace", plan.total - plan.saved + allocator.use(MemoryKind::workspace).peak);
  JsonObject line;
  line.add("phase", phase.name);
  // Nobody knows the loss of steps that had no targets, or were skipped.
  if (state.window_targets > 0) line.add("loss", state.window_loss / state.window_targets);
  line.add("targets", static_cast<std::int64_t>(state.window_targets))
      .add("learning_rate", rates)
      .add_finite("gradient_norm", engine.results().gradient_norm)
      .add("skipped_steps", state.skipped)
      .add("tokens", state.tokens)
      .add("tokens_per_second", speed.tokens_per_second)
      .add("ms_per_step", speed.seconds_per_step * 1e3)
      .add("parameters", parameters)
      .add("compression", static_cast<double>(dense_parameters(config)) / static_cast<double>(parameters))
      .add("peak_memory", memory);
  return line;
}

}  // namespace comera
