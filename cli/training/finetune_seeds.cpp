#include "cli/training/finetune_seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/training/run_of_several.h"
#include "kernels/core/console.h"
#include "recipes/changes.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/tasks/seed_results.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

class SeedRuns {
 public:
  SeedRuns(const FinetuneOptions& options, Communicator& communicator, StopSignals& signals)
      : options_(options), communicator_(communicator), signals_(signals), folder_(options.training.output) {}

  void run(const std::vector<std::int64_t>& seeds) {
    if (storage::exists(folder_ / "checkpoints"))
      throw UsageError(fmt::format("--output {}: is a run's folder; choose another folder, for several runs",
                                   folder_.string()));
    const FinetuneTask first = task_of_seed(seeds.front());  // reports errors before the folder is made
    if (task_of(first.recipe.task).validation.empty() && first.recipe.task.similarity.empty())
      throw UsageError(
          first.recipe.task.kind == data::TaskKind::contrastive
              ? "--seeds compares scores, but there is nothing to evaluate on; name a table of two texts and "
                "a score "
                "with --set task.similarity=FILE"
              : "--seeds compares scores, but there is nothing to evaluate on; give --validation FILE or "
                "task.validation");
    if (!first.description.empty()) print_out("{}\n", first.description);
    flush_output();
    storage::create_directories_durably(folder_);
    keep_origin(folder_, options_.training.from, false);
    for (const std::int64_t seed : seeds) {
      if (!run_once(seed, seeds.size())) {
        print_out("{}stopped; repeat the command to continue\n",
                  results_.empty() ? "" : seed_table(results_));
        return;
      }
      write();
    }
    print_out("{}results in {}\n", seed_table(results_), (folder_ / "seeds.json").string());
  }

 private:
  // resume: whether that of a run that was stopped is to be continued. Its recipe has the ranks of the
  // model's layers too, which say nothing about the settings.
  FinetuneTask task_of_seed(std::int64_t seed, const std::string& resume = "never") const {
    FinetuneOptions own = options_;
    own.training.output = folder_of(seed).string();
    own.training.resume = resume;
    own.training.recipe.overrides.push_back(fmt::format("run.seed={}", seed));
    // One number format for all seeds, also where they are continued on another machine, and one scale of
    // scores, also where an earlier version began them.
    std::vector<std::string>& overrides = own.training.recipe.overrides;
    const std::optional<SeedResult> known = any_result();
    if (known && !sets_key(overrides, "precision.compute"))
      overrides.push_back(fmt::format("precision.compute=\"{}\"", name_of(known->recipe.precision.compute)));
    const std::vector<std::string> scale =
        known ? score_settings(known->recipe.model) : begun_score_settings(folder_of(seed));
    overrides.insert(overrides.begin(), scale.begin(), scale.end());
    return finetune_task(own);
  }
  std::optional<SeedResult> any_result() const {
    std::error_code code;
    for (const std::filesystem::path& run : storage::entries_of(folder_, code))
      if (std::filesystem::is_directory(run, code))
        if (auto known = read_seed_result(run)) return known;
    return std::nullopt;
  }
  std::filesystem::path folder_of(std::int64_t seed) const { return folder_ / fmt::format("seed-{}", seed); }

  // False if it was stopped.
  bool run_once(std::int64_t seed, std::size_t count) {
    const Recipe settings = resolve_task(task_of_seed(seed).recipe);
    const std::filesystem::path run = folder_of(seed);
    const std::string data = fingerprint_of_task(settings);
    if (const std::optional<SeedResult> known = read_seed_result(run)) {
      require_settings(run, known->recipe, known->data, settings, data);
      results_.push_back(*known);
      return true;
    }
    log_info("seed {}: run {} of {}\n", seed, results_.size() + 1, count);
    const auto outcome =
        train_one_of_several(task_of_seed(seed, "auto").recipe, settings, data,
                             training_options(options_.training, communicator_, signals_), signals_);
    if (!outcome) return false;
    results_.push_back({.seed = seed,
                        .sets = score_model(outcome->best, settings),
                        .best_step = outcome->best_step,
                        .steps = outcome->step,
                        .data = data,
                        .recipe = settings});
    write_seed_result(run, results_.back());
    return true;
  }

  void write() const {
    storage::write_file_durably(folder_ / "seeds.json", seed_json(results_).dump(2) + "\n");
    storage::write_file_durably(folder_ / "seeds.txt", seed_table(results_));
  }

  const FinetuneOptions& options_;
  Communicator& communicator_;
  StopSignals& signals_;
  std::filesystem::path folder_;
  std::vector<SeedResult> results_;
};

}  // namespace

std::vector<std::int64_t> seeds_of(const std::vector<std::int64_t>& given) {
  constexpr std::int64_t most = 1000;
  std::vector<std::int64_t> seeds = given;
  if (given.size() == 1) {
    seeds.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(given[0], 0, most)));
    std::iota(seeds.begin(), seeds.end(), 1);
  }
  std::vector<std::int64_t> sorted = seeds;
  std::ranges::sort(sorted);
  if (seeds.empty() || sorted.front() < 1 || std::ranges::adjacent_find(sorted) != sorted.end())
    throw UsageError(
        "--seeds takes a number of seeds, or different seeds of at least 1: --seeds 3 or --seeds 1,2,5");
  return seeds;
}

void finetune_seeds(const FinetuneOptions& options, const std::vector<std::int64_t>& seeds,
                    Communicator& communicator, StopSignals& signals) {
  if (!communicator.alone())
    throw UsageError("--seeds runs in one process; to use several, train with one seed at a time");
  if (options.training.output.empty())
    throw UsageError("--seeds makes a folder with a run for each seed; name it with --output DIR");
  refuse_keys(options.training.recipe.overrides, {"run.seed", "run.output"},
              "--seeds sets it for each run; omit it");
  SeedRuns(options, communicator, signals).run(seeds);
}

}  // namespace comera::cli
