#pragma once

#include <cstdint>
#include <vector>

namespace comera {

// A linear of (tokens, inputs) to (tokens, outputs): by a whole matrix W, or, with a rank, by the merged
// halves A (inputs, rank) and B (rank, outputs) of a tensor train.
struct LinearSize {
  std::int64_t tokens = 0, inputs = 0, outputs = 0;
  std::int64_t rank = 0;  // 0: a whole matrix
};

// Normal numbers of the sizes that they have in training: gradients are far smaller than what is multiplied
// forwards.
struct LinearData {
  explicit LinearData(const LinearSize& size);
  void draw(std::uint64_t seed);

  LinearSize size;
  std::vector<float> x, dy;  // (tokens, inputs), (tokens, outputs)
  std::vector<float> w;      // (inputs, outputs), without a rank
  std::vector<float> a, b;   // (inputs, rank), (rank, outputs), with one
};

// A part of a matrix: these rows, and of them these columns.
struct Block {
  std::vector<std::int64_t> rows, columns;
};

// What a linear and its backward pass give, at the blocks of a LinearSample.
struct LinearValues {
  std::vector<double> y, dx;
  std::vector<std::vector<double>> weights;  // of W, or of A and B
};

// Evenly spread over the tokens, inputs and outputs, as many of each at most.
struct LinearSample {
  LinearSample(const LinearSize& size, std::int64_t most);
  Block y, dx;
  std::vector<Block> weights;
};

// In double precision, of the numbers as they are in `data`.
LinearValues exact_values(const LinearData& data, const LinearSample& sample);

// ‖a - b‖ / ‖b‖
double relative_norm(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace comera
