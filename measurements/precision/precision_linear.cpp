#include "measurements/precision/precision_linear.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/float8_operands.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/tt_linear.h"
#include "kernels/shared/step_values.h"

namespace comera {

namespace {

constexpr int history_length = 16;
constexpr DType e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

void upload(const Tensor& tensor, const void* values, Allocator& allocator) {
  allocator.upload(tensor.raw(), values, tensor.bytes(), allocator.stream());
  allocator.synchronize(allocator.stream());
}

// Writes float32 values to a tensor of any type, rounded on its device.
void write_rounded(const Tensor& tensor, const std::vector<float>& values, const Processor& processor) {
  Allocator& allocator = processor.allocator;
  if (tensor.dtype() == DType::float32) return upload(tensor, values.data(), allocator);
  const Buffer memory(allocator, values.size() * sizeof(float), MemoryKind::workspace);
  const Tensor wide = memory.tensor(tensor.shape(), DType::float32);
  upload(wide, values.data(), allocator);
  Arena arena(allocator, {});
  run(Context{processor.backend, arena, allocator.stream()}, Cast{.x = wide, .y = tensor});
  allocator.synchronize(allocator.stream());
}

std::vector<double> read_block(const Tensor& tensor, const Block& block, Allocator& allocator) {
  std::vector<double> values;
  for (const std::int64_t row : block.rows) {
    const std::vector<double> whole = read_tensor(tensor.rows(row, 1), allocator);
    for (const std::int64_t column : block.columns) values.push_back(whole[column]);
  }
  return values;
}

// y = x W
class MatrixLinear : public PrecisionLinear {
 public:
  MatrixLinear(const LinearSize& size, const Precision& precision, const LinearActivations& activations)
      : PrecisionLinear(size, precision, activations),
        w_(tensor({size.inputs, size.outputs}, precision.weights())),
        dw_(tensor({size.inputs, size.outputs}, master_of(precision.type))) {}

 private:
  // The options of a tensor train's products: gradients are E5M2.
  using Copies = Float8Operands::Copies;
  using Seen = Float8Operands::Seen;
  static constexpr int x_slot = Float8Slots::x, w_slot = Float8Slots::a, dy_slot = Float8Slots::du;

  void forward(const Context& context) const override {
    if (precision_.float8) return forward8(context);
    run(context,
        MatrixProduct{
            .a = with_.x, .b = w_, .c = with_.y, .m = size_.tokens, .n = size_.outputs, .k = size_.inputs});
  }

  void backward(const Context& context) const override {
    if (precision_.float8) return backward8(context);
    run(context, MatrixProduct{.a = with_.dy,
                               .b = w_,
                               .c = with_.dx,
                               .m = size_.tokens,
                               .n = size_.inputs,
                               .k = size_.outputs,
                               .transpose_b = true});
    run(context, MatrixProduct{.a = with_.x,
                               .b = with_.dy,
                               .c = dw_,
                               .m = size_.inputs,
                               .n = size_.outputs,
                               .k = size_.tokens,
                               .transpose_a = true});
  }

  // As in DenseLinear.
  void forward8(const Context& context) const {
    ArenaScope scope(context.arena);
    const Float8Operands operands(context, scope, scales_, options());
    const Tensor x =
        operands.quantize(x_slot, with_.x, size_.tokens, size_.inputs, e4m3, Copies::straight).straight;
    const Tensor w =
        operands.quantize(w_slot, w_, size_.inputs, size_.outputs, e4m3, Copies::transposed).transposed;
    run(context, Float8Product{.a = x,
                               .b = w,
                               .c = with_.y,
                               .m = size_.tokens,
                               .n = size_.outputs,
                               .k = size_.inputs,
                               .scale_a = operands.scale(x_slot),
                               .scale_b = operands.scale(w_slot),
                               .fast = true,
                               .type = precision_.type});
  }

  void backward8(const Context& context) const {
    ArenaScope scope(context.arena);
    const Float8Operands operands(context, scope, scales_, options());
    const auto dy = operands.quantize(dy_slot, with_.dy, size_.tokens, size_.outputs, e5m2, Copies::both);
    const Tensor w =
        operands.quantize(w_slot, w_, size_.inputs, size_.outputs, e4m3, Copies::straight, Seen::again)
            .straight;
    run(context, Float8Product{.a = dy.straight,
                               .b = w,
                               .c = with_.dx,
                               .m = size_.tokens,
                               .n = size_.inputs,
                               .k = size_.outputs,
                               .scale_a = operands.scale(dy_slot),
                               .scale_b = operands.scale(w_slot),
                               .type = precision_.type});
    const Tensor x =
        operands.quantize(x_slot, with_.x, size_.tokens, size_.inputs, e4m3, Copies::transposed, Seen::again)
            .transposed;
    run(context, Float8Product{.a = x,
                               .b = dy.transposed,
                               .c = dw_,
                               .m = size_.inputs,
                               .n = size_.outputs,
                               .k = float8_padded(size_.tokens),
                               .scale_a = operands.scale(x_slot),
                               .scale_b = operands.scale(dy_slot),
                               .type = precision_.type});
  }

  void write_weights(const LinearData& data) const override { write_weight(data.w, size_.outputs, w_); }
  std::vector<Tensor> gradients() const override { return {dw_}; }

  Tensor w_, dw_;
};

// y = (x A) B. With 8-bit operands, A's columns are padded to a multiple of 16.
class TrainLinear : public PrecisionLinear {
 public:
  TrainLinear(const LinearSize& size, const Precision& precision, const LinearActivations& activations)
      : PrecisionLinear(size, precision, activations),
        columns_(precision.float8 ? float8_padded(size.rank) : size.rank),
        a_(tensor({size.inputs, columns_}, precision.weights())),
        b_(tensor({size.rank, size.outputs}, precision.weights())),
        xa_(tensor({size.tokens, columns_}, precision.type)),
        da_(tensor({size.inputs, columns_}, master_of(precision.type))),
        db_(tensor({size.rank, size.outputs}, master_of(precision.type))) {}

 private:
  void forward(const Context& context) const override {
    TTLinearForward op{.x = with_.x, .a = a_, .xa = xa_, .outputs = 1, .output = {}};
    op.output[0] = {.column = 0, .b = b_, .bias = {}, .u = with_.y, .y = {}};
    if (precision_.float8)
      run(context, Float8LinearForward{.linear = op, .scales = scales_, .options = options()});
    else
      run(context, op);
  }

  void backward(const Context& context) const override {
    TTLinearBackward op{
        .x = with_.x, .a = a_, .xa = xa_, .da = da_, .dx = with_.dx, .outputs = 1, .output = {}, .dxa = {}};
    op.output[0] = {.column = 0, .b = b_, .db = db_, .dbias = {}, .u = {}, .y = {}, .dy = with_.dy};
    if (precision_.float8)
      run(context, Float8LinearBackward{.linear = op, .scales = scales_, .options = options()});
    else
      run(context, op);
  }

  void write_weights(const LinearData& data) const override {
    write_weight(data.a, size_.rank, a_);
    write_weight(data.b, size_.outputs, b_);
  }
  std::vector<Tensor> gradients() const override { return {da_, db_}; }

  std::int64_t columns_;
  Tensor a_, b_, xa_, da_, db_;
};

}  // namespace

LinearActivations::LinearActivations(const LinearSize& size, DType of, Allocator& allocator)
    : type(of),
      memory(allocator,
             2 * static_cast<std::size_t>(size.tokens * (size.inputs + size.outputs)) * size_of(of),
             MemoryKind::workspace) {
  const std::int64_t of_inputs = size.tokens * size.inputs, of_outputs = size.tokens * size.outputs;
  const Tensor all = memory.tensor({2 * (of_inputs + of_outputs)}, type);
  x = all.slice(0, {size.tokens, size.inputs});
  dx = all.slice(of_inputs, {size.tokens, size.inputs});
  y = all.slice(2 * of_inputs, {size.tokens, size.outputs});
  dy = all.slice(2 * of_inputs + of_outputs, {size.tokens, size.outputs});
}

void LinearActivations::write(const LinearData& data, const Processor& processor) const {
  write_rounded(x, data.x, processor);
  write_rounded(dy, data.dy, processor);
}

PrecisionLinear::PrecisionLinear(const LinearSize& size, const Precision& precision,
                                 const LinearActivations& activations)
    : size_(size), precision_(precision), with_(activations) {
  if (!precision_.float8) return;
  constexpr int count = Float8Slots::count;
  std::vector<Float8Scale> scales(count);
  std::vector<float> largest(count, float8_e4m3::largest);
  for (int slot = 0; slot < count; ++slot)
    if (Float8Slots::is_gradient(slot)) largest[slot] = float8_e5m2::largest;
  scales_ = tensor({count * std::int64_t{sizeof(Float8Scale)}}, DType::uint8);
  largest_ = tensor({count}, DType::float32);
  history_ = tensor({count, history_length}, DType::float32);
  position_ = tensor({1}, DType::int64);
  results_ = tensor({sizeof(StepResults)}, DType::uint8);
  upload(scales_, scales.data(), allocator());
  upload(largest_, largest.data(), allocator());
}

Tensor PrecisionLinear::tensor(Shape shape, DType dtype) {
  memory_.emplace_back(allocator(), static_cast<std::size_t>(shape.elements()) * size_of(dtype),
                       MemoryKind::workspace);
  return memory_.back().tensor(shape, dtype);
}

void PrecisionLinear::prepare() {
  Arena measuring = Arena::measuring(allocator().device());
  const Context dry{precision_.processor.backend, measuring, allocator().stream()};
  forward(dry);
  backward(dry);
  arena_ = std::make_unique<Arena>(allocator(), measuring.peak());
}

// The weight may have more columns, which stay 0.
void PrecisionLinear::write_weight(const std::vector<float>& values, std::int64_t columns,
                                   const Tensor& weight) const {
  const std::int64_t rows = weight.dim(0), all = weight.dim(1);
  std::vector<float> padded(static_cast<std::size_t>(rows * all));
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(values.data() + row * columns, columns, padded.data() + row * all);
  write_rounded(weight, padded, precision_.processor);
}

void PrecisionLinear::next_scales() {
  if (!precision_.delayed) return;
  run(context(), Float8NextScales{.scales = scales_,
                                  .largest = largest_,
                                  .history = history_,
                                  .position = position_,
                                  .results = results_});
}

LinearValues PrecisionLinear::values(const LinearSample& sample) {
  for (const Tensor& gradient : gradients()) run(context(), Fill{.x = gradient, .value = 0});
  forward();
  backward();
  wait();
  LinearValues values;
  values.y = read_block(with_.y, sample.y, allocator());
  values.dx = read_block(with_.dx, sample.dx, allocator());
  for (std::size_t i = 0; i < sample.weights.size(); ++i)
    values.weights.push_back(read_block(gradients()[i], sample.weights[i], allocator()));
  return values;
}

std::unique_ptr<PrecisionLinear> make_linear(const LinearSize& size, const Precision& precision,
                                             const LinearActivations& activations) {
  std::unique_ptr<PrecisionLinear> linear;
  if (size.rank == 0)
    linear = std::make_unique<MatrixLinear>(size, precision, activations);
  else
    linear = std::make_unique<TrainLinear>(size, precision, activations);
  linear->prepare();
  return linear;
}

}  // namespace comera
