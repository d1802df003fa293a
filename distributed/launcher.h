#pragma once

namespace comera {

// Whether an MPI launcher has started this process as one of several. UsageError if srun has started several
// without telling them how to find one another.
bool launched_as_process();

// Whether an MPI launcher has started several processes, including this one. Never throws.
bool launched_among_several();

// mpirun ends when all its daemons have reported that their processes are dead; for a daemon behind a broken
// network it waits until TCP gives up, a quarter of an hour. On process 0, if mpirun is its parent: starts a
// process, unknown to mpirun, that gives mpirun ten seconds to end and then kills it.
void kill_stuck_launcher(int process);

}  // namespace comera
