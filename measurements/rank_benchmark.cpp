#include "measurements/rank_benchmark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "checkpoints/rank_history.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "measurements/step_profile.h"
#include "measurements/stepper.h"
#include "model/rank_sizes.h"
#include "recipes/encoder_config.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"
#include "training/ranks/rank_compaction.h"

namespace comera {

namespace {

// The recipe of the model before its ranks were adapted.
Recipe recipe_at_start(const CheckpointReader& checkpoint, const RankCompaction& compaction) {
  Recipe recipe = compaction.recipe();
  const RankHistory history = load_rank_history(checkpoint);
  recipe.tensorized.ranks = history.stages.empty() ? LayerRanks{} : history.stages.front().ranks;
  return recipe;
}

// Tensor trains of a compacted dense model may have larger ranks than the recipe's kinds.
void check_shrunk(const LayerRanks& start, const LayerRanks& live, const CheckpointReader& checkpoint) {
  for (const auto& [layer, ranks] : live) {
    const std::vector<std::int64_t>& first = start.at(layer);
    for (std::size_t bond = 0; bond < ranks.size(); ++bond)
      COMERA_CHECK(ranks[bond] <= first.at(bond),
                   "{} does not hold its initial ranks: {} has the ranks [{}], more than the [{}] of the "
                   "recipe; give a checkpoint of a run that adapts ranks",
                   checkpoint.path().string(), layer, fmt::join(ranks, ", "), fmt::join(first, ", "));
  }
}

// (rows, middle, columns): a core's ranks on both sides. A gate is one row, and so is any tensor without
// ranks, which has the same size in both models.
struct Slices {
  std::int64_t rows = 1, middle = 1, columns;

  explicit Slices(const ParameterInfo& info) : columns(info.shape[-1]) {
    if (info.role == ParameterRole::core) rows = info.shape[0];
    middle = info.shape.elements() / rows / columns;
  }
};

}  // namespace

void write_in_front(const ParameterStore& small, const ParameterStore& large) {
  for (ParameterId id = 0; id < large.size(); ++id) {
    const ParameterInfo& info = large.info(id);
    std::vector<double> values(info.shape.elements(), 0.0);
    if (const std::optional<ParameterId> from = small.find(info.name)) {
      const std::vector<double> live = read_tensor(small.value(*from), small.allocator());
      const Slices to(info), of(small.info(*from));
      for (std::int64_t row = 0; row < of.rows; ++row)
        for (std::int64_t m = 0; m < of.middle; ++m)
          std::copy_n(live.begin() + (row * of.middle + m) * of.columns, of.columns,
                      values.begin() + (row * to.middle + m) * to.columns);
    }
    write_tensor(large.value(id), values, large.allocator());
  }
}

namespace {

// One of the compared models.
struct Subject {
  Subject(const char* subject, const EncoderConfig& config, const StepBenchmarkOptions& options,
          const Processor& processor)
      : name(subject), stepper(config, options, processor) {}

  void keep_quickest(const StepProfile& profile) {
    if (quickest.entries.empty() || profile.seconds < quickest.seconds) quickest = profile;
  }

  const char* name;
  Stepper stepper;
  std::vector<double> seconds = {};  // per step
  StepProfile quickest = {};         // if requested
};

class RankBenchmark {
 public:
  RankBenchmark(const CheckpointReader& checkpoint, const StepBenchmarkOptions& options)
      : compaction_(checkpoint),
        vocabulary_(checkpoint.integer("/data", "vocabulary")),
        options_(options),
        precision_(measured_in(options.device, compaction_.recipe().precision)),
        processor_(find_processor(options.device, precision_.activations(), precision_.operands())),
        start_(config_of(recipe_at_start(checkpoint, compaction_))) {
    processor_.graphs = options_.graphs;
    options_.config = config_of(compaction_.recipe());
    if (options_.profile && on_gpu()) throw UsageError("--profile is for the CPU; give --device cpu");
    check_lengths(options_);
    check_shrunk(ranks_of(start_), compaction_.after(), checkpoint);
  }

  std::string run() {
    add("before", start_);
    const ParameterStore& masked = add("masked", start_).parameters();
    const ParameterStore& compacted = add("compacted", options_.config).parameters();
    write_live(compacted);
    write_in_front(compacted, masked);
    if (!options_.only_tensorized) add("dense", options_.config.dense_baseline());
    std::optional<Ceilings> ceilings;
    if (options_.profile) ceilings = measure_ceilings();
    measure();
    std::string text = table();
    if (ceilings)
      text += roofline_table("the quickest compacted step, operation by operation",
                             subjects_[compacted_at]->quickest, best_of(*ceilings, measure_ceilings()));
    return text;
  }

 private:
  static constexpr std::size_t compacted_at = 2;

  // The CPU measures fp32, whatever the type in training.
  static PrecisionSection measured_in(const std::string& device, const PrecisionSection& trained) {
    const Processor processor = find_processor(device, DType::float32);
    return processor.allocator.device().kind == DeviceKind::cpu ? PrecisionSection() : trained;
  }

  EncoderConfig config_of(Recipe recipe) const {
    recipe.precision = precision_;
    return encoder_config(recipe, vocabulary_);
  }

  bool on_gpu() const { return processor_.allocator.device().kind == DeviceKind::cuda; }

  Stepper& add(const char* name, const EncoderConfig& config) {
    return subjects_.emplace_back(std::make_unique<Subject>(name, config, options_, processor_))->stepper;
  }

  // The checkpoint's weights, in the measured type.
  void write_live(const ParameterStore& to) const {
    const Model model(encoder_config(compaction_.recipe(), vocabulary_), host_allocator(), false);
    compaction_.write_parameters(model.parameters());
    write_in_front(model.parameters(), to);
  }

  void measure() {
    for (const auto& subject : subjects_)
      for (int warming = 0; warming < 2; ++warming) subject->stepper.step();
    const int together = on_gpu() ? 10 : 1;
    for (int repeat = 0; repeat < options_.repeats; ++repeat)
      for (const auto& subject : subjects_) {
        double sum = 0;
        for (int i = 0; i < together; ++i) sum += step(*subject);
        subject->seconds.push_back(sum / together);
      }
  }

  double step(Subject& subject) const {
    if (!options_.profile || &subject != subjects_[compacted_at].get()) return subject.stepper.step();
    const StepProfile profile = profiled_step(subject.stepper);
    subject.keep_quickest(profile);
    return profile.seconds;
  }

  std::string table() const {
    Subject& one = *subjects_[compacted_at];
    TextTable table({"model", "ms", "times", "MiB", "times", "parameters", "times"});
    table.align_right(1);
    for (const auto& subject : subjects_) {
      const auto [least, most] = std::ranges::minmax(subject->seconds);
      const std::int64_t parameters = subject->stepper.parameters().count();
      table.add(
          {subject->name,
           fmt::format("{:.3f} ({:.3f} to {:.3f})", median(subject->seconds) * 1e3, least * 1e3, most * 1e3),
           fmt::format("{:.2f}", median_ratio(subject->seconds, one.seconds)),
           fmt::format("{:.1f}", subject->stepper.memory_mib()),
           fmt::format("{:.2f}", subject->stepper.memory_mib() / one.stepper.memory_mib()),
           grouped(parameters),
           fmt::format("{:.2f}", static_cast<double>(parameters) /
                                     static_cast<double>(one.stepper.parameters().count()))});
    }
    std::string text = heading() + table.text();
    text += "  times: of the compacted model's (of the steps, the median of the pairs)\n";
    if (ranks_of(start_) == compaction_.after())
      text += "  the ranks are those of the start: before, masked and compacted are the same model\n";
    return text + fmt::format(
                      "  before: ranks at the start, random weights; masked: the same shapes, the "
                      "checkpoint's live slices in front, zeros behind; compacted: live ranks, the "
                      "checkpoint's weights{}\n",
                      options_.only_tensorized ? "" : "; dense: random weights");
  }

  std::string heading() const {
    const std::string what = fmt::format(
        "whole step, {} tokens in sequences of {}, {} included, {}; median of {}{} (least "
        "to most)\n",
        options_.tokens, options_.length, name_of(options_.optimizer.kind), name_of(options_.config.compute),
        options_.repeats, on_gpu() ? " times ten" : "");
    if (on_gpu())
      return fmt::format("{}, graphs {}\n", processor_.backend.name(), processor_.graphs ? "on" : "off") +
             what;
    return fmt::format("{} threads, instruction set {}\n", thread_count(), instruction_set()) + what;
  }

  RankCompaction compaction_;
  std::int64_t vocabulary_;
  StepBenchmarkOptions options_;  // with the compacted model's configuration
  PrecisionSection precision_;
  Processor processor_;
  EncoderConfig start_;
  std::vector<std::unique_ptr<Subject>> subjects_;
};

}  // namespace

std::string benchmark_ranks(const CheckpointReader& checkpoint, const StepBenchmarkOptions& options) {
  return RankBenchmark(checkpoint, options).run();
}

}  // namespace comera
