#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/attention/attention.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

// The sequence that row t belongs to: rows [begin, end).
struct Sequences {
  const std::int32_t* offsets;
  std::int64_t count;
  template <class Operation>
  explicit Sequences(const Operation& op)
      : offsets(op.sequence_offsets.template data<std::int32_t>()),
        count(op.sequence_offsets.elements() - 1) {}
  std::int64_t rows() const { return offsets[count]; }
  // For a sequence of this length.
  template <class Operation>
  static std::int64_t queries(const Operation& op, std::int64_t length) {
    return op.queries > 0 ? std::min(op.queries, length) : length;
  }
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

// The bias of the score of a query and a key of one sequence.
template <class T, class Operation>
T bias_of(const Operation& op, std::int64_t head, std::int64_t query, std::int64_t key) {
  if (op.biases) return op.biases.template data<T>()[place_of_no_distance(op, head) + key - query];
  if (!op.slopes) return 0;
  const T* slopes = op.slopes.template data<T>() + 2 * head;
  return key < query ? -slopes[0] * static_cast<T>(query - key) : -slopes[1] * static_cast<T>(key - query);
}

template <class T>
void attention_forward(const AttentionForward& op, const KernelContext&) {
  const std::int64_t rows = op.q.dim(0), q_width = op.q.dim(1), out_width = op.out.dim(1);
  const std::int64_t key_size = op.key_size(), values = op.computed_values(), out_size = out_width / op.heads;
  const std::int64_t k_stride = key_stride(op), v_stride = value_stride(op);
  const Sequences sequences(op);
  const DropoutKey key = key_of(op);
  T* out = op.out.data<T>();
  T* log_sum_exp = op.log_sum_exp.data<T>();
  for (std::int64_t i = 0; i < rows * out_width; ++i) out[i] = 0;
  for (std::int64_t i = 0; i < op.heads * rows; ++i) log_sum_exp[i] = 0;
  std::vector<T> p(op.longest);
  for (std::int64_t s = 0; s < sequences.count; ++s) {
    const std::int64_t begin = sequences.offsets[s], length = sequences.offsets[s + 1] - begin;
    for (std::int64_t h = 0; h < op.heads; ++h) {
      const T* q = op.q.data<T>() + begin * q_width + h * key_size;
      const T* k = op.k.data<T>() + begin * k_stride + kv_head(op, h) * key_size;
      const T* v = op.v.data<T>() + begin * v_stride + kv_head(op, h) * values;
      for (std::int64_t i = 0; i < Sequences::queries(op, length); ++i) {
        T largest = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < length; ++j) {
          p[j] = static_cast<T>(op.scale) * dot(q + i * q_width, k + j * k_stride, key_size) +
                 bias_of<T>(op, h, i, j);
          largest = std::max(largest, p[j]);
        }
        for (std::int64_t j = 0; j < length; ++j) sum += p[j] = std::exp(p[j] - largest);
        log_sum_exp[h * rows + begin + i] = largest + std::log(sum);
        T* row = out + (begin + i) * out_width + h * out_size;
        for (std::int64_t j = 0; j < length; ++j) {
          T weight = p[j] / sum;
          if (op.dropout.active())
            weight *=
                dropout_keeps(key, op.dropout, dropout_element(op, h, begin + i, j)) ? op.dropout.scale() : 0;
          for (std::int64_t c = 0; c < values; ++c) row[c] += weight * v[j * v_stride + c];
          if (op.append_one) row[out_size - 1] += weight;
        }
      }
    }
  }
}

template <class T>
void attention_backward(const AttentionBackward& op, const KernelContext&) {
  const std::int64_t rows = op.q.dim(0), q_width = op.q.dim(1), out_width = op.out.dim(1);
  const std::int64_t key_size = op.key_size(), values = op.computed_values(), out_size = out_width / op.heads;
  const std::int64_t k_stride = key_stride(op), v_stride = value_stride(op);
  const Sequences sequences(op);
  const DropoutKey key = key_of(op);
  const auto clear = [rows](const Tensor& tensor, std::int64_t width, std::int64_t ld) {
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t c = 0; c < width; ++c) tensor.data<T>()[t * ld + c] = 0;
  };
  clear(op.dq, q_width, q_width);
  clear(op.dk, op.kv_heads() * key_size, k_stride);
  clear(op.dv, op.kv_heads() * op.stored_values(), v_stride);
  for (std::int64_t s = 0; s < sequences.count; ++s) {
    const std::int64_t begin = sequences.offsets[s], length = sequences.offsets[s + 1] - begin;
    for (std::int64_t h = 0; h < op.heads; ++h) {
      const std::int64_t q_at = begin * q_width + h * key_size, out_at = begin * out_width + h * out_size;
      const std::int64_t k_at = begin * k_stride + kv_head(op, h) * key_size;
      const std::int64_t v_at = begin * v_stride + kv_head(op, h) * values;
      const T *q = op.q.data<T>() + q_at, *k = op.k.data<T>() + k_at, *v = op.v.data<T>() + v_at;
      const T *out = op.out.data<T>() + out_at, *dout = op.dout.data<T>() + out_at;
      T *dq = op.dq.data<T>() + q_at, *dk = op.dk.data<T>() + k_at, *dv = op.dv.data<T>() + v_at;
      for (std::int64_t i = 0; i < Sequences::queries(op, length); ++i) {
        const T log_sum_exp = op.log_sum_exp.data<T>()[h * rows + begin + i];
        const T delta = dot(out + i * out_width, dout + i * out_width, out_size);  // Σ_j P_ij dP_ij
        for (std::int64_t j = 0; j < length; ++j) {
          const T score = static_cast<T>(op.scale) * dot(q + i * q_width, k + j * k_stride, key_size);
          const T p = std::exp(score + bias_of<T>(op, h, i, j) - log_sum_exp);
          T mask = 1;
          if (op.dropout.active())
            mask =
                dropout_keeps(key, op.dropout, dropout_element(op, h, begin + i, j)) ? op.dropout.scale() : 0;
          T ddropped = dot(dout + i * out_width, v + j * v_stride, values);
          if (op.append_one) ddropped += dout[i * out_width + out_size - 1];
          const T ds = static_cast<T>(op.scale) * p * (mask * ddropped - delta);
          for (std::int64_t c = 0; c < values; ++c)
            dv[j * v_stride + c] += p * mask * dout[i * out_width + c];
          for (std::int64_t c = 0; c < key_size; ++c) {
            dq[i * q_width + c] += ds * k[j * k_stride + c];
            dk[j * k_stride + c] += ds * q[i * q_width + c];
          }
        }
      }
    }
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<AttentionForward>(dtype_of<T>, attention_forward<T>);
  backend.set<AttentionBackward>(dtype_of<T>, attention_backward<T>);
}

}  // namespace

void register_attention(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
