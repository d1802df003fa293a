#include "training/resume/lost_checkpoints.h"

#include <fmt/format.h>

#include <filesystem>

#include "kernels/core/console.h"
#include "recipes/recipe.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/logging/metrics.h"

namespace comera {

namespace {

// The checkpoint interval in steps, from the recipe in the run's directory; 0 if unknown.
std::int64_t checkpoint_interval(const RunDirectory& run) {
  try {
    return load_recipe(run.recipe()).run.checkpoint_interval;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

void sign_saved_checkpoints(const RunDirectory& run) {
  if (storage::exists(run.saved())) return;
  storage::write_file_durably(run.saved(),
                              "This run has saved checkpoints in the folder checkpoints. It is not started "
                              "again while they are missing.\n");
}

std::string why_checkpoints_are_missed(const RunDirectory& run) {
  if (storage::exists(run.saved()))
    return fmt::format("the run has saved some there, according to {}", run.saved().string());
  if (const auto best = run.any_best())
    return fmt::format("the run has saved some there, such as {}", best->string());
  if (storage::exists(run.metrics()) && !storage::exists(run.checkpoints()))
    return "a run creates that folder first, so it has been removed or is not mounted";
  const MetricsReach reach = reach_of_metrics(run.metrics());
  const std::int64_t interval = checkpoint_interval(run);
  if (reach.phases > 1 || (interval > 0 && reach.last_step > interval))
    return fmt::format("the run has saved some there, since {} reaches step {}", run.metrics().string(),
                       reach.last_step);
  return "";
}

void say_not_used(const FoundCheckpoint& found, std::FILE* output) {
  if (!found.missing.empty())
    log_to(output, "{} was saved but is missing; the run continues from {}\n", found.missing.string(),
           found.path.filename().string());
  for (const RefusedCheckpoint& refused : found.refused)
    log_to(output, "not used: {}; the run continues from {}\n", refused.reason,
           found.path.filename().string());
}

}  // namespace comera
