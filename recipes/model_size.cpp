#include "recipes/model_size.h"

#include <algorithm>

#include "kernels/core/check.h"

namespace comera {

namespace {

// Rows for a vocabulary: two equal modes, a multiple of 8, and a first one that is not larger.
std::vector<std::int64_t> row_modes(std::int64_t vocabulary) {
  for (std::int64_t mode = 8;; mode += 8)
    if (const std::int64_t first = (vocabulary + mode * mode - 1) / (mode * mode); first <= mode)
      return {first, mode, mode};
}

}  // namespace

void set_size(Recipe& recipe, const ModelSize& size, std::int64_t vocabulary) {
  COMERA_CHECK(size.layers > 0 && size.hidden > 0 && size.hidden % 64 == 0 && vocabulary > 0,
               "an encoder of {} layers of width {} for {} tokens: layers and tokens must be positive, and "
               "the width a multiple of 64",
               size.layers, size.hidden, vocabulary);
  std::int64_t small = 1;  // the largest divisor up to the root
  for (std::int64_t mode = 1; mode * mode <= size.hidden; ++mode)
    if (size.hidden % mode == 0) small = mode;
  const std::int64_t large = size.hidden / small;
  COMERA_CHECK(size.rank > 0 && size.rank <= size.hidden,
               "a rank of {} in an encoder of width {}: at most {} is possible", size.rank, size.hidden,
               size.hidden);

  recipe.model.layers = size.layers;
  recipe.model.hidden = size.hidden;
  recipe.model.embedding_size = 0;
  recipe.model.heads = size.hidden / 64;
  recipe.model.ffn = 4 * size.hidden;
  recipe.model.vocabulary = vocabulary;

  const auto set = [](std::optional<TTShape>& kind, TTShape shape) {
    shape.diagonal = kind && kind->diagonal;
    kind = std::move(shape);
  };
  const TTShape square{{small, large}, {large, small}, {small, size.rank, small}};
  TensorizedSection& trains = recipe.tensorized;
  set(trains.attention, square);
  set(trains.head, square);
  set(trains.ffn_up, {{small, large}, {2 * large, 2 * small}, {small, size.rank, 2 * small}});
  set(trains.ffn_down, {{2 * small, 2 * large}, {large, small}, {2 * small, size.rank, small}});
  const bool projection = trains.embedding && trains.embedding->projection;  // from half of the width
  std::int64_t frequent = trains.embedding ? trains.embedding->frequent_rows : 0;
  if (frequent >= vocabulary) frequent = vocabulary / 2;
  const std::vector<std::int64_t> rows = row_modes(vocabulary),
                                  columns = {size.hidden / 64, 8, projection ? 4 : 8};
  const auto bond = [&](std::size_t k) {
    std::int64_t left = 1, right = 1;
    for (std::size_t i = 0; i < rows.size(); ++i) (i < k ? left : right) *= rows[i] * columns[i];
    return std::min({size.rank, left, right});
  };
  trains.embedding = {rows, columns, {bond(1), bond(2)}, projection, frequent};
}

}  // namespace comera
