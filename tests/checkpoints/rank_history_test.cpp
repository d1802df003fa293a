#include "checkpoints/rank_history.h"

#include <gmock/gmock.h>

#include <functional>

#include "checkpoints/model_state.h"
#include "model/model.h"
#include "tests/checkpoints/sample.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RankHistory some_history() {
  return {
      .initial_size = 1026528,
      .stages = {{"start", {{"encoder.0.ffn.up", {3, 7, 5}}, {"embedding.tokens", {5, 6}}}},
                 {"early, \"1\" – of 2", {{"encoder.0.ffn.up", {0, 2, 5}}, {"embedding.tokens", {1, 6}}}}}};
}

RankHistory saved_and_loaded(const TemporaryFolder& folder, const RankHistory& history) {
  {
    CheckpointWriter writer(folder / "a.h5");
    save_rank_history(writer, history);
    writer.commit();
  }
  return load_rank_history(CheckpointReader(folder / "a.h5"));
}

TEST(RankHistory, ReturnsWhatWasSaved) {
  TemporaryFolder folder;
  EXPECT_EQ(saved_and_loaded(folder, some_history()), some_history());
}

// A tensor train with a single core has no bonds; a stage may have no layers; a history may begin empty.
TEST(RankHistory, KeepsWhatIsEmpty) {
  TemporaryFolder folder;
  const RankHistory history{.initial_size = 12, .stages = {{"start", {{"embedding.tokens", {}}}}, {"b", {}}}};
  EXPECT_EQ(saved_and_loaded(folder, history), history);
  EXPECT_EQ(saved_and_loaded(folder, {.initial_size = 7}), (RankHistory{.initial_size = 7}));
}

TEST(RankHistory, KeepsManyStagesAndLayersInTheirOrder) {
  TemporaryFolder folder;
  RankHistory history{.initial_size = 1};
  for (std::int64_t stage = 0; stage < 12; ++stage) {
    history.stages.push_back({fmt::format("phase {}", stage), {}});
    for (int layer = 0; layer < 24 * 6; ++layer)
      history.stages.back().ranks[fmt::format("encoder.{}.x.{}", layer / 6, layer % 6)] = {12, 30, stage, 30,
                                                                                           layer};
  }
  EXPECT_EQ(saved_and_loaded(folder, history), history);
}

TEST(RankHistory, IsEmptyWhereTheFileHasNone) {
  TemporaryFolder folder;
  write_sample(folder / "a.h5");
  EXPECT_EQ(load_rank_history(CheckpointReader(folder / "a.h5")), RankHistory());
}

TEST(RankHistory, LeavesRoomForOtherAttributes) {
  TemporaryFolder folder;
  {
    CheckpointWriter writer(folder / "a.h5");
    writer.attribute("/ranks", "loss_average", 0.25);
    save_rank_history(writer, some_history());
    writer.attribute("/ranks", "target", 0.5);
    writer.commit();
  }
  const CheckpointReader reader(folder / "a.h5");
  EXPECT_EQ(load_rank_history(reader), some_history());
  EXPECT_EQ(reader.number("/ranks", "loss_average"), 0.25);
  EXPECT_EQ(reader.number("/ranks", "target"), 0.5);
  {
    CheckpointWriter writer(folder / "b.h5");
    writer.attribute("/ranks", "loss_average", 0.25);
    writer.commit();
  }
  EXPECT_EQ(load_rank_history(CheckpointReader(folder / "b.h5")), RankHistory());
}

TEST(RankHistory, AnIncompleteOneIsRefused) {
  TemporaryFolder folder;
  {
    CheckpointWriter writer(folder / "a.h5");
    writer.attributes("/ranks", {{"initial_size", std::int64_t{3}}, {"stages", std::int64_t{1}}});
    writer.commit();
  }
  EXPECT_THAT(error_of([&] { load_rank_history(CheckpointReader(folder / "a.h5")); }),
              testing::AllOf(HasSubstr("a.h5"), HasSubstr("/ranks/0")));
}

// With gates zeroed by hand, in both types that parameters have.
class RanksOfAModel : public testing::TestWithParam<DType> {
 protected:
  RanksOfAModel() : model_(config(), host_allocator(), false) { model_.parameters().initialize(3); }

  static EncoderConfig config() {
    EncoderConfig config = small_config(true);
    config.compute = GetParam();
    return config;
  }

  void set_gate(const std::string& name, const std::vector<double>& values) {
    ParameterStore& store = model_.parameters();
    write_tensor(store.value(*store.find(name)), values);
  }

  std::filesystem::path write() const {
    CheckpointWriter writer(folder_ / "m.h5");
    save_parameters(writer, model_.parameters());
    writer.commit();
    return folder_ / "m.h5";
  }

  TemporaryFolder folder_;
  Model model_;
};

TEST_P(RanksOfAModel, AreThoseOfItsGatesThatAreNotZero) {
  set_gate("encoder.0.attention.key.gate.0", {1, 0, -1e-30});
  set_gate("encoder.0.attention.key.gate.1", {0, 0.5, 0, 0, 0.25, -0.0});
  set_gate("encoder.1.ffn.down.gate.2", {0, 0, 0});
  set_gate("embedding.tokens.gate.1", {0, 1, 1, 1, 1, 1});
  const CheckpointReader reader(write());
  const LayerRanks live = live_ranks(reader);
  EXPECT_EQ(live.size(), 2 * 6 + 2);
  EXPECT_THAT(live.at("encoder.0.attention.key"), ElementsAre(2, 2, 3));
  EXPECT_THAT(live.at("encoder.0.attention.query"), ElementsAre(3, 6, 3));
  EXPECT_THAT(live.at("encoder.1.ffn.down"), ElementsAre(4, 7, 0));
  EXPECT_THAT(live.at("embedding.tokens"), ElementsAre(5, 5));
  const LayerRanks held = held_ranks(reader);
  EXPECT_EQ(held.size(), live.size());
  EXPECT_THAT(held.at("encoder.0.attention.key"), ElementsAre(3, 6, 3));
  EXPECT_THAT(held.at("encoder.1.ffn.down"), ElementsAre(4, 7, 3));
}

INSTANTIATE_TEST_SUITE_P(Types, RanksOfAModel, testing::Values(DType::float32, DType::float64),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// Core 10 comes after core 2, unlike its name; a tensor train with one core has no ranks.
TEST(Ranks, FollowTheNumbersOfTheCores) {
  TemporaryFolder folder;
  {
    CheckpointWriter writer(folder / "a.h5");
    std::vector<float> numbers(1000, 1);
    for (std::int64_t k = 0; k < 12; ++k) {
      const std::int64_t left_rank = k == 0 ? 1 : k + 1, right_rank = k == 11 ? 1 : k + 2;
      writer.tensor(fmt::format("/model/long.core.{}", k), view(numbers, {left_rank, 2, right_rank}));
      if (k < 11) writer.tensor(fmt::format("/model/long.gate.{}", k), view(numbers, {right_rank}));
    }
    writer.tensor("/model/single.core.0", view(numbers, {1, 4, 5, 1}));
    writer.tensor("/model/dense.weight", view(numbers, {4, 5}));
    writer.tensor("/optimizer/other.core.0/m", view(numbers, {1, 4, 1}));
    writer.commit();
  }
  const LayerRanks live = live_ranks(CheckpointReader(folder / "a.h5"));
  EXPECT_EQ(live.size(), 2);
  EXPECT_THAT(live.at("long"), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(live.at("single"), ElementsAre());
}

TEST(Ranks, OfIncompleteTrainsAreRefused) {
  TemporaryFolder folder;
  std::vector<float> numbers(100, 1);
  const auto refusal = [&](const std::function<void(CheckpointWriter&)>& fill) {
    {
      CheckpointWriter writer(folder / "a.h5");
      writer.tensor("/model/x.core.0", view(numbers, {1, 4, 3}));
      fill(writer);
      writer.commit();
    }
    return error_of([&] { live_ranks(CheckpointReader(folder / "a.h5")); });
  };
  EXPECT_THAT(refusal([&](CheckpointWriter& writer) {
                writer.tensor("/model/x.core.2", view(numbers, {3, 4, 1}));
              }),
              HasSubstr("x has a core.2 but only 2 cores"));
  EXPECT_THAT(refusal([&](CheckpointWriter& writer) {
                writer.tensor("/model/x.core.1", view(numbers, {3, 4, 1}));
              }),
              HasSubstr("has no tensor '/model/x.gate.0'"));
  EXPECT_THAT(refusal([&](CheckpointWriter& writer) {
                writer.tensor("/model/x.core.1", view(numbers, {3, 4, 1}));
                writer.tensor("/model/x.gate.0", view(numbers, {4}));
              }),
              HasSubstr("'/model/x.gate.0' should have 3 entries"));
}

}  // namespace
}  // namespace comera::test
