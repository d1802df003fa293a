#pragma once

#include <algorithm>
#include <vector>

#include "kernels/ops/context.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/products/weight_gradients.h"
#include "kernels/ops/tensor_trains/tt_factors.h"
#include "tensorized/linear/packed_tensors.h"

namespace comera {

// Contracts the cores of tensor trains before a pass reads any token. For each layer these are a few
// products, too small to fill a GPU, so the layers of a model do theirs together. Each layer is called twice:
// first to count the memory that it needs, then to take the memory and to register the products.
class Merging {
 public:
  // Counts the memory of the layers, without allocating it.
  Merging(Device device, DType compute) : compute_(compute), counting_(Arena::measuring(device)) {}
  // Allocates the memory that `counted` has counted; it is kept in the arena.
  Merging(const Context& context, ArenaScope& scope, const Merging& counted);

  // One block of memory for a layer's operands, of the compute type or its master type. Operands computed in
  // the master type are rounded at the end.
  struct Operands {
    Tensor kept;
    Tensor computed;  // the same tensor if no rounding is needed
  };
  Operands take(std::int64_t elements, DType dtype);
  void add(const TTFactorsForward::Factors& factors) { factors_.factors.push_back(factors); }
  // Adds a product of left or right factors; it runs after all of them exist.
  void add(const MatrixProduct& product) { products_.products.push_back(product); }
  // Memory that is zeroed before anything is computed.
  void clear(const Tensor& tensor) { cleared_.push_back(tensor); }
  // A row that no factor writes: to += from.
  void add_row(const Tensor& from, const Tensor& to) { rows_.push_back({from, to}); }
  // The number of gradient elements for what a layer contracts here.
  void will_have_gradients(std::int64_t elements);
  // Ends a group of layers whose gradients become complete together.
  void end_block();

  // Computes everything that was registered.
  void run(const Context& context) const;

  // Gradient elements of all layers together, of the largest layer, of the largest block and of the last one.
  std::int64_t gradients() const { return gradients_; }
  std::int64_t most_gradients() const { return most_gradients_; }
  // What to take memory for, if not for more than `most` elements, unless a layer has more.
  std::int64_t gradients_at_once(std::int64_t most) const {
    return std::max(std::min(gradients_, most), most_gradients_);
  }
  std::int64_t most_of_a_block() const { return most_of_a_block_; }
  std::int64_t of_last_block() const { return of_last_block_; }
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
  std::int64_t before_block_ = 0, most_of_a_block_ = 0, of_last_block_ = 0;
};

// Calls make(merging) twice, as described above. The result tells how much memory MergedGradients need.
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

// The backward counterpart: gradients of contracted factors wait here for those of other layers, until the
// memory is full or the pass ends. Then one batch turns them into gradients of cores. In narrow types, the
// tokens' contributions to these and to other parameters also wait, until the end of their block.
class MergedGradients {
 public:
  // On a GPU 16 MB: a layer that needs more has products that are large enough alone. On a CPU waiting gains
  // nothing.
  static std::int64_t usual_most(Device device) {
    return device.kind == DeviceKind::cuda ? std::int64_t{4} << 20 : 0;
  }
  // Without memory yet. most: 0 where waiting gains nothing.
  MergedGradients(const Context& context, const Merging& merged, std::int64_t most);
  // With memory for `most` elements, or for those of the largest layer.
  MergedGradients(const Context& context, ArenaScope& scope, const Merging& merged, std::int64_t most)
      : MergedGradients(context, merged, most) {
    take_memory(scope, merged.gradients_at_once(most));
  }
  MergedGradients(const MergedGradients&) = delete;
  MergedGradients& operator=(const MergedGradients&) = delete;

  // Allocates memory in the scope for the gradients that follow, `elements` of them. Gradients that already
  // wait keep their memory.
  void take_memory(ArenaScope& scope, std::int64_t elements);
  // Zeroed memory for a layer's gradients, valid until flush().
  std::vector<Tensor> zeros(const PackedTensors& together);
  void add(const TTFactorsBackward::Factors& factors) { factors_.factors.push_back(factors); }
  // A product that computes a factor's gradient; all products run before all gradients of factors are
  // contracted.
  void add(const MatrixProduct& product) { products_.products.push_back(product); }
  // A row of the gradients that is added to a parameter's gradient unchanged: to += from.
  void add_row(const Tensor& from, const Tensor& to) { rows_.push_back({from, to}); }

  // Where operations leave the tokens' contributions; null where waiting gains nothing.
  WeightGradients* later() { return waits_ ? &of_tokens_ : nullptr; }
  // The same for sums of `numbers` elements in an operation.
  LaterSums later_sums(ArenaScope& scope, std::int64_t numbers);
  // Memory for an actual or possible operand of these products: until end_block(), or as long as the scope.
  Tensor operand(ArenaScope& scope, Shape shape, DType dtype);
  // Runs everything that waits, and releases what has been saved in the arena since this object was made.
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
