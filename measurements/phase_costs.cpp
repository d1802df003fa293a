#include "measurements/phase_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>

#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "measurements/stepper.h"
#include "recipes/encoder_config.h"
#include "recipes/phase_recipe.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"
#include "training/distillation/trained_teacher.h"
#include "training/logging/progress.h"

namespace comera {

namespace {

StepBenchmarkOptions step_options(const Recipe& recipe, const PhaseSection& phase, std::int64_t vocabulary) {
  StepBenchmarkOptions options;
  options.config = encoder_config(recipe, vocabulary);
  options.optimizer = recipe.optim;
  options.length = std::min(phase.length, phase.tokens_per_micro_batch);
  options.tokens = phase.tokens_per_micro_batch / options.length * options.length;
  options.mask_probability = phase.largest_mask_probability(recipe.data.mask_probability);
  return options;
}

// The micro-batch that is nearest to the mean of an epoch, of whole samples of one length.
void fill_as_in_mean(const EpochSize& epoch, StepBenchmarkOptions& options) {
  if (epoch.micro_batches <= 0 || epoch.sequences <= 0) return;
  const auto together = static_cast<double>(epoch.sequences_per_sample);
  const double samples = std::max(1.0, std::round(epoch.sequences / together / epoch.micro_batches));
  options.held_examples = std::llround(samples);
  options.held_sequences = options.held_examples * epoch.sequences_per_sample;
  const std::int64_t longest = std::min(options.length, options.tokens / options.held_sequences);
  options.held_length = std::clamp<std::int64_t>(std::llround(epoch.tokens / epoch.sequences), 1,
                                                 std::max<std::int64_t>(longest, 1));
}

// The target does not affect the cost of a step, so any will do.
RankStageOptions stage_of(const PhaseSection& phase) {
  RankStageOptions stage = resolve(phase.adaptation.value_or(AdaptationSection()), phase.objective).stage;
  stage.objective.size_target = 1;
  return stage;
}

PhaseCost measure(Stepper& stepper, const Recipe& recipe, const PhaseSection& phase, int processes) {
  PhaseCost cost{.name = phase.name,
                 .length = phase.length,
                 .tokens = phase.tokens_per_micro_batch * phase.micro_batches_per_step,
                 .mean_tokens = phase.tokens_per_micro_batch * phase.micro_batches_per_step,
                 .steps = phase.steps,
                 .epochs = phase.epochs};
  std::vector<double> seconds = step_times(stepper);
  const std::int64_t micro_batches =
      (phase.micro_batches_per_step + processes - 1) / processes;  // for the process with most
  const double further = micro_batches > 1 ? stepper.micro_batch() : 0;
  const double often = occasional_work(stepper, recipe).seconds_per_step();
  for (double& step : seconds) step += static_cast<double>(micro_batches - 1) * further + often;
  cost.seconds = median(seconds);
  const auto [least, most] = std::ranges::minmax(seconds);
  cost.least = least, cost.most = most;
  cost.samples = std::ssize(seconds);
  cost.bytes = stepper.memory();
  return cost;
}

std::string mebibytes_text(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1048576);
}

std::string hours_text(double hours) {
  return hours < 0.1 ? fmt::format("{:.1f} min", 60 * hours) : fmt::format("{:.2f} h", hours);
}

std::string steps_text(const PhaseCost& phase) {
  return phase.steps ? grouped(std::llround(*phase.steps)) : fmt::format("{:g} passes", *phase.epochs);
}

}  // namespace

std::optional<double> PhaseCost::hours() const {
  return steps ? std::optional(*steps * seconds / 3600) : std::nullopt;
}

void divide_hours(PhaseCosts& costs) {
  if (!costs.max_hours || costs.hours_divided) return;
  double all = 0;
  for (const PhaseCost& phase : costs.phases) {
    if (!phase.steps) return;
    all += *phase.steps * static_cast<double>(phase.tokens);
  }
  for (PhaseCost& phase : costs.phases)
    phase.steps =
        *costs.max_hours * 3600 * *phase.steps * static_cast<double>(phase.tokens) / all / phase.seconds;
  costs.hours_divided = true;
}

PhaseCosts measure_phases(const Recipe& recipe, std::int64_t vocabulary, int processes,
                          const data::Tokenizer* tokenizer, const std::vector<EpochSize>& epochs) {
  if (recipe.phases.empty()) throw UsageError("the recipe has no phases to plan; add a [[phase]]");
  const EncoderConfig config = encoder_config(recipe, vocabulary);
  prepare_threads(static_cast<int>(recipe.run.threads));
  Processor processor = find_processor(recipe.run.device, config.compute, recipe.precision.operands());
  processor.graphs = recipe.run.graphs;
  PhaseCosts costs{
      .machine = processor.allocator.device().kind == DeviceKind::cuda
                     ? std::string(processor.backend.name())
                     : fmt::format("CPU, {} {}, instruction set {}", thread_count(),
                                   thread_count() == 1 ? "thread" : "threads", instruction_set()),
      .max_hours = recipe.run.max_hours,
      .phases = {}};
  if (getloadavg(&costs.load, 1) != 1) costs.load = 0;
  const Ticker ticker("measuring training steps");
  const MemoryByKind before = memory_in_use(processor.allocator);
  std::unique_ptr<TrainedTeacher> teacher;
  if (tokenizer != nullptr && recipe.distillation && recipe.distillation->cache.empty())
    teacher = find_teacher(recipe, *tokenizer, config, processor);
  costs.teacher = memory_in_use(processor.allocator);
  for (int kind = 0; kind < memory_kinds; ++kind) costs.teacher[kind] -= before[kind];
  const auto options_of = [&](const Recipe& own, std::size_t phase) {
    StepBenchmarkOptions options = step_options(own, recipe.phases[phase], vocabulary);
    if (teacher) options.teacher = &teacher->teacher();
    if (phase < epochs.size()) fill_as_in_mean(epochs[phase], options);
    return options;
  };
  std::optional<Stepper> stepper;
  for (std::size_t i = 0; i < recipe.phases.size(); ++i) {
    const PhaseSection& phase = recipe.phases[i];
    const Recipe own = recipe_in_phase(recipe, static_cast<std::int64_t>(i));  // of the model that it trains
    if (!stepper || grows(recipe, static_cast<std::int64_t>(i))) {
      stepper.reset();  // its memory first
      processor.allocator.reset_peaks();
      stepper.emplace(options_of(own, i), processor);
    }
    if (phase.objective == PhaseObjective::fixed || !recipe.tensorized.enabled)
      stepper->keep_ranks();
    else
      stepper->adapt_ranks(stage_of(phase));
    const StepBenchmarkOptions options = options_of(own, i);
    stepper->set_batch(options);
    costs.phases.push_back(measure(*stepper, own, phase, processes));
    if (options.held_sequences > 0)
      costs.phases.back().mean_tokens =
          options.held_sequences * options.held_length * phase.micro_batches_per_step;
    for (int kind = 0; kind < memory_kinds; ++kind) costs.phases.back().bytes[kind] += costs.teacher[kind];
  }
  stepper.reset();
  processor.allocator.reset_peaks();  // a following run has its own
  divide_hours(costs);
  return costs;
}

namespace {

std::string memory_table(const PhaseCosts& costs) {
  std::vector<std::string> titles = {"memory, MiB"};
  for (int kind = 0; kind < memory_kinds; ++kind) titles.emplace_back(name_of(static_cast<MemoryKind>(kind)));
  titles.emplace_back("all");
  TextTable table(std::move(titles));
  table.align_right(1);
  for (const PhaseCost& phase : costs.phases) {
    std::vector<std::string> row = {phase.name};
    for (const std::size_t bytes : phase.bytes) row.push_back(mebibytes_text(bytes));
    row.push_back(mebibytes_text(std::reduce(phase.bytes.begin(), phase.bytes.end(), std::size_t{0})));
    table.add(std::move(row));
  }
  return table.text();
}

}  // namespace

std::string phase_costs_text(const PhaseCosts& costs) {
  TextTable table({"phase", "length", "tokens a step", "ms a step", "(least to most)", "steps", "time"});
  table.align_right(1);
  double hours = 0;
  bool known = true;
  for (const PhaseCost& phase : costs.phases) {
    const std::optional<double> of_phase = phase.hours();
    hours += of_phase.value_or(0);
    known = known && of_phase;
    table.add({phase.name, std::to_string(phase.length), grouped(phase.mean_tokens),
               fmt::format("{:.1f}", phase.seconds * 1e3),
               phase.samples == 1 ? std::string("(one step)")
                                  : fmt::format("({:.1f} to {:.1f})", phase.least * 1e3, phase.most * 1e3),
               steps_text(phase), of_phase ? hours_text(*of_phase) : ""});
  }
  if (known) table.add({"all", "", "", "", "", "", hours_text(hours)});
  std::string text = fmt::format("on this machine ({})\n{}", costs.machine, table.text());
  if (std::ranges::any_of(costs.phases, [](const PhaseCost& phase) { return phase.samples == 1; }))
    text += "steps are so long here that one was measured: its time may be off by a fifth or more\n";
  if (const unsigned cpus = std::max(1U, std::thread::hardware_concurrency()); costs.load > 0.5 * cpus)
    text += fmt::format(
        "the machine was busy (load {:.1f} on {} CPUs): alone, training takes less time than this\n",
        costs.load, cpus);
  if (!known) text += "the data decide the steps of a pass\n";
  if (costs.max_hours)
    text +=
        fmt::format("run.max_hours = {:g}: {}\n", *costs.max_hours,
                    costs.hours_divided ? "phases have the steps that fit the time, evaluations not counted"
                                        : "the speed and the data decide the steps of each phase");
  return text + "\n" + memory_table(costs);
}

}  // namespace comera
