#include "tensorized/embedding/ttm_embedding.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/elementwise/logit_parts.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/real_rows.h"
#include "kernels/ops/tensor_trains/ttm_chain.h"
#include "kernels/ops/tensor_trains/ttm_rows.h"
#include "kernels/ops/tensor_trains/ttm_table.h"
#include "tensorized/linear/in_type.h"
#include "tensorized/linear/packed_tensors.h"

namespace comera {

TTMEmbedding::TTMEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary,
                           const TTMShape& shape, double deviation, LookupKind lookup, DecoderKind decoder)
    : store_(store),
      vocabulary_(vocabulary),
      train_(TTMCores::add(store, name, shape, deviation)),
      lookup_(lookup),
      decoder_(decoder) {
  if (shape.frequent_rows == 0) return;
  COMERA_CHECK(lookup == LookupKind::factors,
               "{}: frequent rows need tensorized.lookup = \"factors\", not \"{}\"", name, name_of(lookup));
  COMERA_CHECK(shape.frequent_rows < vocabulary, "{}: {} frequent rows in a vocabulary of {}", name,
               shape.frequent_rows, vocabulary);
  frequent_ = store.add({.name = name + ".frequent",
                         .role = ParameterRole::dense,
                         .shape = {shape.frequent_rows, shape.columns()},
                         .decays = true,
                         .initializer = {Initializer::Kind::normal, deviation}});
}

std::vector<double> TTMEmbedding::table() const {
  std::vector<double> rows = densify(store_, train_, vocabulary_);
  if (frequent_) std::ranges::copy(read_tensor(store_.value(*frequent_)), rows.begin());
  return rows;
}

Embedding::Merged TTMEmbedding::make(const Context& context, bool decodes, bool gradients) const {
  const auto keep = [&](Shape shape) { return context.arena.saved(shape, store_.dtype()); };
  Merged merged{.factors = merge_ttm(context, store_, train_),
                .right_by_rows = {},
                .dleft = {},
                .dright = {},
                .decodes = decodes};
  const MergedTTM& factors = merged.factors;
  if (lookup_ == LookupKind::factors) {
    const std::int64_t rank = train_.middle_rank(), rows = train_.right_rows(),
                       columns = train_.right_columns();
    merged.right_by_rows = keep({rows, rank, columns});
    run(context, SwapAxes{.x = factors.right.reshape({1, rank, rows, columns}), .y = merged.right_by_rows});
  }
  if (gradients) add_gradients(context, keep, merged);
  return merged;
}

void TTMEmbedding::add_gradients(const Context& context, const Take& take, Merged& merged) {
  const PackedTensors together{merged.factors.left.shape(), merged.factors.right.shape()};
  const Tensor zeros = take({together.elements()});
  run(context, Fill{.x = zeros, .value = 0});
  const std::vector<Tensor> parts = together.in(zeros);
  merged.dleft = parts[0];
  merged.dright = parts[1];
}

Embedding::Merged TTMEmbedding::merge(const Context& context, bool decodes, bool gradients) const {
  if (!decodes && lookup_ != LookupKind::factors) return {};
  return make(context, decodes, decodes && gradients);
}

// The pass's contracted factors, or ones that are made here and end with this object.
class TTMEmbedding::SharedOrMade {
 public:
  SharedOrMade(const TTMEmbedding& of, const Context& context, const Merged* merged, bool decodes,
               bool gradients)
      : arena_(context.arena),
        mark_(context.arena.mark()),
        merged_(shares(merged) ? *merged : of.make(context, decodes, gradients)) {}
  ~SharedOrMade() { arena_.release(mark_); }
  SharedOrMade(const SharedOrMade&) = delete;
  SharedOrMade& operator=(const SharedOrMade&) = delete;

  const Merged* operator->() const { return &merged_; }
  const Merged& operator*() const { return merged_; }

 private:
  Arena& arena_;
  std::size_t mark_;
  Merged merged_;
};

void TTMEmbedding::add_to_right(const Context& context, const Merged& merged, const Tensor& from,
                                bool alone) const {
  if (alone) return run(context, SwapAxes{.x = from, .y = merged.dright});
  ArenaScope scope(context.arena);
  const Tensor swapped = scope.tensor(merged.dright.shape(), store_.dtype());
  run(context, SwapAxes{.x = from, .y = swapped});
  run(context, Add{.x = swapped, .y = merged.dright});
}

void TTMEmbedding::chain_forward(const Context& context, const Tensor& ids, const Tensor& count,
                                 const Tensor& rows) const {
  TTMChainForward chain{
      .cores = train_.shape.order(), .core = {}, .gate = {}, .ids = ids, .count = count, .rows = rows};
  for (int k = 0; k < chain.cores; ++k) {
    chain.core[k] = store_.value(train_.cores[k]);
    if (k + 1 < chain.cores) chain.gate[k] = store_.value(train_.gates[k]);
  }
  run(context, chain);
}

void TTMEmbedding::chain_backward(const Context& context, const Tensor& ids, const Tensor& count,
                                  const Tensor& drows) const {
  TTMChainBackward chain{.cores = train_.shape.order(),
                         .core = {},
                         .dcore = {},
                         .gate = {},
                         .dgate = {},
                         .ids = ids,
                         .count = count,
                         .drows = drows};
  for (int k = 0; k < chain.cores; ++k) {
    chain.core[k] = store_.value(train_.cores[k]);
    chain.dcore[k] = store_.gradient(train_.cores[k]);
    if (k + 1 == chain.cores) break;
    chain.gate[k] = store_.value(train_.gates[k]);
    chain.dgate[k] = store_.gradient(train_.gates[k]);
  }
  run(context, chain);
}

Embedding::Rows TTMEmbedding::look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
                                      const Merged* merged) const {
  const bool naive = lookup_ == LookupKind::naive;
  const Tensor rows =
      scope.tensor({(naive ? ids.ids : ids.unique_ids).elements(), train_.shape.columns()}, store_.dtype());
  if (naive) {
    chain_forward(context, ids.ids, ids.count, rows);
    return {.rows = rows, .index = ids.rows};
  }
  if (lookup_ == LookupKind::unique) {
    chain_forward(context, ids.unique_ids, ids.unique_count, rows);
  } else {
    const SharedOrMade made(*this, context, merged, false, false);
    run(context, TTMRowsForward{.left = made->factors.left,
                                .right = made->right_by_rows,
                                .ids = ids.unique_ids,
                                .count = ids.unique_count,
                                .frequent = frequent(),
                                .rows = rows});
  }
  return {.rows = rows, .index = ids.unique_index};
}

void TTMEmbedding::backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                            const Merged* merged) const {
  ArenaScope scope(context.arena);
  const DType master = store_.dtype();
  std::optional<SharedOrMade> made;
  Merged all;
  if (lookup_ == LookupKind::factors || shares(merged)) {
    all = *made.emplace(*this, context, merged, false, false);
    if (!all.dleft)
      add_gradients(
          context, [&](Shape shape) { return scope.tensor(shape, master); }, all);
  }
  if (lookup_ == LookupKind::naive) {
    chain_backward(context, ids.ids, ids.count, in_type(context, scope, dy, master));
  } else {
    const Tensor drows = scope.tensor({ids.unique_ids.elements(), dy.dim(1)}, master);
    run(context, SegmentSum{.dy = dy,
                            .order = ids.unique_order,
                            .offsets = ids.unique_offsets,
                            .count = ids.unique_count,
                            .ids = {},
                            .out = drows});
    if (lookup_ == LookupKind::unique)
      chain_backward(context, ids.unique_ids, ids.unique_count, drows);
    else
      rows_backward(context, ids, drows, all);
  }
  if (all) merge_ttm_backward(context, store_, train_, all.factors, all.dleft, all.dright);
}

void TTMEmbedding::rows_backward(const Context& context, const LookupIds& ids, const Tensor& drows,
                                 const Merged& merged) const {
  ArenaScope scope(context.arena);
  const Tensor& right = merged.right_by_rows;
  const Tensor dright = scope.tensor(right.shape(), store_.dtype());
  run(context, Fill{.x = dright, .value = 0});
  run(context, TTMRowsBackward{.left = merged.factors.left,
                               .right = right,
                               .ids = ids.unique_ids,
                               .right_order = ids.right_order,
                               .count = ids.unique_count,
                               .drows = drows,
                               .dleft = merged.dleft,
                               .dright = dright,
                               .dfrequent = frequent_ ? store_.gradient(*frequent_) : Tensor()});
  add_to_right(context, merged, dright.reshape({1, right.dim(0), right.dim(1), right.dim(2)}),
               !merged.decodes);
}

bool TTMEmbedding::decodes_by_rebuilding(const MachineModel& machine, std::int64_t positions) const {
  if (frequent_) return true;
  if (decoder_ != DecoderKind::automatic) return decoder_ == DecoderKind::rebuild;
  const double nl = static_cast<double>(train_.left_columns()),
               nr = static_cast<double>(train_.right_columns());
  const double left = static_cast<double>(train_.left_rows()),
               right = static_cast<double>(train_.right_rows());
  const double rank = static_cast<double>(train_.middle_rank()), p = static_cast<double>(positions);
  const double structured = p * nl * rank * right * (nr + left);
  // Cost of a step's forward pass: the other passes cost twice that. The table is rebuilt once more for
  // backward.
  const double blocks = std::ceil(
      p / static_cast<double>(logit_rows_at_once(machine, positions, vocabulary_, store_.compute())));
  const double rebuilt =
      nl * nr * (4.0 / 3 * blocks * left * right * rank + p * static_cast<double>(vocabulary_));
  return rebuilt < structured;
}

void TTMEmbedding::cross_entropy(const Context& context, const Decoder& decoder) const {
  if (decodes_by_rebuilding(context.backend.machine(), decoder.h.dim(0)))
    rebuilt_cross_entropy(context, decoder);
  else
    structured_cross_entropy(context, decoder);
}

namespace {

// Some left rows of a left factor (L, nl, rank).
Tensor left_rows(const Tensor& left, std::int64_t first, std::int64_t count) {
  const std::int64_t row = left.dim(1) * left.dim(2);
  return left.slice(first * row, {count, left.dim(1), left.dim(2)});
}

}  // namespace

// Of a part of the table; the last one may have fewer. On a GPU a part's gradient has to fit too, which has
// the type of parameters if there is one part.
std::int64_t TTMEmbedding::left_rows_at_once(const MachineModel& machine, std::int64_t rows) const {
  const bool gpu = store_.value(train_.cores[0]).device().kind == DeviceKind::cuda;
  const auto element = static_cast<std::int64_t>(size_of(gpu ? store_.dtype() : store_.compute()));
  const std::int64_t columns = train_.left_columns() * train_.right_columns();
  return classes_at_once(machine, vocabulary_, train_.right_rows(), columns * element, rows,
                         store_.compute()) /
         train_.right_rows();
}

Tensor TTMEmbedding::part_of_table(const Context& context, const MergedTTM& factors, std::int64_t left_row,
                                   std::int64_t count, const Tensor& memory) const {
  const std::int64_t first = left_row * train_.right_rows(), all = count * train_.right_rows(),
                     own = frequent_in(first, all);
  if (own == all) return store_.product_value(*frequent_).rows(first, own);
  const Tensor rows = memory.rows(0, all);
  run(context, TTMTableForward{
                   .left = left_rows(factors.left, left_row, count), .right = factors.right, .rows = rows});
  if (own > 0) run(context, Cast{.x = frequent().rows(first, own), .y = rows.rows(0, own)});
  return rows;
}

void TTMEmbedding::back_to_factors(const Context& context, const Merged& merged, std::int64_t left_row,
                                   std::int64_t count, const Tensor& drows) const {
  const std::int64_t own = frequent_in(left_row * train_.right_rows(), drows.dim(0));
  if (own == drows.dim(0)) return;
  if (own > 0) run(context, Fill{.x = drows.rows(0, own), .value = 0});
  run(context, TTMTableBackward{.left = left_rows(merged.factors.left, left_row, count),
                                .right = merged.factors.right,
                                .drows = drows,
                                .dleft = left_rows(merged.dleft, left_row, count),
                                .dright = merged.dright});
}

void TTMEmbedding::decode(const Context& context, const Tensor& h, const Tensor& y,
                          const Merged* merged) const {
  ArenaScope scope(context.arena);
  const SharedOrMade made(*this, context, merged, true, false);
  const MergedTTM& factors = made->factors;
  const std::int64_t at_once = left_rows_at_once(context.backend.machine(), 1);
  const std::int64_t right_rows = train_.right_rows(), width = h.dim(1);
  for (std::int64_t l = 0; l * right_rows < vocabulary_; l += at_once) {
    const std::int64_t count = std::min(at_once, used_left_rows() - l), first = l * right_rows;
    ArenaScope chunk(context.arena);
    const Tensor memory = chunk.tensor({count * right_rows, width}, h.dtype());
    run(context, MatrixProduct{.a = h,
                               .b = part_of_table(context, factors, l, count, memory),
                               .c = y.slice(first, {y.elements() - first}),
                               .m = h.dim(0),
                               .n = std::min(count * right_rows, vocabulary_ - first),
                               .k = width,
                               .transpose_b = true,
                               .ldc = vocabulary_});
  }
}

// The table is rebuilt in parts along the outer axis of the logits. On a GPU with memory for it there is one
// part.
void TTMEmbedding::rebuilt_cross_entropy(const Context& context, const Decoder& decoder) const {
  ArenaScope scope(context.arena);
  const std::int64_t width = decoder.h.dim(1);
  const DType master = store_.dtype(), compute = decoder.h.dtype();
  const SharedOrMade made(*this, context, decoder.merged, true, decoder.gradient);
  const Merged& merged = *made;
  const MergedTTM& factors = merged.factors;
  const MachineModel machine = context.backend.machine();
  const std::int64_t positions = rows_to_compute(context, decoder.count, decoder.h.dim(0)),
                     most = logit_rows_at_once(machine, decoder.h.dim(0), vocabulary_, compute),
                     at_once = equal_logit_rows(positions, most);
  const std::int64_t at_most = left_rows_at_once(machine, most);  // of a part
  const std::int64_t classes = at_most * train_.right_rows();
  const std::int64_t parts = (vocabulary_ + classes - 1) / classes;
  const Tensor rows = scope.tensor({classes, width}, compute);
  // Parts that are rebuilt anyway lend their memory to their gradient. A gradient that is summed over blocks
  // of positions is not narrow.
  const bool lends = parts > 1;
  const Tensor drows = !decoder.gradient || lends ? rows : scope.tensor({classes, width}, master);
  const auto left_rows_of = [&](std::int64_t part) {
    return std::min(at_most, used_left_rows() - part * at_most);
  };
  const auto classes_of = [&](std::int64_t part) { return left_rows_of(part) * train_.right_rows(); };
  const auto rebuilt = [&](std::int64_t part) {
    return part_of_table(context, factors, part * at_most, left_rows_of(part), rows);
  };
  const auto take_back = [&](std::int64_t part) {
    back_to_factors(context, merged, part * at_most, left_rows_of(part), drows.rows(0, classes_of(part)));
  };
  if (parts == 1) rebuilt(0);  // in `rows`, since not all are frequent
  for (std::int64_t begin = 0; begin < positions; begin += at_once) {
    const std::int64_t size = std::min(at_once, positions - begin);
    ArenaScope block(context.arena);
    const Tensor h = decoder.h.rows(begin, size);
    const Tensor logits = block.tensor({parts, size, classes}, compute);
    for (std::int64_t part = 0; part < parts; ++part) {
      run(context, MatrixProduct{.a = h,
                                 .b = parts > 1 ? rebuilt(part) : rows,
                                 .c = logits.rows(part, 1),
                                 .m = size,
                                 .n = classes_of(part),
                                 .k = width,
                                 .transpose_b = true,
                                 .ldc = classes});
    }
    softmax_losses(context,
                   {.logits = logits,
                    .bias = decoder.bias,
                    .dbias = decoder.dbias,
                    .targets = decoder.targets,
                    .count = decoder.count,
                    .row_begin = begin,
                    .classes = vocabulary_,
                    .gradient = decoder.gradient,
                    .results = decoder.results},
                   decoder.soft, decoder.draws);
    if (!decoder.gradient) continue;
    // The parts are summed: not in a narrow type.
    const Tensor dh_rows = decoder.dh.rows(begin, size);
    const Tensor dh = parts == 1 || compute == master ? dh_rows : block.tensor(dh_rows.shape(), master);
    for (std::int64_t part = 0; part < parts; ++part) {
      const Tensor dlogits = logits.rows(part, 1);
      run(context, MatrixProduct{.a = dlogits,
                                 .b = parts > 1 ? rebuilt(part) : rows,
                                 .c = dh,
                                 .m = size,
                                 .n = width,
                                 .k = classes_of(part),
                                 .accumulate = part > 0,
                                 .lda = classes});
      const auto add_gradient = [&](std::int64_t first, const Tensor& to, bool accumulate) {
        if (to.dim(0) == 0) return;
        run(context, MatrixProduct{.a = dlogits.slice(first, {dlogits.elements() - first}),
                                   .b = h,
                                   .c = to,
                                   .m = to.dim(0),
                                   .n = width,
                                   .k = size,
                                   .transpose_a = true,
                                   .accumulate = accumulate,
                                   .lda = classes});
      };
      const std::int64_t count = classes_of(part), own = frequent_in(part * classes, count);
      if (own > 0) add_gradient(0, store_.gradient(*frequent_).rows(part * classes, own), true);
      add_gradient(own, drows.rows(own, count - own), parts == 1 && begin > 0);
      if (parts > 1) take_back(part);
    }
    if (dh.dtype() != compute) run(context, Cast{.x = dh, .y = dh_rows});
  }
  if (!decoder.gradient) return;
  if (parts == 1 && positions > 0) take_back(0);
  clear_other_rows(context, decoder.dh, positions);
  if (!shares(decoder.merged))
    merge_ttm_backward(context, store_, train_, factors, merged.dleft, merged.dright);
}

void TTMEmbedding::structured_cross_entropy(const Context& context, const Decoder& decoder) const {
  ArenaScope scope(context.arena);
  const std::int64_t rank = train_.middle_rank(), right_rows = train_.right_rows(),
                     nr = train_.right_columns();
  const DType dtype = store_.dtype();
  const SharedOrMade made(*this, context, decoder.merged, true, decoder.gradient);
  const Merged& merged = *made;
  const MergedTTM& factors = merged.factors;
  const Tensor right = scope.tensor({nr, rank, right_rows}, dtype);
  run(context, SwapAxes{.x = factors.right.reshape({1, rank * right_rows, nr, 1}), .y = right});
  TTMMaskedCrossEntropy loss{.h = decoder.h,
                             .left = in_type(context, scope, factors.left, store_.compute()),
                             .dleft = {},
                             .right = in_type(context, scope, right, store_.compute()),
                             .dright = {},
                             .bias = decoder.bias,
                             .dbias = decoder.dbias,
                             .targets = decoder.targets,
                             .count = decoder.count,
                             .soft = decoder.soft,
                             .draws = decoder.draws,
                             .gradient = decoder.gradient,
                             .dh = decoder.dh,
                             .results = decoder.results};
  if (!decoder.gradient) return run(context, loss);
  const Tensor dright = scope.tensor({nr, rank, right_rows}, dtype);
  run(context, Fill{.x = dright, .value = 0});
  loss.dleft = merged.dleft;
  loss.dright = dright;
  run(context, loss);
  const bool alone = !shares(decoder.merged);
  add_to_right(context, merged, dright.reshape({1, nr, rank * right_rows, 1}), alone);
  if (alone) merge_ttm_backward(context, store_, train_, factors, merged.dleft, merged.dright);
}

}  // namespace comera
