#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace comera {

// Sums GPU memory with NCCL, which is loaded by this call, on a separate stream beside the device's. Host
// operations go through `host`, which must outlive this and may be a single process. Error, with the reason,
// if NCCL is unavailable; every process must have its own GPU.
//   patience: the time limit for starting NCCL, and for a step with its sums, before the job ends.
std::unique_ptr<Communicator> start_nccl(Communicator& host, Device device,
                                         const Communicator::Patience& patience = {});

// The version of the library, "2.28.3"; loads it with all functions that are used. Error as above.
std::string nccl_version();

}  // namespace comera
