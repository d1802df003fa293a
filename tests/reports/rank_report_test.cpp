#include "reports/rank_report.h"

#include <gmock/gmock.h>

#include "recipes/encoder_config.h"
#include "reports/model_report.h"
#include "tests/model/configs.h"
#include "tests/recipes/ranked_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t start_size = 8 * 2176 + 1076;
// Of the query with 5, 10 and 8 ranks that live: 8·5 + 5·8·10 + 10·8·8 + 8·8.
constexpr std::int64_t query_size = 1144;
constexpr std::int64_t live_size = start_size - 2176 - (2176 - query_size);

class RankReport : public testing::Test {
 protected:
  CheckpointRanks state_of(const RankedCheckpoint& checkpoint, const char* name = "a.h5") const {
    write_ranked(folder_ / name, checkpoint);
    return checkpoint_ranks(CheckpointReader(folder_ / name));
  }
  static const ReportedLayer& layer(const CheckpointRanks& state, const std::string& name) {
    return *std::ranges::find(state.layers, name, &ReportedLayer::name);
  }
  // The whole line that begins so.
  // A table that is wider than the terminal has several lines for a row: here they are one.
  static std::string unfolded(const std::string& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text.compare(at, 5, "\n    ") != 0) {
        out += text[at];
        continue;
      }
      out += "  ";
      at = text.find_first_not_of(' ', at + 1) - 1;
    }
    return out;
  }
  static std::string unfolded_rank_report(const CheckpointRanks& state) {
    return unfolded(rank_report(state));
  }
  static std::string unfolded_rank_comparison(const CheckpointRanks& a, const CheckpointRanks& b) {
    return unfolded(rank_comparison(a, b));
  }
  static std::string line(const std::string& text, const std::string& begin) {
    const std::size_t at = ("\n" + text).find("\n" + begin);
    EXPECT_NE(at, std::string::npos) << begin << " in\n" << text;
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  }
  // Words without the spaces between them.
  static std::string squeezed(const std::string& text) {
    std::string out;
    for (const char c : text)
      if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(RankReport, CountsLiveRanksOnly) {
  const CheckpointRanks state = state_of({.overrides = {}, .dead = some_dead()});
  EXPECT_EQ(state.initial_size, start_size);
  EXPECT_EQ(state.size(), live_size);
  EXPECT_THAT(layer(state, "encoder.0.attention.query").live, ElementsAre(5, 10, 8));
  EXPECT_THAT(layer(state, "encoder.0.attention.query").held, ElementsAre(8, 16, 8));
  EXPECT_EQ(layer(state, "encoder.0.attention.query").size(), query_size);
  EXPECT_EQ(layer(state, "embedding.tokens").size(), 1076);
  EXPECT_EQ(layer(state, "embedding.tokens").matrix, 100 * 64);
  EXPECT_EQ(layer(state, "encoder.1.ffn.down").size(), 128 * 64) << "dense";
  EXPECT_TRUE(layer(state, "encoder.1.attention.key").removed());
  EXPECT_THAT(state.removed(), ElementsAre("encoder.1.attention.key"));
  EXPECT_EQ(state.step, 12);
}

TEST_F(RankReport, CountsTheFilesNumbersWithoutGates) {
  const Recipe recipe = parse_recipe(ranked_recipe(), "r.toml");
  const Model model(encoder_config(recipe, 100), host_allocator(), false);
  const CheckpointRanks state = state_of({});
  EXPECT_EQ(state.parameters, model.parameters().count());
  EXPECT_EQ(state.live_parameters(), state.parameters);
  EXPECT_EQ(state.dense_baseline, dense_parameters(model.config()));
}

TEST(DenseParameters, AreThoseOfTheDenseBaseline) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification, HeadKind::regression})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre})
      for (const EncoderConfig& config :
           {test::small_config(true, head, norm), test::narrow_config(true, head, norm),
            test::projected_config(head, norm), test::frequent_config(head, norm)})
        EXPECT_EQ(dense_parameters(config),
                  Model(config.dense_baseline(), host_allocator(), false).parameters().count());
}

// What is said to remain after a compaction is what a file has whose dead slices and layers are gone.
TEST_F(RankReport, SaysWhatACompactionLeaves) {
  const CheckpointRanks before = state_of({.overrides = {}, .dead = some_dead()});
  const CheckpointRanks after =
      state_of({.overrides = {"tensorized.ranks.encoder.0.attention.query=[5,10,8]"},
                .gone = {"encoder.1.attention.key"},
                .history = {.initial_size = start_size, .stages = {{"start", start_ranks()}}}},
               "b.h5");
  EXPECT_LT(after.parameters, before.parameters);
  EXPECT_EQ(after.parameters, before.live_parameters());
  EXPECT_EQ(after.live_parameters(), after.parameters);
  EXPECT_EQ(after.size(), before.size());
  EXPECT_EQ(after.initial_size, start_size);
  EXPECT_THAT(after.removed(), ElementsAre("encoder.1.attention.key"));
}

TEST_F(RankReport, ShowsEveryStageAndNow) {
  LayerRanks early = start_ranks();
  early["encoder.0.attention.query"] = {7, 12, 8};
  const std::string report = unfolded_rank_report(state_of(
      {.overrides = {},
       .dead = some_dead(),
       .history = {.initial_size = start_size, .stages = {{"start", start_ranks()}, {"first", early}}}}));
  EXPECT_THAT(squeezed(line(report, "layer ")),
              testing::StartsWith("layer start first now before after times fewer"));
  EXPECT_EQ(squeezed(line(report, "  attention.query")),
            "attention.query 8,16,8 7,12,8 5,10,8 2,176 1,144 3.6");
  EXPECT_EQ(squeezed(line(report, "embedding.tokens")), "embedding.tokens 6,7 6,7 6,7 1,076 1,076 5.9");
  EXPECT_THAT(report, ContainsRegex("\n  attention.key +8,16,8 +8,16,8 +removed +2,176 +0\n"));
  EXPECT_EQ(squeezed(line(report, "encoder.1 ")), "encoder.1 8,704 6,528 2.5") << "a block's sum";
  EXPECT_THAT(report, Not(HasSubstr("ffn"))) << "they are dense";
}

TEST_F(RankReport, ShowsNowOnlyIfItDiffers) {
  LayerRanks early = start_ranks();
  early["encoder.0.attention.query"] = {5, 10, 8};
  early["encoder.1.attention.key"] = {8, 0, 8};
  const std::string report = unfolded_rank_report(state_of(
      {.overrides = {},
       .dead = some_dead(),
       .history = {.initial_size = start_size, .stages = {{"start", start_ranks()}, {"first", early}}}}));
  EXPECT_THAT(squeezed(line(report, "layer ")), testing::StartsWith("layer start first before"));
}

// Once its cores are gone, nothing is known of a removed layer's other bonds, and nothing need be.
TEST_F(RankReport, KnowsARemovedLayerByItsHistory) {
  LayerRanks early = start_ranks();
  early["encoder.1.attention.key"] = {8, 0, 8};
  const std::string report = unfolded_rank_report(state_of(
      {.overrides = {},
       .gone = {"encoder.1.attention.key"},
       .history = {.initial_size = start_size, .stages = {{"start", start_ranks()}, {"first", early}}}}));
  EXPECT_THAT(report, ContainsRegex("\n  attention.key [^\n]* 8,16,8 +removed[^\n]* 2,176 +0\n"));
}

TEST_F(RankReport, OfAnOlderFileBeginsWithWhatItHolds) {
  const std::string report = unfolded_rank_report(state_of({.overrides = {}, .dead = some_dead()}));
  EXPECT_THAT(report, HasSubstr("the file has no history of its ranks"));
  EXPECT_EQ(squeezed(line(report, "  attention.query")), "attention.query 8,16,8 5,10,8 2,176 1,144 3.6");
}

// A head that fine-tuning put in the place of the one that the history knows.
TEST_F(RankReport, OfALayerThatTheHistoryDoesNotKnow) {
  LayerRanks known = start_ranks();
  known.erase("embedding.tokens");
  known["head.transform"] = {1, 2, 3};
  const std::string report = rank_report(
      state_of({.overrides = {}, .history = {.initial_size = start_size, .stages = {{"start", known}}}}));
  EXPECT_EQ(squeezed(line(report, "embedding.tokens")),
            "embedding.tokens [4,5,5] x [4,4,4] 6,7 1,076 1,076 5.9");
  EXPECT_THAT(report, Not(HasSubstr("head.transform")));
}

TEST_F(RankReport, Totals) {
  const CheckpointRanks state =
      state_of({.overrides = {},
                .dead = some_dead(),
                .history = {.initial_size = start_size, .stages = {{"start", start_ranks()}}}});
  const std::string report = unfolded_rank_report(state);
  EXPECT_EQ(squeezed(line(report, "tensorized layers (S)")),
            "tensorized layers (S) 18,484 -> 15,276, S/S_init = 0.8264");
  // 8 · 64² + 100 · 64 = 39,168.
  EXPECT_EQ(squeezed(line(report, "  as matrices")), "as matrices 39,168: 2.1 -> 2.6 times fewer");
  // Beside the cores: dense feed-forward 2 · (2 · 64 · 128 + 192), attention's biases 2 · 256, norms
  // 5 · 128, positions and types (32 + 2) · 64, the head's transform 64² + 64, norm 128 and bias 100.
  const std::int64_t rest = 2 * (2 * 64 * 128 + 192) + 512 + 5 * 128 + 34 * 64 + 4160 + 128 + 100;
  EXPECT_EQ(state.parameters, rest + start_size);
  EXPECT_EQ(squeezed(line(report, "whole model, live ranks")),
            "whole model, live ranks 59,352 -> 56,144 parameters, 0.24 MB -> 0.22 MB as fp32");
  EXPECT_EQ(rest + start_size, 59352);
  EXPECT_EQ(squeezed(line(report, "in this file")), "in this file 59,352 parameters, 0.24 MB as fp32");
  EXPECT_EQ(squeezed(line(report, "  its dense baseline")),
            "its dense baseline 80,036 parameters, 0.32 MB: 1.3 -> 1.4 times fewer");
  EXPECT_EQ(squeezed(line(report, "removed layers")), "removed layers 1 of 9: encoder.1.attention.key");
}

TEST_F(RankReport, OfADenseModel) {
  EXPECT_EQ(unfolded_rank_report(state_of({.overrides = {"tensorized.enabled=false"}})),
            "every layer is dense: there are no ranks\n");
}

TEST_F(RankReport, ForeignCoresAreRefused) {
  write_ranked(folder_ / "a.h5", {});
  const CheckpointReader reader(folder_ / "a.h5");
  CheckpointWriter writer(folder_ / "b.h5");
  for (const CheckpointTensor& tensor : reader.tensors()) {
    std::vector<float> values = reader.read_values<float>(tensor.path);
    Shape shape = tensor.path.ends_with("encoder.0.attention.value.core.3") ? Shape{8, 4, 2} : Shape();
    if (shape.dims() == 0) {
      const auto& dims = tensor.shape;
      shape = dims.size() == 1   ? Shape{dims[0]}
              : dims.size() == 2 ? Shape{dims[0], dims[1]}
              : dims.size() == 3 ? Shape{dims[0], dims[1], dims[2]}
                                 : Shape{dims[0], dims[1], dims[2], dims[3]};
    }
    writer.tensor(tensor.path, Tensor(values.data(), shape, tensor.dtype),
                  {{"role", reader.text(tensor.path, "role")}});
  }
  const std::string other = edited("input_modes = [8, 8]", "input_modes = [16, 4]");
  writer.attributes("/recipe", {{"toml", other}});
  writer.attributes("/trainer", {{"step", std::int64_t{1}}});
  writer.attributes("/data", {{"vocabulary", std::int64_t{100}}});
  writer.commit();
  EXPECT_THAT(
      error_of([&] { checkpoint_ranks(CheckpointReader(folder_ / "b.h5")); }),
      HasSubstr("b.h5: the cores of encoder.0.attention.query are not those that its recipe describes"));
}

TEST_F(RankReport, TwoSideBySide) {
  const CheckpointRanks a = state_of({});
  const CheckpointRanks b = state_of({.overrides = {}, .dead = some_dead(), .step = 30}, "b.h5");
  const std::string report = unfolded_rank_comparison(a, b);
  EXPECT_THAT(report, ContainsRegex("A: [^\n]*a.h5, step 12\nB: [^\n]*b.h5, step 30\n"));
  EXPECT_EQ(squeezed(line(report, "  attention.query")),
            "attention.query [8,8 | 8,8] 8,16,8 5,10,8 2,176 1,144 0.526");
  EXPECT_EQ(squeezed(line(report, "encoder.1 ")), "encoder.1 8,704 6,528 0.750");
  EXPECT_THAT(report, ContainsRegex("\n  attention.key [^\n]* 8,16,8 +removed +2,176 +0 +0.000\n"));
  EXPECT_EQ(squeezed(line(report, "tensorized layers (S)")), "tensorized layers (S) 18,484 15,276 0.826");
  EXPECT_EQ(squeezed(line(report, "S/S_init")), "S/S_init 1.0000 0.8264");
  EXPECT_EQ(squeezed(line(report, "parameters, whole model")), "parameters, whole model 59,352 56,144 0.946");
  EXPECT_EQ(squeezed(line(report, "parameters in the file")), "parameters in the file 59,352 59,352 1.000");
  EXPECT_EQ(line(report, "removed layers of A"), "removed layers of A: 0 of 9");
  EXPECT_EQ(line(report, "removed layers of B"), "removed layers of B: 1 of 9: encoder.1.attention.key");
}

TEST_F(RankReport, TwoThatDifferInLayersAndModes) {
  const CheckpointRanks dense = state_of({.overrides = {"tensorized.enabled=false"}});
  const CheckpointRanks train = state_of({}, "b.h5");
  EXPECT_EQ(squeezed(line(unfolded_rank_comparison(dense, train), "  attention.query")),
            "attention.query [8,8 | 8,8] dense 8,16,8 4,096 2,176 0.531");
  const CheckpointRanks deeper =
      state_of({.overrides = {"model.layers=3", "tensorized.attention.input_modes=[16,4]"}}, "c.h5");
  const std::string report = unfolded_rank_comparison(train, deeper);
  EXPECT_THAT(report, HasSubstr("[8,8 | 8,8] / [16,4 | 8,8]"));
  EXPECT_EQ(squeezed(line(report, "encoder.2 ")), "encoder.2 0 6,912");
  EXPECT_THAT(report, ContainsRegex("\n  attention.key +\\[16,4 \\| 8,8\\] +- +8,16,8 +- +[0-9,]+\n"));
  const std::string none = unfolded_rank_comparison(dense, dense);
  EXPECT_THAT(none, Not(HasSubstr("attention")));
  EXPECT_EQ(squeezed(line(none, "S/S_init")), "S/S_init - -");
}

// Modes are what a wide table leaves out, so that each layer is one line of a terminal.
TEST_F(RankReport, EachLayerIsALineOf80Columns) {
  LayerRanks early = start_ranks();
  early["encoder.0.attention.query"] = {5, 10, 8};
  const std::string report = rank_report(state_of(
      {.overrides = {},
       .dead = some_dead(),
       .history = {.initial_size = start_size, .stages = {{"start", start_ranks()}, {"first", early}}}}));
  EXPECT_THAT(squeezed(line(report, "  attention.query")), testing::EndsWith("2,176 1,144 3.6"));
  EXPECT_THAT(report, HasSubstr("comera inspect without --ranks shows the modes"));
  std::istringstream lines(report);
  for (std::string each; std::getline(lines, each);) EXPECT_LE(each.size(), 80U) << each;
}

// Whatever their number: a name and a sum for every block, and no line that is too long to read.
TEST_F(RankReport, BlocksAreSeparate) {
  const std::string report = unfolded_rank_report(state_of({.overrides = {"model.layers=24"}}));
  EXPECT_EQ(squeezed(line(report, "encoder.23 ")), "encoder.23 8,704 8,704 1.9");
  EXPECT_EQ(std::ranges::count(report, '\n'), 1 + 1 + 24 * 5 + 11) << report;
}

}  // namespace
}  // namespace comera::test
