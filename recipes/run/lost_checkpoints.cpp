#include "recipes/run/lost_checkpoints.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "data/durable_file.h"
#include "data/folder.h"
#include "recipes/recipe.h"
#include "recipes/run/metrics.h"

namespace comera {

namespace {

namespace fs = std::filesystem;

fs::path sign_of(const RunDirectory& run) { return run.path() / "saved"; }

// best.h5 and best-phase-0.h5 are other names of checkpoints.
std::optional<fs::path> best_checkpoint(const fs::path& run) {
  std::error_code code;
  for (const fs::path& file : data::entries_of(run, code))
    if (const std::string name = file.filename().string(); name.starts_with("best") && name.ends_with(".h5"))
      return file;
  return std::nullopt;
}

// The steps from one checkpoint to the next, by the recipe in the run's directory; 0 if that is not known.
std::int64_t checkpoint_interval(const RunDirectory& run) {
  try {
    return load_recipe(run.recipe()).run.checkpoint_interval;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

void sign_saved_checkpoints(const RunDirectory& run) {
  std::error_code code;
  if (fs::exists(sign_of(run), code)) return;
  data::write_file_durably(
      sign_of(run),
      "This run has saved checkpoints in the folder checkpoints. While they are not there, "
      "it is not begun anew.\n");
}

std::string why_checkpoints_are_missed(const RunDirectory& run) {
  std::error_code code;
  if (fs::exists(sign_of(run), code))
    return fmt::format("the run has saved some there, as {} says", sign_of(run).string());
  if (const auto best = best_checkpoint(run.path()))
    return fmt::format("the run has saved some there, of which {} is one", best->string());
  if (fs::exists(run.recipe(), code) && !fs::exists(run.checkpoints(), code))
    return "a run makes that folder before anything else, so that it has been removed or is not mounted";
  const MetricsReach reach = reach_of_metrics(run.metrics());
  const std::int64_t interval = checkpoint_interval(run);
  if (reach.phases > 1 || (interval > 0 && reach.last_step > interval))
    return fmt::format("the run has saved some there, since {} goes on to step {}", run.metrics().string(),
                       reach.last_step);
  return "";
}

}  // namespace comera
