#include "kernels/ops/elementwise/cross_entropy.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/widened.h"

COMERA_CPU_BEGIN

namespace {
template <class Operation>
std::int64_t pieces_of(const Operation& op) {
  return std::clamp<std::int64_t>(op.logits.dim(1) / 8, 1, 16);
}

struct RowResult {
  double loss = 0;
  double weight = 1;
  double correct = 0;
};

struct Memory {
  float* dbias = nullptr;   // (pieces, classes)
  float* logits = nullptr;  // (pieces, classes); a divergence's in a narrow type only
  RowResult* rows = nullptr;
};
template <class Operation>
Memory take(const Operation& op, Scratch& scratch) {
  Memory memory;
  memory.dbias = scratch.floats(pieces_of(op) * op.classes);
  if (std::is_same_v<Operation, SoftmaxDivergence> && op.compute() != DType::float32)
    memory.logits = scratch.floats(pieces_of(op) * op.classes);
  memory.rows = reinterpret_cast<RowResult*>(
      scratch.floats(op.logits.dim(1) * static_cast<std::int64_t>(sizeof(RowResult) / sizeof(float))));
  return memory;
}

constexpr std::int64_t longest_stretch = 1024;

// A row's logits lie in runs of `inner`; visits their real classes in ranges short enough to be summed in
// single precision.
template <class T>
class LogitRow {
 public:
  LogitRow(T* first, std::int64_t runs, std::int64_t inner, std::int64_t ld, std::int64_t classes)
      : first_(first), runs_(runs), inner_(inner), apart_(ld), classes_(classes) {}

  T& at(std::int64_t c) const { return run(c / inner_)[c % inner_]; }
  // body(z, class of z[0], count)
  template <class Body>
  void for_each_stretch(const Body& body) const {
    for (std::int64_t o = 0; o * inner_ < classes_; ++o) {
      const std::int64_t real = std::min(inner_, classes_ - o * inner_);
      for (std::int64_t i = 0; i < real; i += longest_stretch) {
        body(run(o) + i, o * inner_ + i, std::min(longest_stretch, real - i));
      }
    }
  }
  void clear_from(std::int64_t c) const {
    for (std::int64_t o = c / inner_; o < runs_; ++o) {
      const std::int64_t begin = std::max<std::int64_t>(0, c - o * inner_);
      std::fill(run(o) + begin, run(o) + inner_, T(0.F));
    }
  }

 private:
  T* run(std::int64_t o) const { return first_ + o * apart_; }
  T* first_;
  std::int64_t runs_, inner_, apart_, classes_;
};

template <class T, class Operation>
LogitRow<T> row_of(const Operation& op, std::int64_t r) {
  const std::int64_t rows = op.logits.dim(1), inner = op.logits.dim(2);
  return {op.logits.template data<T>() + r * inner, op.logits.dim(0), inner, rows * inner, op.classes};
}

// Of x[0 .. count) and `least`.
float largest_of(const float* x, std::int64_t count, float least) {
  vec top = splat(least);
  const std::int64_t whole = count / lanes * lanes;
  for (std::int64_t c = 0; c < whole; c += lanes) top = max(top, load(x + c));
  float maximum = largest(top);
  for (std::int64_t c = whole; c < count; ++c) maximum = std::max(maximum, x[c]);
  return maximum;
}

void add_row(const LogitRow<float>& row, float* to) {
  row.for_each_stretch([&](float* z, std::int64_t first, std::int64_t count) {
    for_columns(0, count, [&](std::int64_t c, auto at) {
      at.store(to + first + c, at.load(to + first + c) + at.load(z + c));
    });
  });
}

// Logits of a narrow type have fewer digits than the quicker of the two.
template <class T>
vec exponential(vec x) {
  if constexpr (is_narrow<T>)
    return exp2(x * 1.44269504f);
  else
    return exp(x);
}

// Reads a row twice, from where it is: once for the sum of exponentials, which is scaled where a stretch has
// a larger logit than those before it, and once for the gradient.
template <class T>
RowResult one_row(const SoftmaxCrossEntropy& op, std::int64_t r, const LogitRow<T>& row, float* dbias) {
  const std::int64_t target = op.targets.data<std::int32_t>()[op.row_begin + r];
  const float* bias = op.bias ? op.bias.data<float>() : nullptr;
  const float weight = op.weights ? op.weights.data<float>()[op.row_begin + r] : 1.F;
  const auto logit = [&](std::int64_t c) {
    return static_cast<float>(row.at(c)) + (bias == nullptr ? 0.F : bias[c]);
  };
  const auto logits = [&](auto at, const T* z, std::int64_t c, std::int64_t first) {
    const vec own = at.load(z + c);
    return bias == nullptr ? own : own + at.load(bias + first + c);
  };
  float maximum = logit(0);
  std::int64_t largest_in = 0;  // the stretch of the first of equal largest logits
  double total = 0;
  row.for_each_stretch([&](const T* z, std::int64_t first, std::int64_t count) {
    alignas(64) float stretch[longest_stretch];
    for_columns(0, count, [&](std::int64_t c, auto at) { at.store(stretch + c, logits(at, z, c, first)); });
    if (const float top = largest_of(stretch, count, maximum); top > maximum) {
      total *= std::exp(static_cast<double>(maximum) - top);
      maximum = top;
      largest_in = first;
    }
    if (maximum == -std::numeric_limits<float>::infinity()) return;  // all so far: they add nothing
    vec some = splat(0);
    for_columns(0, count, [&](std::int64_t c, auto at) {
      some += at.keep(exponential<T>(at.load(stretch + c) - maximum));
    });
    total += sum(some);
  });
  const float target_logit = logit(target);
  bool correct = target_logit == maximum;  // and no class before it has as much
  for (std::int64_t c = largest_in; correct && c < target; ++c) correct = logit(c) != maximum;
  if (op.gradient) {
    const auto inverse = static_cast<float>(weight / total);
    row.for_each_stretch([&](T* z, std::int64_t first, std::int64_t count) {
      for_columns(0, count, [&](std::int64_t c, auto at) {
        const vec p = exponential<T>(logits(at, z, c, first) - maximum) * inverse;
        at.store(z + c, p);
        if (dbias != nullptr) at.store(dbias + first + c, at.load(dbias + first + c) + p);
      });
    });
    const float p = exponential<T>(splat(target_logit - maximum))[0] * inverse;
    row.at(target) = static_cast<T>(p - weight);
    if (dbias != nullptr) dbias[target] -= weight;
  }
  return {.loss = weight * (static_cast<double>(maximum) + std::log(total) - target_logit),
          .weight = weight,
          .correct = correct ? 1. : 0.};
}

// Σ p (log p - log q) = Σ p (τ - z) - log Σ exp τ + log Σ exp z, where z and τ are the logits over the
// temperature.
RowResult one_row(const SoftmaxDivergence& op, std::int64_t r, const LogitRow<float>& row, float* dbias) {
  const auto inverse = static_cast<float>(1 / op.temperature);
  const float* bias = op.bias ? op.bias.data<float>() : nullptr;
  const float* teacher = op.teacher.data<float>() + (op.row_begin + r) * op.classes;
  float top = (bias == nullptr ? row.at(0) : row.at(0) + bias[0]) * inverse, teacher_top = teacher[0];
  row.for_each_stretch([&](float* z, std::int64_t first, std::int64_t count) {
    for_columns(0, count, [&](std::int64_t c, auto at) {
      const vec own = bias == nullptr ? at.load(z + c) : at.load(z + c) + at.load(bias + first + c);
      at.store(z + c, own * inverse);
    });
    top = largest_of(z, count, top);
    teacher_top = largest_of(teacher + first, count, teacher_top);
  });
  teacher_top *= inverse;
  double total = 0, teacher_total = 0, between = 0;
  row.for_each_stretch([&](float* z, std::int64_t first, std::int64_t count) {
    vec some = splat(0), teacher_some = splat(0), some_between = splat(0);
    for_columns(0, count, [&](std::int64_t c, auto at) {
      const vec own = at.load(z + c), taught = at.load(teacher + first + c) * inverse;
      const vec p = at.keep(exp(taught - teacher_top));
      some += at.keep(exp(own - top));
      teacher_some += p;
      some_between += at.keep(p * (taught - own));
    });
    total += sum(some);
    teacher_total += sum(teacher_some);
    between += sum(some_between);
  });
  const double t = op.temperature;
  if (op.gradient) {
    const auto own_scale = static_cast<float>(op.factor * t / total);
    const auto teacher_scale = static_cast<float>(op.factor * t / teacher_total);
    row.for_each_stretch([&](float* z, std::int64_t first, std::int64_t count) {
      for_columns(0, count, [&](std::int64_t c, auto at) {
        const vec taught = at.load(teacher + first + c) * inverse;
        at.store(z + c, exp(at.load(z + c) - top) * own_scale - exp(taught - teacher_top) * teacher_scale);
      });
    });
    if (dbias != nullptr) add_row(row, dbias);
  }
  const double divergence = between / teacher_total -
                            (static_cast<double>(teacher_top) + std::log(teacher_total)) +
                            (static_cast<double>(top) + std::log(total));
  return {.loss = op.factor * t * t * divergence, .weight = op.counts ? 1. : 0., .correct = 0};
}

template <class T>
RowResult one_row_as(const SoftmaxCrossEntropy& op, std::int64_t r, float*, float* dbias) {
  return one_row(op, r, row_of<T>(op, r), dbias);
}

// Logits of a narrow type are rounded once, at the end: intermediate values are in a single-precision copy.
template <class T>
RowResult one_row_as(const SoftmaxDivergence& op, std::int64_t r, float* copy, float* dbias) {
  const LogitRow<T> row = row_of<T>(op, r);
  if constexpr (!is_narrow<T>) return one_row(op, r, row, dbias);
  row.for_each_stretch([&](const T* z, std::int64_t first, std::int64_t count) {
    for_columns(0, count, [&](std::int64_t c, auto at) { at.store(copy + first + c, at.load(z + c)); });
  });
  const RowResult result = one_row(op, r, {copy, 1, op.classes, op.classes, op.classes}, dbias);
  if (!op.gradient) return result;
  row.for_each_stretch([&](T* z, std::int64_t first, std::int64_t count) {
    for_columns(0, count, [&](std::int64_t c, auto at) { at.store(z + c, at.load(copy + first + c)); });
  });
  return result;
}

template <class Operation>
std::size_t scratch_bytes(const Operation& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

// Exponentials of a row's logits with their bias, z - largest, and the sum of each stretch of them.
constexpr std::int64_t draw_stretch = 1024;
struct DrawMemory {
  float *z = nullptr, *sums = nullptr;  // (pieces, classes), (pieces, stretches)
  std::int64_t stretches = 0;
};
DrawMemory take(const DrawClasses& op, Scratch& scratch) {
  DrawMemory memory;
  memory.stretches = (op.classes + draw_stretch - 1) / draw_stretch;
  memory.z = scratch.floats(pieces_of(op) * op.classes);
  memory.sums = scratch.floats(pieces_of(op) * memory.stretches);
  return memory;
}

// The class at which the running sum exceeds the part that `uniform` is of the whole; the last one with a
// probability if rounding lets none do so.
std::int64_t draw_from(float* z, std::int64_t classes, float* sums, double uniform) {
  const float largest = largest_of(z, classes, z[0]);
  double total = 0;
  for (std::int64_t first = 0; first < classes; first += draw_stretch) {
    vec some = splat(0);
    for_columns(first, std::min(classes, first + draw_stretch), [&](std::int64_t c, auto at) {
      const vec e = exp(at.load(z + c) - largest);
      some += at.keep(e);
      at.store(z + c, e);
    });
    total += sums[first / draw_stretch] = sum(some);
  }
  double part = uniform * total;
  std::int64_t first = 0;
  for (; first + draw_stretch < classes && sums[first / draw_stretch] <= part; first += draw_stretch)
    part -= sums[first / draw_stretch];
  std::int64_t drawn = first;
  for (std::int64_t c = first; c < std::min(classes, first + draw_stretch); ++c) {
    if (z[c] > 0) drawn = c;
    if ((part -= z[c]) < 0) break;
  }
  return drawn;
}

template <class T>
void draw_all(const DrawClasses& op, const KernelContext& context) {
  const std::int64_t rows = op.logits.dim(1), pieces = pieces_of(op);
  const std::int64_t real = std::clamp<std::int64_t>(*op.count.data<std::int32_t>() - op.row_begin, 0, rows);
  const DropoutKey key = static_cast<const StepInputs*>(op.step_inputs.raw())->dropout;
  const float* bias = op.bias ? op.bias.data<float>() : nullptr;
  Scratch scratch(context.scratch);
  const DrawMemory memory = take(op, scratch);
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    float* z = memory.z + piece * op.classes;
    for (std::int64_t r = rows * piece / pieces; r < std::min(rows * (piece + 1) / pieces, real); ++r) {
      row_of<T>(op, r).for_each_stretch([&](const T* from, std::int64_t first, std::int64_t count) {
        for_columns(0, count, [&](std::int64_t c, auto at) {
          const vec value = at.load(from + c);
          at.store(z + first + c, bias == nullptr ? value : value + at.load(bias + first + c));
        });
      });
      op.drawn.data<std::int32_t>()[op.row_begin + r] =
          static_cast<std::int32_t>(draw_from(z, op.classes, memory.sums + piece * memory.stretches,
                                              uniform_of_row(key, op.site, op.row_begin + r)));
    }
  });
}

// Fixed pieces of the rows, whose sums are added in order.
template <class T, class Operation>
void all_rows(const Operation& op, const KernelContext& context) {
  const std::int64_t rows = op.logits.dim(1), pieces = pieces_of(op);
  const std::int64_t real =
      std::clamp<std::int64_t>(*op.count.template data<std::int32_t>() - op.row_begin, 0, rows);
  Scratch scratch(context.scratch);
  const Memory memory = take(op, scratch);
  const bool has_dbias = op.gradient && op.bias;
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    float* dbias = has_dbias ? memory.dbias + piece * op.classes : nullptr;
    if (has_dbias) std::fill_n(dbias, op.classes, 0.F);
    float* copy = memory.logits + (memory.logits == nullptr ? 0 : piece * op.classes);
    for (std::int64_t r = rows * piece / pieces; r < rows * (piece + 1) / pieces; ++r) {
      if (r < real) {
        memory.rows[r] = one_row_as<T>(op, r, copy, dbias);
        if (op.gradient) row_of<T>(op, r).clear_from(op.classes);
      } else if (op.gradient) {
        row_of<T>(op, r).clear_from(0);
      }
    }
  });
  auto& results = *static_cast<StepResults*>(op.results.raw());
  for (std::int64_t r = 0; r < real; ++r) {
    results.loss_sum += memory.rows[r].loss;
    results.target_count += memory.rows[r].weight;
    results.correct += memory.rows[r].correct;
  }
  if (has_dbias) add_pieces(op.dbias.template data<float>(), memory.dbias, op.classes, pieces, op.classes);
}
}  // namespace

std::size_t softmax_cross_entropy_scratch(const SoftmaxCrossEntropy& op) { return scratch_bytes(op); }
std::size_t softmax_divergence_scratch(const SoftmaxDivergence& op) { return scratch_bytes(op); }

std::size_t draw_classes_scratch(const DrawClasses& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

template <class T>
void draw_classes(const DrawClasses& op, const KernelContext& context) {
  draw_all<T>(op, context);
}

template <class T>
void softmax_cross_entropy(const SoftmaxCrossEntropy& op, const KernelContext& context) {
  all_rows<T>(op, context);
}

template <class T>
void softmax_divergence(const SoftmaxDivergence& op, const KernelContext& context) {
  all_rows<T>(op, context);
}

COMERA_FOR_EACH_TYPE(DrawClasses, draw_classes)
COMERA_FOR_EACH_TYPE(SoftmaxCrossEntropy, softmax_cross_entropy)
COMERA_FOR_EACH_TYPE(SoftmaxDivergence, softmax_divergence)

COMERA_CPU_END
