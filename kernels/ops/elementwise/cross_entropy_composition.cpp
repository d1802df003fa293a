#include <algorithm>

#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/elementwise/logit_parts.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/real_rows.h"

namespace comera {

namespace {

// Rows of logits in memory at a time, whatever the vocabulary.
std::int64_t rows_per_chunk(const Context& context, std::int64_t rows, std::int64_t elements_per_row,
                            DType type) {
  const std::int64_t bytes = elements_per_row * static_cast<std::int64_t>(size_of(type));
  return std::clamp<std::int64_t>(context.backend.machine().part_bytes / bytes / 8 * 8, 8,
                                  std::max<std::int64_t>(rows, 8));
}

// Columns of a row of logits on a GPU: rows begin at multiples of 16 bytes, as tensor cores want them.
std::int64_t padded_classes(const Context& context, std::int64_t classes) {
  constexpr std::int64_t multiple = 8;
  return context.backend.device().kind == DeviceKind::cuda ? (classes + multiple - 1) / multiple * multiple
                                                           : classes;
}

// The classes in parts of rows of the table.
struct ClassParts {
  std::int64_t classes, rows, size, count;  // rows: of a block, at most

  ClassParts(const Context& context, const DenseMaskedCrossEntropy& op) : classes(op.table.dim(0)) {
    const MachineModel machine = context.backend.machine();
    const std::int64_t table_row = op.table.dim(1) * static_cast<std::int64_t>(size_of(op.table.dtype()));
    rows = logit_rows_at_once(machine, op.h.dim(0), classes, op.compute());
    size = classes_at_once(machine, classes, 32, table_row, rows, op.compute());
    if (size >= classes) size = padded_classes(context, classes);
    count = (classes + size - 1) / size;
  }
  std::int64_t first(std::int64_t part) const { return part * size; }
  std::int64_t real(std::int64_t part) const { return std::min(size, classes - first(part)); }
};

void dense_masked_cross_entropy(const DenseMaskedCrossEntropy& op, const Context& context) {
  const std::int64_t rows = rows_to_compute(context, op.count, op.h.dim(0)), width = op.h.dim(1);
  const ClassParts parts(context, op);
  const std::int64_t block = equal_logit_rows(rows, parts.rows);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t size = std::min(block, rows - begin);
    ArenaScope scope(context.arena);
    const Tensor logits = scope.tensor({parts.count, size, parts.size}, op.compute());
    const Tensor h = op.h.rows(begin, size);
    for (std::int64_t part = 0; part < parts.count; ++part)
      run(context, MatrixProduct{.a = h,
                                 .b = op.table.rows(parts.first(part), parts.real(part)),
                                 .c = logits.rows(part, 1),
                                 .m = size,
                                 .n = parts.real(part),
                                 .k = width,
                                 .transpose_b = true,
                                 .ldc = parts.size});
    softmax_losses(context,
                   SoftmaxCrossEntropy{.logits = logits,
                                       .bias = op.bias,
                                       .dbias = op.dbias,
                                       .targets = op.targets,
                                       .count = op.count,
                                       .row_begin = begin,
                                       .classes = parts.classes,
                                       .gradient = op.gradient,
                                       .results = op.results},
                   op.soft, op.draws);
    if (!op.gradient) continue;
    // The parts are summed: not in a narrow type.
    const Tensor dh_rows = op.dh.rows(begin, size);
    const DType master = master_of(op.compute());
    const Tensor dh =
        parts.count == 1 || master == op.compute() ? dh_rows : scope.tensor(dh_rows.shape(), master);
    for (std::int64_t part = 0; part < parts.count; ++part) {
      const Tensor dlogits = logits.rows(part, 1);
      run(context, MatrixProduct{.a = dlogits,
                                 .b = op.table.rows(parts.first(part), parts.real(part)),
                                 .c = dh,
                                 .m = size,
                                 .n = width,
                                 .k = parts.real(part),
                                 .accumulate = part > 0,
                                 .lda = parts.size});
      run(context, MatrixProduct{.a = dlogits,
                                 .b = h,
                                 .c = op.dtable.rows(parts.first(part), parts.real(part)),
                                 .m = parts.real(part),
                                 .n = width,
                                 .k = size,
                                 .transpose_a = true,
                                 .accumulate = true,
                                 .lda = parts.size});
    }
    if (dh.dtype() != op.compute()) run(context, Cast{.x = dh, .y = dh_rows});
  }
  if (op.gradient) clear_other_rows(context, op.dh, rows);
}

// With t[a, k, p, r] = Σ_b h[p, a, b] right[b, k, r], stored as (nl rank) x (rows R), the logits of a chunk
// are one product left x t of (L) x (nl rank) x (rows R), whose memory is (outer L, rows, inner R): class l R
// + r.
void ttm_masked_cross_entropy(const TTMMaskedCrossEntropy& op, const Context& context) {
  // All rows: for batched products, fewer rows may need more memory than a dry run has measured.
  const std::int64_t rows = op.h.dim(0), width = op.h.dim(1), classes = op.bias.dim(0);
  const std::int64_t left_rows = op.left.dim(0), nl = op.left.dim(1), rank = op.left.dim(2);
  const std::int64_t nr = op.right.dim(0), right_rows = op.right.dim(2);
  const std::int64_t chunk =
      rows_per_chunk(context, rows, left_rows * right_rows + 2 * nl * rank * right_rows, op.compute());
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t size = std::min(chunk, rows - begin), block = size * right_rows;
    ArenaScope scope(context.arena);
    const Tensor t = scope.tensor({nl * rank, block}, op.compute());
    const Tensor logits = scope.tensor({left_rows, size, right_rows}, op.compute());
    const Tensor h = op.h.rows(begin, size);
    for (std::int64_t a = 0; a < nl; ++a)
      run(context, MatrixProduct{.a = h.slice(a * nr, {h.elements() - a * nr}),
                                 .b = op.right,
                                 .c = t.rows(a * rank, rank),
                                 .m = size,
                                 .n = right_rows,
                                 .k = nr,
                                 .lda = width,
                                 .ldb = rank * right_rows,
                                 .batch = rank,
                                 .stride_b = right_rows,
                                 .stride_c = block});
    run(context,
        MatrixProduct{.a = op.left, .b = t, .c = logits, .m = left_rows, .n = block, .k = nl * rank});
    softmax_losses(context,
                   SoftmaxCrossEntropy{.logits = logits,
                                       .bias = op.bias,
                                       .dbias = op.dbias,
                                       .targets = op.targets,
                                       .count = op.count,
                                       .row_begin = begin,
                                       .classes = classes,
                                       .gradient = op.gradient,
                                       .results = op.results},
                   op.soft, op.draws);
    if (!op.gradient) continue;
    run(context, MatrixProduct{.a = logits,
                               .b = t,
                               .c = op.dleft,
                               .m = left_rows,
                               .n = nl * rank,
                               .k = block,
                               .transpose_b = true,
                               .accumulate = true});
    run(context, MatrixProduct{.a = op.left,
                               .b = logits,
                               .c = t,
                               .m = nl * rank,
                               .n = block,
                               .k = left_rows,
                               .transpose_a = true});  // t now holds its own gradient
    // The sum of many products: not in a narrow type.
    const Tensor dh_chunk = op.dh.rows(begin, size);
    const DType master = master_of(op.compute());
    const Tensor dh = master == op.compute() ? dh_chunk : scope.tensor(dh_chunk.shape(), master);
    run(context, Fill{.x = dh, .value = 0});
    for (std::int64_t a = 0; a < nl; ++a)
      run(context, MatrixProduct{.a = h.slice(a * nr, {h.elements() - a * nr}),
                                 .b = t.rows(a * rank, rank),
                                 .c = op.dright,
                                 .m = nr,
                                 .n = right_rows,
                                 .k = size,
                                 .transpose_a = true,
                                 .accumulate = true,
                                 .lda = width,
                                 .ldc = rank * right_rows,
                                 .batch = rank,
                                 .stride_b = block,
                                 .stride_c = right_rows});
    for (std::int64_t k = 0; k < rank; ++k)
      run(context, MatrixProduct{.a = t.slice(k * block, {t.elements() - k * block}),
                                 .b = op.right.slice(k * right_rows, {op.right.elements() - k * right_rows}),
                                 .c = dh,
                                 .m = size,
                                 .n = nr,
                                 .k = right_rows,
                                 .transpose_b = true,
                                 .accumulate = true,
                                 .ldb = rank * right_rows,
                                 .ldc = width,
                                 .batch = nl,
                                 .stride_a = rank * block,
                                 .stride_c = nr});
    if (master != op.compute()) run(context, Cast{.x = dh, .y = dh_chunk});
  }
}

}  // namespace

void softmax_losses(const Context& context, const SoftmaxCrossEntropy& op, const SoftTargets& soft,
                    const ClassDraws& draws) {
  if (draws.drawn)
    run(context, DrawClasses{.logits = op.logits,
                             .bias = op.bias,
                             .count = op.count,
                             .row_begin = op.row_begin,
                             .classes = op.classes,
                             .site = draws.site,
                             .step_inputs = draws.step_inputs,
                             .drawn = draws.drawn});
  if (!soft.teacher) return run(context, op);
  SoftmaxDivergence divergence{.logits = op.logits,
                               .bias = op.bias,
                               .dbias = op.dbias,
                               .teacher = soft.teacher,
                               .count = op.count,
                               .row_begin = op.row_begin,
                               .classes = op.classes,
                               .temperature = soft.temperature,
                               .factor = soft.factor,
                               .counts = soft.alone,
                               .gradient = op.gradient,
                               .results = op.results};
  if (soft.alone) return run(context, divergence);
  ArenaScope scope(context.arena);
  divergence.logits = scope.tensor(op.logits.shape(), op.logits.dtype());
  run(context, Cast{.x = op.logits, .y = divergence.logits});
  run(context, divergence);
  run(context, op);
  if (op.gradient) run(context, Add{.x = divergence.logits, .y = op.logits});
}

void compose_cross_entropy(Backend& backend, DType compute) {
  backend.compose<DenseMaskedCrossEntropy>(compute, dense_masked_cross_entropy);
  backend.compose<TTMMaskedCrossEntropy>(compute, ttm_masked_cross_entropy);
}

}  // namespace comera
