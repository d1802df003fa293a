#include "tensorized/tt_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/attention.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "tensorized/in_type.h"
#include "tensorized/together.h"

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
  COMERA_CHECK(!output.any_removed(), "{}: nobody sees an attention whose output is removed",
               projections.spec().name);
  COMERA_CHECK(projections.outputs() == 3 && output.outputs() == 1 && output.spec().input_size == hidden_,
               "{}: attention needs three projections and an output of {} columns", projections.spec().name,
               hidden_);
}

TTAttention::Ranks TTAttention::ranks(bool float8) const {
  const auto padded = [&](std::int64_t columns) { return operand_rank(columns, store_.compute(), float8); };
  const auto rank = [this](Projection i) { return std::max<std::int64_t>(projections_.rank(i), 1); };
  // The value's columns are followed by one of ones where they are attended to.
  const std::int64_t with_one = padded(rank(value) + 1);
  const bool pads = padded(1) > 1;
  return {padded(rank(query)), padded(rank(key)), with_one - 1, padded(output_.rank(0)), pads ? 1 : 0};
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

bool TTAttention::pays(const MachineModel& machine, std::int64_t tokens, std::int64_t length,
                       std::int64_t rows) const {
  for (const auto& [linear, of] : {std::pair{&projections_, tokens}, {&output_, rows}})
    for (int i = 0; i < linear->outputs(); ++i)
      if (!linear->removed(i) && !all_by_halves(choose_plan(machine, linear->train(i).shape, of,
                                                            PlanKind::automatic, store_.compute())))
        return false;
  const auto [r_query, r_key, r_value, r_output, unused] = ranks(in_float8());
  const auto t = static_cast<double>(tokens), r = static_cast<double>(rows);
  const double whole = t * static_cast<double>(hidden_ * (r_query + r_key + r_value) + 2 * hidden_ * length) +
                       r * static_cast<double>(hidden_ * r_output);
  const double between =
      t * static_cast<double>(heads_ * ((r_query + length) * r_key + (r_value + 1) * length)) +
      r * static_cast<double>(heads_ * (r_value + 1) * r_output) +
      static_cast<double>(hidden_ * ((r_query + 1) * r_key + (r_value + 1) * r_output));
  return between < whole;
}

void TTAttention::merge(const Context& context, const Saved& saved, const Together& operands,
                        const Tensor& whole, const Tensor& whole_wide) const {
  const ProductPlace place(context.products, "", cores_stay_wide);
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused] = padded;
  const std::int64_t all = padded.all();
  ArenaScope scope(context.arena);
  const InMasterType master(context, scope, whole);
  const std::vector<Tensor> made = operands.in(master.tensor());
  const Tensor &a = made[0], &b_output = made[1], &c = made[2], &f = made[3];
  TTHalvesForward halves{{halves_of(store_, output_.train(0), saved.a_output, r_output, r_output, b_output)}};
  if (projections_.any_removed())  // halves of zeros
    for (const Tensor& zeros : {master.tensor(), whole_wide}) run(context, Fill{.x = zeros, .value = 0});
  const auto add_projection = [&](int i, std::int64_t column, std::int64_t columns, const Tensor& b,
                                  const Tensor& bias) {
    if (projections_.removed(i)) {
      if (bias) run(context, Add{.x = bias, .y = b.rows(b.dim(0) - 1, 1)});
      return;
    }
    halves.halves.push_back(halves_of(store_, projections_.train(i), a.from(column), all, columns, b));
    halves.halves.back().last_row = bias;
  };
  const Tensor bias_query = store_.value(projections_.bias(query)),
               bias_value = store_.value(projections_.bias(value));
  add_projection(query, 0, r_query, saved.b_query, bias_query);
  add_projection(key, r_query, r_key, saved.b_key, {});
  add_projection(value, r_query + r_key, r_value + padded.unused, saved.b_value, bias_value);
  run(context, halves);
  run(context, MatrixProduct{.a = saved.b_query,
                             .b = saved.b_key,
                             .c = c,
                             .m = r_query + 1,
                             .n = r_key,
                             .k = head_size_,
                             .transpose_b = true,
                             .lda = hidden_,
                             .ldb = hidden_,
                             .ldc = heads_ * r_key,
                             .batch = heads_,
                             .stride_a = head_size_,
                             .stride_b = head_size_,
                             .stride_c = r_key});
  run(context, MatrixProduct{.a = saved.b_value,
                             .b = saved.a_output,
                             .c = f,
                             .m = r_value + 1,
                             .n = r_output,
                             .k = head_size_,
                             .lda = hidden_,
                             .batch = heads_,
                             .stride_a = head_size_,
                             .stride_b = head_size_ * r_output,
                             .stride_c = (r_value + 1) * r_output});
  run(context, Cast{.x = c.rows(r_query, 1), .y = saved.c_bias});
  master.write_back();
}

void TTAttention::merge_backward(const Context& context, const Saved& saved, const Tensor& da,
                                 const Tensor& dc, const Tensor& df, const Tensor& db_output) const {
  const ProductPlace place(context.products, "", cores_stay_wide);
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused] = padded;
  const std::int64_t all = padded.all();
  const DType dtype = da.dtype();
  ArenaScope scope(context.arena);
  const Tensor db_query = scope.tensor({r_query + 1, hidden_}, dtype);
  const Tensor db_value = scope.tensor({r_value + 1, hidden_}, dtype);
  const Tensor db_key = scope.tensor({r_key, hidden_}, dtype);
  const Tensor da_output = scope.tensor({hidden_, r_output}, dtype);
  MatrixProduct of_head{.a = dc,
                        .b = saved.b_key,
                        .c = db_query,
                        .m = r_query + 1,
                        .n = head_size_,
                        .k = r_key,
                        .lda = heads_ * r_key,
                        .ldb = hidden_,
                        .ldc = hidden_,
                        .batch = heads_,
                        .stride_a = r_key,
                        .stride_b = head_size_,
                        .stride_c = head_size_};
  run(context, of_head);
  of_head.transpose_a = true;
  of_head.b = saved.b_query;
  of_head.c = db_key;
  std::swap(of_head.m, of_head.k);
  run(context, of_head);
  run(context, MatrixProduct{.a = df,
                             .b = saved.a_output,
                             .c = db_value,
                             .m = r_value + 1,
                             .n = head_size_,
                             .k = r_output,
                             .transpose_b = true,
                             .ldc = hidden_,
                             .batch = heads_,
                             .stride_a = (r_value + 1) * r_output,
                             .stride_b = head_size_ * r_output,
                             .stride_c = head_size_});
  run(context, MatrixProduct{.a = saved.b_value,
                             .b = df,
                             .c = da_output,
                             .m = head_size_,
                             .n = r_output,
                             .k = r_value + 1,
                             .transpose_a = true,
                             .lda = hidden_,
                             .batch = heads_,
                             .stride_a = head_size_,
                             .stride_b = (r_value + 1) * r_output,
                             .stride_c = head_size_ * r_output});
  TTHalvesBackward to_cores{{half_gradients_of(store_, output_.train(0), da_output, r_output, db_output)}};
  const auto to_cores_of = [&](int i, std::int64_t column, const Tensor& db, const Tensor& dbias) {
    if (projections_.removed(i)) {
      if (dbias) run(context, Add{.x = db.rows(db.dim(0) - 1, 1), .y = dbias});
      return;
    }
    to_cores.halves.push_back(half_gradients_of(store_, projections_.train(i), da.from(column), all, db));
    to_cores.halves.back().dlast_row = dbias;
  };
  to_cores_of(query, 0, db_query, store_.gradient(projections_.bias(query)));
  to_cores_of(key, r_query, db_key, {});
  to_cores_of(value, r_query + r_key, db_value, store_.gradient(projections_.bias(value)));
  run(context, to_cores);
}

TTAttention::Saved TTAttention::forward(const Context& context, const Inputs& inputs, const Tensor& x) const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused] = padded;
  const std::int64_t tokens = x.dim(0), all = padded.all(), rows = inputs.rows ? inputs.rows->most : tokens;
  const DType dtype = x.dtype(), master = store_.dtype(), halves = in_float8() ? master : dtype;
  Arena& arena = context.arena;
  const Together operands{
      {hidden_, all}, {r_output, hidden_}, {r_query + 1, heads_ * r_key}, {heads_ * (r_value + 1), r_output}};
  const Together wide{{hidden_, r_output}, {r_query + 1, hidden_}, {r_value + 1, hidden_}, {r_key, hidden_}};
  const Tensor whole = arena.saved({operands.elements()}, halves);
  const Tensor whole_wide = arena.saved({wide.elements()}, master);
  const std::vector<Tensor> operand = operands.in(whole), factor = wide.in(whole_wide);
  Saved saved{.x = x,
              .a = operand[0],
              .b_output = operand[1],
              .c = operand[2].rows(0, r_query),
              .f = operand[3],
              .xa = arena.saved({tokens, all}, dtype),
              .query = arena.saved({tokens, heads_ * r_key}, dtype),
              .attended = arena.saved({tokens, heads_ * (r_value + 1)}, dtype),
              .read = {},
              .xa_output = arena.saved({rows, r_output}, dtype),
              .y = arena.saved({rows, hidden_}, dtype),
              .c_bias = arena.saved({heads_ * r_key}, master),
              .a_output = factor[0],
              .b_query = factor[1],
              .b_value = factor[2],
              .b_key = factor[3],
              .log_sum_exp = arena.saved({heads_, tokens}, master)};
  const ProductPlace place = projections_.place(context);
  merge(context, saved, operands, whole, whole_wide);
  TTLinearForward query_forward{.x = x, .a = saved.a, .xa = saved.xa, .outputs = 1, .output = {}};
  query_forward.output[0] = {.column = 0, .b = saved.c, .bias = saved.c_bias, .u = saved.query, .y = {}};
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
                                  .k_stride = all,
                                  .v_stride = all,
                                  .slopes = inputs.slopes});
  }
  saved.read = saved.attended;
  if (inputs.rows) {
    saved.read = arena.saved({rows, saved.attended.dim(1)}, dtype);
    gather(context, *inputs.rows, saved.attended, saved.read);
  }
  const ProductPlace output_place = output_.place(context);
  TTLinearForward output_forward{
      .x = saved.read, .a = saved.f, .xa = saved.xa_output, .outputs = 1, .output = {}};
  output_forward.output[0] = {.column = 0, .b = saved.b_output, .bias = {}, .u = saved.y, .y = {}};
  run_forward(context, Part::to_output, output_forward);
  return saved;
}

void TTAttention::backward(const Context& context, const Inputs& inputs, const Saved& saved, const Tensor& dy,
                           const Tensor& dx, bool accumulate_dx) const {
  const Ranks padded = ranks(in_float8());
  const auto [r_query, r_key, r_value, r_output, unused] = padded;
  const std::int64_t all = padded.all();
  const DType dtype = dy.dtype();
  ArenaScope scope(context.arena);
  const Together together{
      saved.f.shape(), saved.b_output.shape(), saved.a.shape(), {r_query + 1, heads_ * r_key}};
  const Tensor zeros = scope.tensor({together.elements()}, store_.dtype());
  run(context, Fill{.x = zeros, .value = 0});
  const std::vector<Tensor> gradient = together.in(zeros);
  const Tensor &df = gradient[0], &db_output = gradient[1], &da = gradient[2], &dc = gradient[3];
  const Tensor dattended = scope.tensor(saved.attended.shape(), dtype);
  const Tensor dread = inputs.rows ? scope.tensor(saved.read.shape(), dtype) : dattended;
  TTLinearBackward of_output{.x = saved.read,
                             .a = saved.f,
                             .xa = saved.xa_output,
                             .da = df,
                             .dx = dread,
                             .outputs = 1,
                             .output = {},
                             .dxa = {}};
  of_output.output[0] = {
      .column = 0, .b = saved.b_output, .db = db_output, .dbias = {}, .u = {}, .y = {}, .dy = dy};
  {
    const ProductPlace place = output_.place(context);
    run_backward(context, Part::to_output, of_output);
  }
  if (inputs.rows) scatter(context, *inputs.rows, dread, dattended);
  const ProductPlace place = projections_.place(context);
  const Tensor dquery = scope.tensor(saved.query.shape(), dtype);
  const Tensor dxa = scope.tensor(saved.xa.shape(), dtype);
  if (unused > 0) run(context, Fill{.x = dxa, .value = 0});
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
                                   .k_stride = all,
                                   .v_stride = all,
                                   .slopes = inputs.slopes});
  }
  TTLinearBackward of_query{.x = saved.x,
                            .a = saved.a,
                            .xa = saved.xa,
                            .da = da,
                            .dx = dx,
                            .accumulate_dx = accumulate_dx,
                            .outputs = 1,
                            .output = {},
                            .dxa = dxa};
  of_query.output[0] = {.column = 0,
                        .b = saved.c,
                        .db = dc.rows(0, r_query),
                        .dbias = dc.rows(r_query, 1).reshape({heads_ * r_key}),
                        .u = {},
                        .y = {},
                        .dy = dquery};
  run_backward(context, Part::to_query, of_query);
  merge_backward(context, saved, da, dc, df, db_output);
}

}  // namespace comera
