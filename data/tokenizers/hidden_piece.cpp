#include "data/tokenizers/hidden_piece.h"

#include <algorithm>

#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/text/words.h"
#include "storage/hash.h"

namespace comera::data {

namespace {

constexpr std::string_view blanks = " \t\r\n";

bool is_white(std::string_view text) { return text.find_first_not_of(blanks) == std::string_view::npos; }
bool has_line_end(std::string_view text) { return text.find('\n') != std::string_view::npos; }

bool has_letter(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (is_word_character(c) && c != U'_' && (c < U'0' || c > U'9')) return true;
  }
  return false;
}

// Whether the boundary between two texts is within a word.
bool touch(std::string_view before, std::string_view behind) {
  std::size_t at = 0;
  return !before.empty() && !behind.empty() && is_word_character(last_character(before)) &&
         is_word_character(next_character(behind, at));
}

// The displayed text of a piece; special ones show their names.
std::string shown(const Tokenizer& tokenizer, std::int32_t id) {
  std::string text = tokenizer.text(id).bytes;
  if (text.empty()) text.append(1, ' ').append(tokenizer.piece(id));
  return text;
}

// The line around position `at` of a sequence: the parts before and after it.
MaskedText line_around(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, std::size_t at) {
  std::string before, behind;
  for (std::size_t i = at; i-- > 1;) {
    const std::string piece = shown(tokenizer, ids[i]);
    const std::size_t end = piece.rfind('\n');
    before.insert(0, piece, end == std::string::npos ? 0 : end + 1);
    if (end != std::string::npos) break;
  }
  for (std::size_t i = at + 1; i + 1 < ids.size() && !has_line_end(behind); ++i)
    behind += shown(tokenizer, ids[i]);
  before.erase(0, std::min(before.find_first_not_of(blanks), before.size()));
  behind.resize(std::min(behind.find('\n'), behind.size()));
  return {.parts = {before, behind}, .takes_space = {false}, .ids = {}, .positions = {}};
}

}  // namespace

std::optional<HiddenPiece> hide_piece(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                      std::uint64_t key) {
  const std::size_t count = ids.size();
  std::vector<std::string> texts(count);
  for (std::size_t i = 0; i < count; ++i) texts[i] = tokenizer.text(ids[i]).bytes;
  std::vector<bool> text_before(count), text_behind(count);
  for (std::size_t i = 1; i < count; ++i)
    text_before[i] = !has_line_end(texts[i - 1]) && (text_before[i - 1] || !is_white(texts[i - 1]));
  for (std::size_t i = count; i-- > 1;)
    text_behind[i - 1] = !has_line_end(texts[i]) && (text_behind[i] || !is_white(texts[i]));
  std::vector<std::size_t> words, with_letters, within_line, any;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_white(texts[i]) || has_line_end(texts[i]) || tokenizer.text(ids[i]).byte) continue;
    any.push_back(i);
    if (!text_before[i] || !text_behind[i]) continue;
    within_line.push_back(i);
    if (!has_letter(texts[i])) continue;
    with_letters.push_back(i);
    if (!touch(texts[i - 1], texts[i]) && !touch(texts[i], texts[i + 1])) words.push_back(i);
  }
  const std::vector<std::size_t>* places = &words;
  for (const auto* others : {&with_letters, &within_line, &any})
    if (places->empty()) places = others;
  if (places->empty()) return std::nullopt;
  const std::size_t place = (*places)[storage::mix64(key) % places->size()];
  HiddenPiece hidden{.text = line_around(tokenizer, ids, place), .truth = ids[place]};
  MaskedText& text = hidden.text;
  // As it would be written: a word's one space comes before the mark.
  const std::string& truth = texts[place];
  if (truth.size() > 1 && truth[0] == ' ' && truth[1] != ' ') {
    text.parts[0] += ' ';
    text.takes_space[0] = true;
  }
  text.ids.assign(ids.begin(), ids.end());
  text.ids[place] = tokenizer.special().mask;
  text.positions = {static_cast<std::int32_t>(place)};
  return hidden;
}

}  // namespace comera::data
