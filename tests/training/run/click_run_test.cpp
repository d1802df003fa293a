// Runs of click models by a recipe, and updates of the rows that a step has looked up.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

#include "checkpoints/rank_history.h"
#include "data/clicks/synthetic_clicks.h"
#include "kernels/reference/reference_backend.h"
#include "model/dlrm/click_micro_batches.h"
#include "tests/support/clicks.h"
#include "tests/training/training_fixture.h"
#include "training/ranks/rank_compaction.h"
#include "training/tasks/click_model.h"
#include "training/tasks/click_task.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

const std::vector<std::int64_t> heights = {400, 30, 3};

// Shards of clicks that a known model has drawn.
void write_shards(const std::filesystem::path& folder, const std::string& encoding = "synthetic") {
  data::SyntheticClicksOptions options;
  options.dense_features = 4, options.heights = heights, options.seed = 5;
  const data::SyntheticClicks clicks(options);
  data::ClickExamples examples;
  for (const auto& [split, first, rows] : {std::tuple{"train", 0, 4000}, {"validation", 10000, 300}}) {
    data::ClickShardWriter writer(
        folder, {.encoding = encoding, .split = split, .dense_features = 4, .heights = heights}, 1500);
    clicks.make(first, rows, examples);
    for (int i = 0; i < rows; ++i)
      writer.add(examples.labels[i], &examples.dense_features[4 * i], &examples.ids[3 * i]);
    writer.finish();
  }
}

class ClickRun : public TrainingFixture {
 protected:
  ClickRun() {
    std::filesystem::create_directory(folder() / "shards");
    write_shards(folder() / "shards");
  }

  Recipe click_recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const {
    return parse_recipe(fmt::format(R"(
[dlrm]
width = 8
bottom = [12]
top = [16, 8]
table_rank = 4
layer_rank = 3
embedding_std = 0.3
[data]
train = "{0}/shards"
validation = "{0}/shards"
[run]
output = "{0}/{1}"
threads = 1
device = "cpu"
[[phase]]
name = "first"
examples_per_micro_batch = 32
micro_batches_per_step = 2
steps = 30
learning_rate = 1e-2
warmup_steps = 3
)",
                                    folder().string(), run),
                        "recipe", overrides);
  }
  TrainingOutcome train(const std::string& run, const std::vector<std::string>& overrides = {},
                        TrainingOptions options = {}) const {
    static std::FILE* const null = std::fopen("/dev/null", "w");
    options.output = null;
    return TrainingRun(click_recipe(run, overrides), options).run();
  }
};

TEST_F(ClickRun, LearnsAndItsCheckpointAnswersAsItDid) {
  const TrainingOutcome outcome = train("run", {"phase.0.steps=62"});
  ASSERT_TRUE(outcome.finished);
  const data::ClickScores& scores = outcome.evaluation->details_as<data::ClickScores>();
  EXPECT_EQ(scores.examples, 300);
  EXPECT_LT(scores.normalised_entropy, 0.97);
  EXPECT_GT(scores.auc, 0.6);
  LoadedClickModel loaded(folder() / "run", "cpu");
  EXPECT_TRUE(loaded.model.tables()[0]->as_tensor_train());
  EXPECT_FALSE(loaded.model.tables()[2]->as_tensor_train());
  StepEngine engine(loaded.model, loaded.processor);
  const data::ClickLoaderOptions micro_batches =
      loaded.micro_batches(77);  // other micro-batches than those of training
  engine.set_micro_batches(ClickMicroBatches(loaded.model, micro_batches.capacity));
  const data::ClickShardSet held_out(folder() / "shards", "validation");
  const data::ClickScores again = *score_clicks(engine, held_out, micro_batches, 0, {}, one_process());
  EXPECT_NEAR(again.loss, scores.loss, 1e-6);
  EXPECT_NEAR(again.auc, scores.auc, 1e-6);
  const data::ClickScores some = *score_clicks(engine, held_out, micro_batches, 2, {}, one_process());
  EXPECT_EQ(some.examples, 154);
  EXPECT_EQ(score_clicks(engine, held_out, micro_batches, 3, {}, one_process())->examples, 231);
  EXPECT_EQ(score_clicks(engine, held_out, micro_batches, 4, {}, one_process())->examples, 300);
  EXPECT_FALSE(score_clicks(
      engine, held_out, micro_batches, 0, [] { return true; }, one_process()));
}

TEST_F(ClickRun, GoesOnToTheBitInEachOrderAndType) {
  for (const auto& [name, overrides] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"shuffled", {}},
           {"stored", {"data.order=stored", "phase.0.steps=70"}},  // into a second epoch
           {"dense", {"tensorized.enabled=false"}},
           {"all_rows", {"tensorized.enabled=false", "dlrm.sparse_updates=false"}},
           {"averaged", {"tensorized.enabled=false", "optim.average_decay=0.9"}},
           {"narrow", {"precision.compute=bf16"}},
           {"muon",
            {"optim.name=muon",
             "phase.0.learning_rate={cores=1e-2, embedding=1e-2, gates=1e-3, "
             "other=1e-2}"}}}) {
    SCOPED_TRACE(name);
    const TrainingOutcome whole = train(name, overrides);
    EXPECT_EQ(train(name + "_cut", overrides, {.stop_after = 13}).step, 13);
    const TrainingOutcome resumed = train(name + "_cut", overrides, {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, resumed.checkpoint);
  }
}

TEST_F(ClickRun, AdaptsItsRanks) {
  const std::vector<std::string> overrides = {
      "phase.0.objective=compress",
      "phase.0.adaptation.target_ratio=0.5",
      "phase.0.adaptation.threshold=0.1",
      "phase.0.adaptation.compact_interval=20",
      "phase.0.steps=80",
      "phase.0.learning_rate={cores=1e-2, gates=3e-2, other=1e-2}",
  };
  const TrainingOutcome outcome = train("run", overrides);
  const CheckpointReader reader(outcome.checkpoint);
  const LayerRanks left = live_ranks(reader);
  EXPECT_EQ(held_ranks(reader), left) << "what died is out of memory";
  const ModelTensorTrains before = trains_of(dlrm_config(click_recipe("run"), 4, heights));
  const auto share = static_cast<double>(tensorized_size(before, left)) /
                     static_cast<double>(tensorized_size(before, ranks_of(before)));
  EXPECT_LE(share, 0.5);
  EXPECT_GT(share, 0.3);
  EXPECT_TRUE(is_connected(before, left));
  const LoadedClickModel loaded(outcome.checkpoint, "cpu");
  EXPECT_EQ(ranks_of(trains_of(loaded.model.config())), left);
  // What is dead when it stands between two compactions is taken out of the file as well.
  const TrainingOutcome cut = train("early", overrides, {.stop_after = 37});
  const CheckpointReader with_dead(cut.checkpoint);
  ASSERT_NE(held_ranks(with_dead), live_ranks(with_dead));
  RankCompaction(with_dead).write(folder() / "compacted.h5");
  EXPECT_EQ(held_ranks(CheckpointReader(folder() / "compacted.h5")), live_ranks(with_dead));
  // In the middle of it, too.
  train("cut", overrides, {.stop_after = 47});
  expect_equal_checkpoints(outcome.checkpoint, train("cut", overrides, {.mode = RunMode::resume}).checkpoint);
}

TEST_F(ClickRun, RefusesWhatDoesNotFit) {
  const auto error_of = [&](const std::vector<std::string>& overrides) {
    try {
      train("refused", overrides);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of({"dlrm.tables=[400, 30]"}), HasSubstr("the data have ids for 3 tables"));
  EXPECT_THAT(error_of({"dlrm.tables=[400, 29, 3]"}), HasSubstr("do not fit into dlrm.tables"));
  EXPECT_THAT(error_of({"dlrm.dense_features=3"}), HasSubstr("the data have 4 dense features"));
  EXPECT_THAT(error_of({"tensorized.ranks.table.2=[2, 2]"}), HasSubstr("table.2 has no tensor train"));
  EXPECT_THAT(error_of({"tensorized.ranks.table.7=[2, 2]"}), HasSubstr("the model has no table.7"));
  EXPECT_THAT(error_of({"data.validation=" + corpus().string()}), HasSubstr("validation"));
  train("first", {}, {.stop_after = 2});
  EXPECT_THAT([&] { train("first", {"data.order=stored"}, {.mode = RunMode::resume}); },
              testing::ThrowsMessage<UsageError>(HasSubstr("was trained with another data.order")));
  write_shards(folder() / "shards", "others");
  EXPECT_THAT(error_of({"run.initial_checkpoint=" + (folder() / "first").string()}),
              HasSubstr("the same ids mean other values"));
  EXPECT_EQ(error_of({"dlrm.tables=[500, 30, 3]"}), "") << "a table may have more rows";
}

// ---- Updates of rows.

struct Trained {
  std::vector<double> values, first, second, gradients, marks;
};

// Steps of two micro-batches. `all`: the second micro-batch looks up every row.
Trained trained_tables(bool sparse, bool all, int steps) {
  DlrmConfig config = small_dlrm(false);
  config.sparse_updates = sparse;
  Dlrm model(config, host_allocator(), true);
  model.parameters().initialize(3);
  StepEngine engine(model, {.weight_decay = 0.1}, {reference_backend(), host_allocator()});
  ClickCapacity capacity{.examples = 4, .dense_features = 3, .tables = {}};
  for (const DlrmConfig::Table& table : config.tables)
    capacity.tables.push_back({.ids = 40, .unique_ids = table.rows});
  data::Clicks clicks(capacity, model.right_rows());
  engine.set_micro_batches(ClickMicroBatches(model, capacity));
  std::vector<std::int32_t> every(23);
  std::iota(every.begin(), every.end(), 0);
  for (int step = 0; step < steps; ++step) {
    engine.clear_results();
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      clicks.clear();
      const std::vector<float> dense_features = {0.5F, -1.F, static_cast<float>(step + micro_batch)};
      const std::vector<std::int32_t> one = {step % 2 == 0 ? 1 : 5}, two = {2, 20, 2}, none;
      const std::span<const std::int32_t> first(every.data(), 7), second(every);
      const bool whole = all && micro_batch == 1;
      clicks.add(dense_features,
                 {whole ? first : std::span(one), whole ? second : std::span(two), std::span(none)},
                 static_cast<float>((step + micro_batch) % 2));
      clicks.finish();
      engine.load(clicks.block());
      engine.micro({}, micro_batch == 1);
    }
    engine.apply(step, 2, StepRates(LearningRates::all(0.1)), 1.0);
  }
  Trained trained;
  const ParameterId table = *model.parameters().find("table.1.weight");
  trained.values = read_tensor(model.parameters().value(table));
  for (const ParameterState& state : engine.states())
    if (state.parameter == table)
      (state.name == "m" ? trained.first : trained.second) = read_tensor(state.values);
  trained.gradients = read_tensor(model.parameters().gradients());
  if (sparse) {
    const Tensor& marks = model.parameters().marks();
    trained.marks.assign(marks.data<std::int32_t>(), marks.data<std::int32_t>() + marks.elements());
  }
  return trained;
}

TEST(SparseUpdates, ChangeTheRowsThatWereLookedUpAndNoOthers) {
  const Trained before = trained_tables(true, false, 0), sparse = trained_tables(true, false, 3),
                dense = trained_tables(false, false, 3);
  for (int row = 0; row < 23; ++row)
    for (int column = 0; column < 4; ++column) {
      const int i = 4 * row + column;
      if (row == 2 || row == 20) {
        EXPECT_NE(sparse.values[i], before.values[i]);
        EXPECT_NE(sparse.first[i], 0);
        continue;
      }
      EXPECT_EQ(sparse.values[i], before.values[i]) << "row " << row;
      EXPECT_EQ(sparse.first[i], 0);
      EXPECT_EQ(sparse.second[i], 0);
      EXPECT_NE(dense.values[i], before.values[i]) << "decay reaches every row of a table that is not sparse";
    }
  EXPECT_THAT(sparse.gradients, testing::Each(0));
  EXPECT_EQ(sparse.marks.size(), 31);
  EXPECT_THAT(sparse.marks, testing::Each(0));
}

TEST(SparseUpdates, OfAllRowsAreThoseOfADenseTable) {
  const Trained sparse = trained_tables(true, true, 4), dense = trained_tables(false, true, 4);
  EXPECT_EQ(sparse.values, dense.values);
  EXPECT_EQ(sparse.first, dense.first);
  EXPECT_EQ(sparse.second, dense.second);
}

}  // namespace
}  // namespace comera::test
