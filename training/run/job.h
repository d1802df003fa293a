#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "distributed/communicator.h"
#include "kernels/core/tensors/parameter.h"

namespace comera {

// The exchange between the processes of a job during a run. Every process makes the same calls in the same
// order. With a single process there is no cost.
class Job {
 public:
  // stop_requested: whether this process was asked to stop; empty: never. The communicator must outlive this.
  Job(Communicator& host, std::function<bool()> stop_requested)
      : host_(host), stop_requested_(std::move(stop_requested)) {}

  Communicator& host() const { return host_; }
  bool alone() const { return host_.alone(); }
  bool first() const { return host_.first(); }

  // What a process reports after its micro-batches of a step.
  struct Step {
    double targets = 0;      // number of targets
    std::int64_t units = 0;  // tokens or examples processed
    bool save = false;       // requests a checkpoint; only that of process 0 counts
    double waited_ms = 0;    // after its last micro-batch, for the sums and for other processes
    double seconds = 0;      // since the previous step; only the clock of process 0 counts
  };
  // The sums over all processes, and the request of process 0. Afterwards every process knows whether any was
  // asked to stop.
  Step share(const Step& own);

  // Whether to stop here. All processes give the same answer.
  bool stop_wanted() const;
  // Records a stop that all processes know of already, for instance from an evaluation that it ended. Every
  // process calls it.
  void stop() { stop_agreed_ = true; }

  // Error on every process unless all have the same parameters, as equal steps from equal sums should give. A
  // difference (broken memory, another library version) must not reach a checkpoint.
  void require_same_model(std::int64_t step, const ParameterStore& store) const;

  // Milliseconds that a step has waited on average since the last call; nothing if no step was shared.
  struct Waiting {
    double sums = 0;       // of the last process to arrive, which waits only for the sums
    double processes = 0;  // of an average process, for the last one to arrive
  };
  std::optional<Waiting> take_waiting();

 private:
  Communicator& host_;
  std::function<bool()> stop_requested_;
  bool stop_agreed_ = false;
  Waiting waited_;  // totals over waited_steps_
  std::int64_t waited_steps_ = 0;
};

}  // namespace comera
