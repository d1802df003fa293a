#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/letter_case_option.h"
#include "cli/options/output_options.h"
#include "exchange/import_model.h"
#include "kernels/core/check.h"
#include "kernels/core/console.h"

namespace comera::cli {

namespace {

struct ImportCommandOptions {
  std::filesystem::path folder, tokenizer;
  LetterCaseOption letter_case;
  OutputOptions output;
};

void import_model(const ImportCommandOptions& options) {
  if (options.output.path.extension() != ".h5")
    throw UsageError(
        fmt::format("--output {}: a checkpoint's name ends with .h5", options.output.path.string()));
  std::error_code code;
  if (std::filesystem::exists(options.folder, code) && !std::filesystem::is_directory(options.folder, code))
    throw UsageError(
        fmt::format("{}: is a file; give the folder with config.json, model.safetensors and the "
                    "tokenizer's files",
                    options.folder.string()));
  if (!std::filesystem::is_directory(options.folder, code))
    throw UsageError(fmt::format(
        "{}: no such folder; give one with config.json, model.safetensors and the tokenizer's files",
        options.folder.string()));
  options.output.check();
  const exchange::Imported imported = exchange::import_model(
      options.folder, options.tokenizer, options.output.path, options.letter_case.value());
  for (const std::string& note : imported.notes) log_info("{}\n", note);
  const EncoderConfig& config = imported.config;
  print_out("{}: a {} model, {} layers of {}, vocabulary {}, in {}\n", options.folder.string(),
            exchange::name_of(imported.form), config.layers, config.hidden, config.vocabulary,
            options.output.path.string());
  if (!imported.tokenizer.empty()) print_out("tokenizer\n{}", data::described(imported.tokenizer));
  if (!imported.labels.empty()) print_out("its classes: {}\n", fmt::join(imported.labels, ", "));
  if (!imported.fresh.empty())
    print_out("the folder has no {}: its head is random until it is trained\n",
              fmt::join(imported.fresh, ", "));
}

}  // namespace

void add_import_command(CLI::App& program) {
  auto options = std::make_shared<ImportCommandOptions>();
  CLI::App* command = program.add_subcommand(
      "import",
      "Import a BERT, DistilBERT, RoBERTa, MPNet, ELECTRA, ALBERT or MegatronBERT model of Hugging Face's "
      "transformers");
  command->add_option("folder", options->folder, "Folder with config.json, safetensors and tokenizer files")
      ->required()
      ->type_name("DIR");
  command->add_option("--tokenizer", options->tokenizer, "Use this tokenizer instead of the folder's")
      ->type_name("FILE");
  add_letter_case_options(*command, options->letter_case);
  add_output_options(*command, options->output, "Write the checkpoint to this .h5 file");
  command->footer(
      "Examples:\n"
      "  comera import codebert-base --output codebert.h5\n"
      "  comera compact --from-dense codebert.h5 --output tensor-trains.h5\n"
      "docs/guide/exchange.md lists the models that can be imported.");
  command->callback([options] { import_model(*options); });
}

}  // namespace comera::cli
