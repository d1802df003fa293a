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
    log_info("note: no document of --held-out-input is left, so nothing is held out; give other folders\n");
}

}  // namespace

void add_data_command(CLI::App& program) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* command =
      program.add_subcommand("data", "Tokenize source code, text or table columns into HDF5 shards");
  add_corpus_options(*command, options->corpus, "--max-bytes")->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Tokenize with this model of 'comera tokenizer', Hugging Face tokenizer (file or folder), "
                   "or checkpoint (which carries its tokenizer)")
      ->required()
      ->type_name("FILE");
  add_letter_case_options(*command, options->letter_case);
  command->add_option("--output", options->build.output, "Write the shards to this folder")
      ->required()
      ->type_name("DIR");
  CLI::Option* share = command
                           ->add_option("--held-out", options->build.held_out,
                                        "Keep this fraction of the documents for validation")
                           ->capture_default_str();
  command
      ->add_option("--held-out-input", options->corpus.held_out,
                   "Use the documents of these files or folders, and no others, for validation; documents "
                   "that share a function with training data are skipped")
      ->excludes(share)
      ->type_name("PATH");
  command
      ->add_option("--near-duplicates", options->corpus.near_duplicates,
                   "Skip a document whose Jaccard similarity to an earlier one (over shingles of five words) "
                   "is at least this, 0.75 to 1, for instance 0.8 (default: skip exact duplicates only)")
      ->type_name("SIMILARITY");
  command
      ->add_option("--tokens-per-shard", options->build.tokens_per_shard, "Start a new shard after this many")
      ->capture_default_str();
  command->add_option("--threads", options->build.threads, "Tokenize with this many threads; 0: one per CPU")
      ->check(number_of_threads)
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace the shards in the output folder");
  command->footer(
      "Examples:\n"
      "  comera data --input src --languages python,java \\\n"
      "    --tokenizer tokenizer.model --output shards --held-out 0.02\n"
      "  comera data --input CodeSearchNet/python --text docstring,code \\\n"
      "    --tokenizer tokenizer.model --output shards");
  command->callback([options] { make_data(*options); });
}

}  // namespace comera::cli
