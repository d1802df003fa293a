#pragma once

#include <cstdint>
#include <vector>

namespace comera::data {

// A block of encoded examples, row by row: example i has numbers [i * columns, (i + 1) * columns) and one id
// of each table.
struct ClickExamples {
  std::vector<float> labels;          // 0 or 1
  std::vector<float> dense_features;  // count x numeric columns
  std::vector<std::int32_t> ids;      // count x tables

  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  void resize(std::int64_t count, std::int64_t numeric_columns, std::int64_t tables) {
    labels.resize(static_cast<std::size_t>(count));
    dense_features.resize(static_cast<std::size_t>(count * numeric_columns));
    ids.resize(static_cast<std::size_t>(count * tables));
  }
};

}  // namespace comera::data
