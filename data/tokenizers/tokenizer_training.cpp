#include "data/tokenizers/tokenizer_training.h"

#include <sentencepiece_trainer.h>

#include <map>
#include <optional>

#include "data/tokenizers/models/sentencepiece_proto.h"
#include "data/tokenizers/training_lines.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

// The documents with the smallest hashes, as many as fit: a sample that does not depend on their order and
// needs no more memory than it keeps.
std::map<storage::Hash128, std::string> sample(DocumentSource& source, const TokenizerOptions& options,
                                               TrainingCounts& counts) {
  std::map<storage::Hash128, std::string> kept;
  std::int64_t kept_bytes = 0;
  std::optional<storage::Hash128> limit;  // the smallest dropped hash
  Document document;
  std::int64_t documents = 0, bytes = 0;  // counted here, because asking the source this often is too slow
  while (source.next(document)) {
    bytes += static_cast<std::int64_t>(document.text.size());
    ++documents;
    if (options.progress) options.progress(documents, bytes);
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
  counts.documents = static_cast<std::int64_t>(kept.size());
  counts.bytes = kept_bytes;
  if (documents > counts.documents)
    counts.left_out["beyond the sample"] = {.count = documents - counts.documents,
                                            .bytes = bytes - kept_bytes};
  return kept;
}

// Some of the documents, of about `bytes` together: which ones depends on their hashes alone.
std::vector<std::string> some_of(const std::map<storage::Hash128, std::string>& documents,
                                 std::size_t bytes) {
  std::vector<std::string> texts;
  std::size_t taken = 0;
  for (auto document = documents.begin(); document != documents.end() && taken < bytes; ++document) {
    texts.push_back(document->second);
    taken += texts.back().size();
  }
  return texts;
}

// How often each piece occurs in the texts.
std::vector<std::int64_t> count_pieces(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tokenizer.vocabulary()));
  Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts) {
    ids.clear();
    encoder.encode(text, ids);
    for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
  }
  return counts;
}

// Special pieces, 256 bytes, line end and tab.
constexpr std::int64_t given_pieces = 263;

// Inputs that SentencePiece would reject with messages about its source code, or worse.
void check_sample(const TrainingCharacters& sample, const TokenizerOptions& options) {
  COMERA_CHECK(sample.kinds > 0,
               "the tokenizer has nothing to train on: the documents hold line ends, tabs and reserved "
               "characters only");
  const std::int64_t least = given_pieces + sample.kinds;
  const std::int64_t rarest_as_bytes = given_pieces + sample.fewest_kinds;
  const std::string lower =
      rarest_as_bytes <= options.vocabulary && rarest_as_bytes < least
          ? fmt::format(
                ", or a --character-coverage below {}, down to {}, so that the rarer ones become bytes",
                options.character_coverage, lowest_coverage)
          : "";
  COMERA_CHECK(least <= options.vocabulary,
               "a vocabulary of {} is too small for the {} characters of this text that need a piece each; "
               "give --vocabulary {} or more{}",
               options.vocabulary, sample.kinds, least, lower);
}

// Without the source position and the failed condition in SentencePiece.
std::string reason_of(const sentencepiece::util::Status& status) {
  const std::string message(status.message());
  const std::size_t end = message.rfind("] ");
  const std::string reason = end == std::string::npos ? message : message.substr(end + 2);
  return reason.empty() ? "SentencePiece gives no reason" : "SentencePiece: " + reason;
}

}  // namespace

Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options) {
  TrainingCounts counts;
  return train_tokenizer(source, options, counts);
}

Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options, TrainingCounts& counts) {
  // Special pieces, 256 bytes, line end, tab, and some characters.
  constexpr std::int32_t smallest = 320;
  if (options.vocabulary < smallest)
    throw UsageError(
        fmt::format("a vocabulary of {} is too small: give at least {}", options.vocabulary, smallest));
  if (options.max_bytes < 1) throw UsageError("the tokenizer needs at least one byte of text to train on");
  if (!(options.character_coverage >= lowest_coverage && options.character_coverage <= 1))
    throw UsageError(fmt::format("the character coverage must be between {} and 1, it is {}", lowest_coverage,
                                 options.character_coverage));
  counts = {};
  auto documents = sample(source, options, counts);
  COMERA_CHECK(!documents.empty(), "the tokenizer has nothing to train on: {}",
               nothing_was_kept(source.counts()));
  const TrainingCharacters characters = count_characters(documents, options.character_coverage);
  check_sample(characters, options);
  counts.bytes = characters.learned;
  for (const auto& [reason, dropped] : characters.left_out) counts.left_out[reason].add(dropped);
  if (options.read) options.read();
  constexpr std::size_t counted = 8'000'000;  // bytes: enough for the rarest pieces of a vocabulary to occur
  const std::vector<std::string> texts = some_of(documents, counted);
  TrainingLines lines(std::move(documents));
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
          // Line ends and tabs cannot be part of trained pieces (SentencePiece uses the tab as a separator).
          {"user_defined_symbols", "\n,\t"},
          {"control_symbols", "[CLS],[SEP],[MASK]"},
          {"pad_id", "0"},
          {"pad_piece", "[PAD]"},
          {"unk_id", "1"},
          {"unk_piece", "[UNK]"},
          {"bos_id", "-1"},
          {"eos_id", "-1"},
          {"input_sentence_size", "0"},
          {"max_sentence_length", std::to_string(TrainingLines::longest_line)},
          // Fixed, because the last bits of the unigram model's sums depend on it.
          {"num_threads", "2"},
      },
      &lines, &bytes);
  COMERA_CHECK(
      status.ok(),
      "the tokenizer could not be trained with these settings; try another --model or --vocabulary, or other "
      "documents ({})",
      reason_of(status));
  // SentencePiece numbers merges in their order and single characters last. By frequency the first ids are
  // worth the most to a table (TTMShape::frequent_rows).
  const std::string name = "the trained tokenizer";
  const std::vector<std::int64_t> found = count_pieces(Tokenizer::from_bytes(bytes, name), texts);
  return Tokenizer::from_bytes(number_by_frequency(bytes, found), name);
}

}  // namespace comera::data
