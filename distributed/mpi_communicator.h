#pragma once

#include <memory>

#include "distributed/communicator.h"

namespace comera {

// Starts MPI. Device memory must be host memory. Error if MPI cannot be started.
std::unique_ptr<Communicator> start_mpi();

}  // namespace comera
