#pragma once

#include <CLI/CLI.hpp>

#include "data/corpus.h"

namespace comera::cli {

// --input, --languages, --min-bytes and --max-bytes, shared by the commands that read a corpus.
inline void add_corpus_options(CLI::App& command, data::CorpusOptions& options, const char* max_bytes_name) {
  command.add_option("--input", options.inputs, "Folders (read with all below them) or files")
      ->required()
      ->type_name("DIR");
  command
      .add_option("--languages", options.languages, "Only these, separated by commas (default: all known)")
      ->delimiter(',')
      ->type_name("NAME");
  command.add_option("--min-bytes", options.min_bytes, "Leave out smaller files")->capture_default_str();
  command.add_option(max_bytes_name, options.max_bytes, "Leave out larger files")->capture_default_str();
}

// Prints what was kept, by language, and what was dropped, by reason.
void print_corpus_counts(const data::CorpusCounts& counts);

}  // namespace comera::cli
