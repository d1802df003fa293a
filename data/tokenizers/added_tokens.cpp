#include "data/tokenizers/added_tokens.h"

#include <algorithm>

#include "data/tokenizers/text/unicode_tables.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

bool is_word_text(char32_t c) { return within(word_characters(), c); }

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_text(last_character(text.substr(0, begin)))) return false;
  return end == text.size() || !is_word_text(next_character(text, end));
}

std::size_t begin_of_spaces(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::string_view before = text.substr(0, end);
    if (!within(space_characters(), last_character(before))) break;
    do --end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  }
  return end;
}

std::size_t end_of_spaces(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!within(space_characters(), next_character(text, next))) break;
    begin = next;
  }
  return begin;
}

}  // namespace

void TokenFinder::add(const AddedToken& token, std::string text) {
  if (text.empty()) return;
  const auto place = std::ranges::lower_bound(patterns_, text, {}, &Pattern::text);
  if (place != patterns_.end() && place->text == text) return;
  const auto first = static_cast<unsigned char>(text[0]);
  patterns_.insert(place, {std::move(text), token});
  for (std::size_t byte = first + 1; byte < first_byte_.size(); ++byte) ++first_byte_[byte];
}

const TokenFinder::Pattern* TokenFinder::longest_at(std::string_view text) const {
  const auto first = static_cast<unsigned char>(text[0]);
  std::size_t low = first_byte_[first], high = first_byte_[first + 1];
  const Pattern* found = nullptr;
  // patterns_[low, high) share the first `length` bytes with the text.
  for (std::size_t length = 1; low < high; ++length) {
    if (patterns_[low].text.size() == length) found = &patterns_[low++];
    if (length == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[length]);
    const auto at = [&](const Pattern& pattern) { return static_cast<unsigned char>(pattern.text[length]); };
    const auto begin = patterns_.begin() + static_cast<std::ptrdiff_t>(low);
    const auto end = patterns_.begin() + static_cast<std::ptrdiff_t>(high);
    low = static_cast<std::size_t>(std::ranges::lower_bound(begin, end, byte, {}, at) - patterns_.begin());
    high = static_cast<std::size_t>(std::ranges::upper_bound(begin, end, byte, {}, at) - patterns_.begin());
  }
  return found;
}

TokenFinder::Match TokenFinder::find(std::string_view text, std::size_t from, std::size_t done) const {
  while (from < text.size()) {
    const Pattern* pattern = longest_at(text.substr(from));
    if (pattern == nullptr) {
      ++from;
      continue;
    }
    const AddedToken& token = pattern->token;
    Match match{&token, from, from + pattern->text.size(), from + pattern->text.size()};
    from = match.next;
    if (token.single_word && !stands_alone(text, match.begin, match.end)) continue;
    if (token.lstrip) match.begin = std::max(begin_of_spaces(text, match.begin), done);
    if (token.rstrip) match.end = end_of_spaces(text, match.end);
    return match;
  }
  return {};
}

}  // namespace comera::data
