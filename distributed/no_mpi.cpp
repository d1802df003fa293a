// Replaces MPI's parts in builds without MPI.
#include "distributed/mpi_communicator.h"
#include "kernels/core/check.h"

namespace comera {

bool has_mpi() { return false; }

std::unique_ptr<Communicator> start_mpi() {
  throw UsageError(
      "this process was started by mpirun or srun, but this comera was built without MPI; install MPI "
      "(scripts/setup.sh) and build again, or start it without them");
}

}  // namespace comera
