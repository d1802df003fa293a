#pragma once

#include <vector>

#include "distributed/communicator.h"
#include "kernels/core/tensors/parameter.h"

namespace comera {

// Sums the gradients of all processes during the backward pass: as soon as a bucket is complete, its sum
// starts (as in PyTorch's DistributedDataParallel; Li et al., VLDB 2020). Blocks become ready from last to
// first, and are adjacent in the flat vector of each role: a bucket is up to three ranges of it, and is not
// copied.
class GradientSum {
 public:
  // gradients: the flat vector. Communicator and vector must outlive this.
  GradientSum(Communicator& communicator, const Tensor& gradients, std::int64_t bucket_bytes)
      : communicator_(communicator), gradients_(gradients), bucket_bytes_(bucket_bytes) {}

  // Marks these ranges as complete.
  void ready(const std::vector<ParameterRange>& ranges, const Stream& stream);
  // Sums the rest.
  void flush(const Stream& stream);

 private:
  Communicator& communicator_;
  Tensor gradients_;
  std::int64_t bucket_bytes_;
  std::vector<ParameterRange> pending_;
};

}  // namespace comera
