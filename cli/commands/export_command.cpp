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
#include "kernels/core/grouped.h"

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
    print_out("{}: a model of type comera with its own modelling file (trust_remote_code=True), since {}\n",
              options.folder.string(), exported.reason);
  else
    print_out("{}: a model of type {}, which transformers loads directly\n", options.folder.string(),
              exchange::name_of(exported.form));
  if (exported.sentence_vectors) print_out("sentence-transformers loads it as a model for vectors\n");
  if (has_random_head(*loaded.trained.reader))
    print_out("it is the encoder alone: its head is random, since it was imported without one\n");
  print_out("{0} parameters; read back, its {1}s match to {2:.2g} (the largest {1} is {3:.3g})\n",
            grouped(exported.parameters), exported.without_head ? "number" : "logit", exported.difference,
            exported.largest_logit);
  if (!options.exported.tensor_trains && exported.own < exported.parameters)
    print_out("the model itself has {} parameters, which --tensor-trains keeps\n", grouped(exported.own));
  if (options.exported.onnx)
    print_out("{} for ONNX Runtime{}\n", (options.folder / "model.onnx").string(),
              options.exported.of_onnx.int8 ? ", and model_quantized.onnx in 8 bits" : "");
  if (exported.has_pooler) print_out("the pooler that the import kept is among the weights\n");
  if (exported.loses_pooler && exported.sentence_vectors)
    log_info("note: the pooler that the import kept is not written: vectors do not need it\n");
  else if (exported.loses_pooler)
    log_info("note: the pooler that the import kept is not written: a model of type {} has no place for it\n",
             exchange::name_of(exported.form));
  if (!exported.tokenizer_note.empty()) log_info("note: {}\n", exported.tokenizer_note);
}

}  // namespace

void add_export_command(CLI::App& program) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* command =
      program.add_subcommand("export", "Write a trained model as files for Hugging Face's transformers");
  command
      ->add_option("model", options->model,
                   "A checkpoint, or a run's folder (its best model, else its newest)")
      ->required()
      ->type_name("MODEL");
  command->add_option("--to", options->folder, "Write the files to this new folder")
      ->required()
      ->type_name("DIR");
  command->add_flag(
      "--tensor-trains", options->exported.tensor_trains,
      "Write the cores, many times smaller than dense weights, with a modelling file that runs them");
  command->add_flag(
      "--sentence-vectors", options->exported.sentence_vectors,
      "Write the encoder without its head, for sentence-transformers: the mean over a text's "
      "tokens, scaled to length 1 (contrastive models are always written so, with their pooling)");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Use the model's tokenizer from this file instead of the one in the checkpoint")
      ->type_name("FILE");
  CLI::Option* onnx = command->add_flag("--onnx", options->exported.onnx,
                                        "Also write model.onnx, for ONNX Runtime and its like");
  command
      ->add_flag("--encoder", options->exported.of_onnx.encoder_only,
                 "Let the ONNX files give hidden states (last_hidden_state) instead of the head's logits")
      ->needs(onnx);
  command
      ->add_flag("--int8", options->exported.of_onnx.int8,
                 "Also write model_quantized.onnx, whose layers multiply in 8 bits")
      ->needs(onnx);
  command->add_flag("--overwrite", options->exported.overwrite, "Replace a model in the folder");
  add_device_option(*command, options->device);
  command->add_option("--threads", options->threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
  command->footer(
      "Examples:\n"
      "  comera export runs/first --to first-hf\n"
      "  comera export runs/mine --to mine-hf --onnx --int8\n"
      "The model decides the type of the export: BERT, MegatronBERT, RoFormer, or a comera model with its "
      "modelling file (docs/guide/exchange.md).");
  command->callback([options] { export_model(*options); });
}

}  // namespace comera::cli
