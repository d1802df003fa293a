#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/core/tensors/memory.h"

namespace comera {

// Parameter groups: each is one contiguous range of the flat vectors, and the trained ones have separate
// learning rates.
enum class ParameterRole : std::uint8_t {
  core,
  gate,
  dense,
  frozen,  // not trained: has no gradient, and no optimizer updates it
};
inline constexpr int trained_roles = 3;  // the first ones
const char* name_of(ParameterRole role);

using ParameterId = int;

// The initial values of a parameter. They depend only on the seed and the parameter's name.
struct Initializer {
  enum class Kind : std::uint8_t { constant, normal, uniform, orthogonal } kind = Kind::constant;
  // constant: the value; normal: the standard deviation; uniform: half the width around 0; orthogonal: the
  // length of the rows, which are orthogonal in each matrix of the last two axes. It has no more rows than
  // columns.
  double value = 0;
};

struct ParameterInfo {
  std::string name;  // for instance "encoder.0.attention.query.core.2"
  ParameterRole role = ParameterRole::dense;
  Shape shape;
  bool decays = false;  // weight decay applies
  Initializer initializer;
  // As a hidden linear map, the tensor is a row-major matrix with this number of rows; 0: it is not one (a
  // bias, an embedding, a classifier).
  std::int64_t matrix_rows = 0;
  bool embedding =
      false;  // in the token embedding's cores or a click model's table: may have a separate rate
  // A dense table (rows, width) of which a step updates only marked rows. Code that adds to its gradient
  // marks the rows (TouchRows).
  bool by_rows = false;
  int block = 0;  // of the model: gradients of a block become ready together
};

// A range of the flat vectors, in elements.
struct ParameterRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// All parameters of a model. Modules add theirs in forward order and keep ids; allocate() then lays them out
// by (role, forward order), so that optimizer, all-reduce and checkpoint see flat vectors. Tensors begin at
// multiples of 64 bytes; the gaps stay zero. Tables updated by rows follow all other trained parameters.
// Frozen parameters come last, beyond the end of the vectors that optimizers and sums use (layout(),
// values(), gradients()).
class ParameterStore {
 public:
  ParameterId add(ParameterInfo info);
  // Parameters added from now on belong to the next block.
  void begin_block() { ++block_; }
  int blocks() const { return block_ + 1; }

  // For activations of that type: parameters and gradients have its master type
  // (kernels/core/tensors/dtype.h).
  void allocate(Allocator& allocator, DType compute, bool gradients);
  void initialize(std::uint64_t seed);

  int size() const { return static_cast<int>(infos_.size()); }
  const ParameterInfo& info(ParameterId id) const { return infos_[id]; }
  std::optional<ParameterId> find(const std::string& name) const;
  // Ids of the trained parameters, in the order of the flat vectors.
  const std::vector<ParameterId>& layout() const { return layout_; }
  std::int64_t offset(ParameterId id) const { return offsets_[id]; }

  DType dtype() const { return dtype_; }  // of parameters and gradients
  DType compute() const { return compute_; }
  Allocator& allocator() const { return *allocator_; }  // valid once allocated
  Tensor value(ParameterId id) const { return values_.slice(offsets_[id], infos_[id].shape); }
  // Empty for a frozen parameter.
  Tensor gradient(ParameterId id) const {
    if (is_frozen(id)) return {};
    return gradients_.slice(offsets_[id], infos_[id].shape);
  }
  bool is_frozen(ParameterId id) const { return infos_[id].role == ParameterRole::frozen; }
  const Tensor& values() const { return trained_values_; }
  const Tensor& gradients() const { return gradients_; }
  // Without those of tables updated by rows.
  Tensor whole_gradients() const { return gradients_.slice(0, {whole_}); }
  // For these tables: marks of the rows that the step has looked up, int32 (rows), and the offset of a
  // table's marks among those of all tables; only with gradients.
  Tensor marks(ParameterId id) const { return marks_.slice(mark_offset(id), {infos_[id].shape[0]}); }
  std::int64_t mark_offset(ParameterId id) const { return mark_offsets_[id]; }
  const Tensor& marks() const { return marks_; }
  // Including frozen parameters.
  const Tensor& all_values() const { return values_; }
  // Parameters in the compute type: the values themselves, or a copy that is rounded from them before each
  // pass.
  Tensor product_value(ParameterId id) const { return product_values_.slice(offsets_[id], infos_[id].shape); }
  const Tensor& product_values() const { return product_values_; }
  bool has_gradients() const { return static_cast<bool>(gradients_); }

  // The ranges of a block's parameters: at most one per role, and one of tables updated by rows.
  std::vector<ParameterRange> block_ranges(int block) const;

  // Elements of all parameters, including frozen ones, without gates and gaps.
  std::int64_t count() const;
  std::int64_t count(ParameterRole role) const;  // without gaps

 private:
  std::vector<ParameterInfo> infos_;
  std::vector<ParameterId> layout_;
  std::vector<std::int64_t> offsets_, mark_offsets_;
  std::int64_t whole_ = 0;  // elements before the tables updated by rows
  DType dtype_ = DType::float32, compute_ = DType::float32;
  Allocator* allocator_ = nullptr;
  Buffer value_memory_, gradient_memory_, product_memory_, mark_memory_;
  Tensor values_, trained_values_, gradients_, product_values_, marks_;
  int block_ = 0;
};

// Copies between a tensor of an allocator's device and host memory, converting float types. Not for use
// within a step.
void write_tensor(const Tensor& tensor, const std::vector<double>& values,
                  Allocator& allocator = host_allocator());
std::vector<double> read_tensor(const Tensor& tensor, Allocator& allocator = host_allocator());

}  // namespace comera
