#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/tensors/tensor.h"

namespace comera {

// The processes of a data-parallel job, with their sums and other collective operations. Every process makes
// the same calls in the same order.
class Communicator {
 public:
  Communicator(int process, int world_size) : process_(process), world_size_(world_size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int process() const { return process_; }
  int world_size() const { return world_size_; }
  bool alone() const { return world_size_ == 1; }
  // Process 0: file I/O and logging.
  bool first() const { return process_ == 0; }
  // Index and number of the processes on this machine.
  virtual int local_process() const { return 0; }
  virtual int local_processes() const { return 1; }
  // CPUs that this process may use without taking those of other processes on this machine.
  virtual int own_cpus() const;
  // "one process", "MPI", "NCCL 2.28.3": for reports.
  virtual std::string name() const { return "one process"; }

  // ---- Device memory, in place. Operations begun here come after earlier work on the stream; work put on
  // the stream after finish() comes after all of them. May be captured with the stream's other work.

  // Sums of float32 or float64. Bit-identical on every process, and in every run with the same number of
  // processes.
  virtual void begin_sum(const Tensor& values, const Stream& stream) = 0;
  // Maxima of uint32; also of non-negative floats, where NaN is larger than everything.
  virtual void begin_max(const Tensor& words, const Stream& stream) = 0;
  // Begins all that begin_all() begins on this stream as one group: NCCL launches it at once.
  virtual void together(const Stream& /*stream*/, const std::function<void()>& begin_all) { begin_all(); }
  virtual void finish(const Stream& stream) = 0;
  // Waits until all work on the stream is done. Ends the job if a sum on it can never complete, where waiting
  // for the device alone would never return.
  virtual void wait(const Stream&) {}

  // ---- Host memory. These wait for every process.

  virtual void sum(std::span<double> values) = 0;
  // The text of process 0.
  virtual std::string broadcast(const std::string& text) = 0;
  // Every process's text.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  // ---- Ending a job that cannot continue.

  struct Patience {
    double silent_seconds = 60;    // a process that has sent no sign of life
    double stalled_seconds = 900;  // a process that lives, but does not reach the point where the others wait
  };
  virtual void set_patience(const Patience&) {}
  // Additional text printed when the job ends, such as the last checkpoint.
  virtual void set_advice(const std::string&) {}
  // Ends all processes of the job because this process has failed. The message is printed once, even if
  // several processes report the same. Not for a single process.
  [[noreturn]] virtual void fail(int exit_code, const std::string& message) = 0;
  // The same with the message of the exception being handled. Call it before the stack is unwound over memory
  // that other processes' sums still use.
  [[noreturn]] void fail_with_exception();

 private:
  int process_, world_size_;
};

// The communicator of a single process.
Communicator& one_process();

// The communicator of the job for which mpirun or srun has started this process; null without them. Call it
// once, after signals are blocked (StopSignals). UsageError if this program was built without MPI.
std::unique_ptr<Communicator> join_job();
bool has_mpi();

// Called by all processes when each has tried to record work with sums in it: `fault` is why this one could
// not, or empty. NCCL needs all of them to launch the recording, or none. Error on every process, with the
// number of one that could not, if others could.
void require_same_recording(Communicator& communicator, const std::string& fault);

// Runs the call on process 0 only and returns its result on every process. An Error or UsageError thrown
// there is thrown on every process.
std::string on_first(Communicator& communicator, const std::function<std::string()>& call);

}  // namespace comera
