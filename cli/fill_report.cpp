#include "cli/fill_report.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "data/tokenizers/text/utf8.h"
#include "kernels/core/grouped.h"

namespace comera::cli {

namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The character at the beginning, or one byte if there is none.
std::string_view first_character(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length)
    if (data::is_utf8(text.substr(0, length))) return text.substr(0, length);
  return text.substr(0, 1);
}

// On one line, and harmless for a terminal. Invalid bytes are shown as U+FFFD.
std::string visible(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view c = first_character(text);
    const auto byte = static_cast<unsigned char>(c[0]);
    if (c == "\n")
      shown += "\\n";
    else if (c == "\t")
      shown += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      shown += fmt::format("\\x{:02x}", byte);
    else if (c.size() == 2 && byte == 0xc2 && static_cast<unsigned char>(c[1]) < 0xa0)  // C1
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c[1]));
    else
      shown += data::is_utf8(c) ? c : "\xef\xbf\xbd";
    text.remove_prefix(c.size());
  }
  return shown;
}

// A piece as the tokenizer writes it, with control characters escaped.
std::string visible_piece(const data::Tokenizer& tokenizer, std::int32_t id) {
  std::string escaped;
  for (const char c : tokenizer.piece(id)) escaped.append(c == '\\' ? 2 : 1, c);
  return visible(escaped);
}

constexpr std::size_t most_shown = 60;  // bytes on either side of a mark

// The displayed part of the text before a mark: the end of its last line.
std::string end_of(std::string_view text) {
  if (const std::size_t at = text.rfind('\n'); at != std::string_view::npos) text.remove_prefix(at + 1);
  if (text.size() <= most_shown) return visible(text);
  text.remove_prefix(text.size() - most_shown);
  while (!text.empty() && continues_character(text[0])) text.remove_prefix(1);
  return fmt::format("…{}", visible(text));
}

std::string beginning_of(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  if (text.size() <= most_shown) return visible(text);
  std::size_t end = most_shown;
  while (end > 0 && continues_character(text[end])) --end;
  return fmt::format("{}…", visible(text.substr(0, end)));
}

std::string shown_line(const data::Reading& reading) {
  return end_of(reading.before) + visible(reading.filling) + beginning_of(reading.behind);
}

std::size_t width_of(const std::string& text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues_character));
}

}  // namespace

namespace {

// Five columns; small probabilities with a power of ten.
std::string probability_text(double probability) {
  return probability >= 5e-4 ? fmt::format("{:.3f}", probability) : fmt::format("{:.0e}", probability);
}

}  // namespace

std::string FillReport::lines(const std::string& title, const data::MaskedText& text, std::size_t mark,
                              const Answer& answer) const {
  std::string lines = title + shown_line(reader_.unfilled(text, mark)) + "\n";
  if (answer.truth >= 0)
    lines += fmt::format("  hidden: {}, probability {}, guess {}\n", visible_piece(tokenizer_, answer.truth),
                         probability_text(answer.standing.probability), grouped(answer.standing.rank));
  std::size_t width = 0;
  for (const Filling& each : answer.fillings)
    width = std::max(width, width_of(visible_piece(tokenizer_, each.id)));
  for (const Filling& each : answer.fillings) {
    const std::string piece = visible_piece(tokenizer_, each.id);
    lines += fmt::format("  {}  {}{}  {}\n", probability_text(each.probability), piece,
                         std::string(width - width_of(piece), ' '),
                         shown_line(reader_.filled(text, mark, each.id)));
  }
  return lines;
}

Json FillReport::filling(const data::MaskedText& text, std::size_t mark, const Filling& filling) const {
  return {{"piece", tokenizer_.piece(filling.id)},
          {"token", reader_.filled(text, mark, filling.id).filling},
          {"id", filling.id},
          {"probability", filling.probability}};
}

void FillReport::add_to(Json& object, const data::MaskedText& text, std::size_t mark,
                        const Answer& answer) const {
  object["position"] = text.positions[mark];
  object["text"] = reader_.unfilled(text, mark).text();
  if (answer.truth >= 0) {
    object["truth"] = filling(text, mark, {answer.truth, answer.standing.probability});
    object["truth"]["rank"] = answer.standing.rank;
  }
  Json& fillings = object["fillings"] = Json::array();
  for (const Filling& each : answer.fillings) fillings.push_back(filling(text, mark, each));
}

}  // namespace comera::cli
