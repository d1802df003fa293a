#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace comera {

// The ranks of single layers, by name: "encoder.0.attention.query", "head.transform", "embedding.tokens".
// All 0: the layer is removed.
using LayerRanks = std::map<std::string, std::vector<std::int64_t>>;

// The shape of a linear layer y = x W as a tensor train (CoMERA, section 2).
// Cores G_1..G_K, K = p + q: p input modes n (product N), q output modes m (product M).
// G_k is (r_{k-1}, s_k, r_k) with s = (n..., m...) and r_0 = r_K = 1. Indices are row-major, first mode
// slowest. With all ranks 0 the layer is removed: W is zero, has no parameters and is never computed.
struct TTShape {
  std::vector<std::int64_t> input_modes;   // n_1..n_p
  std::vector<std::int64_t> output_modes;  // m_1..m_q
  std::vector<std::int64_t> ranks;         // r_1..r_{K-1}
  // Beside the train is a diagonal (kernels/ops/tensor_trains/diagonal.h), which stays if the train is
  // removed.
  bool diagonal = false;

  int order() const { return static_cast<int>(input_modes.size() + output_modes.size()); }
  bool removed() const;               // the train
  std::int64_t input_size() const;    // N
  std::int64_t output_size() const;   // M
  std::int64_t mode(int core) const;  // s of core 0..K-1
  std::int64_t rank(int bond) const;  // r_bond, bond 0..K; 1 at both ends
  std::int64_t middle_rank() const { return rank(static_cast<int>(input_modes.size())); }
  std::int64_t core_parameters() const;
  std::int64_t gates() const;
  // "[12,8,8 | 8,8,12] ranks 12,30,30,30,12" or "[12,8,8 | 8,8,12] removed"; with "and a diagonal"
  std::string text() const;

  // Throws Error naming `layer` unless the modes multiply to inputs and outputs and every rank is possible:
  // positive, and at most the sizes of the two sides that its bond separates; or all are 0. With a diagonal
  // one of the sizes divides the other.
  void validate(const std::string& layer, std::int64_t inputs, std::int64_t outputs) const;

  friend bool operator==(const TTShape&, const TTShape&) = default;
};

// The shape of an embedding table as a tensor-train matrix. Cores F_k are (r_{k-1}, m_k, n_k, r_k): rows m
// (product at least the vocabulary, the rest is padding), columns n (product = width).
struct TTMShape {
  std::vector<std::int64_t> row_modes;     // m_1..m_K
  std::vector<std::int64_t> column_modes;  // n_1..n_K
  std::vector<std::int64_t> ranks;         // r_1..r_{K-1}
  bool projection = false;  // a dense matrix (columns, width) leads from the train to the table
  // Rows of the first ids are kept as they are, in a dense matrix (frequent_rows, columns); the train has the
  // others. Pays where ids are ordered by frequency, as `comera tokenizer` numbers them.
  std::int64_t frequent_rows = 0;

  int order() const { return static_cast<int>(row_modes.size()); }
  std::int64_t rows() const;
  std::int64_t columns() const;  // of the train
  std::int64_t rank(int bond) const;
  std::int64_t core_parameters() const;
  std::int64_t gates() const;
  // The digits of an id are split into left and right after this many cores, as evenly as possible.
  int left_cores() const { return order() - order() / 2; }
  std::int64_t right_rows() const;  // product of the right factor's row modes; 1 for a single core
  std::string text() const;

  void validate(const std::string& layer, std::int64_t vocabulary, std::int64_t width) const;

  friend bool operator==(const TTMShape&, const TTMShape&) = default;
};

}  // namespace comera
