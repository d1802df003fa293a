#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace comera {

// Sums the memory of GPUs with NCCL, which is loaded now, on a stream of its own beside the device's. What is
// the host's goes through `host`, which must outlive it, and may be one process alone. Error, with the
// reason, if NCCL cannot be had; every rank must have a GPU of its own.
std::unique_ptr<Communicator> start_nccl(Communicator& host, Device device);

}  // namespace comera
