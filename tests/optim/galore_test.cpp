#include <gmock/gmock.h>

#include <omp.h>

#include <cmath>
#include <limits>

#include "kernels/core/parameter.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "tests/model/configs.h"
#include "tests/support/harness.h"
#include "tests/support/largest.h"

namespace comera::test {
namespace {

using Values = std::vector<double>;

// A core, a gate, three dense matrices and a bias between them, by GaLore in double precision.
struct Matrices {
  explicit Matrices(const GaloreOptions& galore = {.rank = 3, .update_proj_gap = 2}) {
    core = store.add({.name = "core",
                      .role = ParameterRole::core,
                      .shape = {1, 6, 2},
                      .initializer = {},
                      .matrix_rows = 6});
    gate = store.add({.name = "gate", .role = ParameterRole::gate, .shape = {2}, .initializer = {}});
    for (const auto& [inputs, outputs] : {std::pair{8, 5}, std::pair{4, 9}, std::pair{7, 7}}) {
      matrices.push_back(store.add({.name = fmt::format("{}", inputs),
                                    .shape = {inputs, outputs},
                                    .initializer = {},
                                    .matrix_rows = inputs}));
      store.add({.name = fmt::format("{}.bias", inputs), .shape = {outputs}, .initializer = {}});
    }
    store.allocate(host_allocator(), DType::float64, true);
    optimizer = make_optimizer(store, {.kind = OptimizerKind::galore, .galore = galore}, host_allocator());
    for (const ParameterId id : matrices)
      write_tensor(store.gradient(id), normal_values(store.info(id).shape.elements(), 5 + id));
  }
  Tensor state(ParameterId id, const std::string& name) const {
    for (const ParameterState& state : optimizer->states())
      if (state.parameter == id && state.name == name) return state.values;
    return {};
  }

  ParameterStore store;
  ParameterId core = 0, gate = 0;
  std::vector<ParameterId> matrices;
  std::unique_ptr<Optimizer> optimizer;
};

double distance(const Values& a, const Values& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = larger_or_nan(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(Galore, StatesOfDenseMatricesAreThoseOfTheirSubspaces) {
  const Matrices all;
  // The shorter side of a weight is projected; of a square one that of the inputs.
  EXPECT_EQ(all.state(all.matrices[0], "m").shape(), Shape({8, 3}));
  EXPECT_EQ(all.state(all.matrices[0], "basis_out").shape(), Shape({3, 5}));
  EXPECT_EQ(all.state(all.matrices[1], "v").shape(), Shape({3, 9}));
  EXPECT_EQ(all.state(all.matrices[1], "basis_in").shape(), Shape({3, 4}));
  EXPECT_EQ(all.state(all.matrices[2], "m").shape(), Shape({3, 7}));
  EXPECT_TRUE(all.state(all.matrices[2], "basis_in"));
  EXPECT_FALSE(all.state(all.matrices[2], "basis_out"));
  EXPECT_EQ(all.state(all.core, "m").shape(), Shape({1, 6, 2})) << "a core has AdamW's moments";
  for (const ParameterState& state : all.optimizer->states())
    EXPECT_EQ(state.entrywise, all.store.info(state.parameter).name.find("bias") != std::string::npos ||
                                   state.parameter == all.core || state.parameter == all.gate)
        << state.name;
}

// For pruning, moments of cores and gates have the same offsets as the parameters.
TEST(Galore, MomentsOfCoresAndGatesLieAsTheyDo) {
  const Matrices all;
  const Optimizer::Moments moments = all.optimizer->moments();
  for (const ParameterId id : {all.core, all.gate}) {
    const Shape& shape = all.store.info(id).shape;
    EXPECT_EQ(all.state(id, "m").raw(), moments.first.slice(all.store.offset(id), shape).raw());
    EXPECT_EQ(all.state(id, "v").raw(), moments.second.slice(all.store.offset(id), shape).raw());
  }
}

TEST(Galore, TakesLessMemoryThanAdamOfTheSameModel) {
  const auto bytes = [](const OptimizerOptions& options) {
    const std::size_t before = host_allocator().use(MemoryKind::optimizer).current;
    const Model model(small_config(false), host_allocator(), true);
    const auto optimizer =
        make_optimizer(const_cast<ParameterStore&>(model.parameters()), options, host_allocator());
    return host_allocator().use(MemoryKind::optimizer).current - before;
  };
  const std::size_t adam = bytes({}),
                    galore = bytes({.kind = OptimizerKind::galore, .galore = GaloreOptions{.rank = 2}});
  EXPECT_LT(galore, adam * 2 / 3);
}

// Independent of the process: each does its share, and the sum equals the result of one alone.
TEST(Galore, SharesOfProcessesSumToTheWhole) {
  const Matrices alone;
  const Values whole = read_tensor(alone.optimizer->refresh(0, 1));
  for (const int processes : {2, 3, 5}) {
    Values sum(whole.size());
    for (int process = 0; process < processes; ++process) {
      const Matrices share;
      const Values own = read_tensor(share.optimizer->refresh(process, processes));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    EXPECT_EQ(sum, whole) << processes;
  }
}

TEST(Galore, SubspacesAreOrthonormalAndFoundAnewAfterTheGap) {
  const Matrices all;
  for (const std::int64_t update : {0, 1, 2, 3, 4})
    EXPECT_EQ(all.optimizer->refreshes(update), update % 2 == 0) << update;
  all.optimizer->refresh(0, 1);
  const Values basis = read_tensor(all.state(all.matrices[1], "basis_in"));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      double product = 0;
      for (int k = 0; k < 4; ++k) product += basis[i * 4 + k] * basis[j * 4 + k];
      EXPECT_NEAR(product, i == j ? 1 : 0, 1e-12);
    }
}

// A gradient without a computable subspace keeps the previous one.
TEST(Galore, AGradientThatIsNotFiniteOrZeroLeavesTheSubspace) {
  const Matrices all;
  all.optimizer->refresh(0, 1);
  const ParameterId id = all.matrices[0];
  const Values former = read_tensor(all.state(id, "basis_out"));
  Values gradient = normal_values(40, 77);
  write_tensor(all.store.gradient(id), gradient);
  all.optimizer->refresh(0, 1);
  const Values next = read_tensor(all.state(id, "basis_out"));
  EXPECT_GT(distance(former, next), 0.01) << "or this test sees nothing";
  gradient[17] = std::numeric_limits<double>::quiet_NaN();
  write_tensor(all.store.gradient(id), gradient);
  all.optimizer->refresh(0, 1);
  EXPECT_EQ(read_tensor(all.state(id, "basis_out")), next);
  write_tensor(all.store.gradient(id), Values(40));
  all.optimizer->refresh(0, 1);
  EXPECT_EQ(read_tensor(all.state(id, "basis_out")), next);
}

// Large enough for a library's threads.
TEST(Galore, SubspacesDoNotDependOnThreads) {
  std::vector<Values> found;
  const int usual = omp_get_max_threads();
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    ParameterStore store;
    const ParameterId id =
        store.add({.name = "large", .shape = {400, 300}, .initializer = {}, .matrix_rows = 400});
    store.allocate(host_allocator(), DType::float64, true);
    write_tensor(store.gradient(id), normal_values(400 * 300, 3));
    const auto optimizer =
        make_optimizer(store,
                       {.kind = OptimizerKind::galore,
                        .galore = GaloreOptions{.rank = 64, .proj_type = GaloreProjection::full}},
                       host_allocator());
    found.push_back(read_tensor(optimizer->refresh(0, 1)));
  }
  omp_set_num_threads(usual);
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
}

// Moments are kept when a subspace is recomputed, so its vectors must not flip.
TEST(Galore, ASubspaceOfTheSameGradientIsTheSame) {
  const Matrices all;
  all.optimizer->refresh(0, 1);
  const Values former = read_tensor(all.state(all.matrices[2], "basis_in"));
  Values opposite = read_tensor(all.store.gradient(all.matrices[2]));
  for (double& value : opposite) value = -value;
  write_tensor(all.store.gradient(all.matrices[2]), opposite);
  all.optimizer->refresh(0, 1);
  EXPECT_LT(distance(read_tensor(all.state(all.matrices[2], "basis_in")), former), 1e-9);
}

}  // namespace
}  // namespace comera::test
