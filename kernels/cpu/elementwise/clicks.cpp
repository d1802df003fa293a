#include "kernels/ops/elementwise/clicks.h"

#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t examples_at_once = 64;  // of a piece

std::int64_t whole_vectors(std::int64_t count) { return (count + lanes - 1) / lanes * lanes; }

// A thread's memory for one example: its vectors transposed (D, F + 1), or its gradients of products (F + 1,
// F + 1), in rows padded to whole vectors.
struct OneExample {
  std::int64_t row;
  float* memory;

  OneExample(const Tensor& others, std::int64_t rows, std::byte* scratch, int thread)
      : row(whole_vectors(others.dim(0) + 1)),
        memory(reinterpret_cast<float*>(scratch) + thread * rows * row) {}
  static std::size_t bytes(const Tensor& others, std::int64_t rows) {
    return static_cast<std::size_t>(thread_limit() * rows * whole_vectors(others.dim(0) + 1)) * sizeof(float);
  }
};

// Vector i of example b, 0 being the first.
template <class T>
T* vector_of(const Tensor& first, const Tensor& others, std::int64_t i, std::int64_t b) {
  const std::int64_t width = first.dim(1);
  return i == 0 ? first.data<T>() + b * width : others.data<T>() + ((i - 1) * first.dim(0) + b) * width;
}

template <class Each>
void each_example(std::int64_t examples, const Each& each) {
  parallel_pieces((examples + examples_at_once - 1) / examples_at_once, thread_limit(),
                  [&](std::int64_t piece, int thread) {
                    const std::int64_t begin = piece * examples_at_once;
                    for (std::int64_t b = begin; b < std::min(begin + examples_at_once, examples); ++b)
                      each(b, thread);
                  });
}
}  // namespace

template <class T>
void divide_bags(const DivideBags& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  const auto* offsets = op.offsets.data<std::int32_t>();
  each_example(op.x.dim(0), [&](std::int64_t b, int) {
    const std::int32_t ids = offsets[b + 1] - offsets[b];
    if (ids < 2) return;
    T* x = op.x.data<T>() + b * width;
    const float share = 1.F / static_cast<float>(ids);
    for_columns(0, width, [&](std::int64_t c, auto at) { at.store(x + c, at.load(x + c) * share); });
  });
}

std::size_t dot_interaction_forward_scratch(const DotInteractionForward& op) {
  return OneExample::bytes(op.others, op.first.dim(1));
}

// Products of vector i with the earlier ones are adjacent in y: vectorised over j, from the transposed
// vectors.
template <class T>
void dot_interaction_forward(const DotInteractionForward& op, const KernelContext& context) {
  const std::int64_t vectors = op.others.dim(0) + 1, width = op.first.dim(1);
  each_example(op.first.dim(0), [&](std::int64_t b, int thread) {
    const OneExample one(op.others, width, context.scratch, thread);
    for (std::int64_t i = 0; i < vectors; ++i) {
      const T* x = vector_of<T>(op.first, op.others, i, b);
      for (std::int64_t d = 0; d < width; ++d) one.memory[d * one.row + i] = static_cast<float>(x[d]);
    }
    for (std::int64_t d = 0; d < width; ++d)
      std::fill(one.memory + d * one.row + vectors, one.memory + (d + 1) * one.row, 0.F);
    T* y = std::copy_n(op.first.data<T>() + b * width, width, op.y.data<T>() + b * op.y.dim(1));
    for (std::int64_t i = 1; i < vectors; y += i, ++i)
      for_columns(0, i, [&](std::int64_t j, auto at) {
        vec sum = splat(0);
        for (std::int64_t d = 0; d < width; ++d) {
          const float* row = one.memory + d * one.row;
          sum += splat(row[i]) * load(row + j);
        }
        at.store(y + j, sum);
      });
  });
}

// After a thread's gradients of products: its example's vectors, in rows padded to whole vectors.
struct OneGradient : OneExample {
  std::int64_t width;  // of a row of `x`
  float* x;

  static std::int64_t rows(const Tensor& others) {
    const std::int64_t vectors = others.dim(0) + 1, row = whole_vectors(vectors);
    return vectors + (vectors * whole_vectors(others.dim(2)) + row - 1) / row;
  }
  OneGradient(const Tensor& others, std::byte* scratch, int thread)
      : OneExample(others, rows(others), scratch, thread),
        width(whole_vectors(others.dim(2))),
        x(memory + (others.dim(0) + 1) * row) {}
};

std::size_t dot_interaction_backward_scratch(const DotInteractionBackward& op) {
  return OneExample::bytes(op.others, OneGradient::rows(op.others));
}

template <class T>
void dot_interaction_backward(const DotInteractionBackward& op, const KernelContext& context) {
  const std::int64_t vectors = op.others.dim(0) + 1, width = op.first.dim(1);
  each_example(op.first.dim(0), [&](std::int64_t b, int thread) {
    const OneGradient one(op.others, context.scratch, thread);
    const T *straight = op.dy.data<T>() + b * op.dy.dim(1), *dy = straight + width;
    for (std::int64_t i = 0; i < vectors; ++i) {
      const T* x = vector_of<T>(op.first, op.others, i, b);
      for_columns(0, width,
                  [&](std::int64_t d, auto at) { store(one.x + i * one.width + d, at.load(x + d)); });
      for (std::int64_t j = 0; j < i; ++j, ++dy)
        one.memory[i * one.row + j] = one.memory[j * one.row + i] = static_cast<float>(*dy);
    }
    for (std::int64_t i = 0; i < vectors; ++i) {
      const float* products = one.memory + i * one.row;
      T* dx = vector_of<T>(op.dfirst, op.dothers, i, b);
      for_columns(0, width, [&](std::int64_t d, auto at) {
        vec sum = i == 0 ? at.load(straight + d) : splat(0);
        const float* x = one.x + d;
        for (std::int64_t j = 0; j < i; ++j) sum += splat(products[j]) * load(x + j * one.width);
        for (std::int64_t j = i + 1; j < vectors; ++j) sum += splat(products[j]) * load(x + j * one.width);
        at.store(dx + d, sum);
      });
    }
  });
}

template <class T>
void binary_cross_entropy(const BinaryCrossEntropy& op, const KernelContext&) {
  const std::int32_t count = *op.count.data<std::int32_t>();
  auto& results = *static_cast<StepResults*>(op.results.raw());
  const double factor = op.targets ? op.factor * *op.targets.data<std::int32_t>() / std::max(count, 1) : 1;
  const auto weight = static_cast<float>(factor);
  DetectionResults sums;
  T* logits = op.logits.data<T>();
  for (std::int64_t b = 0; b < op.logits.dim(0); ++b) {
    if (b >= count) {
      if (op.gradient) logits[b] = T(0.F);
      continue;
    }
    const float z = static_cast<float>(logits[b]), label = op.labels.data<float>()[b];
    const float small = std::exp(-std::abs(z));  // to avoid overflow
    const bool positive = label > 0.5F, correct = (z > 0) == positive;
    sums.loss_sum += static_cast<double>((z > 0 ? z : 0) - z * label + std::log1p(small));
    sums.tokens += 1;
    sums.correct += correct ? 1 : 0;
    sums.replaced += positive ? 1 : 0;
    sums.found += positive && correct ? 1 : 0;
    if (op.gradient) logits[b] = T(weight * ((z > 0 ? 1 : small) / (1 + small) - label));
  }
  results.loss_sum += factor * sums.loss_sum;
  if (!op.targets) {
    results.target_count += sums.tokens;
    results.correct += sums.correct;
    return;
  }
  DetectionResults& detection = results.detection;
  detection.loss_sum += sums.loss_sum;
  detection.weighed += factor * sums.loss_sum;
  detection.tokens += sums.tokens;
  detection.correct += sums.correct;
  detection.replaced += sums.replaced;
  detection.found += sums.found;
}

COMERA_FOR_EACH_TYPE(DivideBags, divide_bags)
COMERA_FOR_EACH_TYPE(DotInteractionForward, dot_interaction_forward)
COMERA_FOR_EACH_TYPE(DotInteractionBackward, dot_interaction_backward)
COMERA_FOR_EACH_TYPE(BinaryCrossEntropy, binary_cross_entropy)

COMERA_CPU_END
