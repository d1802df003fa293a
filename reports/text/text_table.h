#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace comera {

// The columns of a terminal that tables fit.
constexpr std::size_t terminal_columns = 80;

// Columns as wide as their content, two spaces apart. A table that is wider than the terminal puts the
// columns that do not fit into further lines of each row, indented by four.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : right_(titles.size(), false) {
    rows_.push_back(std::move(titles));
  }
  void align_right(std::size_t first) {
    std::fill(right_.begin() + static_cast<long>(first), right_.end(), true);
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const;
  // Whether each row is one line.
  bool fits() const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters, not bytes, of a text in UTF-8.
std::size_t columns_of(const std::string& text);

}  // namespace comera
