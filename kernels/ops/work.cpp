#include "kernels/ops/work.h"

#include "kernels/ops/attention.h"
#include "kernels/ops/bias_activation.h"
#include "kernels/ops/bias_dropout_residual_norm.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/directions.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/float8.h"
#include "kernels/ops/gather.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/muon.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/ranks.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/scale_columns.h"
#include "kernels/ops/sequence.h"
#include "kernels/ops/tt_feed_forward.h"
#include "kernels/ops/tt_linear.h"
#include "kernels/ops/ttm_chain.h"
#include "kernels/ops/ttm_rows.h"

namespace comera {

namespace {

// Bytes of tensors that are read or written once; those left out have none.
template <class... Tensors>
double once(const Tensors&... tensors) {
  return (0.0 + ... + static_cast<double>(tensors ? tensors.bytes() : 0));
}
// Of tensors that are read and written.
template <class... Tensors>
double twice(const Tensors&... tensors) {
  return 2 * once(tensors...);
}
double product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
double bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(size_of(dtype));
}

}  // namespace

Work work_of(const MatrixProduct& op) {
  const auto matrices = [&](std::int64_t elements, bool all_different, DType dtype) {
    return bytes_of(elements * (all_different ? op.batch : 1), dtype);
  };
  const double c = matrices(op.m * op.n, op.stride_c != 0, op.c.dtype());
  return {product(op.m, op.n, op.k) * static_cast<double>(op.batch),
          matrices(op.m * op.k, op.stride_a != 0, op.a.dtype()) +
              matrices(op.k * op.n, op.stride_b != 0, op.b.dtype()) + (op.accumulate ? 2 * c : c)};
}

Work work_of(const TTLinearForward& op) {
  const std::int64_t tokens = op.x.dim(0);
  Work work{product(tokens, op.a.dim(1), op.a.dim(0)), once(op.x, op.a, op.xa)};
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    work.flops += product(tokens, out.b.dim(1), out.b.dim(0));
    work.bytes += once(out.b, out.bias, out.u, out.y);
  }
  return work;
}

Work work_of(const TTLinearBackward& op) {
  const std::int64_t tokens = op.x.dim(0);
  Work work{2 * product(tokens, op.a.dim(1), op.a.dim(0)),
            once(op.x, op.a, op.xa, op.dxa) + twice(op.da) + (op.accumulate_dx ? 2 : 1) * once(op.dx)};
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    work.flops += 2 * product(tokens, out.b.dim(1), out.b.dim(0));
    work.bytes += once(out.b) + twice(out.db, out.dbias);
    work.bytes += out.activation == Activation::none
                      ? once(out.dy)
                      : once(out.activation == Activation::gelu ? out.u : out.y) + twice(out.dy);
  }
  return work;
}

Work work_of(const TTFeedForwardForward& op) {
  const std::int64_t tokens = op.x.dim(0);
  const std::int64_t weights =
      op.a_up.elements() + op.b_up.elements() + op.a_down.elements() + op.b_down.elements();
  return {product(tokens, weights, 1),
          once(op.x, op.a_up, op.b_up, op.bias, op.a_down, op.b_down, op.xa, op.ha, op.y)};
}

Work work_of(const TTFeedForwardBackward& op) {
  const std::int64_t tokens = op.x.dim(0);
  const std::int64_t weights =
      op.a_up.elements() + op.b_up.elements() + op.a_down.elements() + op.b_down.elements();
  return {2 * product(tokens, weights, 1) + product(tokens, op.b_up.elements(), 1),  // h again
          once(op.x, op.a_up, op.b_up, op.bias, op.a_down, op.b_down, op.xa, op.ha, op.dy) +
              twice(op.da_up, op.db_up, op.dbias, op.da_down, op.db_down) +
              (op.accumulate_dx ? 2 : 1) * once(op.dx)};
}

Work work_of(const BiasActivationForward& op) {
  return {0, (op.bias ? twice(op.u) : once(op.u)) + once(op.bias, op.y)};
}

Work work_of(const BiasActivationBackward& op) {
  if (op.activation == Activation::none) return {0, once(op.dy) + twice(op.dbias)};
  return {0, once(op.activation == Activation::gelu ? op.u : op.y) + twice(op.dy, op.dbias)};
}

namespace {
template <class Operation>
double keys_and_values(const Operation& op) {
  return bytes_of(op.q.dim(0) * op.kv_heads() * (op.key_size() + op.value_size()), op.compute());
}
}  // namespace

Work work_of(const AttentionForward& op) {
  const std::int64_t scores = op.q.dim(0) * op.longest * op.heads;
  return {product(scores, op.key_size() + op.value_size(), 1),
          once(op.q, op.out, op.log_sum_exp) + keys_and_values(op)};
}

// Scores again; gradients of dropped probabilities and of values; gradients of queries and of keys.
Work work_of(const AttentionBackward& op) {
  const std::int64_t scores = op.q.dim(0) * op.longest * op.heads;
  return {product(scores, 3 * op.key_size() + 2 * op.value_size(), 1),
          once(op.q, op.out, op.log_sum_exp, op.dout, op.dq) + 2 * keys_and_values(op)};
}

// Rows of the table are counted as often as tokens ask for them.
Work work_of(const Rotary& op) {
  return {0, twice(op.x) + once(op.position_ids) + bytes_of(op.x.dim(0) * op.size(), op.turns.dtype())};
}

Work work_of(const LayerNormForward& op) {
  return {0, once(op.x, op.gamma, op.beta, op.y, op.mean, op.rstd)};
}

Work work_of(const LayerNormBackward& op) {
  return {0, once(op.x, op.gamma, op.mean, op.rstd, op.dy) + (op.accumulate_dx ? 2 : 1) * once(op.dx) +
                 twice(op.dgamma, op.dbeta)};
}

Work work_of(const BiasDropoutResidualNormForward& op) {
  return {0, once(op.x, op.bias, op.residual, op.gamma, op.beta, op.sum, op.normed, op.mean, op.rstd)};
}

Work work_of(const BiasDropoutResidualNormBackward& op) {
  return {0, once(op.dy, op.sum, op.gamma, op.mean, op.rstd, op.dresidual, op.dx) +
                 twice(op.dbias, op.dgamma, op.dbeta)};
}

Work work_of(const Dropout& op) { return {0, once(op.x, op.y)}; }

// Rows of the tables are counted as often as tokens ask for them.
Work work_of(const EmbeddingSum& op) {
  return {0, (op.positions ? 3 : 2) * bytes_of(op.y.elements(), op.rows.dtype()) +
                 once(op.y, op.index, op.position_ids, op.type_ids)};
}

Work work_of(const SegmentSum& op) {
  const double rows = op.ids ? 2 * bytes_of(op.ids.elements() * op.dy.dim(1), op.out.dtype()) : once(op.out);
  return {0, once(op.dy, op.order, op.offsets, op.ids) + rows};
}

Work work_of(const TableGradient& op) { return {0, once(op.dy, op.ids) + twice(op.dtable)}; }

Work work_of(const GatherRows& op) { return {0, twice(op.y)}; }

Work work_of(const ScatterRows& op) { return {0, once(op.dy, op.dx)}; }

Work work_of(const SequenceMean& op) { return {0, once(op.x, op.y)}; }

Work work_of(const SequenceMeanBackward& op) { return {0, once(op.dy, op.dx)}; }

Work work_of(const PairFeaturesForward& op) { return {0, once(op.x, op.y)}; }

Work work_of(const PairFeaturesBackward& op) { return {0, once(op.x, op.dy, op.dx)}; }

Work work_of(const SquaredError& op) { return {0, (op.gradient ? 2 : 1) * once(op.predictions)}; }

Work work_of(const SoftmaxCrossEntropy& op) {
  return {0, (op.gradient ? 2 : 1) * once(op.logits) + once(op.bias) + twice(op.dbias)};
}

Work work_of(const DenseMaskedCrossEntropy& op) {
  const double logits = product(op.h.dim(0), op.table.dim(0), op.table.dim(1));
  return {(op.gradient ? 3 : 1) * logits, once(op.h, op.table, op.bias, op.dh) + twice(op.dtable, op.dbias)};
}

Work work_of(const TTMMaskedCrossEntropy& op) {
  const std::int64_t rows = op.h.dim(0), right_rows = op.right.dim(2);
  const double forward = product(rows, op.right.elements() * op.left.dim(1), 1) +
                         product(rows, op.left.elements() * right_rows, 1);
  return {(op.gradient ? 3 : 1) * forward,
          once(op.h, op.left, op.right, op.bias, op.dh) + twice(op.dleft, op.dright, op.dbias)};
}

namespace {
double row_product(const Tensor& left, const Tensor& right, std::int64_t rows) {
  return product(rows, left.dim(1) * left.dim(2), right.dim(2));
}

// Multiply-adds of one row of a chain of cores, twice.
template <class Operation>
double chain_flops(const Operation& op) {
  double flops = 0;
  std::int64_t width = 1;
  for (int k = 0; k < op.cores; ++k) {
    const Tensor& core = op.core[k];
    if (k > 0) flops += product(width, core.dim(2) * core.dim(3), core.dim(0));
    width *= core.dim(2);
  }
  return flops;
}
}  // namespace

Work work_of(const TTMRowsForward& op) {
  return {row_product(op.left, op.right, op.rows.dim(0)), once(op.left, op.right, op.ids, op.rows)};
}

Work work_of(const TTMRowsBackward& op) {
  return {2 * row_product(op.left, op.right, op.drows.dim(0)),
          once(op.left, op.right, op.ids, op.right_order, op.drows) + twice(op.dleft, op.dright)};
}

Work work_of(const TTMChainForward& op) {
  double cores = 0;
  for (int k = 0; k < op.cores; ++k) cores += once(op.core[k], op.gate[k]);
  return {chain_flops(op) * static_cast<double>(op.rows.dim(0)), cores + once(op.ids, op.rows)};
}

Work work_of(const TTMChainBackward& op) {
  double cores = 0;
  for (int k = 0; k < op.cores; ++k) cores += once(op.core[k], op.gate[k]) + twice(op.dcore[k], op.dgate[k]);
  return {3 * chain_flops(op) * static_cast<double>(op.drows.dim(0)), cores + once(op.ids, op.drows)};
}

Work work_of(const ScaleColumnsForward& op) { return {0, twice(op.x) + once(op.gate)}; }

Work work_of(const ScaleColumnsBackward& op) {
  return {0, once(op.x, op.gate, op.x /* dy */, op.dx) + twice(op.dgate)};
}

Work work_of(const SwapAxes& op) { return {0, once(op.x, op.y)}; }

Work work_of(const Cast& op) { return {0, once(op.x, op.y)}; }
Work work_of(const Fill& op) { return {0, once(op.x)}; }

Work work_of(const Add& op) { return {0, once(op.x) + twice(op.y)}; }

Work work_of(const Float8Quantize& op) {
  const double x = bytes_of(op.rows * op.columns, op.compute());
  return {0, (op.scaling == Float8Quantize::Scaling::current ? 2 : 1) * x + once(op.y, op.transposed)};
}
Work work_of(const Float8Expand& op) { return {0, once(op.x, op.y)}; }
Work work_of(const Float8Product& op) {
  const double c = bytes_of(op.m * op.n, op.c.dtype());
  return {product(op.m, op.n, op.k), static_cast<double>((op.m + op.n) * op.k) + (op.accumulate ? 2 : 1) * c};
}
Work work_of(const Float8LinearForward& op) { return work_of(op.linear); }
Work work_of(const Float8LinearBackward& op) { return work_of(op.linear); }
Work work_of(const Float8NextScales& op) { return {0, twice(op.scales, op.history) + once(op.largest)}; }

Work work_of(const GradientNorm& op) { return {0, once(op.gradients, op.segments, op.norms)}; }

Work work_of(const AdamW& op) { return {0, once(op.segments) + 7 * bytes_of(op.elements, op.compute())}; }

Work work_of(const Muon& op) {
  return {op.sizes.operations, once(op.matrices) + 5 * bytes_of(op.sizes.elements, op.compute())};
}

Work work_of(const AdamDirection& op) {
  return {0, once(op.segments) + 6 * bytes_of(op.elements, op.compute())};
}
Work work_of(const TrustRatios& op) {
  return {0, once(op.segments, op.ratios) + 3 * bytes_of(op.elements, op.compute())};
}
Work work_of(const FollowDirections& op) {
  return {0, once(op.segments, op.factors) + 3 * bytes_of(op.elements, op.compute())};
}

namespace {
double bytes_of(const RankTables& tables, DType dtype) {
  return once(tables.layers, tables.cores, tables.bonds) + bytes_of(tables.entries, dtype);
}
}  // namespace

Work work_of(const RankObjective& op) {
  return {0, bytes_of(op.tables, op.compute()) + once(op.parameters) + twice(op.gradients)};
}

// Nothing dies in most steps.
Work work_of(const PruneRanks& op) { return {0, bytes_of(op.tables, op.compute())}; }

}  // namespace comera
