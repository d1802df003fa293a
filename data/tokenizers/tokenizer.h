#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/corpus/corpus.h"
#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/models/piece_model.h"

namespace comera::data {

// Ids of the special pieces, which represent no text. Text never encodes to them, even if it contains
// "[MASK]".
struct SpecialIds {
  std::int32_t pad = 0;
  std::int32_t unknown = 1;
  std::int32_t cls = 2;
  std::int32_t separator = 3;
  std::int32_t mask = 4;

  bool contains(std::int32_t id) const {
    return id == pad || id == unknown || id == cls || id == separator || id == mask;
  }
  friend bool operator==(const SpecialIds&, const SpecialIds&) = default;
};

// The names of the special pieces; empty: one of the usual names.
struct SpecialNames {
  std::string pad, unknown, cls, separator, mask;
};

// A tokenizer setting and its source.
struct TokenizerSetting {
  std::string name, value, source;  // "lowercase", "true", "tokenizer_config.json: do_lower_case"
};

// A line for each, with its source.
std::string described(const std::vector<TokenizerSetting>& settings);

// Whether a vocab.txt without further information is for lower-cased text.
enum class LetterCase : std::uint8_t { guessed, lowered, kept };

// A SentencePiece model, a WordPiece vocabulary (vocab.txt), or a tokenizer.json (tokenizer_json.h). One
// trained by 'comera tokenizer' restores exactly the text it was given: spaces, tabs, line ends and every
// character of well-formed UTF-8. Foreign ones are used as they are. Their special pieces may be called [PAD]
// or <pad>, [CLS], <cls> or <s>, [SEP], <sep> or </s>, [MASK] or <mask>; missing ones get ids after all
// pieces. They may normalise text, which is then not restored exactly; notes() says so. Immutable, and may be
// shared by threads.
class Tokenizer {
 public:
  // From a file with its companions in the same folder, or from a folder (tokenizer_json.h). Error if it is
  // not a tokenizer, or is truncated. UsageError for a letter case if the files define it themselves.
  static Tokenizer load(const std::filesystem::path& path, LetterCase letter_case = LetterCase::guessed);
  // From the result of bytes(). name: for messages. Error if they are not a tokenizer, or a truncated model.
  static Tokenizer from_bytes(std::string bytes, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  std::vector<std::int32_t> encode(std::string_view text) const;
  // Encodes a part of a text that has a piece before it, after it or both, which are not given: the result of
  // encode for this part in its place, if that text has such a piece there. With a WordPiece vocabulary, a
  // word at the beginning continues the word before it. With unigram models, up to ties.
  std::vector<std::int32_t> encode_between(std::string_view part, bool piece_before, bool piece_behind) const;
  // Error if an id is outside the vocabulary. Special pieces decode to nothing.
  std::string decode(std::span<const std::int32_t> ids) const;

  std::int32_t vocabulary() const { return vocabulary_; }
  std::string piece(std::int32_t id) const;
  PieceText text(std::int32_t id) const;
  const SpecialIds& special() const { return special_; }
  // "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", or as they are called here.
  std::array<std::string, 5> special_names() const;
  // The number of separators between two texts in one sequence: 2 for RoBERTa.
  int pair_separators() const { return pair_separators_; }
  // Texts that become one id wherever they occur. Special pieces are not included: their names are ordinary
  // text.
  const std::vector<AddedToken>& added_tokens() const { return added_tokens_; }
  // Whether decode restores the input of encode, tested with some awkward texts.
  bool restores_text() const { return restores_text_; }
  // Unusual properties of the model, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // For a tokenizer read from its files; empty if it comes from a checkpoint.
  const std::vector<TokenizerSetting>& settings() const { return settings_; }
  // Hash of the file's bytes: stored in shards, so that they are not read with another tokenizer.
  const std::string& hash() const { return hash_; }
  const std::string& bytes() const { return bytes_; }
  bool is_sentencepiece() const { return sentencepiece_; }
  const PieceModel& model() const { return *model_; }

 private:
  friend class Encoder;
  friend class TokenizerFiles;
  Tokenizer() = default;
  // Visits the parts between added tokens, of normalised text if some tokens are searched there.
  template <class VisitText, class VisitToken>
  void for_each_segment(std::string_view text, VisitText&& visit_text, VisitToken&& visit_token) const;
  template <class Visit>
  void for_each_part(std::string_view text, Visit&& visit) const;
  void encode_part(std::string_view part, std::vector<std::int32_t>& ids) const;
  // Replaces special pieces produced from text, starting at `begin`, by unknown ones.
  void hide_special(std::vector<std::int32_t>& ids, std::size_t begin) const;
  void find_special(const SpecialNames& names, const std::string& name);
  void take_added(std::vector<AddedToken> tokens);
  const AddedToken* find_added(std::int32_t id) const;
  void require_id(std::int32_t id) const;

  std::unique_ptr<PieceModel> model_;
  std::string bytes_;
  std::string hash_;
  SpecialIds special_;
  std::int32_t vocabulary_ = 0;
  std::vector<AddedToken> added_tokens_;        // sorted by their ids
  TokenFinder raw_tokens_, normalized_tokens_;  // those found in raw and in normalised text
  std::map<std::int32_t, std::string> names_;   // of special pieces missing in the model
  std::vector<std::string> notes_;
  std::vector<TokenizerSetting> settings_;
  int pair_separators_ = 1;
  bool restores_text_ = false;
  bool sentencepiece_ = false;
  bool special_in_text_ = false;  // the model converts special names in text to special pieces
  bool symbols_apart_ = false;    // U+2581 and NUL are encoded separately
  Cuts cuts_{};
};

// Encodes as Tokenizer does, with a cache of words: several times as fast on real text. For one thread.
// Memory: at most about 40 MB.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Appends to ids.
  void encode(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  struct Text {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<std::int32_t>, Text, std::equal_to<>> words_;
};

enum class TokenizerModel : std::uint8_t { bpe, unigram };

struct TokenizerOptions {
  TokenizerModel model = TokenizerModel::bpe;
  std::int32_t vocabulary = 16384;     // maximum: a small corpus gives fewer pieces
  std::int64_t max_bytes = 32 << 20;   // of training text; whole documents, drawn by content hash
  double character_coverage = 0.9995;  // rarer characters become bytes
  std::function<void(std::int64_t documents, std::int64_t bytes)> progress = {};  // while documents are read
  std::function<void()> read = {};  // called when all are read and training, the longer part, begins
};

// Trains on a sample of the source's documents that depends only on their content, not on their order.
// Memory: max_bytes while reading, then SentencePiece's own (about 10 times the sample for BPE, 20 for
// unigram).
Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options);

}  // namespace comera::data
