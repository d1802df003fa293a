#include "model/layers/contrastive_head.h"

#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/elementwise/sequence.h"
#include "kernels/ops/products/matrix_product.h"
#include "model/layers/unit_rows.h"
#include "tensorized/fused/merging.h"

namespace comera {

namespace {

// Between the vectors, which are rows of one tensor, of two kinds of texts.
MatrixProduct product_of_rows(std::int64_t examples, std::int64_t texts, std::int64_t width) {
  return {.a = {},
          .b = {},
          .c = {},
          .m = examples,
          .n = examples,
          .k = width,
          .transpose_b = true,
          .lda = texts * width,
          .ldb = texts * width};
}

}  // namespace

void ContrastiveHead::write_logits(const EncoderStep& step, const Tensor& unit, const Tensor& logits) const {
  const std::int64_t examples = logits.dim(0), documents = logits.dim(1), width = unit.dim(1);
  run(step.context, Cast{.x = step.batch.scores.slice(0, logits.shape()), .y = logits});
  for (std::int64_t kind = 1; kind < contrastive_.texts; ++kind) {
    MatrixProduct product = product_of_rows(examples, contrastive_.texts, width);
    product.a = unit;
    product.b = unit.from(kind * width);
    product.c = logits.from((kind - 1) * examples);
    product.ldc = documents;
    product.accumulate = true;
    run(step.context, product);
  }
}

void ContrastiveHead::write_loss(const EncoderStep& step, const Tensor& logits, bool gradient) const {
  const Context& context = step.context;
  const std::int64_t rows = logits.dim(0), classes = logits.dim(1);
  const auto add_loss = [&](const Tensor& of) {
    run(context, SoftmaxCrossEntropy{.logits = of.reshape({1, rows, classes}),
                                     .bias = {},
                                     .dbias = {},
                                     .targets = step.batch.labels,
                                     .count = step.batch.example_count(),
                                     .row_begin = 0,
                                     .classes = classes,
                                     .gradient = gradient,
                                     .results = step.results});
  };
  if (!contrastive_.symmetric) return add_loss(logits);
  ArenaScope scope(context.arena);
  const Tensor columns = scope.tensor({rows, rows}, logits.dtype());
  const auto transpose = [&](const Tensor& from, const Tensor& to) {
    run(context, SwapAxes{.x = from.reshape({1, rows, rows, 1}), .y = to.reshape({1, rows, rows, 1})});
  };
  transpose(logits, columns);
  add_loss(logits);
  add_loss(columns);
  if (!gradient) return;
  const Tensor back = scope.tensor({rows, rows}, logits.dtype());
  transpose(columns, back);
  run(context, Add{.x = back, .y = logits});
}

void ContrastiveHead::write_dunit(const Context& context, const Tensor& unit, const Tensor& dlogits,
                                  const Tensor& dunit) const {
  const std::int64_t examples = dlogits.dim(0), documents = dlogits.dim(1), width = unit.dim(1),
                     texts = contrastive_.texts;
  for (std::int64_t kind = 1; kind < texts; ++kind) {
    MatrixProduct product{.a = dlogits.from((kind - 1) * examples),
                          .b = unit.from(kind * width),
                          .c = dunit,
                          .m = examples,
                          .n = width,
                          .k = examples,
                          .accumulate = kind > 1,
                          .lda = documents,
                          .ldb = texts * width,
                          .ldc = texts * width};
    run(context, product);  // of the queries
    product.transpose_a = true;
    product.b = unit;
    product.c = dunit.from(kind * width);
    product.accumulate = false;
    run(context, product);
  }
}

void ContrastiveHead::pass(const EncoderStep& step, const Tensor& hidden, bool gradient,
                           const Tensor& dhidden, MergedGradients* gradients) const {
  const Context& context = step.context;
  Arena& arena = context.arena;
  const std::size_t mark = arena.mark();
  const ProductPlace place(context.products, "head.cosines", "cosines decide about the loss");
  const std::int64_t sequences = step.batch.capacity.sequences, width = hidden.dim(1);
  const std::int64_t examples = contrastive_.examples(sequences), rows = examples * contrastive_.texts;
  const DType dtype = hidden.dtype(), master = step.store.dtype();
  COMERA_CHECK(step.batch.capacity.scores == contrastive_.documents(sequences),
               "a contrastive head needs a score for each of {} documents, but the batch has {}",
               contrastive_.documents(sequences), step.batch.capacity.scores);
  const bool mean = pooling_ == Pooling::mean;
  Tensor vectors = hidden;
  if (mean) {
    vectors = arena.saved({sequences, width}, dtype);
    pool_by_mean(step, hidden, vectors);
  }
  VectorLayer::Saved passed;
  if (layer_) passed = layer_->forward(step, vectors);
  const Tensor own = layer_ ? passed.y : vectors;
  const Tensor wide = arena.saved({rows, own.dim(1)}, master);
  run(context, Cast{.x = own.rows(0, rows), .y = wide});
  const UnitRows unit(context, wide, 1 / contrastive_.temperature);
  const Tensor logits = arena.saved({examples, contrastive_.documents(sequences)}, master);
  write_logits(step, unit.y(), logits);
  write_loss(step, logits, gradient);
  if (gradient) {
    ArenaScope scope(arena);
    const Tensor dunit = scope.tensor(unit.y().shape(), master);
    write_dunit(context, unit.y(), logits, dunit);
    unit.backward(context, dunit, wide);  // which no one needs any more
    const Tensor dvectors = mean ? scope.tensor({sequences, width}, dtype) : dhidden;
    const Tensor down = layer_ ? scope.tensor(own.shape(), dtype) : dvectors;
    if (rows < down.dim(0)) run(context, Fill{.x = down.rows(rows, down.dim(0) - rows), .value = 0});
    run(context, Cast{.x = wide, .y = down.rows(0, rows)});
    if (layer_) layer_->backward(step, passed, down, dvectors);
    gradients->end_block();
    if (mean)
      run(context, SequenceMeanBackward{.dy = dvectors,
                                        .offsets = step.batch.sequence_offsets,
                                        .count = step.batch.sequence_count(),
                                        .dx = dhidden});
  }
  arena.release(mark);
}

}  // namespace comera
