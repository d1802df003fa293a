#include "training/logging/step_metrics.h"

#include <nlohmann/json.hpp>

namespace comera {

Json step_metrics(const PhaseSection& phase, double rate_factor, StepEngine& engine, const ModelForm& form,
                  const TrainingTask& task, const RunState& state, const Speed& speed) {
  const Arena::Plan& plan = engine.arena_plan();
  const Allocator& allocator = engine.allocator();
  const std::int64_t parameters = engine.model().parameters().count();
  Json line = {{"phase", phase.name}};
  // The loss is unknown if the steps had no targets, or were skipped.
  if (state.window_targets > 0) line["loss"] = state.window_loss / state.window_targets;
  line["targets"] = static_cast<std::int64_t>(state.window_targets);
  phase.learning_rate.for_each(
      [&](const char* name, double rate) { line["learning_rate"][name] = rate * rate_factor; });
  set_if_finite(line, "gradient_norm", engine.results().gradient_norm);
  line["skipped_steps"] = state.skipped;
  line[task.unit()] = state.units;
  line[std::string(task.unit()) + "_per_second"] = speed.units_per_second;
  line["ms_per_step"] = speed.seconds_per_step * 1e3;
  line["parameters"] = parameters;
  line["compression"] = static_cast<double>(form.dense_parameters()) / static_cast<double>(parameters);
  const auto peak = [&](MemoryKind kind) { return allocator.use(kind).peak; };
  line["peak_memory"] = {{"parameters", peak(MemoryKind::parameters)},
                         {"gradients", peak(MemoryKind::gradients)},
                         {"optimizer", peak(MemoryKind::optimizer)},
                         {"activations", plan.saved},
                         {"workspace", plan.total - plan.saved + peak(MemoryKind::workspace)}};
  return line;
}

}  // namespace comera
