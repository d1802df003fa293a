#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "distributed/communicator.h"
#include "kernels/core/tensors/parameter.h"

namespace comera {

// What the processes of a job tell each other while a run goes on. Every process makes the same calls in the
// same order. A process that is alone agrees with itself, at no cost.
class Job {
 public:
  // stop_requested: whether this process was asked to stop; empty: never. The communicator must outlive this.
  Job(Communicator& host, std::function<bool()> stop_requested)
      : host_(host), stop_requested_(std::move(stop_requested)) {}

  Communicator& host() const { return host_; }
  bool alone() const { return host_.alone(); }
  bool first() const { return host_.first(); }

  // What a process says after its micro-batches of a step.
  struct Step {
    double targets = 0;      // to predict
    std::int64_t units = 0;  // tokens or examples, seen
    bool save = false;       // it wants a checkpoint; only the first process's counts
    double waited_ms = 0;    // behind its last micro-batch, for the sums and for the others
    double seconds = 0;      // since the step before; only the first process's clock counts
  };
  // The sums over all processes, and what the first one wants. After it all know whether one was asked to
  // stop.
  Step share(const Step& own);

  // Whether to stop here. All processes say the same.
  bool stop_wanted() const;
  // All processes know the request from elsewhere, such as from an evaluation that it ended. Every process
  // calls it.
  void stop() { stop_agreed_ = true; }

  // Error on every process unless all have the same parameters: they make the same steps from the same sums.
  // What makes one differ (a broken memory, another library) must not go into a checkpoint.
  void require_same_model(std::int64_t step, const ParameterStore& store) const;

  // Milliseconds that a step has waited on average since this was asked last; nothing if no step was shared.
  struct Waiting {
    double sums = 0;       // of the process that came last, which waits for the sums only
    double processes = 0;  // of a process on average, for the last one to come
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
