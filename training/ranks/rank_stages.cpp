#include "training/ranks/rank_stages.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoints/model_state.h"
#include "kernels/core/grouped.h"
#include "model/rank_sizes.h"
#include "recipes/phase_recipe.h"
#include "reports/model_report.h"
#include "reports/number_text.h"
#include "training/ranks/rank_compaction.h"

namespace comera {

namespace {

// Parameters of a model outside of tensor trains, without a generator's.
double other_parameters_of(const Trainable& model) {
  const ParameterStore& store = model.parameters();
  return static_cast<double>(store.count() - store.count(ParameterRole::core) - generator_parameters(store));
}

// Adam changes a parameter by about its learning rate in a step, and gates start near 1.
void warn_of_short_way(const PhaseSection& section, std::int64_t steps, const Schedule& schedule,
                       const RankStages::LogLine& log_line) {
  double way = 0;
  for (std::int64_t step = 0; step < steps; ++step)
    way += section.learning_rate.gates * schedule.factor(step);
  if (way < 1)
    log_line(
        fmt::format("phase {} may be too short to reach its target size; use more steps or a higher "
                    "learning_rate.gates (gates begin near 1, and can fall by {:.2g} in all of its steps)",
                    section.name, way));
}

void warn_of_long_steps(const PhaseSection& section, double threshold, const RankStages::LogLine& log_line) {
  if (section.learning_rate.gates > threshold / 3)
    log_line(
        fmt::format("phase {}: a step moves a gate by up to {}, more than a third of the pruning threshold "
                    "{}; many ranks may be pruned at once and the size may fall well below its target; lower "
                    "the learning rate of gates",
                    section.name, section.learning_rate.gates, threshold));
}

}  // namespace

// A dense baseline has no ranks: it simply trains.
PhaseObjective RankStages::objective_of(std::int64_t phase) const {
  return recipe_.tensorized.enabled ? recipe_.phases[phase].objective : PhaseObjective::fixed;
}

// The target size, in elements of the tensor trains, of a phase with objective `compress`.
double RankStages::target_of(std::int64_t phase, const LayerRanks& ranks, double other_parameters) const {
  const AdaptationSection adaptation = adaptation_of(recipe_.phases[phase]);
  if (adaptation.target_ratio) {
    const double of = adaptation.target_of == TargetBase::phase_start
                          ? static_cast<double>(tensorized_size(form_.trains(), ranks))
                      : adaptation.target_of == TargetBase::initial
                          ? units_.size
                          : static_cast<double>(dense_size(form_.trains()));
    return *adaptation.target_ratio * of;
  }
  return *parse_size(adaptation.target_size) / fp32_bytes - other_parameters;
}

// Rejects a `compress` target that cannot be reached from these ranks, or is reached already.
void RankStages::check_target(std::int64_t phase, const LayerRanks& ranks, double others) const {
  const auto size = static_cast<double>(tensorized_size(form_.trains(), ranks));
  const auto least = static_cast<double>(least_size(form_.trains(), ranks));
  const AdaptationSection adaptation = adaptation_of(recipe_.phases[phase]);
  const std::string key =
      fmt::format("phase.{}.adaptation.{}", phase,
                  adaptation.target_ratio ? fmt::format("target_ratio = {}", *adaptation.target_ratio)
                                          : fmt::format("target_size = \"{}\"", adaptation.target_size));
  const double target = target_of(phase, ranks, others);
  if (target < least)
    throw UsageError(
        fmt::format("{} needs {:.0f} parameters in tensor trains, but the smallest possible model has {:.0f} "
                    "({} with the {:.0f} other parameters); raise the target",
                    key, std::max(target, 0.0), least, megabytes(least + others), others));
  if (target >= size && !(adaptation.target_ratio && adaptation.target_of == TargetBase::phase_start))
    throw UsageError(
        fmt::format("{} is not smaller than the model, which has {:.0f} parameters in tensor trains ({} with "
                    "the {:.0f} other parameters); lower the target",
                    key, size, megabytes(size + others), others));
}

// For all coming phases, as far as possible now; each is checked again when it begins.
void RankStages::check_targets(const Trainable& model, const RunState& state) const {
  const LayerRanks ranks = live_ranks(form_.trains(), model);
  for (std::int64_t phase = state.phase; phase < static_cast<std::int64_t>(recipe_.phases.size()); ++phase) {
    if (objective_of(phase) == PhaseObjective::fixed) continue;
    if (blocks_in_phase(recipe_, phase) != blocks_in_phase(recipe_, state.phase))
      return;  // of a larger model
    if (ranks.empty())
      throw UsageError(fmt::format(
          "phase.{}.objective adapts ranks, but the model has no tensor trains; set it to \"fixed\"", phase));
    // The running phase has its target already, and may have reached it.
    const bool runs = phase == state.phase && state.phase_step > 0;
    if (objective_of(phase) == PhaseObjective::compress && !runs)
      check_target(phase, ranks, other_parameters_of(model));
  }
}

void RankStages::take_units(const CheckpointReader& reader) {
  const RankHistory history = load_rank_history(reader);
  if (history.stages.empty()) return;
  const LayerRanks own = ranks_of(form_.trains());
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(own, history.stages.front().ranks, same_name)) return;
  history_ = history;
  units_ = {.size = static_cast<double>(history.initial_size),
            .norm = reader.number("/ranks", "initial_norm")};
}

bool RankStages::begin(const Trainable& model, const RunState& state) {
  bool any = false;
  for (std::size_t phase = 0; phase < recipe_.phases.size(); ++phase)
    any |= objective_of(static_cast<std::int64_t>(phase)) != PhaseObjective::fixed;
  if (!any) return false;
  if (units_.size == 0) {
    units_ = measure_rank_units(model.parameters(), model.ranked_layers());
    history_.initial_size = static_cast<std::int64_t>(units_.size);
    history_.stages.push_back({"start", ranks_of(form_.trains())});
  }
  const LayerRanks live = live_ranks(form_.trains(), model);
  unpacked_ = live != ranks_of(form_.trains()) ? 1 : 0;
  gone_ = count_removed();
  state_.removed =
      static_cast<double>(static_cast<std::int64_t>(removed_layers(form_.trains(), live).size()) - gone_);
  check_targets(model, state);
  return true;
}

void RankStages::begin_anew(const Trainable& model, const RunState& state) {
  units_ = {};
  history_ = {};
  begin(model, state);
}

std::int64_t RankStages::count_removed() const {
  return static_cast<std::int64_t>(removed_layers(form_.trains(), ranks_of(form_.trains())).size());
}

bool RankStages::open(StepEngine& engine, const RunState& state, std::int64_t steps, const Schedule& schedule,
                      const LogLine& log_line) {
  const PhaseSection& section = recipe_.phases[state.phase];
  if (objective_of(state.phase) == PhaseObjective::fixed) {
    objective_ = PhaseObjective::fixed;
    engine.keep_ranks();
    return false;
  }
  const ResolvedAdaptation resolved = resolve(adaptation_of(section), section.objective);
  const bool begins = state.phase_step == 0, compresses = section.objective == PhaseObjective::compress;
  if (begins) {
    state_ = {.removed = state_.removed};
    size_target_ = 0;
    const LayerRanks live = live_ranks(form_.trains(), engine.model());
    state_.size_left = static_cast<double>(tensorized_size(form_.trains(), live)) / units_.size;
    if (compresses) {
      const double others = other_parameters_of(engine.model());
      check_target(state.phase, live, others);
      size_target_ = target_of(state.phase, live, others) / units_.size;
      size_start_ = state_.size_left;
      warn_of_long_steps(section, resolved.stage.threshold, log_line);
      if (!recipe_.run.max_hours) warn_of_short_way(section, steps, schedule, log_line);
    }
  }
  objective_ = section.objective;
  resolved_ = resolved;
  resolved_.stage.objective.size_target = size_target_;
  adapt(engine);
  return begins && compresses;
}

// A stage that holds its target prunes no further, and must not disconnect all tokens from one another: the
// first path through the model that is intact when it begins is kept. It is therefore the same path whenever
// this is called during the phase.
void RankStages::adapt(StepEngine& engine) const {
  const RankStageOptions& stage = resolved_.stage;
  std::vector<std::string> kept;
  if (stage.objective.stage == RankStage::compress && stage.objective.hold)
    kept = connecting_layers(form_.trains(), live_ranks(form_.trains(), engine.model()));
  engine.adapt_ranks(units_, stage, kept);
  engine.ranks()->set_state(state_);
}

// The size due by now falls as the sparsity of gradual pruning rises (Zhu and Gupta, 2017): quickly at first,
// while much is dispensable, and slowly at the end.
RankStep RankStages::begin_step(std::int64_t phase_step, std::int64_t steps) {
  step_ = {};
  if (objective_ == PhaseObjective::compress) {
    const double shrinking = resolved_.shrink_share * static_cast<double>(steps);
    const double done = shrinking > 0 ? std::min(static_cast<double>(phase_step) / shrinking, 1.0) : 1;
    const double rest = std::pow(1 - done, 3);
    step_ = {.target = size_target_ + (size_start_ - size_target_) * rest,
             .urgency = shrinking > 0 ? std::pow(resolved_.urgency, done) : 1};
  }
  return step_;
}

bool RankStages::end_step(const StepEngine& engine) {
  if (!adapting()) return false;
  const std::int64_t before = removed();
  state_ = engine.ranks()->state();
  unpacked_ += state_.pruned;
  return removed() > before;
}

bool RankStages::collapsed(const Trainable& model) const {
  const ModelTensorTrains trains = form_.trains();
  return !is_connected(trains, live_ranks(trains, model));
}

const char* RankStages::advice() const {
  return objective_ == PhaseObjective::compress ? "hold the target (hold = true)"
                                                : "penalise the size less (a smaller gamma)";
}

bool RankStages::compaction_due(const RunState& state) const {
  if (!adapting()) return false;
  const std::int64_t interval = adaptation_of(recipe_.phases[state.phase]).compact_interval;
  return interval > 0 && state.phase_step % interval == 0;
}

bool RankStages::compact(std::unique_ptr<StepEngine>& engine, const std::function<void()>& remake,
                         const RunState& state, const LogLine& log_line) {
  if (!adapting() || unpacked_ == 0) return false;
  unpacked_ = 0;
  const std::int64_t gone_before = gone_;
  const Trainable& model = engine->model();
  const std::vector<RankedLayer> layers = model.ranked_layers();
  const std::vector<LiveEntries> live = live_entries(model.parameters(), layers);
  const CompactedParameters compacted(model.parameters(), engine->states(), layers, live);
  const Float8State::Snapshot scales =
      model.float8() != nullptr ? model.float8()->snapshot() : Float8State::Snapshot();
  set_ranks(recipe_, live);
  form_.follow(recipe_);
  gone_ = count_removed();
  state_.removed = 0;  // of the remaining layers
  remake();
  compacted.write(engine->model().parameters(), engine->states());
  if (Float8State* float8 = engine->model().float8()) float8->restore(scales);
  adapt(*engine);
  if (gone_ > gone_before)
    log_line(fmt::format("step {}: layers removed: {}, of them since the last compaction: {}",
                         grouped(state.step), gone_, gone_ - gone_before));
  return true;
}

void RankStages::close(const RunState& state, const LogLine& log_line) {
  if (!adapting()) return;
  const PhaseSection& section = recipe_.phases[state.phase];
  auto& stages = history_.stages;
  if (stages.back().name != section.name) stages.push_back({section.name, {}});
  stages.back().ranks = ranks_of(form_.trains());  // also for a phase that was extended
  if (objective_ != PhaseObjective::compress) return;
  if (target_reached())
    return log_line(fmt::format("phase {} ended at {:.4f} of the initial size; its target was {:.4f}",
                                section.name, state_.size_left, size_target_));
  log_line(
      fmt::format("phase {} ended at {:.4f} of the initial size, above its target {:.4f}: use more {} or a "
                  "higher learning rate for gates",
                  section.name, state_.size_left, size_target_, recipe_.run.max_hours ? "hours" : "steps"));
}

void RankStages::add_metrics(Json& metrics) const {
  if (!adapting()) return;
  constexpr const char* branches[] = {"regularize", "loss", "size", "hold"};
  const RankState& state = state_;
  const bool compresses = objective_ == PhaseObjective::compress;
  Json& ranks = metrics["ranks"];
  ranks["stage"] = compresses ? "compress" : "regularize";
  if (compresses) ranks["branch"] = branches[static_cast<int>(state.branch)];
  ranks["size"] = state.size_left;
  if (compresses) ranks["target"] = size_target_;
  ranks["live"] = static_cast<std::int64_t>(state.live);
  ranks["removed"] = removed();
  ranks["penalty"] = state.penalty;
  ranks["norm_ratio"] = state.norm_ratio;
  ranks["smoothed_loss"] = state.smoothed_loss;
  if (!compresses) return;
  ranks["loss_gap"] = state.loss_gap;
  ranks["size_gap"] = state.size_gap;
  ranks["target_now"] = step_.target;
  ranks["urgency"] = step_.urgency;
}

void RankStages::save(CheckpointWriter& writer) const {
  if (units_.size == 0) return;
  save_rank_history(writer, history_);
  writer.attributes("/ranks", {{"initial_norm", units_.norm},
                               {"size_target", size_target_},
                               {"size_start", size_start_},
                               {"loss_average", state_.loss_average},
                               {"loss_weight", state_.loss_weight},
                               {"size_left", state_.size_left}});
}

void RankStages::load(const CheckpointReader& reader) {
  history_ = load_rank_history(reader);
  if (history_.stages.empty()) return;
  units_.size = static_cast<double>(history_.initial_size);
  const auto finite = [&](const char* name) {
    const double value = reader.number("/ranks", name);
    COMERA_CHECK(std::isfinite(value),
                 "{}: {} of /ranks is {}, which is not finite; take an older checkpoint",
                 reader.path().string(), name, value);
    return value;
  };
  units_.norm = finite("initial_norm");
  size_target_ = finite("size_target");
  // Absent in files of versions whose targets were due at once.
  size_start_ = reader.attributes("/ranks").contains("size_start") ? finite("size_start") : size_target_;
  state_.loss_average = finite("loss_average");
  state_.loss_weight = finite("loss_weight");
  state_.size_left = finite("size_left");
}

void RankStages::keep_prune_order(const CheckpointReader& reader, const RunState& state) {
  const bool knows_importance = std::ranges::any_of(
      reader.tensors(), [](const CheckpointTensor& tensor) { return tensor.path.ends_with("/importance"); });
  if (knows_importance || state.phase >= std::ssize(recipe_.phases) || state.phase_step == 0) return;
  if (objective_of(state.phase) != PhaseObjective::compress) return;
  PhaseSection& section = recipe_.phases[static_cast<std::size_t>(state.phase)];
  if (!section.adaptation) section.adaptation.emplace();
  section.adaptation->order = section.adaptation->order.value_or(RankOrder::magnitude);
}

}  // namespace comera
