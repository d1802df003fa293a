#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/tensors/parameter_state.h"
#include "kernels/ops/context.h"
#include "kernels/ops/optimizers/optimizer.h"
#include "kernels/shared/step_values.h"
#include "optim/learning_rates.h"
#include "optim/optimizer_options.h"

namespace comera {

// Turns the gradients of a store into updates of its parameters. All of it happens on the device, by the
// operations of a context, so that a step can be recorded.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // The state that it keeps between steps, by parameter: checkpoints save it, and compaction moves it into
  // the compacted model.
  virtual std::vector<ParameterState> states() const = 0;
  // Flat vectors that begin like the parameters, with cores and gates: pruning sets their entries to 0. Every
  // entrywise state of a core or a gate must lie in one of them.
  struct Moments {
    Tensor first, second;
  };
  virtual Moments moments() const = 0;

  // Fills in what depends on the number of updates, counted from 0.
  virtual void prepare(StepInputs& inputs, std::int64_t update) const = 0;

  // Whether refresh() must be called before this update, unless the step is skipped.
  virtual bool refreshes(std::int64_t /*update*/) const { return false; }
  // Host work before some updates, based on the gradients of all processes, such as finding GaLore's
  // subspaces. Each process does its share and leaves 0 for the others'; all continue with the sum of the
  // returned tensor over all processes. May allocate and wait for the device.
  virtual Tensor refresh(int /*process*/, int /*processes*/) { return {}; }

  // The two parts of a step's end; between them a penalty may add to gradients. measure() computes the norm
  // of the loss's gradients and the clipping factor; update() updates the parameters and sets gradients to
  // zero. Parameters do not change if a gradient was not finite.
  void measure(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  void update(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  void apply(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const {
    measure(context, step_inputs, step_results);
    update(context, step_inputs, step_results);
  }

  // The first tensor with a non-finite gradient in the order of a backward pass, from the last measure(), if
  // StepResults::first_nonfinite is set. Waits for the device.
  const std::string& first_nonfinite(const StepResults& results) const;

 protected:
  Optimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator);
  // Must not change anything if StepResults::nonfinite is set.
  virtual void update_parameters(const Context& context, const Tensor& step_inputs,
                                 const Tensor& step_results) const = 0;

  ParameterStore& store_;
  OptimizerOptions options_;

 private:
  Buffer table_memory_, norm_memory_;
  Tensor segments_, norms_;  // of all parameters
};

// The store must be allocated with gradients, and outlive the optimizer.
std::unique_ptr<Optimizer> make_optimizer(ParameterStore& store, const OptimizerOptions& options,
                                          Allocator& allocator);

// A parameter's offset in the flat vectors and how it is updated, in the form that operations read.
ParameterSegment segment_of(const ParameterStore& store, ParameterId id, const OptimizerOptions& options);

// A table for operations in the memory of a device, as bytes.
struct DeviceTable {
  Buffer memory;
  Tensor bytes;
};
DeviceTable upload_table(Allocator& allocator, const void* rows, std::size_t bytes);
template <class Row>
DeviceTable upload_table(Allocator& allocator, const std::vector<Row>& rows) {
  return upload_table(allocator, rows.data(), rows.size() * sizeof(Row));
}

}  // namespace comera
