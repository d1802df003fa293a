#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/context.h"
#include "kernels/ops/processor.h"
#include "kernels/ops/products/float8.h"
#include "measurements/precision/linear_data.h"

namespace comera {

// A precision for products.
struct Precision {
  std::string name;
  Processor processor;
  DType type = DType::float32;  // of activations
  bool float8 = false;          // products of 8-bit operands: E4M3, gradients E5M2
  bool delayed = false;         // with scales from earlier steps
  bool emulated = false;        // its time is not representative of tensor cores

  // The type of weights and of other sources of 8-bit operands, so that these are rounded only once.
  DType weights() const { return float8 ? master_of(type) : type; }
};

// Activations and their gradients, which all precisions of a type share.
struct LinearActivations {
  LinearActivations(const LinearSize& size, DType type, Allocator& allocator);
  void write(const LinearData& data, const Processor& processor) const;

  DType type;
  Buffer memory;
  Tensor x, dy, y, dx;
};

// A linear layer in one precision, with its own weights and memory.
class PrecisionLinear {
 public:
  PrecisionLinear(const LinearSize& size, const Precision& precision, const LinearActivations& activations);
  virtual ~PrecisionLinear() = default;
  PrecisionLinear(const PrecisionLinear&) = delete;
  PrecisionLinear& operator=(const PrecisionLinear&) = delete;

  const Precision& precision() const { return precision_; }
  // Allocates its scratch; required before computing.
  void prepare();
  void write(const LinearData& data) { write_weights(data); }
  void forward() { forward(context()); }
  void backward() { backward(context()); }
  // Updates delayed scales after a step, from the magnitudes so far.
  void next_scales();
  void wait() const { allocator().synchronize(allocator().stream()); }
  // y, dx and the weights' gradients of one forward and backward pass.
  LinearValues values(const LinearSample& sample);

 private:
  Allocator& allocator() const { return precision_.processor.allocator; }
  Context context() const { return {precision_.processor.backend, *arena_, allocator().stream()}; }

  std::vector<Buffer> memory_;
  std::unique_ptr<Arena> arena_;

 protected:
  Tensor tensor(Shape shape, DType dtype);  // lives as long as this
  Float8Options options() const { return {.delayed = precision_.delayed, .gradients = DType::float8_e5m2}; }
  void write_weight(const std::vector<float>& values, std::int64_t columns, const Tensor& weight) const;
  virtual void forward(const Context& context) const = 0;
  virtual void backward(const Context& context) const = 0;
  virtual void write_weights(const LinearData& data) const = 0;
  virtual std::vector<Tensor> gradients() const = 0;

  LinearSize size_;
  Precision precision_;
  const LinearActivations& with_;
  Tensor scales_;  // of 8-bit operands: slots are Float8Slots

 private:
  Tensor largest_, history_, position_, results_;
};

std::unique_ptr<PrecisionLinear> make_linear(const LinearSize& size, const Precision& precision,
                                             const LinearActivations& activations);

}  // namespace comera
