// Instead of nccl_communicator.cpp where NCCL's header or CUDA is missing.
#include "distributed/nccl_communicator.h"
#include "kernels/core/check.h"

namespace comera {

std::unique_ptr<Communicator> start_nccl(Communicator&, Device) {
  throw UsageError(
      "this comera was built without NCCL, which sums the gradients of several GPUs; install NCCL with its "
      "header "
      "nccl.h and build again, or train on the CPU with --device cpu");
}

}  // namespace comera
