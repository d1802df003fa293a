#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace comera {

// Sums the memory of GPUs with NCCL, which is loaded now, on a stream of its own beside the device's. What is
// the host's goes through `host`, which must outlive it, and may be one process alone. Error, with the
// reason, if NCCL cannot be had; every process must have a GPU of its own.
//   patience: how long NCCL may take to start, or a step with its sums, before the job ends.
std::unique_ptr<Communicator> start_nccl(Communicator& host, Device device,
                                         const Communicator::Patience& patience = {});

// The version of the library, "2.28.3", which is loaded now with all functions that are used. Error as above.
std::string nccl_version();

}  // namespace comera
