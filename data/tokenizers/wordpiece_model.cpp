#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "data/tokenizers/piece_model.h"
#include "data/tokenizers/unicode_tables.h"
#include "data/tokenizers/utf8.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

constexpr std::int64_t longest_word = 100;  // characters; longer ones are unknown

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && kind_of(static_cast<char>(c)) == punctuation;
  return within(punctuation_characters(), c);
}

bool is_ideograph(char32_t c) {
  return (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2CEAF) || (c >= 0x2F800 && c <= 0x2FA1F);
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

// Calls visit with what a character becomes in lower case and without accents.
template <class Visit>
void fold(char32_t c, Visit&& visit) {
  if (c < 0x80) return visit(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  if (c >= 0xAC00 && c <= 0xD7A3) {  // a Hangul syllable: its jamo
    const char32_t index = c - 0xAC00;
    visit(0x1100 + index / 588);
    visit(0x1161 + index % 588 / 28);
    if (index % 28 != 0) visit(0x11A7 + index % 28);
    return;
  }
  const std::span<const Fold> folds = case_and_accent_folds();
  const auto found = std::lower_bound(folds.begin(), folds.end(), c,
                                      [](const Fold& entry, char32_t value) { return entry.from < value; });
  if (found != folds.end() && found->from == c) {
    for (const char32_t to : found->to)
      if (to != 0) visit(to);
  } else if (!within(mark_characters(), c)) {
    visit(c);
  }
}

class WordPieceModel final : public PieceModel {
 public:
  WordPieceModel(std::vector<std::string> pieces, const std::string& name) : pieces_(std::move(pieces)) {
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      const std::string& piece = pieces_[id];
      const bool fresh = ids_.emplace(piece, static_cast<std::int32_t>(id)).second;
      COMERA_CHECK(fresh, "{}: the piece '{}' stands in it twice, again in line {}", name, piece, id + 1);
      if (is_control(static_cast<std::int32_t>(id))) continue;
      lowers_ = lowers_ && std::ranges::none_of(piece, [](char c) { return c >= 'A' && c <= 'Z'; });
      longest_piece_ = std::max(longest_piece_, piece.size());
    }
    unknown_ = find("[UNK]");
  }

  std::int32_t size() const override { return static_cast<std::int32_t>(pieces_.size()); }
  std::int32_t unknown() const override { return unknown_; }
  std::int32_t find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string piece(std::int32_t id) const override { return pieces_[static_cast<std::size_t>(id)]; }
  // Brackets are split off words, so that no text gives such a piece.
  bool is_control(std::int32_t id) const override {
    const std::string& piece = pieces_[static_cast<std::size_t>(id)];
    return piece.size() > 2 && piece.front() == '[' && piece.back() == ']';
  }

  // A piece that does not continue a word begins one, whatever comes before it.
  PieceText text(std::int32_t id) const override {
    if (is_control(id)) return {};
    const std::string piece = this->piece(id);
    if (continues_word(piece)) return {.bytes = piece.substr(2), .inside_word = true};
    return {.bytes = " " + piece};
  }

  // Words end at white space and punctuation, ASCII's at least.
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

  // What touches the piece before it goes on with its word.
  void encode_between(std::string_view part, bool piece_before, bool /*piece_behind*/,
                      std::vector<std::int32_t>& ids) const override {
    encode_words(part, piece_before, ids);
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      const std::string& piece = pieces_[static_cast<std::size_t>(id)];
      const bool joined = continues_word(piece);
      if (!joined && !text.empty()) text += ' ';
      text += joined ? piece.substr(2) : piece;
    }
    return text;
  }

  nlohmann::ordered_json tokenizer_json() const override {
    return {{"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", true},
              {"handle_chinese_chars", true},
              {"strip_accents", nullptr},
              {"lowercase", lowers_}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", "[UNK]"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", longest_word},
              {"vocab", ids_by_piece(pieces_)}}},
            {"added_tokens", nlohmann::ordered_json::array()}};
  }

 private:
  // continues: the first word, if the part begins with it, goes on with one before it.
  void encode_words(std::string_view part, bool continues, std::vector<std::int32_t>& ids) const {
    std::string word;
    std::int64_t length = 0;  // characters of word
    const auto flush = [&] {
      if (length > 0) encode_word(word, length, continues, ids);
      word.clear();
      length = 0;
      continues = false;
    };
    const auto add = [&](char32_t c) {
      const bool alone = is_punctuation(c);
      if (alone) flush();
      append(word, c);
      ++length;
      if (alone) flush();
    };
    for (std::size_t at = 0; at < part.size();) {
      const char32_t c = next_character(part, at);
      if (c >= 0x80 || c < ' ' || c == 0x7F) {
        if (c == 0 || c == 0xFFFD || within(control_characters(), c)) continue;
        if (within(space_characters(), c)) {
          flush();
          continue;
        }
      } else if (c == ' ') {
        flush();
        continue;
      }
      const bool alone = is_ideograph(c);
      if (alone) flush();
      if (lowers_)
        fold(c, add);
      else
        add(c);
      if (alone) flush();
    }
    flush();
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  static bool continues_word(std::string_view piece) { return piece.size() > 2 && piece.starts_with("##"); }

  // The longest piece that the rest begins with, again and again; one unknown piece if there is none.
  void encode_word(const std::string& word, std::int64_t length, bool continues,
                   std::vector<std::int32_t>& ids) const {
    const std::size_t before = ids.size();
    std::string candidate;
    std::size_t begin = 0;
    while (begin < word.size() && length <= longest_word) {
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

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::size_t longest_piece_ = 1;
  std::int32_t unknown_ = -1;
  bool lowers_ = true;
};

}  // namespace

std::unique_ptr<PieceModel> open_wordpiece(const std::string& bytes, const std::string& name) {
  if (bytes.find('\0') != std::string::npos || !is_utf8(bytes)) return nullptr;
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
    std::string line = bytes.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    pieces.push_back(std::move(line));
    begin = end + 1;
  }
  if (std::ranges::find(pieces, "[UNK]") == pieces.end()) return nullptr;
  return std::make_unique<WordPieceModel>(std::move(pieces), name);
}

}  // namespace comera::data
