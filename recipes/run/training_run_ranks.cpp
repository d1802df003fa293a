// What a training run does about ranks: stages, targets, compaction, and what must not happen.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "checkpoints/model_state.h"
#include "model/rank_sizes.h"
#include "recipes/model_report.h"
#include "recipes/run/rank_compaction.h"
#include "recipes/run/training_run.h"

namespace comera {

namespace {

constexpr double bytes_per_parameter = 4;  // as fp32

AdaptationSection adaptation_of(const PhaseSection& phase) {
  return phase.adaptation.value_or(AdaptationSection{});
}

std::string megabytes(double parameters) {
  return fmt::format("{:.2f} MB", parameters * bytes_per_parameter / 1e6);
}

}  // namespace

// A dense twin has no ranks: it just trains.
PhaseObjective TrainingRun::objective_of(std::int64_t phase) const {
  return recipe_.tensorized.enabled ? recipe_.phases[phase].objective : PhaseObjective::fixed;
}

// Elements of the tensor trains that a late phase aims at.
double TrainingRun::target_of(std::int64_t phase, const LayerRanks& ranks) const {
  const AdaptationSection adaptation = adaptation_of(recipe_.phases[phase]);
  if (adaptation.target_ratio) {
    const double of =
        adaptation.target_of == TargetBase::late_start ? static_cast<double>(tensorized_size(config_, ranks))
        : adaptation.target_of == TargetBase::initial  ? ranks_.units.size
                                                       : static_cast<double>(dense_size(config_));
    return *adaptation.target_ratio * of;
  }
  const ParameterStore& store = engine_->model().parameters();
  const std::int64_t others = store.count() - store.count(ParameterRole::core);
  return *parse_size(adaptation.target_size) / bytes_per_parameter - static_cast<double>(others);
}

// Refuses targets of phases to come that nothing can reach, or that are reached already.
void TrainingRun::check_targets() const {
  const LayerRanks ranks = live_ranks(engine_->model());
  const auto size = static_cast<double>(tensorized_size(config_, ranks));
  const auto least = static_cast<double>(least_size(config_, ranks));
  const ParameterStore& store = engine_->model().parameters();
  const auto others = static_cast<double>(store.count() - store.count(ParameterRole::core));
  for (std::int64_t phase = state_.phase; phase < static_cast<std::int64_t>(recipe_.phases.size()); ++phase) {
    const PhaseSection& section = recipe_.phases[phase];
    if (objective_of(phase) == PhaseObjective::fixed) continue;
    if (ranks.empty())
      throw UsageError(
          fmt::format("phase.{}.objective adapts ranks, but no layer of the model is a tensor train; "
                      "set it to \"fixed\"",
                      phase));
    // The running phase has its target already, and may have reached it.
    if (section.objective != PhaseObjective::late || (phase == state_.phase && state_.phase_step > 0))
      continue;
    const AdaptationSection adaptation = adaptation_of(section);
    const std::string key =
        fmt::format("phase.{}.adaptation.{}", phase,
                    adaptation.target_ratio ? fmt::format("target_ratio = {}", *adaptation.target_ratio)
                                            : fmt::format("target_size = \"{}\"", adaptation.target_size));
    const double target = target_of(phase, ranks);
    if (target < least)
      throw UsageError(
          fmt::format("{} asks for {:.0f} numbers in tensor trains, but {:.0f} are the least that leave an "
                      "encoder ({} with "
                      "the {:.0f} parameters that are no tensor trains); give a larger target",
                      key, std::max(target, 0.0), least, megabytes(least + others), others));
    if (target >= size && !(adaptation.target_ratio && adaptation.target_of == TargetBase::late_start))
      throw UsageError(fmt::format(
          "{} is no smaller than the model, which has {:.0f} numbers in tensor trains ({} with the "
          "{:.0f} parameters that are none); give a smaller target",
          key, size, megabytes(size + others), others));
  }
}

void TrainingRun::begin_ranks() {
  bool any = false;
  for (std::size_t phase = 0; phase < recipe_.phases.size(); ++phase)
    any |= objective_of(static_cast<std::int64_t>(phase)) != PhaseObjective::fixed;
  if (!any) return;
  if (ranks_.units.size == 0) {
    const Model& model = engine_->model();
    ranks_.units = measure_rank_units(model.parameters(), model.ranked_layers());
    ranks_.history.initial_size = static_cast<std::int64_t>(ranks_.units.size);
    ranks_.history.stages.push_back({"start", ranks_of(config_)});
  }
  ranks_.unpacked = live_ranks(engine_->model()) != ranks_of(config_) ? 1 : 0;
  check_targets();
  refuse_collapsed(state_.step > 0 ? saved_path_.string() + " holds" : "the recipe describes");
}

// When a phase begins, and when a run is resumed within it.
void TrainingRun::open_stage() {
  const PhaseSection& section = recipe_.phases[state_.phase];
  if (objective_of(state_.phase) == PhaseObjective::fixed) {
    ranks_.objective = PhaseObjective::fixed;
    engine_->keep_ranks();
    return;
  }
  const ResolvedAdaptation resolved = resolve(adaptation_of(section), section.objective);
  const bool late = section.objective == PhaseObjective::late;
  if (state_.phase_step == 0) {
    ranks_.state = {};
    ranks_.size_target = 0;
    const LayerRanks live = live_ranks(engine_->model());
    ranks_.state.size_left = static_cast<double>(tensorized_size(config_, live)) / ranks_.units.size;
    if (late) {
      ranks_.size_target = target_of(state_.phase, live) / ranks_.units.size;
      // What was best at another size is no model of this phase.
      directory_.set_best_aside(state_.phase);
      state_.best_step = 0;
      state_.best_score = 0;
    }
    if (section.learning_rate.gates > resolved.stage.threshold / 3)
      fmt::print(options_.output,
                 "phase {}: a step moves a gate by up to {}, more than a third of the threshold {} at which "
                 "it dies; "
                 "the size may miss its target by more than it need\n",
                 section.name, section.learning_rate.gates, resolved.stage.threshold);
  }
  ranks_.objective = section.objective;
  ranks_.resolved = resolved;
  ranks_.resolved.stage.objective.size_target = ranks_.size_target;
  engine_->adapt_ranks(ranks_.units, ranks_.resolved.stage);
  engine_->ranks()->set_state(ranks_.state);
}

// By how much a late stage's pull has grown.
double TrainingRun::rank_urgency() const {
  const ResolvedAdaptation& resolved = ranks_.resolved;
  if (ranks_.objective != PhaseObjective::late || resolved.shrink_share == 0) return 1;
  const double done =
      static_cast<double>(state_.phase_step) / static_cast<double>(steps_of_phase_[state_.phase]);
  return std::pow(resolved.urgency, std::min(done / resolved.shrink_share, 1.0));
}

void TrainingRun::after_rank_step() {
  if (ranks_.objective == PhaseObjective::fixed) return;
  const double removed_before = ranks_.state.removed;
  ranks_.state = engine_->ranks()->state();
  ranks_.unpacked += ranks_.state.pruned;
  if (ranks_.state.removed > removed_before) refuse_collapsed(fmt::format("step {} left", state_.step));
}

// A network without any way from its input to its output is no result.
void TrainingRun::refuse_collapsed(const std::string& what) {
  const LayerRanks ranks = live_ranks(engine_->model());
  if (passes_input(config_, ranks)) return;
  std::string kept;
  if (saved_step_ != state_.step && phase_ != nullptr) {
    const std::filesystem::path aside = directory_.path() / "collapsed.h5";
    save_checkpoint_as(aside);
    kept = fmt::format(" ({} has it)", aside.string());
  }
  throw_error(fmt::format(
      "{} an encoder whose output no longer depends on its input: every attention and "
      "feed-forward has been pruned away{}; weigh the size less (a smaller gamma, or fewer "
      "learning steps of gates) and go on from {}",
      what, kept,
      saved_step_ >= 0 && saved_step_ != state_.step ? saved_path_.string() + " with --resume auto"
                                                     : std::string("an earlier checkpoint")));
}

bool TrainingRun::compaction_due() const {
  if (ranks_.objective == PhaseObjective::fixed) return false;
  const std::int64_t interval = adaptation_of(recipe_.phases[state_.phase]).compact_interval;
  return interval > 0 && state_.phase_step % interval == 0;
}

// Removes what is dead from memory. The next step is what it would have been.
void TrainingRun::compact_ranks() {
  if (ranks_.unpacked == 0) return;
  ranks_.unpacked = 0;
  const auto flat_states = [&] {
    std::vector<Tensor> list;
    for (const auto& [name, tensor] : engine_->optimizer().state()) list.push_back(tensor);
    return list;
  };
  const LayerRanks before = ranks_of(config_);
  const Model& model = engine_->model();
  const std::vector<RankedLayer> layers = model.ranked_layers();
  const std::vector<LiveEntries> live = live_entries(model.parameters(), layers);
  const CompactedParameters compacted(model.parameters(), flat_states(), layers, live);
  set_ranks(recipe_, live);
  config_ = encoder_config(recipe_, tokenizer_.vocabulary());
  const bool adapting = engine_->ranks() != nullptr;
  engine_.reset();  // its memory is the new one's
  make_engine();
  compacted.write(engine_->model().parameters(), flat_states());
  if (adapting) {
    engine_->adapt_ranks(ranks_.units, ranks_.resolved.stage);
    engine_->ranks()->set_state(ranks_.state);
  }
  engine_->set_capacity(pack_capacity(phase_->options.capacity));
  const std::vector<std::string> gone = removed_layers(config_, ranks_of(config_)),
                                 earlier = removed_layers(config_, before);
  progress_->say(fmt::format("compacted to {} parameters", engine_->model().parameters().count()));
  if (gone.size() > earlier.size())
    progress_->print(fmt::format("step {}: {} layers are removed now, {} of them new", state_.step,
                                 gone.size(), gone.size() - earlier.size()));
}

void TrainingRun::close_stage() {
  if (ranks_.objective == PhaseObjective::fixed) return;
  const PhaseSection& section = recipe_.phases[state_.phase];
  compact_ranks();
  auto& stages = ranks_.history.stages;
  if (stages.empty() || stages.back().name != section.name)
    stages.push_back({section.name, ranks_of(config_)});
  if (ranks_.objective != PhaseObjective::late || target_reached()) return;
  progress_->print(
      fmt::format("phase {} has ended at {:.4f} of the first size, above its target {:.4f}: give it more "
                  "steps or a higher "
                  "learning rate of gates",
                  section.name, ranks_.state.size_left, ranks_.size_target));
}

// Whether a model of now may be the best: that of a late phase has to have its size.
bool TrainingRun::target_reached() const {
  return ranks_.objective != PhaseObjective::late || ranks_.state.size_left <= ranks_.size_target;
}

void TrainingRun::add_rank_metrics(JsonObject& metrics) const {
  if (ranks_.objective == PhaseObjective::fixed) return;
  constexpr const char* branches[] = {"early", "loss", "size", "hold"};
  const RankState& state = ranks_.state;
  const bool late = ranks_.objective == PhaseObjective::late;
  JsonObject ranks;
  ranks.add("stage", late ? "late" : "early");
  if (late) ranks.add("branch", branches[static_cast<int>(state.branch)]);
  ranks.add("size", state.size_left);
  if (late) ranks.add("target", ranks_.size_target);
  ranks.add("live", static_cast<std::int64_t>(state.live))
      .add("removed", static_cast<std::int64_t>(state.removed))
      .add("penalty", state.penalty)
      .add("norm_ratio", state.norm_ratio)
      .add("smoothed_loss", state.smoothed_loss);
  if (late)
    ranks.add("loss_gap", state.loss_gap).add("size_gap", state.size_gap).add("urgency", rank_urgency());
  metrics.add("ranks", ranks);
}

void TrainingRun::save_ranks(CheckpointWriter& writer) const {
  if (ranks_.units.size == 0) return;
  save_rank_history(writer, ranks_.history);
  writer.attributes("/ranks", {{"initial_norm", ranks_.units.norm},
                               {"size_target", ranks_.size_target},
                               {"loss_average", ranks_.state.loss_average},
                               {"loss_weight", ranks_.state.loss_weight},
                               {"size_left", ranks_.state.size_left},
                               {"removed", ranks_.state.removed}});
}

void TrainingRun::load_ranks(const CheckpointReader& reader) {
  ranks_.history = load_rank_history(reader);
  if (ranks_.history.stages.empty()) return;
  ranks_.units.size = static_cast<double>(ranks_.history.initial_size);
  ranks_.units.norm = reader.number("/ranks", "initial_norm");
  ranks_.size_target = reader.number("/ranks", "size_target");
  ranks_.state.loss_average = reader.number("/ranks", "loss_average");
  ranks_.state.loss_weight = reader.number("/ranks", "loss_weight");
  ranks_.state.size_left = reader.number("/ranks", "size_left");
  ranks_.state.removed = reader.number("/ranks", "removed");
}

}  // namespace comera
