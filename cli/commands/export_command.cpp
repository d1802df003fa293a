#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "exchange/export_folder.h"
#include "exchange/export_model.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"

namespace comera::cli {

namespace {

struct ExportCommandOptions {
  std::filesystem::path model, folder, tokenizer;
  exchange::ExportOptions exported;
  std::string device = "auto";
  std::int64_t threads = 0;
};

void export_model(const ExportCommandOptions& options) {
  prepare_threads(static_cast<int>(options.threads));
  exchange::check_export_target(options.folder, options.exported.overwrite);
  // In float32, the type of the files, whatever the type in training.
  const LoadedModel loaded(options.model, options.tokenizer, {"precision.compute=fp32"}, options.device);
  std::error_code code;
  const bool is_run = std::filesystem::is_directory(options.model, code);
  const exchange::Exported exported = exchange::export_model(
      loaded, is_run ? options.model : std::filesystem::path(), options.folder, options.exported);
  if (exported.form == exchange::Form::comera)
    print_out(
        "{}: a model of type comera, which brings its own modelling file (trust_remote_code=True), since "
        "{}\n",
        options.folder.string(), exported.reason);
  else
    print_out("{}: a model of type {}, which transformers loads by itself\n", options.folder.string(),
              exchange::name_of(exported.form));
  print_out(
      "{} numbers; read back, its logits differ from the model's by at most {:.2g} (the largest is {:.3g})\n",
      exported.parameters, exported.difference, exported.largest_logit);
  if (!exported.tokenizer_note.empty()) log_info("note: {}\n", exported.tokenizer_note);
}

}  // namespace

void add_export_command(CLI::App& program) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* command = program.add_subcommand(
      "export", "Write a trained model as files that Hugging Face's transformers loads");
  command
      ->add_option("model", options->model,
                   "A checkpoint, or a run's directory (its best model, or its newest)")
      ->required()
      ->type_name("MODEL");
  command->add_option("--to", options->folder, "A new folder for the files")->required()->type_name("DIR");
  command->add_flag("--tensor-trains", options->exported.tensor_trains,
                    "The cores themselves, many times smaller, with a modelling file that runs them");
  command->add_option("--tokenizer", options->tokenizer,
                      "The tokenizer it was trained with, instead of the one that the checkpoint carries");
  command->add_flag("--overwrite", options->exported.overwrite, "Replace a model that the folder holds");
  add_device_option(*command, options->device);
  command->add_option("--threads", options->threads, "CPU threads; 0: all")->check(number_of_threads);
  command->footer(
      "Example: comera export runs/first --to first-hf\n"
      "What it becomes follows from the model: BERT, MegatronBERT, RoFormer, or a model with a modelling "
      "file of "
      "its own: docs/guide/exchange.md");
  command->callback([options] { export_model(*options); });
}

}  // namespace comera::cli
