#pragma once

#include <vector>

#include "distributed/communicator.h"
#include "kernels/core/tensors/parameter.h"

namespace comera {

// Sums the gradients of all processes while the backward pass still computes: what is ready is sent off as
// soon as there is a bucket of it (as PyTorch's DistributedDataParallel does; Li et al., VLDB 2020). Blocks
// become ready from the last to the first, and lie beside each other in the flat vector of each role: a
// bucket is up to three ranges of it, and is not copied.
class GradientSum {
 public:
  // gradients: the flat vector. Both must outlive it.
  GradientSum(Communicator& communicator, const Tensor& gradients, std::int64_t bucket_bytes)
      : communicator_(communicator), gradients_(gradients), bucket_bytes_(bucket_bytes) {}

  // Nothing more is added to these.
  void ready(const std::vector<ParameterRange>& ranges, const Stream& stream);
  // The rest.
  void flush(const Stream& stream);

 private:
  Communicator& communicator_;
  Tensor gradients_;
  std::int64_t bucket_bytes_;
  std::vector<ParameterRange> pending_;
};

}  // namespace comera
