#include "tensorized/embedding/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::test {
namespace {

struct Case {
  TTMShape shape;
  std::int64_t vocabulary;
  LookupKind lookup;
  DecoderKind decoder = DecoderKind::automatic;
};

std::vector<Case> cases() {
  const std::vector<std::pair<TTMShape, std::int64_t>> shapes = {
      {{{11}, {6}, {}}, 10},                          // a single core
      {{{4, 5}, {2, 3}, {3}}, 17},                    // padded rows
      {{{3, 4, 2}, {2, 1, 3}, {4, 5}}, 24},           // no padding, a mode of 1
      {{{2, 3, 2, 3}, {2, 2, 1, 2}, {4, 6, 5}}, 33},  // order 4
      {{{2, 3, 2, 3}, {2, 2, 1, 2}, {1, 1, 1}}, 33},
      {{{3, 4, 2}, {2, 1, 2}, {4, 4}, true}, 23},  // and a projection
  };
  std::vector<Case> list;
  for (const auto& [shape, vocabulary] : shapes)
    for (LookupKind lookup : {LookupKind::naive, LookupKind::unique, LookupKind::factors})
      for (DecoderKind decoder : {DecoderKind::structured, DecoderKind::rebuild})
        list.push_back({shape, vocabulary, lookup, decoder});
  for (const std::int64_t frequent : {1, 7, 22})  // with rows of their own
    for (const bool projection : {false, true})
      list.push_back({{{3, 4, 2}, {2, 1, 2}, {4, 4}, projection, frequent}, 23, LookupKind::factors});
  return list;
}

// Of the table.
std::int64_t width_of(const TTMShape& shape) { return shape.columns() + (shape.projection ? 3 : 0); }

class TTMEmbeddingAgainstDense : public testing::TestWithParam<Case> {
 protected:
  TTMEmbeddingAgainstDense() : harness_(reference_backend()) {
    const Case& c = GetParam();
    embedding_ =
        make_embedding(store_, "tokens", c.vocabulary, width_of(c.shape), 1, c.shape, c.lookup, c.decoder);
    store_.allocate(host_allocator(), DType::float64, true);
    store_.initialize(3);
    disturb_gates(store_);
    batch_ = random_batch({5, 1, 9, 4}, c.vocabulary, embedding_->right_rows());
    table_ = by_definition(store_, "tokens", c.shape);
    if (c.shape.projection) table_ = projected(table_, c.shape.columns(), width_of(c.shape));
  }

  std::vector<double> projected(const std::vector<double>& rows, std::int64_t columns,
                                std::int64_t width) const {
    const std::vector<double> projection = read_tensor(store_.value(*store_.find("tokens.projection")));
    std::vector<double> table(rows.size() / columns * width, 0);
    for (std::size_t i = 0; i < table.size(); ++i)
      for (std::int64_t k = 0; k < columns; ++k)
        table[i] += rows[i / width * columns + k] * projection[k * width + i % width];
    return table;
  }

  ParameterStore store_;
  std::unique_ptr<Embedding> embedding_;
  PackedBatch batch_;
  Harness harness_;
  std::vector<double> table_;
};

TEST_P(TTMEmbeddingAgainstDense, LookupAndGradient) {
  const std::int64_t width = width_of(GetParam().shape), tokens = batch_.capacity.tokens;
  const Tensor positions = harness_.random({16, width}, DType::float64),
               types = harness_.random({2, width}, DType::float64);
  const Tensor y = harness_.tensor({tokens, width}, DType::float64);
  const auto forward = [&] {
    ArenaScope scope(harness_.context().arena);
    const Embedding::Rows found = embedding_->look_up(harness_.context(), scope, batch_.tokens());
    run(harness_.context(), EmbeddingSum{.rows = found.rows,
                                         .index = found.index,
                                         .positions = positions,
                                         .position_ids = batch_.position_ids,
                                         .types = types,
                                         .type_ids = batch_.type_ids,
                                         .y = y});
  };
  forward();
  const int real = *batch_.token_count().data<std::int32_t>();
  for (int t = 0; t < real; ++t)
    for (std::int64_t j = 0; j < width; ++j) {
      const double expected =
          table_[batch_.token_ids.data<std::int32_t>()[t] * width + j] +
          positions.data<double>()[batch_.position_ids.data<std::int32_t>()[t] * width + j] +
          types.data<double>()[batch_.type_ids.data<std::int32_t>()[t] * width + j];
      ASSERT_NEAR(y.data<double>()[t * width + j], expected, 1e-12);
    }
  const Tensor dy = harness_.random({tokens, width}, DType::float64);
  for (std::int64_t e = real * width; e < tokens * width; ++e)
    dy.data<double>()[e] = 0;  // padding has no gradient
  embedding_->backward(harness_.context(), batch_.tokens(), dy);
  const auto loss = [&] {
    forward();
    double sum = 0;
    for (std::int64_t e = 0; e < real * width; ++e) sum += dy.data<double>()[e] * y.data<double>()[e];
    return sum;
  };
  for (ParameterId id = 0; id < store_.size(); ++id)
    EXPECT_LT(finite_difference_error(store_.value(id), store_.gradient(id), loss), 1e-7)
        << store_.info(id).name;
}

TEST_P(TTMEmbeddingAgainstDense, TiedDecoder) {
  const Case& c = GetParam();
  const std::int64_t width = width_of(c.shape), rows = batch_.capacity.masked;
  const Tensor h = harness_.random({rows, width}, DType::float64),
               bias = harness_.random({c.vocabulary}, DType::float64);
  const Tensor dh = harness_.random({rows, width}, DType::float64);  // written, beyond the real rows too
  const Tensor dbias = harness_.tensor({c.vocabulary}, DType::float64);
  const auto loss = [&](bool gradient) {
    harness_.results() = StepResults{};
    embedding_->cross_entropy(harness_.context(), {.h = h,
                                                   .targets = batch_.masked_targets,
                                                   .count = batch_.masked_count(),
                                                   .bias = bias,
                                                   .dbias = gradient ? dbias : Tensor(),
                                                   .gradient = gradient,
                                                   .dh = gradient ? dh : Tensor(),
                                                   .results = harness_.step_results()});
    return harness_.results().loss_sum;
  };
  const double value = loss(true);
  double expected = 0, correct = 0;
  const int count = *batch_.masked_count().data<std::int32_t>();
  for (int i = 0; i < count; ++i) {
    std::vector<double> logits;
    for (std::int64_t v = 0; v < c.vocabulary; ++v) {  // padded rows of the table do not count
      double sum = bias.data<double>()[v];
      for (std::int64_t j = 0; j < width; ++j) sum += h.data<double>()[i * width + j] * table_[v * width + j];
      logits.push_back(sum);
    }
    double total = 0;
    for (double logit : logits) total += std::exp(logit);
    const int target = batch_.masked_targets.data<std::int32_t>()[i];
    expected += std::log(total) - logits[target];
    correct += std::ranges::max_element(logits) - logits.begin() == target;
  }
  EXPECT_NEAR(value, expected, 1e-10 * expected);
  EXPECT_EQ(harness_.results().correct, correct);
  EXPECT_EQ(harness_.results().target_count, count);
  const auto again = [&] { return loss(false); };
  EXPECT_LT(finite_difference_error(h, dh, again), 1e-7);
  EXPECT_LT(finite_difference_error(bias, dbias, again), 1e-7);
  for (ParameterId id = 0; id < store_.size(); ++id)
    EXPECT_LT(finite_difference_error(store_.value(id), store_.gradient(id), again), 1e-6)
        << store_.info(id).name;
  for (std::int64_t e = count * width; e < rows * width; ++e) EXPECT_EQ(dh.data<double>()[e], 0);
}

// What a pass merges once for its lookup, its decoder and the gradients of both gives what each gives by
// itself.
TEST_P(TTMEmbeddingAgainstDense, IsMergedOnceForAPass) {
  const std::int64_t width = width_of(GetParam().shape), masked = batch_.capacity.masked;
  const Context& context = harness_.context();
  const Tensor h = harness_.random({masked, width}, DType::float64),
               dh = harness_.tensor({masked, width}, DType::float64),
               bias = harness_.random({GetParam().vocabulary}, DType::float64),
               dbias = harness_.tensor({GetParam().vocabulary}, DType::float64),
               dy = harness_.random({batch_.capacity.tokens, width}, DType::float64);
  const std::int64_t real = *batch_.token_count().data<std::int32_t>();
  for (std::int64_t e = real * width; e < dy.elements(); ++e) dy.data<double>()[e] = 0;
  const auto pass = [&](bool shared) {
    write_tensor(store_.gradients(), std::vector<double>(store_.gradients().elements(), 0));
    const std::size_t mark = context.arena.mark();
    const Embedding::Merged merged = shared ? embedding_->merge(context, true, true) : Embedding::Merged{};
    EXPECT_EQ(static_cast<bool>(merged), shared);
    std::vector<double> all;
    const auto append = [&](const Tensor& tensor) {
      for (const double value : read_tensor(tensor)) all.push_back(value);
    };
    {
      ArenaScope scope(context.arena);
      append(embedding_->look_up(context, scope, batch_.tokens(), &merged).rows.rows(0, 1));
    }
    harness_.results() = StepResults{};
    embedding_->cross_entropy(context, {.h = h,
                                        .targets = batch_.masked_targets,
                                        .count = batch_.masked_count(),
                                        .bias = bias,
                                        .dbias = dbias,
                                        .gradient = true,
                                        .dh = dh,
                                        .results = harness_.step_results(),
                                        .merged = &merged});
    embedding_->backward(context, batch_.tokens(), dy, &merged);
    append(dh);
    append(store_.gradients());
    all.push_back(harness_.results().loss_sum);
    context.arena.release(mark);
    return all;
  };
  const std::vector<double> apart = pass(false);
  EXPECT_LT(relative_error(pass(true), apart), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(All, TTMEmbeddingAgainstDense, testing::ValuesIn(cases()), [](const auto& test) {
  return fmt::format("{}_order{}_{}", test.index, test.param.shape.order(), name_of(test.param.lookup));
});

// A decoder of places of which the first ones are real: more than logits are held of at a time.
struct RealRows {
  const Backend& backend;
  DType compute;
  std::optional<DecoderKind> decoder;  // none: of a dense table

  // The loss, then all gradients, with room for `capacity` positions, in as much memory as a dry run asks
  // for.
  std::vector<double> decoded(std::int64_t capacity, std::int64_t real) const {
    constexpr std::int64_t vocabulary = 99990, most = 240;
    const TTMShape shape = {{50, 40, 50}, {2, 2, 4}, {5, 6}};
    const std::int64_t width = shape.columns();
    ParameterStore store;
    const auto embedding =
        make_embedding(store, "tokens", vocabulary, width, 1, decoder ? std::optional(shape) : std::nullopt,
                       LookupKind::factors, decoder.value_or(DecoderKind::automatic));
    store.allocate(host_allocator(), compute, true);
    store.initialize(3);
    if (compute == DType::float64) disturb_gates(store);
    Harness harness(backend);
    if (store.compute() != store.dtype())
      run(harness.context(), Cast{.x = store.all_values(), .y = store.product_values()});
    const DType master = store.dtype();
    const Tensor h = harness.random({most, width}, compute).rows(0, capacity),
                 dh = harness.random({capacity, width}, compute), bias = harness.random({vocabulary}, master),
                 dbias = harness.tensor({vocabulary}, master),
                 targets = harness.tensor({capacity}, DType::int32),
                 count = harness.integers({static_cast<int>(real)});
    for (std::int64_t i = 0; i < capacity; ++i)
      targets.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % vocabulary);
    const auto pass = [&](Arena& arena) {
      embedding->cross_entropy({backend, arena, harness.context().stream},
                               {.h = h,
                                .targets = targets,
                                .count = count,
                                .bias = bias,
                                .dbias = dbias,
                                .gradient = true,
                                .dh = dh,
                                .results = harness.step_results()});
    };
    Arena measuring = Arena::measuring(host_allocator().device());
    pass(measuring);
    Arena arena(host_allocator(), measuring.peak(), true);
    pass(arena);
    const std::vector<double> rows = read_tensor(dh);
    EXPECT_TRUE(std::all_of(rows.begin() + real * width, rows.end(), [](double x) { return x == 0; }));
    std::vector<double> values(rows.begin(), rows.begin() + real * width);
    values.push_back(harness.results().loss_sum);
    values.push_back(harness.results().correct);
    values.push_back(harness.results().target_count);
    for (const Tensor& tensor : {dbias, store.gradients()})
      for (const double value : read_tensor(tensor)) values.push_back(value);
    return values;
  }
};

// A table too large for one part, and more positions than logits are held of at a time.
TEST(Decoders, TableRebuiltInPartsGivesWhatTheFactorsGive) {
  const auto decoded = [](DecoderKind decoder) {
    return RealRows{reference_backend(), DType::float64, decoder}.decoded(203, 200);
  };
  const std::vector<double> structured = decoded(DecoderKind::structured),
                            rebuilt = decoded(DecoderKind::rebuild);
  ASSERT_EQ(structured.size(), rebuilt.size());
  for (std::size_t i = 0; i < rebuilt.size(); ++i)
    ASSERT_NEAR(rebuilt[i], structured[i], 1e-9 * std::max(1.0, std::abs(structured[i]))) << i;
}

// Frequent rows that are one part of the table and some of the next get the gradients of a dense table's.
TEST(Decoders, FrequentRowsInPartsAreThoseOfADenseTable) {
  constexpr std::int64_t vocabulary = 99990, width = 16, positions = 5, frequent = 7001;
  const auto embedding = [&](ParameterStore& store, const std::optional<TTMShape>& shape) {
    auto made = make_embedding(store, "tokens", vocabulary, width, 1, shape, LookupKind::factors);
    store.allocate(host_allocator(), DType::float64, true);
    store.initialize(3);
    return made;
  };
  ParameterStore of_train, of_dense;
  const auto train = embedding(of_train, TTMShape{{50, 40, 50}, {2, 2, 4}, {5, 6}, false, frequent});
  const auto dense = embedding(of_dense, std::nullopt);
  write_tensor(of_dense.all_values(), train->table());
  Harness harness(reference_backend());
  const Tensor h = harness.random({positions, width}, DType::float64),
               bias = harness.random({vocabulary}, DType::float64),
               targets = harness.integers({0, 3999, 4000, 7001, 99989});
  const auto decoded = [&](const Embedding& of) {
    const Tensor dh = harness.tensor({positions, width}, DType::float64),
                 dbias = harness.tensor({vocabulary}, DType::float64);
    harness.results() = StepResults{};
    of.cross_entropy(harness.context(), {.h = h,
                                         .targets = targets,
                                         .count = harness.integers({positions}),
                                         .bias = bias,
                                         .dbias = dbias,
                                         .gradient = true,
                                         .dh = dh,
                                         .results = harness.step_results()});
    std::vector<double> all = read_tensor(dh);
    all.push_back(harness.results().loss_sum);
    return all;
  };
  EXPECT_LT(relative_error(decoded(*train), decoded(*dense)), 1e-12);
  std::vector<double> expected = read_tensor(of_dense.gradients());
  expected.resize(frequent * width);
  EXPECT_LT(relative_error(read_tensor(of_train.gradient(*of_train.find("tokens.frequent"))), expected),
            1e-12);
}

TEST(Decoders, RoomForMorePositionsChangesNothing) {
  for (const auto& [backend, compute, tolerance] : {std::tuple(&cpu_backend(), DType::float32, 1e-5),
                                                    std::tuple(&cpu_backend(), DType::bfloat16, 2e-2)}) {
    for (const std::optional<DecoderKind> decoder :
         {std::optional<DecoderKind>(), std::optional(DecoderKind::structured),
          std::optional(DecoderKind::rebuild)}) {
      const RealRows rows{*backend, compute, decoder};
      for (const std::int64_t real : {0, 9, 150, 201}) {
        SCOPED_TRACE(fmt::format("{}, decoder {}, {} real", name_of(compute),
                                 decoder ? static_cast<int>(*decoder) : -1, real));
        EXPECT_LE(
            relative_error(rows.decoded(240, real), rows.decoded(std::max<std::int64_t>(real, 1), real)),
            tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace comera::test
