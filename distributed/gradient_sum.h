#pragma once

#include <vector>

#include "distributed/communicator.h"
#include "kernels/core/tensors/parameter.h"

namespace comera {

// Sums the gradients of all processes during the backward pass: as soon as a bucket is complete, its sum
// starts (as in PyTorch's DistributedDataParallel; Li et al., VLDB 2020). Blocks become ready from last to
// first, and are adjacent in the flat vector of each role: a bucket is up to three ranges of it, and is not
// copied. Few gradients of a GPU are summed at once, after the pass.
class GradientSum {
 public:
  // Bytes of a GPU's gradients from which sums overlap the backward pass. A pass whose gradients are wanted
  // block by block takes more launches, since cores get theirs block by block: 72 more for the six-encoder,
  // 0.34 ms by the cost model of docs/lab/launch-ledger.md. A sum of 16 MiB takes 0.1 ms between 8 GPUs and
  // 0.3 ms between 1,024 (bench/scaling_model.py).
  static constexpr std::int64_t least_overlapping = std::int64_t{16} << 20;

  // gradients: the flat vector. Communicator and vector must outlive this.
  GradientSum(Communicator& communicator, const Tensor& gradients, std::int64_t bucket_bytes)
      : communicator_(communicator), gradients_(gradients), bucket_bytes_(bucket_bytes) {}

  // Whether ready() is to be called during the backward pass; otherwise flush() sums everything.
  bool overlaps() const;
  // A backward pass begins: forgets the ranges of one that ended with an error.
  void begin_pass() { pending_.clear(); }
  // Marks these ranges as complete.
  void ready(const std::vector<ParameterRange>& ranges, const Stream& stream);
  // Begins the sums of the rest.
  void flush(const Stream& stream);

 private:
  Communicator& communicator_;
  Tensor gradients_;
  std::int64_t bucket_bytes_;
  std::vector<ParameterRange> pending_;
};

}  // namespace comera
