#include "optim/galore.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "kernels/ops/optimizers/directions.h"
#include "kernels/ops/products/matrix_product.h"
#include "tensorized/decomposition/svd.h"

namespace comera {

namespace {

GaloreOptions galore_of(const OptimizerOptions& options) { return options.galore.value_or(GaloreOptions()); }

bool is_projected(const ParameterInfo& info) {
  return info.role == ParameterRole::dense && info.matrix_rows > 0 && info.shape.elements() > 0;
}

std::vector<ParameterId> others_than_projected(const ParameterStore& store) {
  std::vector<ParameterId> ids;
  for (const ParameterId id : store.layout())
    if (!is_projected(store.info(id))) ids.push_back(id);
  return ids;
}

// Each part begins at a multiple of 64 bytes, as parameters do.
std::int64_t take(std::int64_t& end, std::int64_t count, DType dtype) {
  const auto unit = static_cast<std::int64_t>(64 / size_of(dtype));
  const std::int64_t begin = end;
  end += (count + unit - 1) / unit * unit;
  return begin;
}

// A singular vector's sign is arbitrary, but the moments, which are kept, depend on it: each vector takes the
// sign that aligns it with its predecessor; in the first subspace, its largest entry is positive.
void take_signs(std::vector<double>& vectors, const std::vector<double>& former, std::int64_t length) {
  for (std::size_t begin = 0; begin < vectors.size(); begin += length) {
    const std::span<double> vector(vectors.data() + begin, length);
    const double along = std::inner_product(vector.begin(), vector.end(), former.begin() + begin, 0.0);
    const double largest = *std::ranges::max_element(vector, {}, [](double x) { return std::abs(x); });
    if (along != 0 ? along < 0 : largest < 0)
      for (double& x : vector) x = -x;
  }
}

bool all_zero(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

}  // namespace

GaloreOptimizer::Plan GaloreOptimizer::plan(const ParameterStore& store, const GaloreOptions& options) {
  Plan plan;
  plan.moments.offsets.resize(store.size());
  for (const ParameterId id : store.layout()) {
    const ParameterInfo& info = store.info(id);
    if (!is_projected(info)) {
      plan.moments.offsets[id] = take(plan.moments.elements, info.shape.elements(), store.dtype());
      continue;
    }
    Matrix matrix{.id = id, .inputs = info.matrix_rows, .outputs = info.shape.elements() / info.matrix_rows};
    matrix.rank = std::min({options.rank, matrix.inputs, matrix.outputs});
    const bool inputs_by_std = matrix.inputs <= matrix.outputs;
    switch (options.proj_type) {
      case GaloreProjection::std:
        matrix.in = inputs_by_std;
        break;
      case GaloreProjection::reverse_std:
        matrix.in = !inputs_by_std;
        break;
      case GaloreProjection::right:
      case GaloreProjection::full:
        matrix.in = true;
        break;
      case GaloreProjection::left:
        break;
    }
    matrix.out = !matrix.in || options.proj_type == GaloreProjection::full;
    if (matrix.in) matrix.basis_in = take(plan.bases, matrix.rank * matrix.inputs, store.dtype());
    if (matrix.out) matrix.basis_out = take(plan.bases, matrix.rank * matrix.outputs, store.dtype());
    matrix.moments = take(plan.moments.elements, matrix.projected().elements(), store.dtype());
    plan.matrices.push_back(matrix);
  }
  return plan;
}

GaloreOptimizer::GaloreOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
    : GaloreOptimizer(store, options, allocator, plan(store, galore_of(options))) {}

GaloreOptimizer::GaloreOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator,
                                 Plan plan)
    : AdamWOptimizer(store, options, allocator, others_than_projected(store), std::move(plan.moments)),
      matrices_(std::move(plan.matrices)),
      basis_memory_(allocator, static_cast<std::size_t>(plan.bases) * size_of(store.dtype()),
                    MemoryKind::optimizer),
      bases_(basis_memory_.tensor({plan.bases}, store.dtype())) {
  std::vector<ParameterSegment> directions, moves;
  for (const Matrix& matrix : matrices_) {
    moves.push_back(segment_of(store, matrix.id, options));
    directions.push_back({.count = matrix.projected().elements(), .moments = matrix.moments});
    elements_ += moves.back().count;
  }
  directions_ = upload_table(allocator, directions);
  moves_ = upload_table(allocator, moves);
  scales_ = upload_table(allocator, std::vector<double>(matrices_.size(), galore_of(options).scale));
}

std::vector<ParameterState> GaloreOptimizer::states() const {
  std::vector<ParameterState> states = AdamWOptimizer::states();
  const Moments flat = moments();
  for (const Matrix& matrix : matrices_) {
    const auto add = [&](const char* name, const Tensor& values) {
      states.push_back({matrix.id, name, values, false});
    };
    add("m", flat.first.slice(matrix.moments, matrix.projected()));
    add("v", flat.second.slice(matrix.moments, matrix.projected()));
    if (matrix.in) add("basis_in", basis_in(matrix));
    if (matrix.out) add("basis_out", basis_out(matrix));
  }
  std::ranges::stable_sort(states, {}, &ParameterState::parameter);
  return states;
}

std::vector<Tensor> GaloreOptimizer::bases_of(const Matrix& matrix) const {
  std::vector<Tensor> bases;
  if (matrix.in) bases.push_back(basis_in(matrix));
  if (matrix.out) bases.push_back(basis_out(matrix));
  return bases;
}

// Keeps the previous subspace if the gradient is zero, or LAPACK finds no other.
void GaloreOptimizer::Side::find() {
  const bool first = all_zero(directions);
  if (!first && all_zero(gradient)) return;
  try {
    std::vector<double> found =
        leading_directions(gradient, length(), std::ssize(gradient) / length(), basis.shape()[0]);
    take_signs(found, directions, length());
    directions = std::move(found);
  } catch (const Error&) {
    return;
  }
}

bool GaloreOptimizer::refreshes(std::int64_t update) const {
  return !matrices_.empty() && update % galore_of(options_).update_proj_gap == 0;
}

// Finds the subspaces of several sides at once, each on one thread: the sums of a multithreaded library
// depend on its number of threads.
void GaloreOptimizer::renew(std::vector<Side>& sides) const {
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t i = 0; i < sides.size(); ++i) sides[i].find();
  for (const Side& side : sides) {
    COMERA_CHECK(!all_zero(side.directions), "GaLore found no subspace for a gradient of {} x {}",
                 side.length(), std::ssize(side.gradient) / side.length());
    write_tensor(side.basis, side.directions, store_.allocator());
  }
  sides.clear();
}

Tensor GaloreOptimizer::refresh(int process, int processes) {
  Allocator& allocator = store_.allocator();
  std::vector<Side> sides;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const Matrix& matrix = matrices_[i];
    if (static_cast<int>(i % static_cast<std::size_t>(processes)) != process) {
      for (const Tensor& basis : bases_of(matrix))
        write_tensor(basis, std::vector<double>(basis.elements()), allocator);
      continue;
    }
    const std::vector<double> gradient = read_tensor(store_.gradient(matrix.id), allocator);
    if (matrix.in) sides.push_back({basis_in(matrix), gradient, read_tensor(basis_in(matrix), allocator)});
    if (matrix.out)
      sides.push_back({basis_out(matrix), transposed(gradient, matrix.inputs, matrix.outputs),
                       read_tensor(basis_out(matrix), allocator)});
    if (std::ssize(sides) >= omp_get_max_threads())
      renew(sides);  // keeps no more gradients on the host than necessary
  }
  renew(sides);
  return bases_;
}

// to = the gradient projected onto the matrix's subspace.
void GaloreOptimizer::project(const Context& context, const Matrix& matrix, const Tensor& to) const {
  const Tensor gradient = store_.gradient(matrix.id);
  const std::int64_t inputs = matrix.inputs, outputs = matrix.outputs, rank = matrix.rank;
  ArenaScope scope(context.arena);
  Tensor half = gradient;
  if (matrix.in) {
    half = matrix.out ? scope.tensor({rank, outputs}, to.dtype()) : to;
    run(context,
        MatrixProduct{.a = basis_in(matrix), .b = gradient, .c = half, .m = rank, .n = outputs, .k = inputs});
  }
  if (matrix.out)
    run(context, MatrixProduct{.a = half,
                               .b = basis_out(matrix),
                               .c = to,
                               .m = matrix.in ? rank : inputs,
                               .n = rank,
                               .k = outputs,
                               .transpose_b = true});
}

// Replaces the gradient by the direction in the subspace, mapped back to the whole space.
void GaloreOptimizer::project_back(const Context& context, const Matrix& matrix, const Tensor& from) const {
  const Tensor whole = store_.gradient(matrix.id);
  const std::int64_t inputs = matrix.inputs, outputs = matrix.outputs, rank = matrix.rank;
  ArenaScope scope(context.arena);
  Tensor half = from;
  if (matrix.out) {
    half = matrix.in ? scope.tensor({rank, outputs}, from.dtype()) : whole;
    run(context, MatrixProduct{.a = from,
                               .b = basis_out(matrix),
                               .c = half,
                               .m = matrix.in ? rank : inputs,
                               .n = outputs,
                               .k = rank});
  }
  if (matrix.in)
    run(context, MatrixProduct{.a = basis_in(matrix),
                               .b = half,
                               .c = whole,
                               .m = inputs,
                               .n = outputs,
                               .k = rank,
                               .transpose_a = true});
}

void GaloreOptimizer::update_parameters(const Context& context, const Tensor& step_inputs,
                                        const Tensor& step_results) const {
  AdamWOptimizer::update_parameters(context, step_inputs, step_results);
  const Moments flat = moments();
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const Matrix& matrix = matrices_[i];
    ArenaScope scope(context.arena);
    const Tensor projected = scope.tensor(matrix.projected(), store_.dtype());
    project(context, matrix, projected);
    const auto bytes = static_cast<std::int64_t>(sizeof(ParameterSegment));
    run(context,
        AdamDirection{.directions = projected,
                      .moment1 = flat.first,
                      .moment2 = flat.second,
                      .segments = directions_.bytes.slice(static_cast<std::int64_t>(i) * bytes, {bytes}),
                      .segment_count = 1,
                      .elements = projected.elements(),
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .eps = options_.eps,
                      .eps_before_correction = true,
                      .step_inputs = step_inputs,
                      .results = step_results});
    project_back(context, matrix, projected);
  }
  run(context, FollowDirections{.parameters = store_.values(),
                                .directions = store_.gradients(),
                                .segments = moves_.bytes,
                                .factors = scales_.memory.tensor({std::ssize(matrices_)}, DType::float64),
                                .elements = elements_,
                                .weight_decay = options_.weight_decay,
                                .step_inputs = step_inputs,
                                .results = step_results});
}

}  // namespace comera
