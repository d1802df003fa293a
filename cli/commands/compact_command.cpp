#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>

#include "cli/checkpoint_subject.h"
#include "cli/commands/commands.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "cli/options/recipe_options.h"
#include "cli/training/calibration.h"
#include "kernels/core/console.h"
#include "model/rank_sizes.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"
#include "storage/durable_file.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/ranks/dense_compaction.h"
#include "training/ranks/rank_compaction.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::cli {

namespace {

struct CompactOptions {
  std::string checkpoint, from_dense;  // one of them
  std::filesystem::path output;
  std::string recipe;
  std::vector<std::string> overrides;
  CalibrationOptions texts;
  DenseCompactionOptions compaction;
  bool overwrite = false, weights_only = false;
};

// A path ending in .h5 is a file; anything else is a folder for a file with the source's name.
std::filesystem::path output_file(const CompactOptions& options, const std::filesystem::path& source) {
  const bool file = options.output.extension() == ".h5";
  std::filesystem::path path = file ? options.output : options.output / source.filename();
  std::error_code code;
  if (std::filesystem::equivalent(path, source, code))
    throw UsageError(fmt::format("{} is the checkpoint itself; choose another --output", path.string()));
  check_free(path, options.overwrite);
  return path;
}

double mebibytes(std::int64_t numbers, DType dtype) {
  return static_cast<double>(numbers) * static_cast<double>(size_of(dtype)) / 1048576;
}

void print_sizes(const char* what, std::int64_t before, std::int64_t after, DType dtype) {
  print_out("{:<18}{:>14} -> {:>12}  ({:.2f} -> {:.2f} MiB){}\n", what, grouped(before), grouped(after),
            mebibytes(before, dtype), mebibytes(after, dtype),
            after == 0 ? ""
                       : fmt::format(", {:.2f} times fewer",
                                     static_cast<double>(before) / static_cast<double>(after)));
}

void print_row(const CompactedLayer& layer) {
  print_out("{}  {}\n    {:>14}{:>14}{:>9.1f}{:>11.3g}{:>11.3g}{}{:>9.1f}\n", layer.name, layer.shape,
            grouped(layer.before), grouped(layer.after),
            static_cast<double>(layer.before) / static_cast<double>(layer.after), layer.allowed, layer.error,
            layer.missed ? "!" : " ", layer.seconds);
  flush_output();
}

void print_totals(const DenseCompaction& done, double allowed) {
  std::int64_t before = 0, after = 0;
  double seconds = 0;
  std::vector<std::string> missed;
  for (const CompactedLayer& layer : done.layers) {
    before += layer.before;
    after += layer.after;
    seconds += layer.seconds;
    if (layer.missed && layer.lost <= allowed) missed.push_back(layer.name);
  }
  const DType dtype = master_of(done.recipe.precision.activations());
  print_out("\n");
  print_sizes("these layers", before, after, dtype);
  print_sizes("the whole model", done.before, done.after, dtype);
  print_out("{:<18}{:>14.1f} s\n", "time", seconds);
  if (!missed.empty()) {
    const std::span<const std::string> first(missed.data(), std::min<std::size_t>(missed.size(), 3));
    print_out("! the rank limits kept {} of {} layers above the allowed error: {}{}\n", missed.size(),
              done.layers.size(), fmt::join(first, ", "), missed.size() > 3 ? ", …" : "");
  }
  for (const CompactedLayer& layer : done.layers)
    if (layer.missed && layer.lost > allowed)
      print_out("! the projection behind {} alone loses {:.4f}; more column modes lose less\n", layer.name,
                layer.lost);
  if (done.after > done.before)
    print_out("the tensor trains are larger than the matrices; raise --error, or limit the ranks\n");
}

void compact_from_dense(const CompactOptions& options) {
  if (!(options.compaction.error >= 0 && options.compaction.error < 1))
    throw UsageError(
        fmt::format("--error must be at least 0 and less than 1, not {}", options.compaction.error));
  const std::filesystem::path source = checkpoint_subject(options.from_dense, "a checkpoint (.h5)");
  const CheckpointReader dense(source);
  const std::filesystem::path shapes = options.recipe.empty() ? "" : find_recipe(options.recipe);
  std::vector<std::string> notes;
  const Recipe recipe = dense_compaction_recipe(dense, shapes, options.overrides, &notes);
  for (const std::string& note : notes) log_info("{}\n", note);
  const std::filesystem::path output = output_file(options, source);
  prepare_output(output);
  DenseCompactionOptions compaction = options.compaction;
  std::optional<Activations> activations;
  if (options.texts.given()) {
    activations = calibrate(source, options.texts);
    compaction.activations = &*activations;
  }
  print_out("layer  shape\n    {:>14}{:>14}{:>9}{:>11}{:>11} {:>9}\n", "before", "after", "times", "allowed",
            "reached", "s");
  flush_output();
  std::optional<Ticker> ticker;
  compaction.begins = [&](const std::string& layer, int number, int layers) {
    ticker.reset();
    ticker.emplace(fmt::format("{} of {}, {}", number, layers, layer));
  };
  compaction.finished = [&](const CompactedLayer& layer) {
    ticker.reset();
    print_row(layer);
  };
  const DenseCompaction done = options.compaction.parameters > 0
                                   ? compact_dense_to_size(dense, recipe, compaction, output)
                                   : compact_dense(dense, recipe, compaction, output);
  print_totals(done, done.error);
  print_out(
      "saved {} without optimizer state, which belongs to the dense parameters; start a new run from it "
      "(--from)\n",
      output.string());
}

std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  return std::ranges::find(ranks, 0) != ranks.end() ? "removed" : fmt::format("{}", fmt::join(ranks, ","));
}

// The layers that a compaction changes.
void print_ranks(const RankCompaction& compaction) {
  TextTable table({"layer", "ranks before", "after"});
  for (const auto& [layer, before] : compaction.before())
    if (const auto& after = compaction.after().at(layer); after != before)
      table.add({layer, ranks_text(before), ranks_text(after)});
  print_out("{}", table.text());
}

void print_weights_only(const std::filesystem::path& source, std::uintmax_t before,
                        const std::filesystem::path& output) {
  print_out("saved {}, the weights of {} without optimizer state: {:.1f} instead of {:.1f} MB\n",
            output.string(), source.string(), static_cast<double>(std::filesystem::file_size(output)) * 1e-6,
            static_cast<double>(before) * 1e-6);
}

// The model that `embed` and `predict` would use of a run, or, to train on, its newest state.
std::filesystem::path source_of(const CompactOptions& options) {
  return options.weights_only ? find_trained_model(options.checkpoint).checkpoint
                              : checkpoint_subject(options.checkpoint, "a checkpoint (.h5)");
}

void compact_ranks(const CompactOptions& options) {
  const std::filesystem::path source = source_of(options);
  const CheckpointReader reader(source);
  const std::uintmax_t before = std::filesystem::file_size(source);  // a run may remove it meanwhile
  const bool is_dense = ranks_of(form_of(checkpoint_recipe(reader), reader)->trains()).empty();
  std::optional<RankCompaction> ranks;
  if (!is_dense || !options.weights_only) ranks.emplace(reader);  // which refuses dense models
  const std::filesystem::path output = output_file(options, source);
  prepare_output(output);
  if (options.weights_only && (!ranks || ranks->nothing_dead())) {
    write_weights(reader, output);
    return print_weights_only(source, before, output);
  }
  const RankCompaction& compaction = *ranks;
  if (compaction.nothing_dead()) {
    reader.verify();
    storage::copy_file_durably(source, output);
    print_out(
        "{}: has no pruned ranks, so there is nothing to remove\n"
        "saved {}, a copy\n",
        source.string(), output.string());
    return;
  }
  const std::int64_t parameters = compaction.write(output, options.weights_only);
  print_ranks(compaction);
  const DType dtype = compaction.parameters().dtype();
  print_out("\n");
  print_sizes("tensor trains", tensorized_size(compaction.trains(), compaction.before()),
              tensorized_size(compaction.trains(), compaction.after()), dtype);
  print_sizes("the whole model", compaction.parameters().count(), parameters, dtype);
  const std::vector<std::string> removed = removed_layers(compaction.trains(), compaction.after());
  print_out("{:<18}{:>14} of {}{}{}\n", "removed layers", removed.size(), compaction.after().size(),
            removed.empty() ? "" : ": ", fmt::join(removed, ", "));
  if (options.weights_only)
    print_weights_only(source, before, output);
  else
    print_out("saved {}\n", output.string());
}

void compact(const CompactOptions& options) {
  if (options.checkpoint.empty() == options.from_dense.empty())
    throw UsageError(
        "give one checkpoint: of a run that adapts ranks, or of a dense model with --from-dense");
  if (options.from_dense.empty())
    compact_ranks(options);
  else
    compact_from_dense(options);
}

}  // namespace

void add_compact_command(CLI::App& program) {
  auto options = std::make_shared<CompactOptions>();
  CLI::App* command = program.add_subcommand(
      "compact",
      "Remove pruned ranks or optimizer state from a checkpoint, or turn a dense model into tensor trains");
  command
      ->add_option("checkpoint", options->checkpoint,
                   "Checkpoint (.h5) or folder of a run that adapts ranks; pruned ranks and layers without "
                   "live ranks are removed, everything else is unchanged")
      ->type_name("CHECKPOINT");
  CLI::Option* from_dense = command
                                ->add_option("--from-dense", options->from_dense,
                                             "Decompose this dense model by TT-SVD: a checkpoint (.h5) or "
                                             "run's folder trained with tensorized.enabled=false")
                                ->type_name("CHECKPOINT");
  command->add_option("--output", options->output, "Write the new checkpoint to this file (.h5) or folder")
      ->required()
      ->type_name("DIR_OR_FILE");
  CLI::Option* error =
      command
          ->add_option(
              "--error", options->compaction.error,
              "Choose each layer's ranks so that its relative error (Frobenius norm) is at most this")
          ->capture_default_str()
          ->needs(from_dense);
  command
      ->add_option(
          "--parameters", options->compaction.parameters,
          "Choose about the least --error, one for all layers, at which the model has no more parameters "
          "than this")
      ->check(positive_number)
      ->excludes(error)
      ->needs(from_dense);
  command
      ->add_option("--max-rank", options->compaction.max_rank,
                   "Limit every rank to this, even if --error is exceeded")
      ->check(positive_number)
      ->needs(from_dense);
  command
      ->add_flag("--recipe-ranks", options->compaction.recipe_ranks,
                 "Limit ranks to those of the recipe, even if --error is exceeded")
      ->needs(from_dense);
  command
      ->add_option("--recipe", options->recipe,
                   "Take [tensorized] and its modes from this recipe instead of the checkpoint's; modes are "
                   "adjusted to other widths")
      ->type_name("RECIPE")
      ->needs(from_dense);
  command
      ->add_option("--set", options->overrides,
                   "Set a key of [tensorized], such as tensorized.ffn_up.input_modes=[8,8]; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->needs(from_dense);
  add_calibration_options(*command, options->texts, *from_dense);
  command
      ->add_flag(
          "--weights-only", options->weights_only,
          "Leave out optimizer state, a half to two thirds of the file; no run resumes from it. Of a run's "
          "folder its best model")
      ->excludes(from_dense);
  command->add_flag("--overwrite", options->overwrite, "Replace an existing output");
  command->footer(
      "Examples:\n"
      "  comera compact runs/adapted --output compact.h5\n"
      "  comera compact runs/mine --weights-only --output mine.h5\n"
      "  comera compact --from-dense runs/dense --output compact.h5 --error 0.1\n"
      "docs/guide/compaction.md shows model sizes for several errors.");
  command->callback([options] { compact(*options); });
}

}  // namespace comera::cli
