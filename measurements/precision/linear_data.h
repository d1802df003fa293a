#pragma once

#include <cstdint>
#include <vector>

namespace comera {

// A linear layer from (tokens, inputs) to (tokens, outputs): with a dense matrix W or, with a rank, with the
// left and right factors A (inputs, rank) and B (rank, outputs) of a tensor train.
struct LinearSize {
  std::int64_t tokens = 0, inputs = 0, outputs = 0;
  std::int64_t rank = 0;  // 0: a dense matrix
};

// Normal numbers with magnitudes as in training: gradients are far smaller than forward operands.
struct LinearData {
  explicit LinearData(const LinearSize& size);
  void draw(std::uint64_t seed);

  LinearSize size;
  std::vector<float> x, dy;  // (tokens, inputs), (tokens, outputs)
  std::vector<float> w;      // (inputs, outputs), without a rank
  std::vector<float> a, b;   // (inputs, rank), (rank, outputs), with one
};

// A part of a matrix: these rows, and of these the given columns.
struct Block {
  std::vector<std::int64_t> rows, columns;
};

// Results of a linear layer and its backward pass, at the blocks of a LinearSample.
struct LinearValues {
  std::vector<double> y, dx;
  std::vector<std::vector<double>> weights;  // of W, or of A and B
};

// Evenly spread over the tokens, inputs and outputs, with a maximum number of each.
struct LinearSample {
  LinearSample(const LinearSize& size, std::int64_t most);
  Block y, dx;
  std::vector<Block> weights;
};

// In double precision, from the values in `data`.
LinearValues exact_values(const LinearData& data, const LinearSample& sample);

// ‖a - b‖ / ‖b‖
double relative_norm(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace comera
