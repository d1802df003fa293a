#include <sentencepiece_trainer.h>

#include <algorithm>
#include <map>
#include <optional>

#include "data/tokenizers/tokenizer.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

// The documents with the smallest hashes, as many as fit: a sample that does not depend on the order in which
// they come and never needs more memory than it keeps.
std::map<storage::Hash128, std::string> sample(DocumentSource& source, const TokenizerOptions& options) {
  std::map<storage::Hash128, std::string> kept;
  std::int64_t kept_bytes = 0;
  std::optional<storage::Hash128> limit;  // the smallest hash that had to go
  Document document;
  std::int64_t documents = 0, bytes = 0;  // a source's own counts are too many to be asked for so often
  while (source.next(document)) {
    bytes += static_cast<std::int64_t>(document.text.size());
    if (options.progress) options.progress(++documents, bytes);
    if (limit && document.hash >= *limit) continue;
    const auto size = static_cast<std::int64_t>(document.text.size());
    if (kept.emplace(document.hash, std::move(document.text)).second) kept_bytes += size;
    while (kept_bytes > options.max_bytes && kept.size() > 1) {
      const auto last = std::prev(kept.end());
      limit = last->first;
      kept_bytes -= static_cast<std::int64_t>(last->second.size());
      kept.erase(last);
    }
  }
  return kept;
}

// Gives SentencePiece the lines of the sample, without their ends: a line end is a piece of its own, so that
// nothing is learned across it. Documents are released as they are read.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::map<storage::Hash128, std::string> documents) : documents_(std::move(documents)) {
    Next();
  }
  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    for (line_.clear(); line_.empty();) {
      if (documents_.empty()) {
        done_ = true;
        return;
      }
      const std::string& text = documents_.begin()->second;
      const std::size_t end = std::min(text.find('\n', at_), text.size());
      line_.assign(text, at_, end - at_);
      at_ = end + 1;
      if (at_ >= text.size()) {
        documents_.erase(documents_.begin());
        at_ = 0;
      }
    }
  }

 private:
  std::map<storage::Hash128, std::string> documents_;
  std::size_t at_ = 0;
  std::string line_;
  bool done_ = false;
};

}  // namespace

Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options) {
  // Special pieces, 256 bytes, line end, tab, and room for characters.
  constexpr std::int32_t smallest = 320;
  if (options.vocabulary < smallest)
    throw UsageError(
        fmt::format("a vocabulary of {} is too small: give at least {}", options.vocabulary, smallest));
  if (options.max_bytes < 1) throw UsageError("the tokenizer needs at least one byte of text to train on");
  auto documents = sample(source, options);
  COMERA_CHECK(!documents.empty(), "the tokenizer has nothing to train on: {}",
               nothing_was_kept(source.counts()));
  if (options.read) options.read();
  Lines lines(std::move(documents));
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {
          {"minloglevel", "4"},
          {"model_type", options.model == TokenizerModel::bpe ? "bpe" : "unigram"},
          {"vocab_size", std::to_string(options.vocabulary)},
          {"hard_vocab_limit", "false"},
          {"character_coverage", fmt::format("{}", options.character_coverage)},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"remove_extra_whitespaces", "false"},
          {"add_dummy_prefix", "false"},
          {"allow_whitespace_only_pieces", "true"},  // indentation
          // Line ends and tabs can't be part of learned pieces (SentencePiece uses the tab as a separator).
          {"user_defined_symbols", "\n,\t"},
          {"control_symbols", "[CLS],[SEP],[MASK]"},
          {"pad_id", "0"},
          {"pad_piece", "[PAD]"},
          {"unk_id", "1"},
          {"unk_piece", "[UNK]"},
          {"bos_id", "-1"},
          {"eos_id", "-1"},
          {"input_sentence_size", "0"},
          {"max_sentence_length", "16384"},
          // Fixed: sums of the unigram model's counts depend on it in their last bits.
          {"num_threads", "2"},
      },
      &lines, &bytes);
  COMERA_CHECK(status.ok(), "the tokenizer could not be trained: {}", status.message());
  return Tokenizer::from_bytes(std::move(bytes), "the trained tokenizer");
}

}  // namespace comera::data
