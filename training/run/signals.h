#pragma once

#include <csignal>
#include <thread>

namespace comera {

// SIGINT, SIGTERM, SIGUSR1 (which mpirun hands on to the processes it started) and SIGHUP (the terminal was
// closed) as requests to stop at the next good moment: the training run then saves and stops. A second signal
// ends the process at once, but for SIGHUP, which comes twice when a terminal is closed. Until begin(), the
// first one does. A SIGHUP that is ignored when this is made, as under nohup, stays ignored. SIGQUIT keeps
// its meaning: the process ends at once, with a core dump, and nothing is saved.
//
// No thread that computes may run a signal's handler: oneDNN's generated kernels use a workspace on the heap
// as their stack, and the kernel would write the signal's frame into the heap below it. Therefore these
// signals are blocked in the thread that makes this object, and in all threads that are made after it, and a
// thread of its own waits for them. To be made before any other thread; at most one at a time; to be
// destroyed by the thread that made it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // restores what was there before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void begin();
  // Says nothing when a signal comes: another process of the job does.
  void silence();
  bool requested() const { return number() != 0; }
  // SIGINT, SIGTERM, SIGUSR1, SIGHUP, or 0.
  int number() const;

 private:
  sigset_t previous_{};
  std::thread watcher_;
};

}  // namespace comera
