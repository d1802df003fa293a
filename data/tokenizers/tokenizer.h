#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizers/piece_model.h"

namespace comera::data {

// Ids of the pieces that stand for no text. Text never encodes to them, even if it contains "[MASK]".
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

// A SentencePiece model, a WordPiece vocabulary (vocab.txt), or a tokenizer.json (tokenizer_json.h). One that
// 'comera tokenizer' trained gives back exactly the text it was given: spaces, tabs, line ends and every
// character of well-formed UTF-8. One made elsewhere is taken as it is: its special pieces may be called
// [PAD] or <pad>, [CLS], <cls> or <s>, [SEP], <sep> or </s>, [MASK] or <mask>; those it lacks get ids behind
// its pieces; and it may normalise text, which then does not come back exactly. notes() says so. Immutable,
// and may be shared by threads.
class Tokenizer {
 public:
  // Error if the file is none of them, or is a truncated model.
  static Tokenizer load(const std::filesystem::path& path);
  // name: for messages.
  static Tokenizer from_bytes(std::string bytes, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  std::vector<std::int32_t> encode(std::string_view text) const;
  // Of a part of a text that has a piece before it, behind it or both, which are not given: what encode gives
  // for the part where it stands, if that text has such a piece there. Of a WordPiece vocabulary, a word at
  // the beginning goes on with the word before it. Of unigram models up to ties.
  std::vector<std::int32_t> encode_between(std::string_view part, bool piece_before, bool piece_behind) const;
  // Error if an id is outside the vocabulary. Special pieces decode to nothing.
  std::string decode(std::span<const std::int32_t> ids) const;

  std::int32_t vocabulary() const { return vocabulary_; }
  std::string piece(std::int32_t id) const;
  PieceText text(std::int32_t id) const;
  const SpecialIds& special() const { return special_; }
  // Whether decode gives back what encode was given, judged by some awkward texts.
  bool restores_text() const { return restores_text_; }
  // What is unusual about the model, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Of the file's bytes: shards carry it, so that they are not read with another tokenizer.
  const std::string& hash() const { return hash_; }
  const std::string& bytes() const { return bytes_; }
  bool is_sentencepiece() const { return sentencepiece_; }
  const PieceModel& model() const { return *model_; }

 private:
  friend class Encoder;
  Tokenizer() = default;
  template <class Visit>
  void for_each_part(std::string_view text, Visit&& visit) const;
  void encode_part(std::string_view part, std::vector<std::int32_t>& ids) const;
  // Special pieces that text has become, from there on, become unknown ones.
  void hide_special(std::vector<std::int32_t>& ids, std::size_t begin) const;
  void find_special(const std::string& name);

  std::unique_ptr<PieceModel> model_;
  std::string bytes_;
  std::string hash_;
  SpecialIds special_;
  std::int32_t vocabulary_ = 0;
  std::vector<std::string> added_;  // special pieces behind those of the model
  std::vector<std::string> notes_;
  bool restores_text_ = false;
  bool sentencepiece_ = false;
  bool special_in_text_ = false;  // the model makes special pieces of their names in text
  bool symbols_apart_ = false;    // U+2581 and NUL are encoded by themselves
  Cuts cuts_{};
};

// Encodes as Tokenizer does, and remembers the words it has seen: several times as quick on real text. For
// one thread. Memory: at most about 40 MB.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
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
  std::int32_t vocabulary = 16384;     // at most: a small corpus gives fewer pieces
  std::int64_t max_bytes = 32 << 20;   // of text that training sees; whole documents, drawn by content hash
  double character_coverage = 0.9995;  // rarer characters become bytes
  std::function<void(std::int64_t documents, std::int64_t bytes)> progress = {};  // while documents are read
  std::function<void()> read = {};  // when all of them are, and training begins, which takes longer
};

// Trains on a sample of the source's documents that depends on their content only, not on their order.
// Memory: max_bytes while reading, then SentencePiece's own (about 10 times the sample for BPE, 20 for
// unigram).
Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options);

}  // namespace comera::data
