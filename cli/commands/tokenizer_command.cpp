#include <fmt/core.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/corpus_work.h"
#include "cli/options/choice.h"
#include "cli/options/corpus_options.h"
#include "cli/options/output_options.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/new_folders.h"

namespace comera::cli {
namespace {

struct TokenizerOptions {
  CorpusInput corpus;
  data::TokenizerOptions tokenizer;
  std::string model = "bpe";
  std::filesystem::path output;
  bool overwrite = false;
};

void train_tokenizer(TokenizerOptions& options) {
  check_free(options.output, options.overwrite);
  options.tokenizer.model =
      options.model == "bpe" ? data::TokenizerModel::bpe : data::TokenizerModel::unigram;
  const auto corpus = open_corpus(options.corpus);
  const storage::NewFolders folders(options.output.parent_path());
  prepare_output(options.output);
  const TrainedTokenizer trained = make_tokenizer(*corpus, options.tokenizer);
  print_corpus_counts(corpus->counts());
  print_out("\n");
  print_vocabulary(trained, options.tokenizer.vocabulary);
  storage::write_file_durably(options.output, trained.tokenizer.bytes());
  print_out("wrote {}\n", options.output.string());
}

}  // namespace

void add_tokenizer_command(CLI::App& program) {
  auto options = std::make_shared<TokenizerOptions>();
  CLI::App* command = program.add_subcommand(
      "tokenizer", "Train a SentencePiece tokenizer on source code, text or table columns");
  add_corpus_options(*command, options->corpus, "--max-file-bytes")->required();
  command->add_option("--output", options->output, "Write the tokenizer's model to this file")
      ->required()
      ->type_name("FILE");
  command->add_option("--vocabulary", options->tokenizer.vocabulary, "Largest number of pieces")
      ->capture_default_str();
  command->add_option("--model", options->model, "Algorithm that chooses the pieces")
      ->check(one_of({"bpe", "unigram"}))
      ->capture_default_str();
  command
      ->add_option("--max-bytes", options->tokenizer.max_bytes,
                   "Train on a sample of at most this many bytes")
      ->capture_default_str();
  command
      ->add_option(
          "--character-coverage", options->tokenizer.character_coverage,
          "Fraction of the characters that the vocabulary covers (0.98 to 1); rarer ones fall back to bytes")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace an existing output");
  command->footer(
      "Examples:\n"
      "  comera tokenizer --input src --languages python,java \\\n"
      "    --output tokenizer.model --vocabulary 16384\n"
      "  comera tokenizer --input MNLI/train.tsv --text sentence1 --text sentence2 \\\n"
      "    --output tokenizer.model");
  command->callback([options] { train_tokenizer(*options); });
}

}  // namespace comera::cli
