#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint_file.h"
#include "checkpoints/model_state.h"
#include "cli/checkpoint_subject.h"
#include "cli/commands/commands.h"
#include "cli/options/number_checks.h"
#include "cli/options/recipe_options.h"
#include "cli/precision_note.h"
#include "data/clicks/click_shards.h"
#include "data/shards/shard_files.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "kernels/core/terminal.h"
#include "measurements/phase_costs.h"
#include "recipes/encoder_config.h"
#include "recipes/recipe.h"
#include "reports/model_report.h"
#include "reports/precision_report.h"
#include "reports/rank_report.h"
#include "reports/training_plot.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/inference/trained_model.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::cli {

namespace {

struct InspectOptions {
  std::vector<std::string> subjects;
  std::vector<std::string> overrides;
  std::int64_t vocabulary = 0;
  std::int64_t linear_tokens = 0, precision_tokens = 0;
  bool ranks = false, plan = false;
  std::filesystem::path plot, data;
};

bool is_recipe(const std::string& subject) { return subject.ends_with(".toml"); }

// Rejects options that only apply to a recipe or checkpoint of an encoder.
void refuse_encoder_options(const InspectOptions& options, const std::string& what) {
  const auto refuse = [&](bool given, const char* name) {
    if (given) throw UsageError(fmt::format("{} does not go with {}; omit one of them", name, what));
  };
  refuse(options.vocabulary > 0, "--vocabulary");
  refuse(options.plan, "--plan");
  refuse(options.linear_tokens > 0, "--explain-linears");
  refuse(options.precision_tokens > 0, "--explain-precision");
}

void refuse_model_options(const InspectOptions& options, const std::string& what) {
  if (!options.data.empty())
    throw UsageError(fmt::format("--data does not go with {}; omit one of them", what));
  if (!options.overrides.empty())
    throw UsageError(fmt::format("--set does not go with {}; omit one of them", what));
  refuse_encoder_options(options, what);
}

// Such a checkpoint can be inspected, but not used.
void warn_of_nonfinite(const CheckpointReader& checkpoint) {
  const std::vector<std::string> broken = nonfinite_tensors(checkpoint);
  if (broken.empty()) return;
  print_out(
      "this model is broken: {} of its tensors hold values that are not finite, first {}\n"
      "\n",
      broken.size(), broken.front());
}

CheckpointRanks ranks_in(const std::string& subject) {
  if (subject.ends_with(".toml")) storage::refuse_missing(subject);
  if (is_recipe(subject))
    throw UsageError(
        fmt::format("{} is a recipe, but only checkpoints have ranks changed by training; give a checkpoint "
                    "(.h5) or a run's folder",
                    subject));
  return checkpoint_ranks(CheckpointReader(checkpoint_subject(subject, "a checkpoint (.h5)")));
}

void inspect_ranks(const InspectOptions& options) {
  refuse_model_options(options, "--ranks");
  const CheckpointRanks state = ranks_in(options.subjects[0]);
  warn_of_nonfinite(CheckpointReader(checkpoint_subject(options.subjects[0], "a checkpoint (.h5)")));
  print_out("{}: step {}\n\n", state.name, state.step);
  print_out("{}", with_heading(stdout, rank_report(state)));
}

void compare(const InspectOptions& options) {
  refuse_model_options(options, "two checkpoints");
  print_out("{}", rank_comparison(ranks_in(options.subjects[0]), ranks_in(options.subjects[1])));
}

void plot(const InspectOptions& options) {
  refuse_model_options(options, "--plot");
  if (options.ranks) throw UsageError("--ranks does not go with --plot; omit one of them");
  if (options.subjects.size() > 1)
    throw UsageError("--plot draws one run; give one run's folder, not two subjects");
  if (options.plot.extension() != ".svg")
    throw UsageError(
        fmt::format("{}: --plot writes SVG; give the file a name in .svg", options.plot.string()));
  const std::filesystem::path run = options.subjects[0];
  std::error_code none;
  if (!std::filesystem::is_directory(run, none))
    throw UsageError(
        fmt::format("{} is not a folder; --plot draws the metrics in a run's folder", run.string()));
  storage::write_file_durably(options.plot, svg_of(training_plot(run / "metrics.jsonl")));
  print_out("saved {}\n", options.plot.string());
}

// The assumed performance of the recipe's device. A recipe for a GPU can be inspected without one: then the
// CPU is assumed.
MachineModel machine_for(const Recipe& recipe) {
  const bool on_cpu = recipe.run.device == "cpu" || cuda_device_count() == 0;
  return backend_of(on_cpu ? DeviceKind::cpu : DeviceKind::cuda, recipe.precision.operands()).machine();
}

// The first GPU, or an H100 where there is none.
MachineModel gpu_for(const Recipe& recipe) {
  if (cuda_device_count() == 0) return h100;
  return backend_of(DeviceKind::cuda, recipe.precision.operands()).machine();
}

// A recipe without dlrm.tables uses those of the data.
DlrmConfig click_model_of(const Recipe& recipe, const std::filesystem::path& shards) {
  if (shards.empty()) {
    DlrmConfig config = dlrm_config(recipe);
    if (!recipe.dlrm->dense_features && !recipe.dlrm->bottom.empty())
      throw UsageError(
          "dlrm.dense_features is missing, so the input width of dlrm.bottom is unknown: give --data FOLDER "
          "of "
          "shards, or --set dlrm.dense_features=13 (0 for a model without dense features)");
    return config;
  }
  const bool trains = storage::exists(shards / data::shard_name("train", 0));
  const data::ClickShardInfo info = data::ClickShardSet(shards, trains ? "train" : "validation").info();
  return dlrm_config(recipe, info.dense_features, info.heights);
}

void inspect_model(const InspectOptions& options) {
  std::string subject = options.subjects[0];
  if (std::error_code none; std::filesystem::is_directory(subject, none))
    subject = checkpoint_subject(subject, "a recipe (.toml), a checkpoint (.h5)").string();
  else if (!std::filesystem::exists(subject, none) && !subject.ends_with(".h5"))
    subject = find_recipe(subject).string();
  Recipe recipe;
  std::optional<CheckpointReader> checkpoint;
  std::int64_t vocabulary = options.vocabulary;
  if (is_recipe(subject)) {
    recipe = load_recipe(subject, options.overrides);
    choose_precision(recipe);
  } else {
    checkpoint.emplace(subject);
    recipe = checkpoint_recipe(*checkpoint, options.overrides);
    if (!recipe.dlrm) vocabulary = checkpoint->integer("/data", "vocabulary");
    const auto environment = checkpoint->attributes("/environment");
    const auto written_by = environment.find("version");
    print_out("{}: step {}, phase {}, {} {} seen, computed in {}{}\n\n", subject,
              checkpoint->integer("/trainer", "step"), checkpoint->integer("/trainer", "phase"),
              checkpoint->integer("/trainer", "tokens"), recipe.dlrm ? "examples" : "tokens",
              name_of(checkpoint_recipe(*checkpoint).precision.compute),
              written_by == environment.end()
                  ? std::string()
                  : fmt::format(", written by comera {}", std::get<std::string>(written_by->second)));
    if (checkpoint->attributes("/import").contains("tokenizer"))
      print_out("tokenizer, as it was imported\n{}\n", checkpoint->text("/import", "tokenizer"));
    if (has_random_head(*checkpoint))
      print_out("its head is random: it was imported from a folder without one\n\n");
  }
  if (const auto note = note_of_old_names(recipe)) log_info("note: {}\n", *note);
  for (const std::string& sentence : keys_without_effect(recipe)) log_info("note: {}\n", sentence);
  if (recipe.dlrm) {
    refuse_encoder_options(options, "a click model");
    if (checkpoint) warn_of_nonfinite(*checkpoint);
    print_out("{}", model_report(click_model_of(recipe, options.data)));
    return;
  }
  if (!options.data.empty())
    throw UsageError(fmt::format("--data is for recipes of click models, and {} is an encoder's", subject));
  if (recipe.model.vocabulary == 0 && vocabulary == 0)
    throw UsageError(fmt::format(
        "{} takes its vocabulary from the tokenizer; give its size with --vocabulary N", subject));
  if (checkpoint) warn_of_nonfinite(*checkpoint);
  const Model model(encoder_config(recipe, vocabulary), host_allocator(), false);
  if (checkpoint) check_parameters(*checkpoint, model.parameters());
  print_out("{}", model_report(model));
  print_out("{}", fusion_report(recipe, model, gpu_for(recipe)));
  if (options.linear_tokens > 0)
    print_out("\n{}", linears_report(model, options.linear_tokens, machine_for(recipe)));
  if (options.precision_tokens > 0)
    print_out("\n{}", precision_report(recipe, model.config().vocabulary, options.precision_tokens,
                                       recipe.phases.empty() ? 128 : recipe.phases[0].length));
  if (!options.plan) return;
  flush_output();  // the rest takes a while
  print_out("\n{}", phase_costs_text(measure_phases(recipe, model.config().vocabulary)));
}

void inspect(const InspectOptions& options) {
  if (!options.plot.empty())
    plot(options);
  else if (options.subjects.size() == 2)
    compare(options);
  else if (options.ranks)
    inspect_ranks(options);
  else
    inspect_model(options);
}

}  // namespace

void add_inspect_command(CLI::App& program) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      program.add_subcommand("inspect", "Show the layers, shapes and sizes of a recipe or checkpoint");
  command
      ->add_option("subject", options->subjects,
                   "A recipe, a checkpoint (.h5) or a run's folder; two checkpoints or folders are compared "
                   "by ranks and sizes")
      ->required()
      ->type_name("SUBJECT")
      ->expected(1, 2);
  command
      ->add_option("--set", options->overrides,
                   "Set a key of the recipe, such as tensorized.enabled=false; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command
      ->add_option("--vocabulary", options->vocabulary,
                   "Vocabulary size, if the recipe leaves it to the tokenizer")
      ->check(positive_number);
  command->add_option("--data", options->data, "Take a click model's tables from these shards")
      ->type_name("DIR");
  command
      ->add_option("--explain-linears", options->linear_tokens,
                   "Also show how each linear layer is evaluated for this many tokens, and the cost of the "
                   "alternatives")
      ->type_name("TOKENS")
      ->check(positive_number);
  command
      ->add_option("--explain-precision", options->precision_tokens,
                   "Also list every matrix product of a training step on this many tokens, with its number "
                   "format and the reason")
      ->type_name("TOKENS")
      ->check(positive_number);
  command->add_flag(
      "--plan", options->plan,
      "Also measure training on this machine: milliseconds per step, hours and memory of each phase");
  command->add_flag("--ranks", options->ranks,
                    "Show a checkpoint's ranks and sizes at the start, after each phase and now");
  command
      ->add_option("--plot", options->plot,
                   "Draw a run's loss over its steps, and its size and ranks if the run adapts them")
      ->type_name("FILE.svg");
  command->footer(
      "Examples:\n"
      "  comera inspect six_encoder_mnli --plan\n"
      "  comera inspect six_encoder_mnli --explain-linears 4096\n"
      "  comera inspect six_encoder_mnli --set precision.compute=fp8 \\\n"
      "    --explain-precision 4096\n"
      "  comera inspect runs/first --ranks\n"
      "  comera inspect runs/first runs/second\n"
      "  comera inspect runs/first --plot first.svg");
  command->callback([options] { inspect(*options); });
}

}  // namespace comera::cli
