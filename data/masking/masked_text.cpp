#include "data/masking/masked_text.h"

#include <algorithm>

#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

bool ends_with_space(std::string_view text) {
  return !text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos;
}

}  // namespace

MaskedTextReader::MaskedTextReader(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), own_mark_(tokenizer.piece(tokenizer.special().mask)) {
  for (std::int32_t id = 0; id < tokenizer.vocabulary() && !words_have_spaces_; ++id) {
    const PieceText piece = tokenizer.text(id);
    words_have_spaces_ = piece.bytes.size() > 1 && piece.bytes.starts_with(' ') && piece.bytes[1] != ' ';
  }
}

MaskedTextReader::Mark MaskedTextReader::next_mark(std::string_view text) const {
  const std::size_t usual = text.find(MaskedText::mark), own = text.find(own_mark_);
  if (own < usual) return {own, own_mark_.size()};
  return {usual, MaskedText::mark.size()};
}

MaskedText MaskedTextReader::read(std::string_view text) const {
  MaskedText masked;
  masked.ids.push_back(tokenizer_.special().cls);
  for (bool more = true; more;) {
    const auto [at, size] = next_mark(text);
    const std::string_view part = text.substr(0, at);
    more = at != std::string_view::npos;
    std::vector<std::int32_t> ids = tokenizer_.encode_between(part, !masked.parts.empty(), more);
    masked.parts.emplace_back(part);
    if (more) {
      const bool takes = words_have_spaces_ && part.ends_with(' ') && !ids.empty() &&
                         tokenizer_.text(ids.back()).bytes == " ";
      if (takes) ids.pop_back();
      masked.takes_space.push_back(takes);
      text.remove_prefix(at + size);
    }
    masked.ids.insert(masked.ids.end(), ids.begin(), ids.end());
    if (!more) continue;
    masked.positions.push_back(static_cast<std::int32_t>(masked.ids.size()));
    masked.ids.push_back(tokenizer_.special().mask);
  }
  masked.ids.push_back(tokenizer_.special().separator);
  return masked;
}

Reading MaskedTextReader::unfilled(const MaskedText& text, std::size_t mark) const {
  Reading reading{.before = text.parts[0], .filling = std::string(MaskedText::mark), .behind = {}};
  for (std::size_t i = 1; i < text.parts.size(); ++i) {
    std::string& side = i <= mark ? reading.before : reading.behind;
    if (i != mark + 1) side += MaskedText::mark;
    side += text.parts[i];
  }
  return reading;
}

Reading MaskedTextReader::filled(const MaskedText& text, std::size_t mark, std::int32_t id) const {
  Reading reading = unfilled(text, mark);
  std::string& before = reading.before;
  if (text.takes_space[mark]) before.pop_back();
  const PieceText piece = tokenizer_.text(id);
  const bool readable =
      !piece.bytes.empty() && is_utf8(piece.bytes) && (!piece.byte || kind_of(piece.bytes[0]) != other);
  reading.filling = readable ? piece.bytes : tokenizer_.piece(id);
  if (piece.inside_word)
    while (ends_with_space(before)) before.pop_back();
  // Such a tokenizer reads several spaces as one, and ignores one at the beginning of a text.
  const bool spare = before.empty() || ends_with_space(before);
  if (!tokenizer_.restores_text() && spare && reading.filling.size() > 1 && reading.filling[0] == ' ')
    reading.filling.erase(0, 1);
  return reading;
}

}  // namespace comera::data
