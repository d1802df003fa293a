#pragma once

#include <csignal>
#include <thread>

namespace comera {

// Turns SIGINT, SIGTERM, SIGUSR1 (which mpirun forwards to its processes) and SIGHUP (the terminal was
// closed) into requests to stop at the next suitable moment: the training run then saves and stops. A second
// signal ends the process at once, except SIGHUP, which comes twice when a terminal is closed. Before
// begin(), the first signal does so, and says it. A SIGHUP that is ignored at construction, as under nohup,
// stays ignored. SIGQUIT keeps its meaning: the process ends at once, with a core dump, and nothing is saved.
//
// Signal handlers must not run on compute threads: oneDNN's generated kernels use a workspace on the heap as
// their stack, and the kernel would write the signal's frame into the heap below it. Therefore these signals
// are blocked in the constructing thread, and in all threads created later, and a dedicated thread waits for
// them. Construct it before any other thread that takes signals; at most one at a time; destroy it in the
// thread that constructed it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // restores the previous handling
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void begin();
  // Prints nothing when a signal comes, because another process of the job does.
  void silence();
  bool requested() const { return number() != 0; }
  // SIGINT, SIGTERM, SIGUSR1, SIGHUP, or 0.
  int number() const;

 private:
  sigset_t previous_{};
  std::thread watcher_;
};

}  // namespace comera
