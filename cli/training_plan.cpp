#include "cli/training_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "data/batching/loader.h"
#include "kernels/core/console.h"
#include "measurements/phase_costs.h"
#include "recipes/encoder_config.h"
#include "reports/model_report.h"
#include "reports/number_text.h"
#include "training/logging/progress.h"
#include "training/run/phase.h"
#include "training/tasks/make_encoder_task.h"

namespace comera::cli {

namespace {

// One epoch of the data for each phase; none if there are no data yet.
std::vector<EpochSize> epochs_of_phases(const Recipe& recipe, const Model& model, const PlannedData& data) {
  std::vector<EpochSize> epochs;
  if (data.tokenizer == nullptr) {
    if (!data.tokens) return epochs;
    for (const PhaseSection& phase : recipe.phases)
      epochs.push_back({.micro_batches = *data.tokens / static_cast<double>(phase.tokens_per_micro_batch)});
    return epochs;
  }
  const auto task = make_encoder_task(recipe, data.finetune, *data.tokenizer, model.config(),
                                      [](const std::string& line) { log_info("{}\n", line); });
  for (std::size_t i = 0; i < recipe.phases.size(); ++i) {
    data::LoaderOptions options = loader_options(recipe, static_cast<std::int64_t>(i), *task, model);
    options.prefetch = 0;
    std::unique_ptr<data::SampleSource> samples = task->training_samples(recipe.phases[i].length);
    EpochSize epoch;
    if (data.finetune) {  // texts of pretraining fill micro-batches
      epoch.sequences_per_sample = samples->sequences_per_sample();
      epoch.sequences = static_cast<double>(samples->count() * epoch.sequences_per_sample);
      const std::vector<std::int32_t> lengths = samples->lengths();
      epoch.tokens = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    }
    const data::Loader loader(std::move(samples), options);
    epoch.micro_batches = static_cast<double>(loader.count_micro_batches_per_epoch());
    epochs.push_back(epoch);
  }
  return epochs;
}

std::string passes_text(const PhaseCosts& costs, const Recipe& recipe, const std::vector<EpochSize>& epochs) {
  std::string text;
  for (std::size_t i = 0; i < epochs.size(); ++i)
    if (costs.phases[i].steps && epochs[i].micro_batches > 0)
      text +=
          fmt::format("{}{} {:.2g}", i == 0 ? "" : ", ", costs.phases[i].name,
                      *costs.phases[i].steps * static_cast<double>(recipe.phases[i].micro_batches_per_step) /
                          epochs[i].micro_batches);
  return text;
}

}  // namespace

std::optional<double> print_training_plan(const Recipe& recipe, const PlannedData& data, int processes) {
  const EncoderConfig config = encoder_config(recipe, data.vocabulary);
  const Model model(config, host_allocator(), false);
  const std::vector<EpochSize> epochs = epochs_of_phases(recipe, model, data);
  const std::int64_t own = model.parameters().count(), dense = dense_parameters(config);
  print_out("model            {} parameters, {}{}\n", grouped(own), megabytes(own),
            own == dense ? std::string(", all dense")
                         : fmt::format(";\n                 {} than its dense baseline's {}",
                                       times_text(dense, own), grouped(dense)));
  flush_output();  // the rest takes a while
  PhaseCosts costs = measure_phases(recipe, data.vocabulary, processes, data.tokenizer, epochs);
  double seconds = 0, checkpoint = 0;
  bool known = true;
  for (std::size_t i = 0; i < costs.phases.size(); ++i) {
    PhaseCost& phase = costs.phases[i];
    if (!phase.steps && phase.epochs && i < epochs.size())
      phase.steps = std::ceil(*phase.epochs * epochs[i].micro_batches /
                              static_cast<double>(recipe.phases[i].micro_batches_per_step));
    known = known && phase.steps;
    const auto parameters = static_cast<int>(MemoryKind::parameters);
    checkpoint =
        std::max(checkpoint, static_cast<double>(phase.bytes[parameters] - costs.teacher[parameters] +
                                                 phase.bytes[static_cast<int>(MemoryKind::optimizer)]));
  }
  divide_hours(costs);
  for (const PhaseCost& phase : costs.phases) seconds += phase.steps.value_or(0) * phase.seconds;
  print_out("{}\n", phase_costs_text(costs));
  if (const std::string text = passes_text(costs, recipe, epochs); !text.empty())
    print_out("passes           {} over the training data{}\n", text,
              data.tokenizer == nullptr ? ", about" : "");
  if (recipe.distillation && !recipe.distillation->cache.empty())
    print_out("not counted      the teacher's answers, which are made and kept before the first step\n");
  const std::int64_t kept = recipe.run.keep_checkpoints;
  print_out("checkpoints      about {:.1f} MB each; the newest {} kept in {}\n", checkpoint * 1e-6,
            kept == 1 ? "is" : fmt::format("{} are", kept), recipe.run.output);
  if (!known) return std::nullopt;
  print_out("time             about {}, {} evaluations: {} if started now\n", duration_text(seconds),
            costs.max_hours ? "with" : "without", clock_text(seconds));
  return seconds;
}

}  // namespace comera::cli
