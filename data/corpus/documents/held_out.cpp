#include "data/corpus/documents/held_out.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace comera::data {

namespace {

constexpr std::int64_t most_waiting_bytes = std::int64_t{16} << 20;
constexpr double smallest_end = 0.1;  // of a document that is divided
constexpr std::size_t shortest_without_spaces = 1024;

// Where the last `share` of a text begins: with a line, else with a word, else with a character; 0 if it is
// one word.
std::size_t begin_of_end(const std::string& text, double share) {
  const auto place = static_cast<std::size_t>((1 - share) * static_cast<double>(text.size()));
  const std::size_t line = text.find('\n', place);
  if (line != std::string::npos && line + 1 < text.size()) return line + 1;
  const std::size_t space = text.find_last_of(" \t\n", place);
  const bool near = space != std::string::npos && place - space <= text.size() / 10;
  if (near || text.size() < shortest_without_spaces) return space == std::string::npos ? 0 : space + 1;
  std::size_t at = place;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

bool WithHeldOut::read(Document& document) {
  document.held_out.reset();
  if (!source_.next(document)) return false;
  source_decides_ = document.held_out.has_value();
  if (!source_decides_) document.held_out = is_held_out(document.hash, fraction_);
  return true;
}

// Until there is one of both parts.
void WithHeldOut::wait_for_both() {
  std::int64_t bytes = 0;
  bool held_out = false, training = false;
  while (bytes < most_waiting_bytes) {
    Document document;
    if (!read(document)) return choose_one();
    bytes += static_cast<std::int64_t>(document.text.size());
    (*document.held_out ? held_out : training) = true;
    waiting_.push_back(std::move(document));
    if ((held_out && training) || source_decides_) return;
  }
  choose_one();
}

void WithHeldOut::choose_one() {
  const auto chosen =
      std::ranges::min_element(waiting_, {}, [](const Document& document) { return document.hash.high; });
  if (chosen == waiting_.end()) return;
  std::size_t bytes = 0;
  for (Document& document : waiting_) {
    bytes += document.text.size();
    document.held_out = false;
  }
  if (10 * chosen->text.size() <= bytes) {
    chosen->held_out = true;
    return;
  }
  const std::size_t end = begin_of_end(chosen->text, std::max(fraction_, smallest_end));
  if (end == 0) {  // not divided; not held out if it is all there is
    chosen->held_out = waiting_.size() > 1;
    return;
  }
  Document held_out = *chosen;
  held_out.held_out = true;
  held_out.text.erase(0, end);
  held_out.hash = storage::hash128(held_out.text);
  chosen->text.resize(end);
  chosen->hash = storage::hash128(chosen->text);
  waiting_.insert(std::next(chosen), std::move(held_out));
}

bool WithHeldOut::next(Document& document) {
  if (!std::exchange(begun_, true) && fraction_ > 0) wait_for_both();
  if (waiting_.empty()) return read(document);
  document = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

}  // namespace comera::data
