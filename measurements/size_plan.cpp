#include "measurements/size_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/core/check.h"
#include "kernels/core/tensors/memory.h"
#include "measurements/loss_law.h"
#include "recipes/encoder_config.h"
#include "recipes/phase_recipe.h"
#include "reports/model_report.h"
#include "reports/number_text.h"

namespace comera {

namespace {

constexpr std::array widths = {128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1536};
constexpr std::array shares_of_width = {16, 8, 4};  // ranks are the width divided by these

PlannedSize measured_size(Recipe recipe, const ModelSize& size, std::int64_t vocabulary) {
  set_size(recipe, size, vocabulary);
  PlannedSize planned;
  planned.size = size;
  planned.parameters =
      Model(encoder_config(recipe, vocabulary), host_allocator(), false).parameters().count();
  const PhaseCosts costs = measure_phases(recipe, vocabulary);
  const auto tokens = [](const PhaseCost& phase) { return *phase.steps * static_cast<double>(phase.tokens); };
  for (const PhaseCost& phase : costs.phases) {
    planned.step_seconds.push_back(phase.seconds);
    planned.tokens += tokens(phase);
  }
  for (std::size_t i = 0; i < costs.phases.size(); ++i) {
    planned.first_tokens += tokens(costs.phases[i]);
    if (blocks_in_phase(recipe, static_cast<std::int64_t>(i)) >= recipe.model.layers) break;
  }
  planned.loss = fitted_law().loss(static_cast<double>(planned.parameters), planned.first_tokens);
  return planned;
}

double loss_of(const LossLaw& law, const PlannedSize& planned) {
  return law.loss(static_cast<double>(planned.parameters), planned.first_tokens);
}

void ask_resampled_laws(SizePlan& plan) {
  const PlannedSize& best = plan.sizes[plan.best];
  std::vector<double> losses;
  for (const LossLaw& law : resampled_laws()) {
    double least = loss_of(law, plan.sizes[0]);
    for (const PlannedSize& other : plan.sizes) least = std::min(least, loss_of(law, other));
    const double own = loss_of(law, best);
    losses.push_back(own);
    plan.first += own <= least ? 1 : 0;
    plan.near_first += own <= least + tie ? 1 : 0;
  }
  const auto count = static_cast<double>(losses.size());
  plan.first /= count, plan.near_first /= count;
  std::ranges::sort(losses);
  const std::size_t outermost = losses.size() / 10;
  plan.least_loss = losses[outermost];
  plan.most_loss = losses[losses.size() - 1 - outermost];
}

}  // namespace

SizePlan choose_size(std::int64_t layers, const MeasureSize& measure) {
  SizePlan plan;
  int worse = 0;  // consecutive widths
  for (const std::int64_t width : widths) {
    const std::size_t before = plan.best;
    for (const std::int64_t share : shares_of_width) {
      try {
        plan.sizes.push_back(measure({.layers = layers, .hidden = width, .rank = width / share}));
      } catch (const OutOfMemory& error) {
        if (plan.sizes.empty()) throw;
        plan.out_of_memory = fmt::format("width {}, ranks {}: {}", width, width / share, error.what());
        break;
      }
      if (plan.sizes.back().loss < plan.sizes[plan.best].loss) plan.best = plan.sizes.size() - 1;
    }
    if (!plan.out_of_memory.empty()) break;
    worse = plan.best == before && width != widths.front() ? worse + 1 : 0;
    if (worse == 2) break;
  }
  ask_resampled_laws(plan);
  return plan;
}

void check_plannable(const Recipe& recipe) {
  if (!recipe.run.max_hours) throw UsageError("a size is planned for a number of hours; set run.max_hours");
  if (!recipe.tensorized.enabled)
    throw UsageError("sizes are planned for tensor trains; remove tensorized.enabled = false");
  for (const PhaseSection& phase : recipe.phases)
    if (!phase.steps)
      throw UsageError(
          fmt::format("phase {} has epochs; give all phases steps, which divide the hours", phase.name));
}

SizePlan plan_size(const Recipe& recipe, std::int64_t vocabulary,
                   const std::function<void(const PlannedSize&)>& measured) {
  check_plannable(recipe);
  return choose_size(recipe.model.layers, [&](const ModelSize& size) {
    PlannedSize planned = measured_size(recipe, size, vocabulary);
    measured(planned);
    return planned;
  });
}

std::string hours_note(const SizePlan& plan, double hours, std::int64_t vocabulary) {
  const PlannedSize& best = plan.sizes[plan.best];
  if (best.loss <= std::log(static_cast<double>(vocabulary))) return "";
  return fmt::format(
      "note: {:g} hours leave time for {:.2g} million tokens, from which no size is expected to learn more "
      "than token frequencies; plan more hours\n",
      hours, best.tokens * 1e-6);
}

std::string size_plan_header() {
  return fmt::format("{:>6}{:>7}{:>7}{:>13}{:>19}{:>16}{:>12}\n", "layers", "width", "ranks", "parameters",
                     "ms a step", "million tokens", "first loss");
}

std::string size_plan_row(const PlannedSize& planned) {
  std::vector<std::string> milliseconds;
  for (const double seconds : planned.step_seconds)
    milliseconds.push_back(fmt::format("{:.4g}", seconds * 1e3));
  return fmt::format("{:>6}{:>7}{:>7}{:>13}{:>19}{:>16.1f}{:>12.3f}\n", planned.size.layers,
                     planned.size.hidden, planned.size.rank, grouped(planned.parameters),
                     fmt::format("{}", fmt::join(milliseconds, ", ")), planned.tokens * 1e-6, planned.loss);
}

std::string size_plan_advice(const SizePlan& plan, std::int64_t tokens_per_step) {
  const PlannedSize& best = plan.sizes[plan.best];
  std::string text = fmt::format(
      "recommended: width {}, ranks {}. A scaling law, fitted to runs on source code with a vocabulary of "
      "16,384, predicts a held-out loss of {:.2f} after the first phase (bootstrap {:.2f} to {:.2f}; error "
      "on a run left out of the fit {:.2f}).\n"
      "Of {} bootstrap fits {:.0f} % rank this size first, and {:.0f} % within {} nats of the first.\n",
      best.size.hidden, best.size.rank, best.loss, plan.least_loss, plan.most_loss, law_error(),
      resampled_laws().size(), 100 * plan.first, 100 * plan.near_first, tie);
  if (!plan.out_of_memory.empty()) text += fmt::format("the search ended at {}\n", plan.out_of_memory);
  const LawRange& range = fitted_range();
  const auto parameters = static_cast<double>(best.parameters);
  if (parameters < range.least_parameters || parameters > range.most_parameters ||
      best.first_tokens < range.least_tokens || best.first_tokens > range.most_tokens)
    text += fmt::format(
        "note: the law was fitted to {:.1f} to {:.1f} million parameters and {:.0f} to {:.0f} million "
        "tokens; outside of that it may be far off\n",
        range.least_parameters * 1e-6, range.most_parameters * 1e-6, range.least_tokens * 1e-6,
        range.most_tokens * 1e-6);
  if (tokens_per_step != range.tokens_per_step)
    text += fmt::format("note: it was fitted to steps of {} tokens; this recipe's have {}\n",
                        grouped(range.tokens_per_step), grouped(tokens_per_step));
  std::vector<std::string> near;
  for (const PlannedSize& other : plan.sizes)
    if (&other != &best && other.loss <= best.loss + tie)
      near.push_back(fmt::format("{} / {}", other.size.hidden, other.size.rank));
  if (!near.empty())
    text += fmt::format("as good within {} nats (width / ranks): {}\n", tie, fmt::join(near, ", "));
  return text;
}

}  // namespace comera
