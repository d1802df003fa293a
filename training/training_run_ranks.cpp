// What a training run does about ranks: stages, targets, compaction, and what must not happen.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "checkpoints/model_state.h"
#include "kernels/core/console.h"
#include "model/rank_sizes.h"
#include "reports/model_report.h"
#include "reports/number_text.h"
#include "training/rank_compaction.h"
#include "training/training_run.h"

namespace comera {

namespace {

AdaptationSection adaptation_of(const PhaseSection& phase) {
  return with_preset(phase.adaptation.value_or(AdaptationSection{}), phase.objective);
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
  return *parse_size(adaptation.target_size) / fp32_bytes - static_cast<double>(others);
}

// Refuses a late phase's target that nothing can reach from these ranks, or that is reached already.
void TrainingRun::check_target(std::int64_t phase, const LayerRanks& ranks) const {
  const auto size = static_cast<double>(tensorized_size(config_, ranks));
  const auto least = static_cast<double>(least_size(config_, ranks));
  const ParameterStore& store = engine_->model().parameters();
  const auto others = static_cast<double>(store.count() - store.count(ParameterRole::core));
  const AdaptationSection adaptation = adaptation_of(recipe_.phases[phase]);
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
    throw UsageError(
        fmt::format("{} is no smaller than the model, which has {:.0f} numbers in tensor trains ({} with the "
                    "{:.0f} parameters that are none); give a smaller target",
                    key, size, megabytes(size + others), others));
}

// Of all phases to come, as far as can be said now; each is checked again when it begins.
void TrainingRun::check_targets() const {
  const LayerRanks ranks = live_ranks(engine_->model());
  for (std::int64_t phase = state_.phase; phase < static_cast<std::int64_t>(recipe_.phases.size()); ++phase) {
    if (objective_of(phase) == PhaseObjective::fixed) continue;
    if (ranks.empty())
      throw UsageError(
          fmt::format("phase.{}.objective adapts ranks, but no layer of the model is a tensor train; "
                      "set it to \"fixed\"",
                      phase));
    // The running phase has its target already, and may have reached it.
    const bool runs = phase == state_.phase && state_.phase_step > 0;
    if (objective_of(phase) == PhaseObjective::late && !runs) check_target(phase, ranks);
  }
}

// A phase that has begun keeps its objective and its target.
void TrainingRun::refuse_another_stage(const Recipe& before, const std::string& file) const {
  if (state_.phase_step == 0 || state_.phase_step >= steps_of_phase_[state_.phase]) return;
  const PhaseSection &then = before.phases[state_.phase], &now = recipe_.phases[state_.phase];
  const AdaptationSection was = adaptation_of(then), is = adaptation_of(now);
  const bool same_target = was.target_ratio == is.target_ratio && was.target_of == is.target_of &&
                           was.target_size == is.target_size;
  if (then.objective == now.objective && (now.objective != PhaseObjective::late || same_target)) return;
  throw UsageError(
      fmt::format("{} stands within phase {}, which was begun with another {}; end the phase as it was "
                  "begun, or begin a new "
                  "run from this checkpoint (run.initial_checkpoint, --from)",
                  file, state_.phase, then.objective == now.objective ? "target of its size" : "objective"));
}

// The sizes and norms that an adapted model was measured by from its start on, if it is the same encoder.
void TrainingRun::take_rank_units(const CheckpointReader& reader) {
  const RankHistory history = load_rank_history(reader);
  if (history.stages.empty()) return;
  const LayerRanks own = ranks_of(config_);
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(own, history.stages.front().ranks, same_name)) return;
  ranks_.history = history;
  ranks_.units = {.size = static_cast<double>(history.initial_size),
                  .norm = reader.number("/ranks", "initial_norm")};
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
  ranks_.gone = count_removed();
  ranks_.state.removed = static_cast<double>(
      static_cast<std::int64_t>(removed_layers(config_, live_ranks(engine_->model())).size()) - ranks_.gone);
  check_targets();
  refuse_collapsed(state_.step > 0 ? saved_path_.string() + " holds" : "this is");
}

std::int64_t TrainingRun::count_removed() const {
  return static_cast<std::int64_t>(removed_layers(config_, ranks_of(config_)).size());
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
    ranks_.state = {.removed = ranks_.state.removed};
    ranks_.size_target = 0;
    const LayerRanks live = live_ranks(engine_->model());
    ranks_.state.size_left = static_cast<double>(tensorized_size(config_, live)) / ranks_.units.size;
    if (late) {
      check_target(state_.phase, live);
      ranks_.size_target = target_of(state_.phase, live) / ranks_.units.size;
      ranks_.size_start = ranks_.state.size_left;
      // What was best at another size is no model of this phase.
      if (!on_first(*host_, [&] {
             return std::string(directory_->set_best_aside(state_.phase - 1) ? "yes" : "");
           }).empty())
        say_to(options_.output, "the best model so far is kept as best-phase-{}.h5\n", state_.phase - 1);
      state_.best_step = 0;
      state_.best_score = 0;
    }
    if (late && section.learning_rate.gates > resolved.stage.threshold / 3)
      say_to(options_.output,
             "phase {}: a step moves a gate by up to {}, more than a third of the threshold {} at which it "
             "dies; the size may miss its target by more than it need\n",
             section.name, section.learning_rate.gates, resolved.stage.threshold);
    if (late) warn_of_short_way();
  }
  ranks_.objective = section.objective;
  ranks_.resolved = resolved;
  ranks_.resolved.stage.objective.size_target = ranks_.size_target;
  adapt_ranks();
}

// Adam moves a number by about its learning rate in a step, and gates begin near 1.
void TrainingRun::warn_of_short_way() const {
  const PhaseSection& section = recipe_.phases[state_.phase];
  double way = 0;
  for (std::int64_t step = 0; step < steps_of_phase_[state_.phase]; ++step)
    way += section.learning_rate.gates * phase_->schedule.factor(step);
  if (way < 1)
    say_to(options_.output,
           "phase {}: all its steps together move a gate by up to {:.2g}, and gates begin near 1: the size "
           "may stay above its target; give it more steps or a higher learning rate of gates\n",
           section.name, way);
}

// A stage that holds its target needs no more deaths than that, and must not end as a network in which no
// token sees another: the first attention that lives when it begins goes on living. So it is the same one
// whenever this is asked during the phase.
void TrainingRun::adapt_ranks() {
  const RankStageOptions& stage = ranks_.resolved.stage;
  std::vector<std::string> kept;
  if (stage.objective.stage == RankStage::late && stage.objective.hold)
    kept = context_layers(config_, live_ranks(engine_->model()));
  engine_->adapt_ranks(ranks_.units, stage, kept);
  engine_->ranks()->set_state(ranks_.state);
}

// The size that a late stage is to have by now falls as the sparsity of gradual pruning rises (Zhu and Gupta,
// 2017): quickly first, while there is much that nobody needs, and slowly in the end.
RankStep TrainingRun::rank_step() const {
  if (ranks_.objective != PhaseObjective::late) return {};
  const ResolvedAdaptation& resolved = ranks_.resolved;
  const double steps = static_cast<double>(steps_of_phase_[state_.phase]);
  const double shrinking = resolved.shrink_share * steps;
  const double done = shrinking > 0 ? std::min(static_cast<double>(state_.phase_step) / shrinking, 1.0) : 1;
  const double rest = std::pow(1 - done, 3);
  return {.target = ranks_.size_target + (ranks_.size_start - ranks_.size_target) * rest,
          .urgency = shrinking > 0 ? std::pow(resolved.urgency, done) : 1};
}

void TrainingRun::after_rank_step() {
  if (ranks_.objective == PhaseObjective::fixed) return;
  const std::int64_t removed_before = ranks_.removed();
  ranks_.state = engine_->ranks()->state();
  ranks_.unpacked += ranks_.state.pruned;
  if (ranks_.removed() > removed_before) refuse_collapsed(fmt::format("step {} left", state_.step));
}

// A network without any way from its input to its output is no result.
void TrainingRun::refuse_collapsed(const std::string& what) {
  const LayerRanks ranks = live_ranks(engine_->model());
  if (sees_context(config_, ranks)) return;
  std::string kept;
  if (saved_step_ != state_.step && phase_ != nullptr) {
    const std::filesystem::path aside = directory_->collapsed();
    save_checkpoint_as(aside);
    kept = fmt::format(" ({} has it)", aside.string());
  }
  std::string advice = divergence();
  if (advice.empty())
    advice = ranks_.objective == PhaseObjective::late ? "hold the target (hold = true)"
                                                      : "weigh the size less (a smaller gamma)";
  throw_error(
      fmt::format("{} an encoder in which no token sees another any more: the values or the output of every "
                  "attention have been "
                  "pruned away{}; {} and {}",
                  what, kept, advice,
                  saved_step_ >= 0 && saved_step_ != state_.step
                      ? fmt::format("go on from {} with --resume auto", saved_path_.string())
                      : std::string("begin again")));
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
  const std::int64_t gone_before = ranks_.gone;
  const Model& model = engine_->model();
  const std::vector<RankedLayer> layers = model.ranked_layers();
  const std::vector<LiveEntries> live = live_entries(model.parameters(), layers);
  const CompactedParameters compacted(model.parameters(), flat_states(), layers, live);
  set_ranks(recipe_, live);
  config_ = encoder_config(recipe_, tokenizer_.vocabulary());
  ranks_.gone = count_removed();
  ranks_.state.removed = 0;  // of the layers that are left
  const bool adapting = engine_->ranks() != nullptr;
  const Float8State::Snapshot scales =
      model.float8() != nullptr ? model.float8()->snapshot() : Float8State::Snapshot();
  Allocator& allocator = engine_->allocator();
  engine_.reset();  // its memory is the new one's
  allocator.reset_peaks();
  make_engine();
  compacted.write(engine_->model().parameters(), flat_states());
  if (Float8State* float8 = engine_->model().float8()) float8->restore(scales);
  if (adapting) adapt_ranks();
  engine_->set_capacity(pack_capacity(phase_->options.capacity));
  progress_->say(fmt::format("compacted to {} parameters", engine_->model().parameters().count()));
  if (ranks_.gone > gone_before)
    progress_->print(fmt::format("step {}: {} layers are removed now, {} of them new", state_.step,
                                 ranks_.gone, ranks_.gone - gone_before));
}

void TrainingRun::close_stage() {
  if (ranks_.objective == PhaseObjective::fixed) return;
  const PhaseSection& section = recipe_.phases[state_.phase];
  compact_ranks();
  auto& stages = ranks_.history.stages;
  if (stages.back().name != section.name) stages.push_back({section.name, {}});
  stages.back().ranks = ranks_of(config_);  // also of a phase that was given more steps
  if (ranks_.objective != PhaseObjective::late) return;
  if (target_reached())
    return progress_->print(
        fmt::format("phase {} has ended at {:.4f} of the first size; its target was {:.4f}", section.name,
                    ranks_.state.size_left, ranks_.size_target));
  progress_->print(
      fmt::format("phase {} has ended at {:.4f} of the first size, above its target {:.4f}: give it more "
                  "steps or a higher "
                  "learning rate of gates",
                  section.name, ranks_.state.size_left, ranks_.size_target));
}

// Whether a model of now may be the best: from a late phase on it has to have that phase's size.
bool TrainingRun::target_reached() const {
  return ranks_.size_target == 0 || ranks_.state.size_left <= ranks_.size_target;
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
      .add("removed", ranks_.removed())
      .add("penalty", state.penalty)
      .add("norm_ratio", state.norm_ratio)
      .add("smoothed_loss", state.smoothed_loss);
  if (late)
    ranks.add("loss_gap", state.loss_gap)
        .add("size_gap", state.size_gap)
        .add("target_now", ranks_.step.target)
        .add("urgency", ranks_.step.urgency);
  metrics.add("ranks", ranks);
}

void TrainingRun::save_ranks(CheckpointWriter& writer) const {
  if (ranks_.units.size == 0) return;
  save_rank_history(writer, ranks_.history);
  writer.attributes("/ranks", {{"initial_norm", ranks_.units.norm},
                               {"size_target", ranks_.size_target},
                               {"size_start", ranks_.size_start},
                               {"loss_average", ranks_.state.loss_average},
                               {"loss_weight", ranks_.state.loss_weight},
                               {"size_left", ranks_.state.size_left}});
}

void TrainingRun::load_ranks(const CheckpointReader& reader) {
  ranks_.history = load_rank_history(reader);
  if (ranks_.history.stages.empty()) return;
  ranks_.units.size = static_cast<double>(ranks_.history.initial_size);
  ranks_.units.norm = reader.number("/ranks", "initial_norm");
  ranks_.size_target = reader.number("/ranks", "size_target");
  // Absent in files of versions whose targets were due at once.
  ranks_.size_start = reader.attributes("/ranks").contains("size_start")
                          ? reader.number("/ranks", "size_start")
                          : ranks_.size_target;
  ranks_.state.loss_average = reader.number("/ranks", "loss_average");
  ranks_.state.loss_weight = reader.number("/ranks", "loss_weight");
  ranks_.state.size_left = reader.number("/ranks", "size_left");
}

}  // namespace comera
