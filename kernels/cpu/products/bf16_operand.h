#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/cpu/products/bf16_blocks.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

// A right operand of products (k x n), packed once into panels: from a matrix with k rows, or the transpose
// of one with k columns.
class Bf16Operand {
 public:
  Bf16Operand() = default;
  Bf16Operand(const Tensor& from, bool transposed, Scratch& scratch)
      : from_(from),
        transposed_(transposed),
        k_(from.dim(transposed ? 1 : 0)),
        n_(from.dim(transposed ? 0 : 1)),
        panels_(scratch.narrow(whole_blocks(k_) * whole_blocks(n_))) {}

  std::int64_t n() const { return n_; }
  std::int64_t depth() const { return whole_blocks(k_); }
  // The panel of columns [j, j + 32), starting at row l; both are multiples of 32.
  const bfloat16* panel(std::int64_t j, std::int64_t l = 0) const {
    return panels_ + j * depth() + l * bf16_block;
  }

  void pack(int threads) const {
    const auto* from = from_.data<bfloat16>();
    const std::int64_t ld = from_.dim(1);
    parallel_pieces(whole_blocks(n_) / bf16_block, threads, [&](std::int64_t i, int) {
      const std::int64_t j = i * bf16_block;
      bf16_pack_panel(from + (transposed_ ? j * ld : j), ld, transposed_, k_, std::min(bf16_block, n_ - j),
                      panels_ + j * depth());
    });
  }

 private:
  Tensor from_;
  bool transposed_ = false;
  std::int64_t k_ = 0, n_ = 0;
  bfloat16* panels_ = nullptr;
};

// A block of bfloat16 rows, which are padded to whole steps of k.
struct Bf16Block {
  bfloat16* at = nullptr;
  std::int64_t ld = 0, pairs = 0;  // pairs: in the last step

  Bf16Block() = default;
  Bf16Block(std::int64_t rows, std::int64_t columns, Scratch& scratch)
      : at(scratch.narrow(whole_blocks(rows) * whole_blocks(columns))),
        ld(whole_blocks(columns)),
        pairs(last_pairs(columns)) {}
  Bf16Rows rows(std::int64_t i) const { return {at + i * ld, ld, ld / bf16_block, nullptr, pairs}; }
};

COMERA_CPU_END
