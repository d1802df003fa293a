#include "tensorized/fused/tt_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/attention/attention.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

namespace {

enum Projection : int { query, key, value };

}  // namespace

TTAttention::TTAttention(const ParameterStore& store, const TTLinear& projections, const TTLinear& output,
                         std::int64_t heads)
    : store_(store),
      projections_(projections),
      output_(output),
      hidden_(projections.spec().output_size),
      heads_(heads),
      head_size_(hidden_ / heads) {
  COMERA_CHECK(!output.any_removed(), "{}: an attention layer without output has no effect",
               projections.spec().name);
  COMERA_CHECK(projections.outputs() == 3 && output.outputs() == 1 && output.spec().input_size == hidden_,
               "{}: attention needs three projections and an output of {} columns", projections.spec().name,
               hidden_);
}

TTAttention::Ranks TTAttention::ranks(bool float8) const {
  const auto padded = [&](std::int64_t columns) { return operand_rank(columns, store_.compute(), float8); };
  const auto rank = [this](Projection i) { return std::max<std::int64_t>(projections_.rank(i), 1); };
  // For attention, the value's columns are followed by a column of ones.
  const std::int64_t with_one = padded(rank(value) + 1), used = padded(rank(value));
  const bool pads = padded(1) > 1;
  return {.query = padded(rank(query)),
          .key = padded(rank(key)),
          .value = with_one - 1,
          .output = padded(output_.rank(0)),
          .unused = pads ? 1 : 0,
          .used_value = used < with_one - 1 ? used : 0};
}

void TTAttention::run_forward(const Context& context, Part part, const TTLinearForward& operation) const {
  if (in_float8())
    run(context,
        Float8LinearForward{
            .linear = operation, .scales = (*float8_)[part].scales(), .options = (*float8_)[part].options()});
  else
    run(context, operation);
}

void TTAttention::run_backward(const Context& context, Part part, const TTLinearBackward& operation) const {
  if (in_float8())
    run(context,
        Float8LinearBackward{
            .linear = operation, .scales = (*float8_)[part].scales(), .options = (*float8_)[part].options()});
  else
    run(context, operation);
}

std::optional<std::string> TTAttention::why_not(const MachineModel& machine, std::int64_t tokens,
                                                std::int64_t length, std::int64_t rows, bool drops) const {
  for (const auto& [linear, of] : {std::pair{&projections_, tokens}, {&output_, rows}})
    for (int i = 0; i < linear->outputs(); ++i)
      if (!linear->removed(i) && !all_by_factors(choose_plan(machine, linear->train(i).shape, of,
                                                             PlanKind::automatic, store_.compute())))
        return not_by_factors;
  const auto [r_query, r_key, r_value, r_output, unused, used_value] = ranks(in_float8());
  const auto t = static_cast<double>(tokens), r = static_cast<double>(rows);
  const std::int64_t values = used_value > 0 && !drops ? used_value : r_value + 1;
  const std::int64_t whole_columns = machine.columns_with_scores(head_size_, head_size_),
                     columns = machine.columns_with_scores(r_key, values);
  if (!machine.takes_head(std::max(r_key, values)))
    return fmt::format("the kernels of attention take heads of up to {} columns, not {}",
                       machine.head_sizes.back(), std::max(r_key, values));
  const double whole =
      t * static_cast<double>(hidden_ * (r_query + r_key + r_value) + heads_ * whole_columns * length) +
      r * static_cast<double>(hidden_ * r_output);
  const double between = t * static_cast<double>(heads_ * (r_query * r_key + columns * length)) +
                         r * static_cast<double>(heads_ * (r_value + 1) * r_output) +
                         static_cast<double>(hidden_ * ((r_query + 1) * r_key + (r_value + 1) * r_output));
  if (between < whole) return {};
  return fmt::format(
      "it takes {:.2f} times the floating-point operations, with {} columns of keys and values instead of {} "
      "a head",
      between / whole, columns, whole_columns);
}

TTAttention::Merged TTAttention::merge(Merging& merging) const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused, used_value] = padded;
  const std::int64_t all = padded.all();
  const DType type = in_float8() ? store_.dtype() : store_.compute();
  const bool rounds = type != store_.dtype();
  const PackedTensors operands{{hidden_, all},
                               {r_output, hidden_},
                               {r_query, heads_ * r_key},
                               {heads_ * (r_value + 1), r_output},
                               {rounds ? heads_ * r_key : 0}};
  const PackedTensors wide{{hidden_, r_output},
                           {r_query + 1, hidden_},
                           {r_value + 1, hidden_},
                           {r_key, hidden_},
                           {heads_ * r_key}};
  const Merging::Operands whole = merging.take(operands.elements(), type);
  const Tensor whole_wide = merging.take(wide.elements(), store_.dtype()).kept;
  const std::vector<Tensor> operand = operands.in(whole.kept), factor = wide.in(whole_wide);
  const Merged merged{.a = operand[0],
                      .b_output = operand[1],
                      .c = operand[2],
                      .f = operand[3],
                      .rounded_c_bias = rounds ? operand[4] : Tensor(),
                      .c_bias = factor[4],
                      .a_output = factor[0],
                      .b_query = factor[1],
                      .b_value = factor[2],
                      .b_key = factor[3]};

  const std::vector<Tensor> made = operands.in(whole.computed);
  const Tensor &a = made[0], &b_output = made[1], &c = made[2], &f = made[3];
  const std::string& place = projections_.spec().name;
  const auto add = [&](const TTCores& train, const Tensor& to_a, std::int64_t apart, std::int64_t columns,
                       const Tensor& to_b, const Tensor& last_row) {
    TTFactorsForward::Factors factors = factors_of(store_, train, to_a, apart, columns, to_b);
    factors.last_row = last_row;
    factors.place = place;
    merging.add(factors);
  };
  add(output_.train(0), merged.a_output, r_output, r_output, b_output, {});
  if (projections_.any_removed())  // factors of zeros
    for (const Tensor& zeros : {whole.computed, whole_wide}) merging.clear(zeros);
  const auto add_projection = [&](int i, std::int64_t column, std::int64_t columns, const Tensor& b,
                                  const Tensor& bias) {
    if (!projections_.removed(i))
      add(projections_.train(i), a.from(column), all, columns, b, bias);
    else if (bias)
      merging.add_row(bias, b.rows(b.dim(0) - 1, 1));
  };
  add_projection(query, 0, r_query, merged.b_query, store_.value(projections_.bias(query)));
  add_projection(key, r_query, r_key, merged.b_key, {});
  add_projection(value, r_query + r_key, r_value + padded.unused, merged.b_value,
                 store_.value(projections_.bias(value)));

  MatrixProduct of_head{.a = merged.b_query,
                        .b = merged.b_key,
                        .c = c,
                        .m = r_query,
                        .n = r_key,
                        .k = head_size_,
                        .transpose_b = true,
                        .lda = hidden_,
                        .ldb = hidden_,
                        .ldc = heads_ * r_key,
                        .batch = heads_,
                        .stride_a = head_size_,
                        .stride_b = head_size_,
                        .stride_c = r_key,
                        .place = place};
  merging.add(of_head);
  of_head.a = merged.b_query.rows(r_query, 1);
  of_head.c = merged.c_bias;
  of_head.m = 1;
  merging.add(of_head);
  if (rounds) {  // the same again, to be rounded
    of_head.c = made[4];
    merging.add(of_head);
  }
  merging.add(MatrixProduct{.a = merged.b_value,
                            .b = merged.a_output,
                            .c = f,
                            .m = r_value + 1,
                            .n = r_output,
                            .k = head_size_,
                            .lda = hidden_,
                            .batch = heads_,
                            .stride_a = head_size_,
                            .stride_b = head_size_ * r_output,
                            .stride_c = (r_value + 1) * r_output,
                            .place = place});
  merging.will_have_gradients(gradients_of_merged().elements());
  return merged;
}

PackedTensors TTAttention::gradients_of_merged() const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused, used_value] = padded;
  return PackedTensors{{heads_ * (r_value + 1), r_output},
                       {r_output, hidden_},
                       {hidden_, padded.all()},
                       {r_query + 1, heads_ * r_key},
                       {r_query + 1, hidden_},
                       {r_value + 1, hidden_},
                       {r_key, hidden_},
                       {hidden_, r_output}};
}

void TTAttention::merge_backward(const Merged& merged, const OfMerged& of, MergedGradients& gradients) const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused, used_value] = padded;
  const std::int64_t all = padded.all();
  const std::string& place = projections_.spec().name;
  MatrixProduct of_head{.a = of.dc,
                        .b = merged.b_key,
                        .c = of.db_query,
                        .m = r_query + 1,
                        .n = head_size_,
                        .k = r_key,
                        .lda = heads_ * r_key,
                        .ldb = hidden_,
                        .ldc = hidden_,
                        .batch = heads_,
                        .stride_a = r_key,
                        .stride_b = head_size_,
                        .stride_c = head_size_,
                        .place = place};
  gradients.add(of_head);
  of_head.transpose_a = true;
  of_head.b = merged.b_query;
  of_head.c = of.db_key;
  std::swap(of_head.m, of_head.k);
  gradients.add(of_head);
  gradients.add(MatrixProduct{.a = of.df,
                              .b = merged.a_output,
                              .c = of.db_value,
                              .m = r_value + 1,
                              .n = head_size_,
                              .k = r_output,
                              .transpose_b = true,
                              .ldc = hidden_,
                              .batch = heads_,
                              .stride_a = (r_value + 1) * r_output,
                              .stride_b = head_size_ * r_output,
                              .stride_c = head_size_,
                              .place = place});
  gradients.add(MatrixProduct{.a = merged.b_value,
                              .b = of.df,
                              .c = of.da_output,
                              .m = head_size_,
                              .n = r_output,
                              .k = r_value + 1,
                              .transpose_a = true,
                              .lda = hidden_,
                              .batch = heads_,
                              .stride_a = head_size_,
                              .stride_b = (r_value + 1) * r_output,
                              .stride_c = head_size_ * r_output,
                              .place = place});
  const auto add = [&](const TTCores& train, const Tensor& da, std::int64_t apart, const Tensor& db,
                       const Tensor& dlast_row) {
    TTFactorsBackward::Factors factors = factor_gradients_of(store_, train, da, apart, db);
    factors.dlast_row = dlast_row;
    factors.place = place;
    gradients.add(factors);
  };
  add(output_.train(0), of.da_output, r_output, of.db_output, {});
  const auto add_projection = [&](int i, std::int64_t column, const Tensor& db, const Tensor& dbias) {
    if (!projections_.removed(i))
      add(projections_.train(i), of.da.from(column), all, db, dbias);
    else if (dbias)
      gradients.add_row(db.rows(db.dim(0) - 1, 1), dbias);
  };
  add_projection(query, 0, of.db_query, store_.gradient(projections_.bias(query)));
  add_projection(key, r_query, of.db_key, {});
  add_projection(value, r_query + r_key, of.db_value, store_.gradient(projections_.bias(value)));
}

TTAttention::Saved TTAttention::forward(const Context& context, const Inputs& inputs, const Merged& merged,
                                        const Tensor& x) const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused, used_value] = padded;
  const std::int64_t tokens = x.dim(0), all = padded.all(), rows = inputs.rows ? inputs.rows->most : tokens;
  const DType dtype = x.dtype(), master = store_.dtype();
  Arena& arena = context.arena;
  Saved saved{.x = x,
              .merged = merged,
              .xa = arena.saved({tokens, all}, dtype),
              .query = arena.saved({tokens, heads_ * r_key}, dtype),
              .attended = arena.saved({tokens, heads_ * (r_value + 1)}, dtype),
              .read = {},
              .xa_output = arena.saved({rows, r_output}, dtype),
              .y = arena.saved({rows, hidden_}, dtype),
              .log_sum_exp = arena.saved({heads_, tokens}, master)};
  const ProductPlace place = projections_.place(context);
  TTLinearForward query_forward{.x = x, .a = merged.a, .xa = saved.xa, .outputs = 1, .output = {}};
  query_forward.output[0] = {.column = 0,
                             .b = merged.c,
                             .bias = merged.c_bias,
                             .rounded_bias = merged.rounded_c_bias,
                             .u = saved.query,
                             .y = {}};
  run_forward(context, Part::to_query, query_forward);
  {
    const ProductPlace scores(context.products, "", scores_stay_wide);
    run(context, AttentionForward{.q = saved.query,
                                  .k = saved.xa.from(r_query),
                                  .v = saved.xa.from(r_query + r_key),
                                  .sequence_offsets = inputs.sequence_offsets,
                                  .heads = heads_,
                                  .longest = inputs.longest,
                                  .scale = 1 / std::sqrt(static_cast<double>(head_size_)),
                                  .dropout = inputs.dropout,
                                  .step_inputs = inputs.step_inputs,
                                  .out = saved.attended,
                                  .log_sum_exp = saved.log_sum_exp,
                                  .shared_keys = true,
                                  .append_one = true,
                                  .room_for_one = unused > 0,
                                  .k_stride = all,
                                  .v_stride = all,
                                  .slopes = inputs.slopes,
                                  .biases = inputs.biases,
                                  .queries = inputs.rows ? inputs.rows->of_each_sequence : 0,
                                  .used_values = inputs.dropout.active() ? 0 : used_value});
  }
  saved.read = saved.attended;
  if (inputs.rows) {
    saved.read = arena.saved({rows, saved.attended.dim(1)}, dtype);
    gather(context, *inputs.rows, saved.attended, saved.read);
  }
  const ProductPlace output_place = output_.place(context);
  TTLinearForward output_forward{
      .x = saved.read, .a = merged.f, .xa = saved.xa_output, .outputs = 1, .output = {}};
  output_forward.output[0] = {.column = 0, .b = merged.b_output, .bias = {}, .u = saved.y, .y = {}};
  run_forward(context, Part::to_output, output_forward);
  return saved;
}

void TTAttention::backward(const Context& context, const Inputs& inputs, const Saved& saved, const Tensor& dy,
                           const Tensor& dx, bool accumulate_dx, MergedGradients& gradients) const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused, used_value] = padded;
  const std::int64_t all = padded.all();
  const DType dtype = dy.dtype();
  const Merged& merged = saved.merged;
  ArenaScope scope(context.arena);
  const std::vector<Tensor> zeros = gradients.zeros(gradients_of_merged());
  const OfMerged of{.df = zeros[0],
                    .db_output = zeros[1],
                    .da = zeros[2],
                    .dc = zeros[3],
                    .db_query = zeros[4],
                    .db_value = zeros[5],
                    .db_key = zeros[6],
                    .da_output = zeros[7]};
  const Tensor dattended = scope.tensor(saved.attended.shape(), dtype);
  const Tensor dread = inputs.rows ? scope.tensor(saved.read.shape(), dtype) : dattended;
  TTLinearBackward of_output{.x = saved.read,
                             .a = merged.f,
                             .xa = saved.xa_output,
                             .da = of.df,
                             .dx = dread,
                             .outputs = 1,
                             .output = {},
                             .dxa = {}};
  WeightGradients* later = in_float8() ? nullptr : gradients.later();
  if (later != nullptr) {
    of_output.later = later;
    of_output.dxa = gradients.operand(scope, saved.xa_output.shape(), dtype);
  }
  of_output.output[0] = {
      .column = 0, .b = merged.b_output, .db = of.db_output, .dbias = {}, .u = {}, .y = {}, .dy = dy};
  {
    const ProductPlace place = output_.place(context);
    run_backward(context, Part::to_output, of_output);
  }
  if (inputs.rows) scatter(context, *inputs.rows, dread, dattended);
  const ProductPlace place = projections_.place(context);
  const Tensor dquery = gradients.operand(scope, saved.query.shape(), dtype);
  const Tensor dxa = gradients.operand(scope, saved.xa.shape(), dtype);
  {
    const ProductPlace scores(context.products, "", scores_stay_wide);
    run(context, AttentionBackward{.q = saved.query,
                                   .k = saved.xa.from(r_query),
                                   .v = saved.xa.from(r_query + r_key),
                                   .out = saved.attended,
                                   .log_sum_exp = saved.log_sum_exp,
                                   .sequence_offsets = inputs.sequence_offsets,
                                   .heads = heads_,
                                   .longest = inputs.longest,
                                   .scale = 1 / std::sqrt(static_cast<double>(head_size_)),
                                   .dropout = inputs.dropout,
                                   .step_inputs = inputs.step_inputs,
                                   .dout = dattended,
                                   .dq = dquery,
                                   .dk = dxa.from(r_query),
                                   .dv = dxa.from(r_query + r_key),
                                   .shared_keys = true,
                                   .append_one = true,
                                   .room_for_one = unused > 0,
                                   .k_stride = all,
                                   .v_stride = all,
                                   .slopes = inputs.slopes,
                                   .biases = inputs.biases,
                                   .queries = inputs.rows ? inputs.rows->of_each_sequence : 0,
                                   .used_values = inputs.dropout.active() ? 0 : used_value});
  }
  TTLinearBackward of_query{.x = saved.x,
                            .a = merged.a,
                            .xa = saved.xa,
                            .da = of.da,
                            .dx = dx,
                            .accumulate_dx = accumulate_dx,
                            .outputs = 1,
                            .output = {},
                            .dxa = dxa,
                            .later = later};
  of_query.output[0] = {.column = 0,
                        .b = merged.c,
                        .db = of.dc.rows(0, r_query),
                        .dbias = of.dc.rows(r_query, 1).reshape({heads_ * r_key}),
                        .u = {},
                        .y = {},
                        .dy = dquery};
  run_backward(context, Part::to_query, of_query);
  merge_backward(merged, of, gradients);
}

}  // namespace comera
