#include "tests/qa/attack/record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace comera::attack {

namespace {

// seed, kind, number, attacks, outcome and, of the last two outcomes, the reason; parted by tabs.
constexpr const char* well = "well";
constexpr const char* refused = "refused";
constexpr const char* skipped = "skipped";
constexpr const char* failed_word = "failed";

}  // namespace

Record::Record(const std::string& file, std::uint64_t seed) : seed_(seed) {
  if (file.empty()) return;
  std::ifstream before(file);
  for (std::string line; std::getline(before, line);) {
    std::istringstream words(line);
    std::uint64_t line_seed = 0;
    Outcome outcome;
    std::string word, reason;
    if (!(words >> line_seed >> outcome.kind >> outcome.number >> outcome.attacks >> word) ||
        line_seed != seed)
      continue;
    words.ignore(1);
    std::getline(words, reason);
    outcome.refused = word == refused;
    if (word == skipped) outcome.skipped = reason;
    if (word == failed_word) outcome.failure = reason;
    count(outcome);
  }
  file_ = std::fopen(file.c_str(), "ae");
  if (file_ == nullptr) throw std::runtime_error(file + ": cannot be written");
}

Record::~Record() {
  if (file_ != nullptr) std::fclose(file_);
}

void Record::count(const Outcome& outcome) {
  Sum& sum = sums_[outcome.kind];
  done_[outcome.kind][outcome.number] = true;
  if (!outcome.skipped.empty() && outcome.failure.empty()) {
    ++sum.skipped;
    ++sum.reasons[outcome.skipped];
    return;
  }
  sum.attacks += outcome.attacks;
  if (!outcome.failure.empty())
    ++sum.failures;
  else if (outcome.refused)
    sum.refused += outcome.attacks;
  else
    sum.well += outcome.attacks;
}

void Record::add(const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  count(outcome);
  if (file_ == nullptr) return;
  const char* word = !outcome.failure.empty()   ? failed_word
                     : !outcome.skipped.empty() ? skipped
                     : outcome.refused          ? refused
                                                : well;
  fmt::print(file_, "{}\t{}\t{}\t{}\t{}\t{}\n", seed_, outcome.kind, outcome.number, outcome.attacks, word,
             outcome.failure.empty() ? outcome.skipped : outcome.failure);
  std::fflush(file_);
}

bool Record::has(const std::string& kind, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = done_.find(kind);
  return found != done_.end() && found->second.contains(number);
}

int Record::attacks(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = sums_.find(kind);
  return found == sums_.end() ? 0 : found->second.attacks + found->second.skipped;
}

bool Record::failed() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [kind, sum] : sums_)
    if (sum.failures > 0) return true;
  return false;
}

bool Record::only_skipped() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(sums_, [](const auto& kind) { return kind.second.attacks > 0; });
}

void Record::clear_file() {
  if (ftruncate(fileno(file_), 0) != 0) fmt::print(stderr, "attack: the record could not be emptied\n");
}

std::string Record::table() const {
  const std::lock_guard lock(mutex_);
  std::string text, reasons;
  for (const auto& [kind, sum] : sums_)
    for (const auto& [reason, count] : sum.reasons)
      reasons += fmt::format("{}: {} skipped: {}\n", kind, count, reason);
  text += reasons + "| kind | tries | ended well | refused | failures |\n|---|---|---|---|---|\n";
  for (const auto& [kind, sum] : sums_)
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n", kind, sum.attacks, sum.well, sum.refused, sum.failures);
  return text;
}

}  // namespace comera::attack
