#pragma once

namespace comera {

// Whether a launcher of MPI says that this process is one of several. UsageError if srun has started several
// without telling them how to find one another.
bool launched_as_process();

// Whether a launcher of MPI has started several processes, of which this is one. Never throws.
bool launched_among_several();

// mpirun ends when all its daemons have said that their processes are dead; for one behind a broken network
// it waits until TCP gives up, a quarter of an hour. On the first process, if mpirun is its parent: a process
// that mpirun does not know of gives it ten seconds from now to end, and kills it then.
void kill_stuck_launcher(int process);

}  // namespace comera
