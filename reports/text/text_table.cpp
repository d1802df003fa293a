#include "reports/text/text_table.h"

namespace comera {

namespace {

constexpr std::size_t gap = 2, indent = 4;

std::string without_spaces_at_end(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

// For each column, whether it begins a further line of its row.
std::vector<bool> folds_of(const std::vector<std::size_t>& widths) {
  std::vector<bool> folds(widths.size(), false);
  std::size_t at = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::size_t end = at + (at == 0 ? 0 : gap) + widths[i];
    folds[i] = i > 0 && end > terminal_columns;
    at = folds[i] ? indent + widths[i] : end;
  }
  return folds;
}

}  // namespace

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  return widths;
}

bool TextTable::fits() const { return std::ranges::count(folds_of(widths()), true) == 0; }

std::string TextTable::text() const {
  const std::vector<std::size_t> widths = this->widths();
  const std::vector<bool> folds = folds_of(widths);
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (folds[i]) {
        text += without_spaces_at_end(line) + "\n";
        line = std::string(indent, ' ');
      } else if (i > 0) {
        line += std::string(gap, ' ');
      }
      const std::string padding(widths[i] - columns_of(row[i]), ' ');
      line += right_[i] ? padding + row[i] : row[i] + padding;
    }
    if (line = without_spaces_at_end(line); !line.empty() || row.size() == 1) text += line + "\n";
  }
  return text;
}

}  // namespace comera
