#pragma once

#include <vector>

#include "kernels/ops/context.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/products/weight_gradients.h"
#include "kernels/ops/tensor_trains/tt_factors.h"
#include "tensorized/linear/packed_tensors.h"

namespace comera {

// What a pass makes of the cores of tensor trains before it reads a token: for each layer a few products that
// are too small to fill a GPU by themselves. So the layers of a model make theirs together. They are asked
// twice: first they count the memory that they need, then they take it and say what is to be made.
class Merging {
 public:
  // Counts what layers take, in no memory.
  Merging(Device device, DType compute) : compute_(compute), counting_(Arena::measuring(device)) {}
  // With memory, kept in the arena, for what another one has counted.
  Merging(const Context& context, ArenaScope& scope, const Merging& counted);

  // Memory of one piece for a layer's operands, of the compute type or its master type. Computed in the
  // master type, they are rounded when all is made.
  struct Operands {
    Tensor kept;
    Tensor computed;  // the same tensor if no rounding is needed
  };
  Operands take(std::int64_t elements, DType dtype);
  void add(const TTFactorsForward::Factors& factors) { factors_.factors.push_back(factors); }
  // A product of halves; it waits for all of them.
  void add(const MatrixProduct& product) { products_.products.push_back(product); }
  // Memory that is zero before anything is made.
  void clear(const Tensor& tensor) { cleared_.push_back(tensor); }
  // A row that no factors writes: to += from.
  void add_row(const Tensor& from, const Tensor& to) { rows_.push_back({from, to}); }
  // How many numbers a layer's gradients of what it has made here will be.
  void will_have_gradients(std::int64_t elements);

  // Makes everything.
  void run(const Context& context) const;

  // Numbers of all gradients, and of the layer that has most.
  std::int64_t gradients() const { return gradients_; }
  std::int64_t most_gradients() const { return most_gradients_; }
  DType compute() const { return compute_; }
  DType master() const { return master_of(compute_); }
  bool is_narrow() const { return compute_ != master(); }

 private:
  struct Row {
    Tensor from, to;
  };
  DType compute_;
  Arena counting_;                                          // without memory
  std::int64_t narrow_elements_ = 0, master_elements_ = 0;  // taken so far
  Tensor narrow_, computed_, master_;                       // memory; empty when counting
  TTFactorsForward factors_;
  MatrixProducts products_;
  std::vector<Tensor> cleared_;
  std::vector<Row> rows_;
  std::int64_t gradients_ = 0, most_gradients_ = 0;
};

// Calls make(merging) twice, as above. The result says how much memory MergedGradients need.
template <class Make>
Merging merge_together(const Context& context, DType compute, const Make& make) {
  Merging counted(context.backend.device(), compute);
  make(counted);
  ArenaScope scope(context.arena);
  Merging merging(context, scope, counted);
  make(merging);
  merging.run(context);
  return merging;
}

// The other way: gradients of what was merged wait here for those of other layers, until their memory is full
// or the pass ends; then they become gradients of cores together. In narrow types, what the tokens give to
// them and to other parameters waits, too, until the end of its block.
class MergedGradients {
 public:
  // On a GPU 16 MB: the products of a layer that needs more are large enough by themselves. On a CPU nothing
  // is gained by waiting.
  static std::int64_t usual_most(Device device) {
    return device.kind == DeviceKind::cuda ? std::int64_t{4} << 20 : 0;
  }
  // With memory in the scope for the gradients of what was merged: for `most` numbers, or for those of the
  // layer that has most.
  MergedGradients(const Context& context, ArenaScope& scope, const Merging& merged, std::int64_t most);
  MergedGradients(const MergedGradients&) = delete;
  MergedGradients& operator=(const MergedGradients&) = delete;

  // Memory for a layer's, all zero; until flush().
  std::vector<Tensor> zeros(const PackedTensors& together);
  void add(const TTFactorsBackward::Factors& factors) { factors_.factors.push_back(factors); }
  // A product from which a factors's gradient is made; all products come before all halves.
  void add(const MatrixProduct& product) { products_.products.push_back(product); }
  // A row of them that goes to a parameter's gradient as it is: to += from.
  void add_row(const Tensor& from, const Tensor& to) { rows_.push_back({from, to}); }

  // Where operations leave what the tokens give; null where nothing is gained by waiting.
  WeightGradients* later() { return waits_ ? &of_tokens_ : nullptr; }
  // The same for an operation's sums of so many numbers.
  LaterSums later_sums(ArenaScope& scope, std::int64_t numbers);
  // Memory for an operand of those, or for what may be one: until end_block(), or as long as the scope.
  Tensor operand(ArenaScope& scope, Shape shape, DType dtype);
  // Nothing waits any more, and what has been saved in the arena since this object was made ends.
  void end_block();

  void flush();
  std::int64_t flushes() const { return flushes_; }  // so far
  bool empty() const { return factors_.factors.empty() && rows_.empty(); }

 private:
  struct Row {
    Tensor from, to;
  };
  void flush_tokens();

  const Context& context_;
  bool waits_;
  std::size_t operands_;  // the arena's mark below them
  Tensor memory_;
  std::int64_t taken_ = 0, flushes_ = 0;
  WeightGradients of_tokens_;
  TTFactorsBackward factors_;
  MatrixProducts products_;
  std::vector<Row> rows_;
};

}  // namespace comera
