#include "cli/corpus_options.h"

#include <fmt/core.h>

#include "cli/progress.h"

namespace comera::cli {

void print_corpus_counts(const data::CorpusCounts& counts) {
  fmt::print("{:<24}{:>14}{:>14}\n", "", "documents", "MB");
  const auto row = [](const std::string& name, std::int64_t documents, std::int64_t bytes) {
    fmt::print("{:<24}{:>14}{:>14.2f}\n", name, grouped(documents), static_cast<double>(bytes) * 1e-6);
  };
  row("kept", counts.documents, counts.bytes);
  for (const auto& [language, count] : counts.languages) row("  " + language, count.documents, count.bytes);
  std::int64_t dropped = 0;
  for (const auto& [reason, count] : counts.dropped) dropped += count;
  fmt::print("{:<24}{:>14}\n", "dropped", grouped(dropped));
  for (const auto& [reason, count] : counts.dropped) fmt::print("  {:<22}{:>14}\n", reason, grouped(count));
}

}  // namespace comera::cli
