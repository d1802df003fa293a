#include "model/layers/teacher_losses.h"

#include <cmath>

#include "kernels/ops/attention/attention.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/elementwise/sequence.h"
#include "kernels/ops/products/matrix_product.h"
#include "model/layers/head.h"
#include "model/layers/unit_rows.h"

namespace comera {

namespace {

// (rows, rows): the products of each two rows.
Tensor products_of(const Context& context, const Tensor& rows) {
  const std::int64_t count = rows.dim(0);
  const Tensor products = context.arena.saved({count, count}, rows.dtype());
  run(context, MatrixProduct{.a = rows,
                             .b = rows,
                             .c = products,
                             .m = count,
                             .n = count,
                             .k = rows.dim(1),
                             .transpose_b = true});
  return products;
}

Tensor in_master_type(const EncoderStep& step, const Tensor& x) {
  const Tensor wide = step.context.arena.saved(x.shape(), step.store.dtype());
  run(step.context, Cast{.x = x, .y = wide});
  return wide;
}

}  // namespace

TeacherLosses::TeacherLosses(ParameterStore& store, const EncoderConfig& config, const VectorLayer* layer)
    : distillation_(config.distillation),
      head_(config.head),
      layers_(of_all_layers() ? config.layers : 1),
      relation_heads_(config.distillation.relation_heads > 0 ? config.distillation.relation_heads
                                                             : config.heads),
      pooling_(config.pooling),
      layer_(layer) {
  if (distillation_.width > 0)
    projection_ =
        make_linear(store,
                    {.name = "distillation.projection",
                     .outputs = {""},
                     .input_size = distillation_.vectors > 0 ? config.vector_width() : config.hidden,
                     .output_size = distillation_.width},
                    {}, PlanKind::automatic);
}

struct TeacherLosses::Pass {
  const EncoderStep& step;
  Tensor targets;
  bool gradient;
  bool counts;  // whether the next distance counts the targets

  // x becomes its own gradient.
  void add(const Tensor& x, const Tensor& to, const Tensor& count, double factor, bool square = false) {
    comera::run(step.context, SquaredDistance{.x = x,
                                              .to = to,
                                              .count = count,
                                              .targets = targets,
                                              .square = square,
                                              .counts = counts,
                                              .factor = factor,
                                              .gradient = gradient,
                                              .results = step.results});
    counts = false;
  }
};

Tensor TeacherLosses::targets(const PackedBatch& batch) const {
  if (head_ == HeadKind::contrastive && !distillation_.targets) return batch.sequence_count();
  if (reads_tokens(head_)) return batch.masked_count();
  return head_ == HeadKind::multi_label ? batch.score_count() : batch.example_count();
}

void TeacherLosses::run(const EncoderStep& step, const Tensor& hidden, const Relations& relations,
                        bool gradient, const Tensor& dhidden, const Relations& drelations) const {
  const ProductPlace place(step.context.products, "distillation", "distances decide about the loss");
  Pass pass{step, targets(step.batch), gradient, !distillation_.targets && distillation_.logits == 0};
  if (distillation_.hidden > 0) add_hidden(pass, hidden, step.teacher->hidden, dhidden);
  if (distillation_.of_vectors()) add_vectors(pass, hidden, dhidden);
  if (of_relations()) add_relations(pass, relations, drelations);
}

void TeacherLosses::add_relations(Pass& pass, const Relations& relations, const Relations& drelations) const {
  const EncoderStep& step = pass.step;
  const Context& context = step.context;
  if (!relations[0]) {  // only counts
    if (!pass.counts) return;
    ArenaScope scope(context.arena);
    const Tensor nothing = scope.tensor({1, 1}, step.store.dtype());
    comera::run(context, Fill{.x = nothing, .value = 0});
    return pass.add(nothing, nothing, step.batch.token_count(), 0);
  }
  const std::int64_t heads = relation_heads_;
  const auto scale_of = [heads](const Tensor& rows) {
    return 1 / std::sqrt(static_cast<double>(rows.dim(1)) / static_cast<double>(heads));
  };
  for (std::size_t i = 0; i < relations.size(); ++i) {
    const std::size_t mark = context.arena.mark();
    const Tensor x = in_master_type(step, relations[i]), y = in_master_type(step, step.teacher->relations[i]);
    const auto like = [&](const Tensor& rows) { return context.arena.saved(rows.shape(), rows.dtype()); };
    // softmax(scale of · ofᵀ) values, and its log-sums.
    const auto attend = [&](const Tensor& of, const Tensor& values, const Tensor& log_sums) {
      const Tensor out = like(values);
      comera::run(context, AttentionForward{.q = of,
                                            .k = of,
                                            .v = values,
                                            .sequence_offsets = step.batch.sequence_offsets,
                                            .heads = heads,
                                            .longest = step.batch.capacity.longest,
                                            .scale = scale_of(of),
                                            .dropout = {},
                                            .step_inputs = step.inputs,
                                            .out = out,
                                            .log_sum_exp = log_sums});
      return out;
    };
    // The transpose of that matrix times x: the gradient of its values for an output's gradient of x.
    const auto turned = [&](const Tensor& of, const Tensor& out, const Tensor& log_sums) {
      const Tensor dv = like(x);
      ArenaScope scope(context.arena);
      comera::run(context, AttentionBackward{.q = of,
                                             .k = of,
                                             .v = x,
                                             .out = out,
                                             .log_sum_exp = log_sums,
                                             .sequence_offsets = step.batch.sequence_offsets,
                                             .heads = heads,
                                             .longest = step.batch.capacity.longest,
                                             .scale = scale_of(of),
                                             .dropout = {},
                                             .step_inputs = step.inputs,
                                             .dout = x,
                                             .dq = scope.tensor(of.shape(), of.dtype()),
                                             .dk = scope.tensor(of.shape(), of.dtype()),
                                             .dv = dv});
      return dv;
    };
    const Tensor log_sums = context.arena.saved({heads, x.dim(0)}, x.dtype()),
                 taught_log_sums = context.arena.saved({heads, x.dim(0)}, x.dtype());
    RelationDivergence operation{.x = x,
                                 .y = y,
                                 .attended = attend(y, x, taught_log_sums),
                                 .taught_attended = attend(y, y, taught_log_sums),
                                 .log_sums = log_sums,
                                 .taught_log_sums = taught_log_sums,
                                 .own_attended = attend(x, x, log_sums),
                                 .own_turned = {},
                                 .taught_turned = {},
                                 .scale = scale_of(x),
                                 .taught_scale = scale_of(y),
                                 .count = step.batch.token_count(),
                                 .targets = pass.targets,
                                 .counts = pass.counts,
                                 .factor = distillation_.relations / static_cast<double>(heads),
                                 .gradient = pass.gradient,
                                 .results = step.results};
    pass.counts = false;
    if (pass.gradient) {
      operation.own_turned = turned(x, operation.own_attended, log_sums);
      operation.taught_turned = turned(y, operation.attended, taught_log_sums);
    }
    comera::run(context, operation);
    if (pass.gradient) comera::run(context, Cast{.x = operation.own_attended, .y = drelations[i]});
    context.arena.release(mark);
  }
}

void TeacherLosses::add_layer(const EncoderStep& step, std::size_t block, const Tensor& hidden, bool gradient,
                              const Tensor& dhidden) const {
  if (!of_all_layers()) return;
  const ProductPlace place(step.context.products, "distillation", "distances decide about the loss");
  Pass pass{step, targets(step.batch), gradient, false};
  add_hidden(pass, hidden, step.teacher->layers[block], dhidden);
}

void TeacherLosses::add_hidden(Pass& pass, const Tensor& hidden, const Tensor& taught,
                               const Tensor& dhidden) const {
  const Context& context = pass.step.context;
  const std::size_t mark = context.arena.mark();
  Linear::Saved projected;
  Tensor own;
  if (projection_) {
    projected = projection_->forward(context, hidden, {});
    own = projected.output();
  } else {
    own = context.arena.saved(hidden.shape(), hidden.dtype());
    comera::run(context, Cast{.x = hidden, .y = own});
  }
  pass.add(own, taught, pass.step.batch.token_count(),
           distillation_.hidden / static_cast<double>(layers_ * taught.dim(1)));
  if (pass.gradient && projection_)
    projection_->backward(context, projected, {own}, dhidden, true);
  else if (pass.gradient)
    comera::run(context, Add{.x = own, .y = dhidden});
  context.arena.release(mark);
}

void TeacherLosses::add_vectors(Pass& pass, const Tensor& hidden, const Tensor& dhidden) const {
  const Context& context = pass.step.context;
  const PackedBatch& batch = pass.step.batch;
  Arena& arena = context.arena;
  const std::size_t mark = arena.mark();
  const Shape shape{batch.capacity.sequences, hidden.dim(1)};
  const std::optional<RowSubset> first = pooled_rows(batch, pooling_);
  const Tensor pooled = arena.saved(shape, hidden.dtype());
  if (first)
    gather(context, *first, hidden, pooled);
  else
    pool_by_mean(pass.step, hidden, pooled);
  VectorLayer::Saved passed;
  if (layer_) passed = layer_->forward(pass.step, pooled);
  const Tensor narrow = layer_ ? passed.y : pooled;
  const Tensor u = in_master_type(pass.step, narrow);
  const UnitRows taught(context, in_master_type(pass.step, pass.step.teacher->vectors), 1);
  const Tensor du = pass.gradient ? arena.saved(u.shape(), u.dtype()) : Tensor();
  if (pass.gradient) comera::run(context, Fill{.x = du, .value = 0});
  if (distillation_.vectors > 0) add_cosines(pass, narrow, u, taught.y(), du);
  if (distillation_.similarities > 0) add_similarities(pass, u, taught.y(), du);
  if (pass.gradient) {
    ArenaScope scope(arena);
    const Tensor dnarrow = layer_ ? scope.tensor(narrow.shape(), narrow.dtype()) : pooled;
    comera::run(context, Cast{.x = du, .y = dnarrow});
    if (layer_) layer_->backward(pass.step, passed, dnarrow, pooled);
    const Tensor dx = scope.tensor(hidden.shape(), hidden.dtype());
    if (first)
      scatter(context, *first, pooled, dx);
    else
      comera::run(
          context,
          SequenceMeanBackward{
              .dy = pooled, .offsets = batch.sequence_offsets, .count = batch.sequence_count(), .dx = dx});
    comera::run(context, Add{.x = dx, .y = dhidden});
  }
  arena.release(mark);
}

void TeacherLosses::add_cosines(Pass& pass, const Tensor& narrow, const Tensor& u, const Tensor& taught,
                                const Tensor& du) const {
  const Context& context = pass.step.context;
  const std::size_t mark = context.arena.mark();
  Linear::Saved projected;
  if (projection_) projected = projection_->forward(context, narrow, {});
  const UnitRows unit(context, projection_ ? in_master_type(pass.step, projected.output()) : u, 1);
  pass.add(unit.y(), taught, pass.step.batch.sequence_count(), distillation_.vectors / 2);
  if (pass.gradient) {
    ArenaScope scope(context.arena);
    const Tensor dprojected = scope.tensor({u.dim(0), taught.dim(1) / 2}, u.dtype());
    unit.backward(context, unit.y(), dprojected);
    if (projection_) {
      comera::run(context, Cast{.x = dprojected, .y = projected.output()});
      const Tensor dx = scope.tensor(narrow.shape(), narrow.dtype()),
                   wide = scope.tensor(u.shape(), u.dtype());
      projection_->backward(context, projected, {projected.output()}, dx, false);
      comera::run(context, Cast{.x = dx, .y = wide});
      comera::run(context, Add{.x = wide, .y = du});
    } else {
      comera::run(context, Add{.x = dprojected, .y = du});
    }
  }
  context.arena.release(mark);
}

void TeacherLosses::add_similarities(Pass& pass, const Tensor& u, const Tensor& taught,
                                     const Tensor& du) const {
  const Context& context = pass.step.context;
  const std::size_t mark = context.arena.mark();
  const UnitRows unit(context, u, 1);
  const Tensor own = products_of(context, unit.y());
  pass.add(own, products_of(context, taught), pass.step.batch.sequence_count(), distillation_.similarities,
           true);
  if (pass.gradient) {
    ArenaScope scope(context.arena);
    const Tensor dy = scope.tensor(unit.y().shape(), u.dtype()), dx = scope.tensor(u.shape(), u.dtype());
    MatrixProduct product{.a = own, .b = unit.y(), .c = dy, .m = own.dim(0), .n = dy.dim(1), .k = own.dim(0)};
    comera::run(context, product);
    product.transpose_a = product.accumulate = true;
    comera::run(context, product);
    unit.backward(context, dy, dx);
    comera::run(context, Add{.x = dx, .y = du});
  }
  context.arena.release(mark);
}

}  // namespace comera
