// Replaces nccl_communicator.cpp if NCCL's header or CUDA is missing.
#include "distributed/nccl_communicator.h"
#include "kernels/core/check.h"

namespace comera {

namespace {

[[noreturn]] void refuse() {
  throw UsageError(
      "this comera was built without NCCL, which sums the gradients of several GPUs; install NCCL with its "
      "header nccl.h and build again, or train on the CPU with --device cpu");
}

}  // namespace

std::unique_ptr<Communicator> start_nccl(Communicator&, Device, const Communicator::Patience&) { refuse(); }
std::string nccl_version() { refuse(); }

}  // namespace comera
