#include <fmt/core.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/corpus_options.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "data/corpus/function_pairs.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "storage/folder_lock.h"
#include "storage/new_folders.h"

namespace comera::cli {
namespace {

struct PairsOptions {
  CorpusInput corpus;
  data::FunctionPairsOptions pairs;
  OutputOptions output;
};

void make_pairs(PairsOptions options) {
  options.pairs.output = options.output.path;
  for (const char* name : {"train.jsonl", "validation.jsonl"}) options.output.check_file(name);
  const auto corpus = open_corpus(options.corpus);
  // Both files are written by this process.
  const storage::NewFolders made(options.pairs.output);
  const storage::FolderLock lock(options.pairs.output, "making pairs");
  const data::FunctionPairsCounts counts = data::build_function_pairs(*corpus, options.pairs);
  print_corpus_counts(corpus->counts());
  print_out("{:<24}{:>14}\n", "documented functions", grouped(counts.functions));
  print_out("{:<24}{:>14}\n", "  seen before", grouped(counts.duplicates));
  print_out("{:<24}{:>14}\n", "examples to train on", grouped(counts.train));
  print_out("{:<24}{:>14}\n", "examples held out", grouped(counts.validation));
  print_out("wrote {}\n", options.pairs.output.string());
}

}  // namespace

void add_pairs_command(CLI::App& program) {
  auto options = std::make_shared<PairsOptions>();
  CLI::App* command = program.add_subcommand("pairs",
                                             "Make pairs of functions and documentation, matching or not, "
                                             "for classification or contrastive learning");
  add_corpus_options(*command, options->corpus, "--max-bytes");
  add_output_options(*command, options->output, "Write train.jsonl and validation.jsonl to this folder");
  command->get_option("--output")->type_name("DIR");
  command
      ->add_option("--held-out", options->pairs.held_out,
                   "Keep this fraction of the functions for validation")
      ->check(number_between(0.001, 0.9))
      ->capture_default_str();
  command
      ->add_option(
          "--copies", options->pairs.copies,
          "Repeat each function this many times in the training data, each time with another non-matching "
          "documentation")
      ->check(number_between(1, 1000, true))
      ->capture_default_str();
  command
      ->add_flag("--matching", options->pairs.matching_only,
                 "Write only documentation and function that belong together, without a label, for "
                 "contrastive learning (the recipe vectors)")
      ->excludes("--copies");
  command->footer(
      "Examples:\n"
      "  comera pairs --input src --output pairs\n"
      "  comera finetune function_pairs --from runs/first --output runs/pairs \\\n"
      "    --set task.train=pairs/train.jsonl \\\n"
      "    --set task.validation=pairs/validation.jsonl");
  command->callback([options] { make_pairs(*options); });
}

}  // namespace comera::cli
