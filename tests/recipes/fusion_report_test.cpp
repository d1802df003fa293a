#include <gmock/gmock.h>

#include "recipes/encoder_config.h"
#include "reports/model_report.h"

namespace comera::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a recipe misses that misses nothing without the overrides.
std::string missed(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"precision.compute='bf16'", "phase.0.tokens_per_micro_batch=16384",
                                       "phase.1.tokens_per_micro_batch=16384"});
  const Recipe recipe = load_recipe(COMERA_SOURCE_DIR "/recipes/quickstart.toml", overrides);
  return fusion_report(recipe, Model(encoder_config(recipe, 8192), host_allocator(), false), h100);
}

TEST(FusionReport, SaysThatNothingIsMissed) {
  EXPECT_EQ(missed({}), "\nfused operations that a GPU does not use (phase quick, shrink)\n  none\n");
}

TEST(FusionReport, GivesTheReasonOfEachOperation) {
  const std::string attention = "attention between the factors, layers 0 to 3: ",
                    one_pass = "feed-forward network in one pass, layers 0 to 3: ",
                    inner = "inner tensor of the feed-forward network in registers, layers 0 to 3: ";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"precision.compute='fp32'"}, inner + "the kernels compute in bfloat16, not in float32\n"},
      {{"precision.compute='fp8'"}, inner + "operands are 8-bit numbers\n"},
      {{"model.activation='relu'"}, inner + "the kernels have no activation but GELU\n"},
      {{"tensorized.ffn_down.ranks=[32,136,16]"}, inner + "the kernels take ranks of up to 128, not 136\n"},
      {{"tensorized.plan='factors'"}, attention + "tensorized.plan is given\n"},
      {{"model.positions='rotary'"}, attention + "rotary positions turn queries and keys"},
      {{"tensorized.attention.ranks=[16,96,16]"},
       "attention between the factors, layers 0 to 2: it takes 1."},
      {{"tensorized.enabled=false"}, attention + "not all layers are tensor trains\n"},
      {{"tensorized.enabled=false"}, one_pass + "not all layers are tensor trains\n"},
      {{"tensorized.enabled=false"}, inner + "not all layers are tensor trains\n"},
      {{"phase.0.tokens_per_micro_batch=128", "tensorized.plan='dense'"},
       one_pass + "the planner does not evaluate all layers by their factors\n"},
  };
  for (const auto& [overrides, expected] : cases)
    EXPECT_THAT(missed(overrides), HasSubstr("  " + expected)) << overrides[0];
}

TEST(FusionReport, LayersOfOneReasonShareALine) {
  const std::string text = missed({"tensorized.ranks.encoder.1.ffn.up=[16,136,32]"});
  EXPECT_THAT(text, HasSubstr("in registers, layer 1: the kernels take ranks of up to 128, not 136\n"));
  EXPECT_THAT(text, Not(HasSubstr("layer 0")));
}

}  // namespace
}  // namespace comera::test
