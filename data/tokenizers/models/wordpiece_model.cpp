#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "data/tokenizers/models/wordpiece.h"
#include "data/tokenizers/text/unicode_tables.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && kind_of(static_cast<char>(c)) == punctuation;
  return within(punctuation_characters(), c);
}

// Hugging Face's tokenizers excludes U+2B820 to U+2B91F.
bool is_ideograph(char32_t c) {
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

void append(std::string& text, char32_t c) {
  const auto put = [&](char32_t value) { text += static_cast<char>(static_cast<unsigned char>(value)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

const Fold* find_fold(std::span<const Fold> folds, char32_t c) {
  const auto found = std::lower_bound(folds.begin(), folds.end(), c,
                                      [](const Fold& entry, char32_t value) { return entry.from < value; });
  return found != folds.end() && found->from == c ? &*found : nullptr;
}

// Calls visit with the decomposed character without its marks.
template <class Visit>
void strip_accents(char32_t c, Visit&& visit) {
  if (c < 0x80) return visit(c);
  if (c >= 0xAC00 && c <= 0xD7A3) {  // a Hangul syllable: its jamo
    const char32_t index = c - 0xAC00;
    visit(0x1100 + index / 588);
    visit(0x1161 + index % 588 / 28);
    if (index % 28 != 0) visit(0x11A7 + index % 28);
    return;
  }
  if (const Fold* fold = find_fold(accent_folds(), c)) {
    for (const char32_t to : fold->to)
      if (to != 0) visit(to);
  } else if (!within(mark_characters(), c)) {
    visit(c);
  }
}

template <class Visit>
void lower(char32_t c, Visit&& visit) {
  if (c < 0x80) return visit(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  const Fold* fold = find_fold(case_folds(), c);
  if (fold == nullptr) return visit(c);
  for (const char32_t to : fold->to)
    if (to != 0) visit(to);
}

// BERT removes its control characters from text; the ASCII ones are those below the space, and DEL.
bool is_control_character(char32_t c) {
  return (c >= 0x80 || c < ' ' || c == 0x7F) && within(control_characters(), c);
}

bool has_capital(std::string_view piece) {
  return std::ranges::any_of(piece, [](char c) { return c >= 'A' && c <= 'Z'; });
}

class WordPieceModel final : public PieceModel {
 public:
  WordPieceModel(WordPiece parts, const std::string& name) : parts_(std::move(parts)) {
    for (std::size_t id = 0; id < parts_.pieces.size(); ++id) {
      const std::string& piece = parts_.pieces[id];
      if (piece.empty()) continue;
      ids_.emplace(piece, static_cast<std::int32_t>(id));
      if (!is_control(static_cast<std::int32_t>(id))) longest_piece_ = std::max(longest_piece_, piece.size());
    }
    unknown_ = find(parts_.unknown);
    COMERA_CHECK(unknown_ >= 0, "{}: has no piece {} for unknown words", name, parts_.unknown);
  }

  std::int32_t size() const override { return static_cast<std::int32_t>(parts_.pieces.size()); }
  std::int32_t unknown() const override { return unknown_; }
  std::int32_t find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string piece(std::int32_t id) const override { return parts_.pieces[static_cast<std::size_t>(id)]; }
  // Brackets are split off words, so text produces no such piece; nor a missing one.
  bool is_control(std::int32_t id) const override {
    const std::string& piece = parts_.pieces[static_cast<std::size_t>(id)];
    return piece.empty() || (piece.size() > 2 && piece.front() == '[' && piece.back() == ']');
  }

  // A piece that does not continue a word begins one, whatever precedes it.
  PieceText text(std::int32_t id) const override {
    if (is_control(id)) return {};
    const std::string piece = this->piece(id);
    if (continues_word(piece)) return {.bytes = piece.substr(2), .inside_word = true};
    return {.bytes = " " + piece};
  }

  // Words end at white space and punctuation, at least those of ASCII.
  Cuts cuts() const override {
    Cuts cuts{};
    for (int a = 0; a < character_kinds; ++a)
      for (int b = 0; b < character_kinds; ++b) {
        const auto in_word = [](int kind) { return kind == letter || kind == digit || kind == other; };
        cuts[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = !in_word(a) || !in_word(b);
      }
    return cuts;
  }

  void encode(std::string_view part, std::vector<std::int32_t>& ids) const override {
    encode_words(part, false, ids);
  }

  // Text that touches the previous piece continues its word.
  void encode_between(std::string_view part, bool piece_before, bool /*piece_behind*/,
                      std::vector<std::int32_t>& ids) const override {
    encode_words(part, piece_before, ids);
  }

  std::string normalize(std::string_view text) const override {
    std::string normalized;
    for_each_normalized(text, [&](char32_t c, bool /*alone*/) { append(normalized, c); });
    return normalized;
  }

  std::string added_text(const std::string& content) const override { return " " + content; }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      const std::string& piece = parts_.pieces[static_cast<std::size_t>(id)];
      const bool joined = continues_word(piece);
      if (!joined && !text.empty()) text += ' ';
      text += joined ? piece.substr(2) : piece;
    }
    return text;
  }

  nlohmann::ordered_json tokenizer_json() const override {
    return {{"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", parts_.clean_text},
              {"handle_chinese_chars", parts_.chinese_characters},
              {"strip_accents", parts_.strip_accents},
              {"lowercase", parts_.lowercase}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", parts_.unknown},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", parts_.longest_word},
              {"vocab", ids_by_piece(parts_.pieces)}}},
            {"added_tokens", nlohmann::ordered_json::array()}};
  }

 private:
  // Calls visit with the characters of normalised text; alone: the character is a word of one character.
  template <class Visit>
  void for_each_normalized(std::string_view text, Visit&& visit) const {
    const auto fold = [&](char32_t c) {
      if (parts_.lowercase)
        lower(c, [&](char32_t to) { visit(to, is_punctuation(to)); });
      else
        visit(c, is_punctuation(c));
    };
    for (std::size_t at = 0; at < text.size();) {
      char32_t c = next_character(text, at);
      if (parts_.clean_text) {
        if (is_control_character(c)) continue;
        if (is_space_character(c)) c = ' ';
      }
      const bool alone = parts_.chinese_characters && is_ideograph(c);
      if (alone) visit(' ', false);
      if (parts_.strip_accents)
        strip_accents(c, fold);
      else
        fold(c);
      if (alone) visit(' ', false);
    }
  }

  // continues: the first word, if the part begins with it, continues the previous one.
  void encode_words(std::string_view part, bool continues, std::vector<std::int32_t>& ids) const {
    std::string word;
    std::int64_t length = 0;  // characters of word
    const auto flush = [&] {
      if (length > 0) encode_word(word, length, continues, ids);
      word.clear();
      length = 0;
      continues = false;
    };
    for_each_normalized(part, [&](char32_t c, bool alone) {
      if (is_space_character(c)) return flush();
      if (alone) flush();
      append(word, c);
      ++length;
      if (alone) flush();
    });
    flush();
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  static bool continues_word(std::string_view piece) { return piece.size() > 2 && piece.starts_with("##"); }

  // Repeatedly takes the longest piece that the rest begins with; one unknown piece if there is none.
  void encode_word(const std::string& word, std::int64_t length, bool continues,
                   std::vector<std::int32_t>& ids) const {
    const std::size_t before = ids.size();
    std::string candidate;
    std::size_t begin = 0;
    while (begin < word.size() && length <= parts_.longest_word) {
      candidate = begin == 0 && !continues ? "" : "##";
      const std::size_t prefix = candidate.size();
      candidate.append(word, begin, longest_piece_);
      std::int32_t id = -1;
      while (candidate.size() > prefix && (id = find(candidate)) < 0) candidate.pop_back();
      if (id < 0) break;
      ids.push_back(id);
      begin += candidate.size() - prefix;
    }
    if (begin == word.size()) return;
    ids.resize(before);
    ids.push_back(unknown_);
  }

  WordPiece parts_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::size_t longest_piece_ = 1;
  std::int32_t unknown_ = -1;
};

// Whether text can produce it: punctuation is split off, so a longer piece that contains some never occurs.
bool comes_from_text(std::string_view piece) {
  const std::string_view word = piece.starts_with("##") ? piece.substr(2) : piece;
  std::size_t characters = 0;
  bool punctuated = false;
  for (std::size_t at = 0; at < word.size(); ++characters)
    punctuated = is_punctuation(next_character(word, at)) || punctuated;
  return characters < 2 || !punctuated;
}

}  // namespace

std::unique_ptr<PieceModel> make_wordpiece(WordPiece parts, const std::string& name) {
  return std::make_unique<WordPieceModel>(std::move(parts), name);
}

namespace {

std::vector<std::string> vocabulary_lines(const std::string& bytes) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
    lines.push_back(bytes.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

}  // namespace

VocabularyText read_vocab_txt(const std::string& bytes) {
  VocabularyText text;
  std::vector<std::string>& pieces = text.pieces;
  std::unordered_map<std::string, std::size_t> lines;
  for (std::string& line : vocabulary_lines(bytes)) {
    while (!line.empty() && is_space_character(last_character(line))) {
      do line.pop_back();
      while (!line.empty() && !is_utf8(line));
    }
    if (const auto [place, fresh] = lines.try_emplace(line, pieces.size()); !fresh) {
      pieces[place->second].clear();
      place->second = pieces.size();
    }
    pieces.push_back(std::move(line));
  }
  if (const auto empty = lines.find(""); empty != lines.end())
    text.empty_line = static_cast<std::int64_t>(empty->second);
  while (!pieces.empty() && pieces.back().empty()) pieces.pop_back();
  return text;
}

bool has_capitals(const std::vector<std::string>& pieces) {
  return std::ranges::any_of(
      pieces, [](const std::string& piece) { return comes_from_text(piece) && has_capital(piece); });
}

bool has_capitals_anywhere(const std::vector<std::string>& pieces) {
  return std::ranges::any_of(pieces, [](const std::string& piece) {
    return !(piece.starts_with('[') && piece.ends_with(']')) && has_capital(piece);
  });
}

std::unique_ptr<PieceModel> open_wordpiece(const std::string& bytes, const std::string& name) {
  if (bytes.find('\0') != std::string::npos || !is_utf8(bytes)) return nullptr;
  WordPiece parts{.pieces = vocabulary_lines(bytes)};
  // Earlier versions rejected duplicate lines, and used all others as they are.
  std::vector<std::string> sorted = parts.pieces;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) parts.pieces = read_vocab_txt(bytes).pieces;
  if (std::ranges::find(parts.pieces, parts.unknown) == parts.pieces.end()) return nullptr;
  parts.lowercase = !has_capitals_anywhere(parts.pieces);
  parts.strip_accents = parts.lowercase;
  return make_wordpiece(std::move(parts), name);
}

}  // namespace comera::data
