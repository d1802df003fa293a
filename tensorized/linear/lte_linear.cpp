#include "tensorized/linear/lte_linear.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/scale_columns.h"
#include "tensorized/linear/in_type.h"

namespace comera {

namespace {
constexpr const char* suffixes[] = {".lora_a", ".lora_b", ".merged_a", ".merged_b"};
}

LteLinear::LteLinear(ParameterStore& store, const Spec& spec, const LteForm& form)
    : Linear(store, spec), form_(form), scale_(form.lora_alpha / static_cast<double>(form.lora_r)) {
  const std::int64_t n = spec.input_size, m = spec.output_size, r = form.lora_r, heads = form.num_heads;
  COMERA_CHECK(r >= 1 && r <= std::min(n, m), "{}: a matrix {} x {} has no adapters of rank {}", spec.name, n,
               m, r);
  COMERA_CHECK(heads >= 1, "{}: {} heads, expected at least 1", spec.name, heads);
  const double deviation = std::sqrt(1.0 / static_cast<double>(n + m));
  const double length = std::sqrt(static_cast<double>(n) / static_cast<double>(r));
  for (int i = 0; i < outputs(); ++i) {
    const auto add = [&](const char* suffix, ParameterRole role, const Shape& shape,
                         Initializer initializer) {
      return store.add({.name = output_name(i) + suffix,
                        .role = role,
                        .shape = shape,
                        .decays = role == ParameterRole::dense,
                        .initializer = initializer});
    };
    const Shape of_a{heads, r, n}, of_b{heads, m, r};
    const Initializer zero{};
    Output part;
    part.weight = add(".weight", ParameterRole::frozen, {n, m}, {Initializer::Kind::normal, deviation});
    add_bias(store, i, ParameterRole::frozen);
    part.trained = {add(suffixes[0], ParameterRole::dense, of_a, {Initializer::Kind::orthogonal, length}),
                    add(suffixes[1], ParameterRole::dense, of_b, zero)};
    part.merged = {add(suffixes[2], ParameterRole::frozen, of_a, zero),
                   add(suffixes[3], ParameterRole::frozen, of_b, zero)};
    parts_.push_back(part);
  }
}

bool LteLinear::is_adapter(std::string_view parameter) {
  return std::ranges::any_of(suffixes, [&](const char* suffix) { return parameter.ends_with(suffix); });
}

// to = s rows in the columns of the trained factors, -s rows in those of the merged ones. Both (T, 2 r), rows
// in the master type.
void LteLinear::scale(const Context& context, const Tensor& rows, const Tensor& to) const {
  ArenaScope scope(context.arena);
  const Tensor signs = scope.tensor({2 * form_.lora_r}, rows.dtype());
  run(context, Fill{.x = signs.slice(0, {form_.lora_r}), .value = scale_});
  run(context, Fill{.x = signs.slice(form_.lora_r, {form_.lora_r}), .value = -scale_});
  const InMasterType product(context, scope, to);
  run(context, ScaleColumnsForward{.x = rows, .gate = signs, .y = product.tensor()});
  product.write_back();
}

Linear::Saved LteLinear::run_forward(const Context& context, const Tensor& x, const Pass& pass) const {
  Saved saved = begin(context, x, pass);
  auto& kept = saved.kept.emplace<FirstProducts>();
  COMERA_CHECK(!pass.training || x.dim(0) % form_.num_heads == 0,
               "{}: {} rows cannot be divided into parts for {} heads", spec_.name, x.dim(0),
               form_.num_heads);
  for (int i = 0; i < outputs(); ++i) {
    run(context, MatrixProduct{.a = x,
                               .b = store_.product_value(parts_[i].weight),
                               .c = saved.u[i],
                               .m = x.dim(0),
                               .n = spec_.output_size,
                               .k = spec_.input_size});
    if (pass.training) {
      kept.xa[i] = context.arena.saved({x.dim(0), 2 * form_.lora_r}, x.dtype());
      add_adapters(context, parts_[i], x, kept.xa[i], saved.u[i]);
    }
    add_bias_and_activate(context, saved, i);
  }
  return saved;
}

// xa = s [x A_hᵀ, -x A'_hᵀ] and u += xa [B_h, B'_h]ᵀ, each head with the rows of its part.
void LteLinear::add_adapters(const Context& context, const Output& output, const Tensor& x, const Tensor& xa,
                             const Tensor& u) const {
  const std::int64_t n = spec_.input_size, m = spec_.output_size, r = form_.lora_r, heads = form_.num_heads;
  const std::int64_t rows = x.dim(0) / heads;
  ArenaScope scope(context.arena);
  const Tensor unscaled = scope.tensor(xa.shape(), store_.dtype());
  std::int64_t column = 0;
  for (const Factors* factors : output.pairs()) {
    run(context, MatrixProduct{.a = x,
                               .b = store_.product_value(factors->a),
                               .c = unscaled.from(column),
                               .m = rows,
                               .n = r,
                               .k = n,
                               .transpose_b = true,
                               .ldc = 2 * r,
                               .batch = heads,
                               .stride_a = rows * n,
                               .stride_b = r * n,
                               .stride_c = rows * 2 * r});
    column += r;
  }
  scale(context, unscaled, xa);
  column = 0;
  for (const Factors* factors : output.pairs()) {
    run(context, MatrixProduct{.a = xa.from(column),
                               .b = store_.product_value(factors->b),
                               .c = u,
                               .m = rows,
                               .n = m,
                               .k = r,
                               .transpose_b = true,
                               .accumulate = true,
                               .lda = 2 * r,
                               .batch = heads,
                               .stride_a = rows * 2 * r,
                               .stride_b = m * r,
                               .stride_c = rows * m});
    column += r;
  }
}

void LteLinear::run_backward(const Context& context, const Saved& saved,
                             const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                             bool accumulate_dx, MergedGradients* /*merged*/) const {
  const auto& kept = saved.kept.get<FirstProducts>();
  for (int i = 0; i < outputs(); ++i) {
    bias_activation_backward(context, saved, i, dy[i]);
    run(context, MatrixProduct{.a = dy[i],
                               .b = store_.product_value(parts_[i].weight),
                               .c = dx,
                               .m = saved.x.dim(0),
                               .n = spec_.input_size,
                               .k = spec_.output_size,
                               .transpose_b = true,
                               .accumulate = accumulate_dx || i > 0});
    if (saved.pass.training) adapters_backward(context, parts_[i], saved, kept.xa[i], dy[i], dx);
  }
}

// dxa = s [du B_h, -du B'_h]; dA_h += (its first columns)ᵀ x; dB_h += duᵀ (xa's first columns);
// dx += dxa [A_h; A'_h].
void LteLinear::adapters_backward(const Context& context, const Output& output, const Saved& saved,
                                  const Tensor& xa, const Tensor& du, const Tensor& dx) const {
  const std::int64_t n = spec_.input_size, m = spec_.output_size, r = form_.lora_r, heads = form_.num_heads;
  const std::int64_t rows = du.dim(0) / heads;
  ArenaScope scope(context.arena);
  const Tensor unscaled = scope.tensor(xa.shape(), store_.dtype());
  std::int64_t column = 0;
  for (const Factors* factors : output.pairs()) {
    run(context, MatrixProduct{.a = du,
                               .b = store_.product_value(factors->b),
                               .c = unscaled.from(column),
                               .m = rows,
                               .n = r,
                               .k = m,
                               .ldc = 2 * r,
                               .batch = heads,
                               .stride_a = rows * m,
                               .stride_b = m * r,
                               .stride_c = rows * 2 * r});
    column += r;
  }
  const Tensor dxa = scope.tensor(xa.shape(), xa.dtype());
  scale(context, unscaled, dxa);
  column = 0;
  for (const Factors* factors : output.pairs()) {
    run(context, MatrixProduct{.a = dxa.from(column),
                               .b = store_.product_value(factors->a),
                               .c = dx,
                               .m = rows,
                               .n = n,
                               .k = r,
                               .accumulate = true,
                               .lda = 2 * r,
                               .batch = heads,
                               .stride_a = rows * 2 * r,
                               .stride_b = r * n,
                               .stride_c = rows * n});
    column += r;
  }
  run(context, MatrixProduct{.a = dxa,
                             .b = saved.x,
                             .c = store_.gradient(output.trained.a),
                             .m = r,
                             .n = n,
                             .k = rows,
                             .transpose_a = true,
                             .accumulate = true,
                             .lda = 2 * r,
                             .batch = heads,
                             .stride_a = rows * 2 * r,
                             .stride_b = rows * n,
                             .stride_c = r * n});
  run(context, MatrixProduct{.a = du,
                             .b = xa,
                             .c = store_.gradient(output.trained.b),
                             .m = m,
                             .n = r,
                             .k = rows,
                             .transpose_a = true,
                             .accumulate = true,
                             .ldb = 2 * r,
                             .batch = heads,
                             .stride_a = rows * m,
                             .stride_b = rows * 2 * r,
                             .stride_c = m * r});
}

// W += scale Σ_h A_hᵀ B_hᵀ
void LteLinear::add_to_weight(const Context& context, const Output& output, const Factors& factors,
                              double scale) const {
  const std::int64_t n = spec_.input_size, m = spec_.output_size, r = form_.lora_r, heads = form_.num_heads;
  ArenaScope scope(context.arena);
  const Tensor gate = scope.tensor({r}, store_.dtype());
  run(context, Fill{.x = gate, .value = scale});
  const Tensor b = scope.tensor({heads * m, r}, store_.dtype());
  run(context,
      ScaleColumnsForward{.x = store_.value(factors.b).reshape({heads * m, r}), .gate = gate, .y = b});
  run(context, MatrixProduct{.a = store_.value(factors.a),
                             .b = b,
                             .c = store_.value(output.weight),
                             .m = n,
                             .n = m,
                             .k = r,
                             .transpose_a = true,
                             .transpose_b = true,
                             .accumulate = true,
                             .batch = heads,
                             .stride_a = r * n,
                             .stride_b = m * r});
}

void LteLinear::consolidate(const Context& context) const {
  const double mean = scale_ / static_cast<double>(form_.num_heads);
  for (const Output& part : parts_) {
    add_to_weight(context, part, part.trained, mean);
    add_to_weight(context, part, part.merged, -mean);
    run(context, Cast{.x = store_.value(part.trained.a), .y = store_.value(part.merged.a)});
    run(context, Cast{.x = store_.value(part.trained.b), .y = store_.value(part.merged.b)});
  }
}

std::string LteLinear::explain(std::int64_t tokens, const MachineModel& /*machine*/) const {
  const std::int64_t n = spec_.input_size, m = spec_.output_size;
  const std::int64_t sizes = (n * m + 2 * form_.lora_r * (n + m)) * outputs();
  return fmt::format("{}: {}, {} tokens\n  in training five products for each part: {:.3f} GFLOP\n",
                     spec_.name, shape_text(0), tokens, 2e-9 * static_cast<double>(tokens * sizes));
}

std::string LteLinear::shape_text(int /*output*/) const {
  return fmt::format("dense {} x {} frozen, {} adapters of rank {}", spec_.input_size, spec_.output_size,
                     form_.num_heads, form_.lora_r);
}

std::vector<double> LteLinear::matrix(int output) const {
  return read_tensor(store_.value(parts_[output].weight), store_.allocator());
}

}  // namespace comera
