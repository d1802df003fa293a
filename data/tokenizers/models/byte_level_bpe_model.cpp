#include "data/tokenizers/models/byte_level_bpe.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <unordered_map>

#include "data/tokenizers/text/unicode_tables.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"

namespace comera::data {

namespace {

enum class CharacterClass : std::uint8_t { letter, number, space, rest };

CharacterClass kind_of_character(char32_t c) {
  if (c < 0x80) {
    if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z')) return CharacterClass::letter;
    if (c >= U'0' && c <= U'9') return CharacterClass::number;
    return is_space_character(c) ? CharacterClass::space : CharacterClass::rest;
  }
  return is_space_character(c)            ? CharacterClass::space
         : within(letter_characters(), c) ? CharacterClass::letter
         : within(number_characters(), c) ? CharacterClass::number
                                          : CharacterClass::rest;
}

// The end of the run of characters of one kind that begins at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    std::size_t next = at;
    if (kind_of_character(next_character(text, next)) != kind) break;
    at = next;
  }
  return at;
}

std::size_t length_of_contraction(std::string_view text) {
  for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(contraction)) return contraction.size();
  return 0;
}

std::size_t end_of_part(std::string_view text, std::size_t at) {
  if (const std::size_t length = length_of_contraction(text.substr(at))) return at + length;
  const std::size_t begin = text[at] == ' ' ? at + 1 : at;
  if (begin < text.size()) {
    std::size_t next = begin;
    const CharacterClass kind = kind_of_character(next_character(text, next));
    if (kind != CharacterClass::space) return end_of_run(text, next, kind);
  }
  const std::size_t end = end_of_run(text, at, CharacterClass::space);
  if (end == text.size()) return end;
  // The last space belongs to the following part, or is a separate part.
  std::size_t last = end - 1;
  while (last > at && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
  return last > at ? last : end;
}

// The printable characters that represent the 256 bytes, and back.
class ByteCharacters {
 public:
  ByteCharacters() {
    char32_t other = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t c = printable ? static_cast<char32_t>(byte) : other++;
      bytes_[c] = static_cast<char>(byte);
      std::string& text = characters_[static_cast<std::size_t>(byte)];
      if (c < 0x80) {
        text = static_cast<char>(c);
      } else {  // all are below U+0800
        text = {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))};
      }
    }
  }
  const std::string& of(char byte) const { return characters_[static_cast<unsigned char>(byte)]; }
  // Nothing if a character does not represent a byte.
  std::optional<std::string> bytes_of(std::string_view piece) const {
    std::string bytes;
    for (std::size_t at = 0; at < piece.size();) {
      const auto found = bytes_.find(next_character(piece, at));
      if (found == bytes_.end()) return std::nullopt;
      bytes += found->second;
    }
    return bytes;
  }

 private:
  std::array<std::string, 256> characters_;
  std::unordered_map<char32_t, char> bytes_;
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters characters;
  return characters;
}

class ByteLevelBpeModel final : public PieceModel {
 public:
  ByteLevelBpeModel(ByteLevelBpe parts, const std::string& name) : parts_(std::move(parts)) {
    for (std::size_t id = 0; id < parts_.pieces.size(); ++id)
      COMERA_CHECK(
          parts_.pieces[id].empty() || ids_.emplace(parts_.pieces[id], static_cast<std::int32_t>(id)).second,
          "{}: has the piece '{}' twice", name, parts_.pieces[id]);
    for (std::size_t rank = 0; rank < parts_.merges.size(); ++rank) {
      const auto& [left, right] = parts_.merges[rank];
      const std::int32_t a = find(left), b = find(right), joined = find(left + right);
      COMERA_CHECK(a >= 0 && b >= 0 && joined >= 0, "{}: merges '{}' and '{}', which are not pieces", name,
                   left, right);
      merges_.insert_or_assign(key(a, b), Merge{static_cast<std::int32_t>(rank), joined});
      parts_.special[static_cast<std::size_t>(joined)] = false;  // text may produce it
    }
    for (int byte = 0; byte < 256; ++byte) {
      const std::int32_t id = find(byte_characters().of(static_cast<char>(byte)));
      bytes_[static_cast<std::size_t>(byte)] = id;
      if (id >= 0) parts_.special[static_cast<std::size_t>(id)] = false;
    }
    unknown_ = parts_.unknown.empty() ? -1 : find(parts_.unknown);
  }

  std::int32_t size() const override { return static_cast<std::int32_t>(parts_.pieces.size()); }
  std::int32_t unknown() const override { return unknown_; }
  std::int32_t find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string piece(std::int32_t id) const override { return parts_.pieces[static_cast<std::size_t>(id)]; }
  bool is_control(std::int32_t id) const override {
    const auto place = static_cast<std::size_t>(id);
    return parts_.special[place] || parts_.pieces[place].empty();
  }

  PieceText text(std::int32_t id) const override {
    if (is_control(id)) return {};
    PieceText text{.bytes = byte_characters().bytes_of(piece(id)).value_or("")};
    text.byte = !is_utf8(text.bytes);
    return text;
  }

  // White space is split depending on what follows it, and an apostrophe belongs to some letters.
  Cuts cuts() const override {
    Cuts cuts{};
    if (parts_.add_prefix_space) return cuts;
    for (const CharacterKind before : {letter, digit, punctuation}) {
      for (const CharacterKind behind : {space, line_end, tab}) cuts[before][behind] = true;
      for (const CharacterKind behind : {letter, digit, punctuation})
        cuts[before][behind] = before != behind && !(before == punctuation && behind == letter);
    }
    return cuts;
  }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    encode_between(text, false, false, ids);
  }

  // A letter replaces a piece that is not given, so that the regular expression splits text as it does beside
  // a word. Nothing is merged across the edge.
  void encode_between(std::string_view part, bool piece_before, bool piece_behind,
                      std::vector<std::int32_t>& ids) const override {
    constexpr char stranger = 'z';  // occurs in no contraction
    std::string text(part);
    if (piece_before)
      text.insert(text.begin(), stranger);
    else if (parts_.add_prefix_space && !part.empty() && part[0] != ' ')
      text.insert(text.begin(), ' ');
    if (piece_behind) text += stranger;
    std::vector<std::string_view> parts = split_as_gpt2(text);
    if (piece_before) parts.front().remove_prefix(1);
    if (piece_behind) parts.back().remove_suffix(1);
    for (const std::string_view each : parts) encode_part(each, ids);
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += byte_characters().bytes_of(piece(id)).value_or(piece(id));
    return text;
  }

  nlohmann::ordered_json tokenizer_json() const override {
    nlohmann::ordered_json merges = nlohmann::ordered_json::array();
    // As one text, which versions of tokenizers before 0.20 read as well: pieces contain no spaces.
    for (const auto& [left, right] : parts_.merges) merges.push_back(left + " " + right);
    const nlohmann::ordered_json level = {{"type", "ByteLevel"},
                                          {"add_prefix_space", parts_.add_prefix_space},
                                          {"trim_offsets", true},
                                          {"use_regex", true}};
    nlohmann::ordered_json model = {{"type", "BPE"},
                                    {"dropout", nullptr},
                                    {"unk_token", nullptr},
                                    {"continuing_subword_prefix", ""},
                                    {"end_of_word_suffix", ""},
                                    {"fuse_unk", false},
                                    {"byte_fallback", false},
                                    {"ignore_merges", false},
                                    {"vocab", ids_by_piece(parts_.pieces)},
                                    {"merges", merges}};
    if (unknown_ >= 0) model["unk_token"] = parts_.unknown;
    return {{"normalizer", nullptr},
            {"pre_tokenizer", level},
            {"decoder", level},
            {"model", model},
            {"added_tokens", nlohmann::ordered_json::array()}};
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Merge {
    std::int32_t rank = 0, joined = 0;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  // A symbol of a part, in a list; a symbol merged into the previous one has the id -1.
  struct Symbol {
    std::int32_t id = -1;
    std::int32_t before = -1, behind = -1;
  };
  // Two neighbours that can be merged: in the order of merges, the leftmost first.
  struct Candidate {
    std::int32_t rank, at, left, right, joined;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  void encode_part(std::string_view part, std::vector<std::int32_t>& ids) const {
    std::vector<Symbol> symbols;
    for (const char byte : part) {
      const std::int32_t id = bytes_[static_cast<unsigned char>(byte)];
      if (id < 0 && unknown_ < 0) continue;
      const auto at = static_cast<std::int32_t>(symbols.size());
      symbols.push_back({id < 0 ? unknown_ : id, at - 1, at + 1});
    }
    if (symbols.empty()) return;
    symbols.back().behind = -1;
    std::priority_queue<Candidate> candidates;
    const auto consider = [&](std::int32_t at) {
      if (at < 0 || symbols[static_cast<std::size_t>(at)].behind < 0) return;
      const Symbol& symbol = symbols[static_cast<std::size_t>(at)];
      const std::int32_t right = symbols[static_cast<std::size_t>(symbol.behind)].id;
      const auto found = merges_.find(key(symbol.id, right));
      if (found != merges_.end())
        candidates.push({found->second.rank, at, symbol.id, right, found->second.joined});
    };
    for (std::int32_t at = 0; at < std::ssize(symbols); ++at) consider(at);
    while (!candidates.empty()) {
      const Candidate best = candidates.top();
      candidates.pop();
      Symbol& symbol = symbols[static_cast<std::size_t>(best.at)];
      if (symbol.id != best.left || symbol.behind < 0) continue;  // one of them has been merged since
      Symbol& next = symbols[static_cast<std::size_t>(symbol.behind)];
      if (next.id != best.right) continue;
      symbol.id = best.joined;
      symbol.behind = next.behind;
      next.id = -1;
      if (next.behind >= 0) symbols[static_cast<std::size_t>(next.behind)].before = best.at;
      consider(symbol.before);
      consider(best.at);
    }
    for (std::int32_t at = 0; at >= 0; at = symbols[static_cast<std::size_t>(at)].behind)
      ids.push_back(symbols[static_cast<std::size_t>(at)].id);
  }

  ByteLevelBpe parts_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::array<std::int32_t, 256> bytes_{};
  std::int32_t unknown_ = -1;
};

}  // namespace

std::vector<std::string_view> split_as_gpt2(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_part(text, at);
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

std::unique_ptr<PieceModel> make_byte_level_bpe(ByteLevelBpe parts, const std::string& name) {
  return std::make_unique<ByteLevelBpeModel>(std::move(parts), name);
}

}  // namespace comera::data
