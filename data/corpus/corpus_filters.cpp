#include "data/corpus/corpus_filters.h"

#include <algorithm>

#include "data/corpus/function_hashes.h"
#include "kernels/core/check.h"

namespace comera::data {

bool DocumentFilter::next(Document& document) {
  while (source_->next(document)) {
    const char* reason = reject(document);
    if (reason == nullptr) return true;
    dropped_[reason][document.language].add(document);
  }
  return false;
}

CorpusCounts DocumentFilter::counts() const {
  CorpusCounts counts = source_->counts();
  for (const auto& [reason, languages] : dropped_)
    for (const auto& [language, dropped] : languages) counts.take_back(language, dropped, reason);
  return counts;
}

WithoutNearDuplicates::WithoutNearDuplicates(std::unique_ptr<DocumentSource> source, double similarity)
    : DocumentFilter(std::move(source)), kept_(similarity) {
  if (!(similarity >= 0.75 && similarity <= 1))
    throw UsageError(fmt::format("--near-duplicates must be a similarity from 0.75 to 1, such as 0.8, not {}",
                                 similarity));
}

const char* WithoutNearDuplicates::reject(const Document& document) {
  const auto signature = hash_(document.text);
  return !signature || kept_.insert(*signature) ? nullptr : near_duplicate;
}

const char* WithoutTrainingFunctions::reject(const Document& document) {
  const auto functions = function_hashes(document.text, document.language);
  if (!document.held_out.value_or(false)) {
    training_.insert(document.hash);
    for (const storage::Hash128& function : functions) training_.insert(function);
    return nullptr;
  }
  if (training_.contains(document.hash)) return "duplicate";
  const bool shared = std::ranges::any_of(
      functions, [&](const storage::Hash128& function) { return training_.contains(function); });
  return shared ? "function in training data" : nullptr;
}

bool TrainingThenHeldOut::next(Document& document) {
  if (in_training_ && training_->next(document)) {
    document.held_out = false;
    return true;
  }
  in_training_ = false;
  if (!held_out_->next(document)) return false;
  document.held_out = true;
  return true;
}

CorpusCounts TrainingThenHeldOut::counts() const {
  CorpusCounts counts = training_->counts();
  counts.add(held_out_->counts());
  return counts;
}

}  // namespace comera::data
