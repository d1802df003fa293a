#include "distributed/communicator.h"
#include "distributed/launcher.h"
#include "distributed/mpi_communicator.h"

namespace comera {

std::unique_ptr<Communicator> join_job() { return launched_as_process() ? start_mpi() : nullptr; }

}  // namespace comera
