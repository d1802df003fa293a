#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/attention.h"

namespace comera::plain {

namespace {

// Row t's place in the world of attention: its sequence's rows are [begin, end).
struct Sequences {
  const std::int32_t* offsets;
  std::int64_t count;
  template <class Operation>
  explicit Sequences(const Operation& op)
      : offsets(op.sequence_offsets.template data<std::int32_t>()),
        count(op.sequence_offsets.elements() - 1) {}
  std::int64_t rows() const { return offsets[count]; }
};

template <class Operation>
DropoutKey key_of(const Operation& op) {
  return op.dropout.active() ? static_cast<const StepInputs*>(op.step_inputs.raw())->dropout : DropoutKey{};
}

template <class Operation>
std::uint64_t dropout_element(const Operation& op, std::int64_t head, std::int64_t row, std::int64_t key) {
  return static_cast<std::uint64_t>((head * op.q.dim(0) + row) * op.longest + key);
}

template <class T>
T dot(const T* x, const T* y, std::int64_t n) {
  T sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

template <class T>
void attention_forward(const AttentionForward& op, const KernelContext&) {
  const std::int64_t rows = op.q.dim(0), width = op.q.dim(1), size = width / op.heads;
  const Sequences sequences(op);
  const DropoutKey key = key_of(op);
  T* out = op.out.data<T>();
  T* log_sum_exp = op.log_sum_exp.data<T>();
  for (std::int64_t i = 0; i < rows * width; ++i) out[i] = 0;
  for (std::int64_t i = 0; i < op.heads * rows; ++i) log_sum_exp[i] = 0;
  std::vector<T> p(op.longest);
  for (std::int64_t s = 0; s < sequences.count; ++s) {
    const std::int64_t begin = sequences.offsets[s], length = sequences.offsets[s + 1] - begin;
    for (std::int64_t h = 0; h < op.heads; ++h) {
      const T* q = op.q.data<T>() + begin * width + h * size;
      const T* k = op.k.data<T>() + begin * width + h * size;
      const T* v = op.v.data<T>() + begin * width + h * size;
      for (std::int64_t i = 0; i < length; ++i) {
        T largest = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < length; ++j) {
          p[j] = static_cast<T>(op.scale) * dot(q + i * width, k + j * width, size);
          largest = std::max(largest, p[j]);
        }
        for (std::int64_t j = 0; j < length; ++j) sum += p[j] = std::exp(p[j] - largest);
        log_sum_exp[h * rows + begin + i] = largest + std::log(sum);
        T* row = out + (begin + i) * width + h * size;
        for (std::int64_t j = 0; j < length; ++j) {
          T weight = p[j] / sum;
          if (op.dropout.active())
            weight *=
                dropout_keeps(key, op.dropout, dropout_element(op, h, begin + i, j)) ? op.dropout.scale() : 0;
          for (std::int64_t c = 0; c < size; ++c) row[c] += weight * v[j * width + c];
        }
      }
    }
  }
}

template <class T>
void attention_backward(const AttentionBackward& op, const KernelContext&) {
  const std::int64_t rows = op.q.dim(0), width = op.q.dim(1), size = width / op.heads;
  const Sequences sequences(op);
  const DropoutKey key = key_of(op);
  for (const Tensor& gradient : {op.dq, op.dk, op.dv})
    for (std::int64_t i = 0; i < rows * width; ++i) gradient.data<T>()[i] = 0;
  for (std::int64_t s = 0; s < sequences.count; ++s) {
    const std::int64_t begin = sequences.offsets[s], length = sequences.offsets[s + 1] - begin;
    for (std::int64_t h = 0; h < op.heads; ++h) {
      const std::int64_t at = begin * width + h * size;
      const T *q = op.q.data<T>() + at, *k = op.k.data<T>() + at, *v = op.v.data<T>() + at;
      const T *out = op.out.data<T>() + at, *dout = op.dout.data<T>() + at;
      T *dq = op.dq.data<T>() + at, *dk = op.dk.data<T>() + at, *dv = op.dv.data<T>() + at;
      for (std::int64_t i = 0; i < length; ++i) {
        const T log_sum_exp = op.log_sum_exp.data<T>()[h * rows + begin + i];
        const T delta = dot(out + i * width, dout + i * width, size);  // Σ_j P_ij dP_ij
        for (std::int64_t j = 0; j < length; ++j) {
          const T p =
              std::exp(static_cast<T>(op.scale) * dot(q + i * width, k + j * width, size) - log_sum_exp);
          T mask = 1;
          if (op.dropout.active())
            mask =
                dropout_keeps(key, op.dropout, dropout_element(op, h, begin + i, j)) ? op.dropout.scale() : 0;
          const T dp = mask * dot(dout + i * width, v + j * width, size);
          const T ds = static_cast<T>(op.scale) * p * (dp - delta);
          for (std::int64_t c = 0; c < size; ++c) {
            dv[j * width + c] += p * mask * dout[i * width + c];
            dq[i * width + c] += ds * k[j * width + c];
            dk[j * width + c] += ds * q[i * width + c];
          }
        }
      }
    }
  }
}

}  // namespace

void register_attention(Backend& backend) {
  backend.set<AttentionForward>(DType::float32, attention_forward<float>);
  backend.set<AttentionForward>(DType::float64, attention_forward<double>);
  backend.set<AttentionBackward>(DType::float32, attention_backward<float>);
  backend.set<AttentionBackward>(DType::float64, attention_backward<double>);
}

}  // namespace comera::plain
