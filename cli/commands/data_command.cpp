#include <fmt/core.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/corpus_work.h"
#include "cli/options/corpus_options.h"
#include "cli/options/letter_case_option.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "data/corpus/build_shards.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::cli {
namespace {

struct DataOptions {
  CorpusInput corpus;
  data::BuildOptions build;
  std::filesystem::path tokenizer;
  LetterCaseOption letter_case;
  bool overwrite = false;
};

void make_data(const DataOptions& options) {
  const auto& output = options.build.output;
  check_shard_folder(output, options.overwrite);
  const data::Tokenizer tokenizer = load_tokenizer(options.tokenizer, options.letter_case.value());
  for (const std::string& note : tokenizer.notes()) log_info("note: {}\n", note);
  const auto corpus = open_corpus(options.corpus);
  data::BuildOptions build = options.build;
  build.replace = options.overwrite;
  const data::BuildCounts counts = make_shards(*corpus, tokenizer, build);
  if (options.letter_case.value() != data::LetterCase::guessed) {
    const std::filesystem::path written = output / "tokenizer.json";
    storage::write_file_durably(written, tokenizer.bytes());
    print_out("wrote {}: the tokenizer of these shards (data.tokenizer)\n", written.string());
  }
  if (!options.corpus.held_out.empty() && counts.validation.documents == 0)
    log_info(
        "note: no document of --held-out-input is left, so that nothing is held out; name other folders\n");
}

}  // namespace

void add_data_command(CLI::App& program) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* command =
      program.add_subcommand("data", "Tokenize source code, text or columns of tables into HDF5 shards");
  add_corpus_options(*command, options->corpus, "--max-bytes")->required();
  command
      ->add_option(
          "--tokenizer", options->tokenizer,
          "A model written by 'comera tokenizer', a tokenizer made elsewhere (a file or its folder), or a "
          "checkpoint, which carries its own")
      ->required()
      ->type_name("FILE");
  add_letter_case_options(*command, options->letter_case);
  command->add_option("--output", options->build.output, "Folder for the shards")
      ->required()
      ->type_name("DIR");
  CLI::Option* share =
      command
          ->add_option("--held-out", options->build.held_out, "Fraction of the documents kept for validation")
          ->capture_default_str();
  command
      ->add_option("--held-out-input", options->corpus.held_out,
                   "Keep the documents of these folders or files for validation, and no others; those that "
                   "share a function with the others are left out")
      ->excludes(share)
      ->type_name("PATH");
  command
      ->add_option(
          "--near-duplicates", options->corpus.near_duplicates,
          "Leave out documents that are similar to one before: from this Jaccard similarity of their "
          "shingles of five words on, 0.75 to 1, such as 0.8 (not given: only equal ones)")
      ->type_name("SIMILARITY");
  command
      ->add_option("--tokens-per-shard", options->build.tokens_per_shard, "Begin a new shard after this many")
      ->capture_default_str();
  command->add_option("--threads", options->build.threads, "Tokenizing threads (0: one per core)")
      ->check(number_of_threads)
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace the shards of the output folder");
  command->footer(
      "Examples:\n"
      "  comera data --input src --languages python,java --tokenizer tokenizer.model --output shards "
      "--held-out 0.02\n"
      "  comera data --input CodeSearchNet/python --text docstring,code --tokenizer tokenizer.model --output "
      "shards");
  command->callback([options] { make_data(*options); });
}

}  // namespace comera::cli
