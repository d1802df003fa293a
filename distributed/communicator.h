#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/tensors/tensor.h"

namespace comera {

// The processes of a data-parallel job, and what they add up and agree on. Every process makes the
// same calls in the same order.
class Communicator {
 public:
  Communicator(int process, int world_size) : process_(process), world_size_(world_size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int process() const { return process_; }
  int world_size() const { return world_size_; }
  bool alone() const { return world_size_ == 1; }
  // The one that writes files and speaks to people.
  bool first() const { return process_ == 0; }
  // Among the processes of this machine.
  virtual int local_process() const { return 0; }
  virtual int local_processes() const { return 1; }
  // CPUs that this process may use without taking other processes' of this machine.
  virtual int own_cpus() const;
  // "one process", "MPI", "NCCL 2.28.3": for reports.
  virtual std::string name() const { return "one process"; }

  // ---- Memory of a device, in place. What begins here sees what has been put on the stream before; what is
  // put there after finish() sees all that has begun. May be captured with the stream's other work.

  // Sums of float32 or float64. The same bits on every process, and each time for as many processes.
  virtual void begin_sum(const Tensor& values, const Stream& stream) = 0;
  // Maxima of uint32: those of floats without a sign too, NaN being more than everything.
  virtual void begin_max(const Tensor& words, const Stream& stream) = 0;
  virtual void finish(const Stream& stream) = 0;
  // Waits until all that was put on the stream is done, or ends the job if a sum on it can never be: where
  // waiting for the device alone would wait for ever.
  virtual void wait(const Stream&) {}

  // ---- The host. These wait for every process.

  virtual void sum(std::span<double> values) = 0;
  // The first process's text.
  virtual std::string broadcast(const std::string& text) = 0;
  // Every process's text.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  // ---- How a job ends that cannot go on.

  struct Patience {
    double silent_seconds = 60;    // a process of which nothing is heard
    double stalled_seconds = 900;  // a process that lives, but does not come to where the others wait for it
  };
  virtual void set_patience(const Patience&) {}
  // What is said besides when it ends, such as the last checkpoint.
  virtual void set_advice(const std::string&) {}
  // Ends all processes of the job: this process has failed. The message is printed once, however many
  // processes have the same to say. Not for a process that is alone.
  [[noreturn]] virtual void fail(int exit_code, const std::string& message) = 0;
  // The same with what the exception says that is being handled. To be called before the stack is unwound
  // over memory that other processes' sums still use.
  [[noreturn]] void fail_with_exception();

 private:
  int process_, world_size_;
};

// A process that is alone.
Communicator& one_process();

// That of the job for which mpirun or srun has started this process; null without them. To be called once,
// after signals are blocked (StopSignals). UsageError if this program was built without MPI.
std::unique_ptr<Communicator> join_job();
// Whether this program was built with MPI.
bool has_mpi();

// What the first process's call returns; the others do not call it. Throws on every process what it throws
// there, if that is an Error or a UsageError.
std::string on_first(Communicator& communicator, const std::function<std::string()>& call);

}  // namespace comera
