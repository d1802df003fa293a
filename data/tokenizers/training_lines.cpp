#include "data/tokenizers/training_lines.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>

#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

// SentencePiece's replacements for spaces and for rare characters.
constexpr std::string_view lower_eighth_block = "\xE2\x96\x81", lower_five_eighths_block = "\xE2\x96\x85";

bool is_reserved(std::string_view text) {
  return text.starts_with(lower_eighth_block) || text.starts_with(lower_five_eighths_block);
}

// The end of the first part of `line`, which is too long.
std::size_t cut_of(std::string_view line) {
  for (std::size_t at = TrainingLines::longest_line; at > 0; --at)
    if (line[at] == ' ' && line[at - 1] != ' ') return at;
  std::size_t at = TrainingLines::longest_line;
  while (continues_character(line[at])) --at;
  return at;
}

// Bytes of the special piece's name, such as [CLS] or <0x0A>, that the text begins with; 0 if there is none.
// SentencePiece excludes these from training.
std::size_t special_name(std::string_view text) {
  static constexpr std::array<std::string_view, 5> names = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (const std::string_view name : names)
    if (text.starts_with(name)) return name.size();
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  const bool byte =
      text.size() >= 6 && text.starts_with("<0x") && is_digit(text[3]) && is_digit(text[4]) && text[5] == '>';
  return byte ? 6 : 0;
}

class CharacterCounter {
 public:
  void add(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) at += take(text.substr(at));
  }

  TrainingCharacters counts(double coverage) {
    std::vector<std::int64_t> counts;
    for (const std::int64_t count : ascii_)
      if (count > 0) counts.push_back(count);
    for (const auto& [character, count] : others_) counts.push_back(count);
    std::ranges::sort(counts, std::greater());
    found_.kinds = kinds(counts, coverage);
    found_.fewest_kinds = kinds(counts, lowest_coverage);
    return found_;
  }

 private:
  // Decided exactly as in SentencePiece. counts: descending.
  static std::int64_t kinds(const std::vector<std::int64_t>& counts, double coverage) {
    std::int64_t all = 0, covered = 0, found = 0;
    for (const std::int64_t count : counts) all += count;
    for (const std::int64_t count : counts) {
      const auto share = static_cast<float>(1.0 * static_cast<double>(covered) / static_cast<double>(all));
      if (share >= static_cast<float>(coverage)) break;
      covered += count;
      ++found;
    }
    return found;
  }

  // Bytes of the next character, or of a dropped part.
  std::size_t take(std::string_view text) {
    const char c = text.front();
    if (c == '[' || c == '<')
      if (const std::size_t size = special_name(text); size > 0) {
        found_.left_out["names of special tokens such as [MASK]"].add(static_cast<std::int64_t>(size));
        return size;
      }
    std::size_t size = 1;
    while (size < text.size() && continues_character(text[size])) ++size;
    if (is_reserved(text)) {
      found_.left_out["U+2581 or U+2585"].add(static_cast<std::int64_t>(size));
      return size;
    }
    found_.learned += static_cast<std::int64_t>(size);
    if (c == '\n' || c == '\t') return size;  // always pieces
    if (size == 1)
      ++ascii_[static_cast<unsigned char>(c)];
    else
      ++others_[std::string(text.substr(0, size))];
    return size;
  }

  std::array<std::int64_t, 256> ascii_{};
  std::unordered_map<std::string, std::int64_t> others_;
  TrainingCharacters found_;
};

}  // namespace

TrainingCharacters count_characters(const std::map<storage::Hash128, std::string>& documents,
                                    double coverage) {
  CharacterCounter counter;
  for (const auto& [hash, text] : documents) counter.add(text);
  return counter.counts(coverage);
}

TrainingLines::TrainingLines(std::map<storage::Hash128, std::string> documents)
    : documents_(std::move(documents)) {
  Next();
}

void TrainingLines::Next() {
  for (line_.clear(); line_.empty();) {
    if (documents_.empty()) {
      done_ = true;
      return;
    }
    const std::string& text = documents_.begin()->second;
    std::string_view line = std::string_view(text).substr(at_, longest_line + 1);
    std::size_t separator = 0;
    if (const std::size_t end = line.find('\n'); end != std::string_view::npos) {
      line = line.substr(0, end);
      separator = 1;
    }
    for (std::size_t at = line.find('\xE2'); at != std::string_view::npos; at = line.find('\xE2', at + 1))
      if (is_reserved(std::string_view(text).substr(at_ + at))) {
        line = line.substr(0, at);
        separator = 3;
        break;
      }
    if (line.size() > longest_line) line = line.substr(0, cut_of(line));
    line_ = line;
    at_ += line.size() + separator;
    if (at_ >= text.size()) {
      documents_.erase(documents_.begin());
      at_ = 0;
    }
  }
}

}  // namespace comera::data
