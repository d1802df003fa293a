#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "data/corpus/corpus.h"
#include "data/corpus/min_hash.h"

namespace comera::data {

// A source without some of another source's documents.
class DocumentFilter : public DocumentSource {
 public:
  bool next(Document& document) final;
  CorpusCounts counts() const final;

 protected:
  explicit DocumentFilter(std::unique_ptr<DocumentSource> source) : source_(std::move(source)) {}
  // Why the document is dropped; null if it is not.
  virtual const char* reject(const Document& document) = 0;

 private:
  std::unique_ptr<DocumentSource> source_;
  std::map<std::string, std::map<std::string, LanguageCounts>> dropped_;  // by reason and language
};

// Drops a document that is similar to an earlier one as "near duplicate". Documents of fewer than five words
// pass. Memory: about 1.2 kB per delivered document.
class WithoutNearDuplicates final : public DocumentFilter {
 public:
  // similarity: the Jaccard similarity of the sets of shingles (data/corpus/min_hash.h) at which a document
  // is dropped. UsageError unless it is at least 0.5, below which too few would be found, and at most 1.
  WithoutNearDuplicates(std::unique_ptr<DocumentSource> source, double similarity);

 protected:
  const char* reject(const Document& document) override;

 private:
  MinHash hash_;
  MinHashIndex kept_;
};

// Drops held-out documents that share a function with a training document (data/corpus/function_hashes.h), as
// "function in training data", or their whole text, as "duplicate". Training documents must come first.
// Memory: about 40 bytes per function and per document.
class WithoutTrainingFunctions final : public DocumentFilter {
 public:
  explicit WithoutTrainingFunctions(std::unique_ptr<DocumentSource> source)
      : DocumentFilter(std::move(source)) {}

 protected:
  const char* reject(const Document& document) override;

 private:
  storage::HashSet training_;
};

// The documents of one source for training, then those of another, all held out regardless of the held-out
// share.
class TrainingThenHeldOut final : public DocumentSource {
 public:
  TrainingThenHeldOut(std::unique_ptr<DocumentSource> training, std::unique_ptr<DocumentSource> held_out)
      : training_(std::move(training)), held_out_(std::move(held_out)) {}
  bool next(Document& document) override;
  CorpusCounts counts() const override;

 private:
  std::unique_ptr<DocumentSource> training_, held_out_;
  bool in_training_ = true;
};

}  // namespace comera::data
