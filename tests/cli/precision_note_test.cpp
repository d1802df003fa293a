// What is said of a number format where a training begins.
#include "cli/precision_note.h"

#include <gmock/gmock.h>

#include "kernels/backends/processors.h"

namespace comera::cli {
namespace {

using testing::HasSubstr;

Recipe in(Compute compute, bool tensorized = true) {
  Recipe recipe;
  recipe.precision.compute = compute;
  recipe.tensorized.enabled = tensorized;
  return recipe;
}

TEST(PrecisionNote, AutomaticIsWhatIsFaster) {
  Recipe recipe;
  EXPECT_EQ(recipe.precision.compute, Compute::automatic);
  EXPECT_EQ(automatic_compute(recipe, true), Compute::bf16);
  EXPECT_EQ(automatic_compute(recipe, false), Compute::fp32);
  Recipe clicks;
  clicks.dlrm.emplace();
  EXPECT_EQ(automatic_compute(clicks, true), Compute::fp32);
  choose_precision(recipe, "cpu");
  EXPECT_EQ(recipe.precision.compute,
            automatic_compute(Recipe(), faster_in_bfloat16(find_processor("cpu", DType::bfloat16))));
  Recipe fixed = in(Compute::tf32);
  choose_precision(fixed, "cpu");
  EXPECT_EQ(fixed.precision.compute, Compute::tf32);
}

TEST(PrecisionNote, SaysWhereAnotherFormatIsFaster) {
  for (const Compute compute : {Compute::fp8, Compute::fp8_fp32})
    EXPECT_THAT(precision_note(in(compute), true),
                HasSubstr("on a GPU 8-bit products of tensor trains are slower than bfloat16"));
}

TEST(PrecisionNote, SaysNothingOfOthers) {
  EXPECT_EQ(precision_note(in(Compute::fp8), false), "") << "a CPU shows the numerical effect";
  EXPECT_EQ(precision_note(in(Compute::fp8, false), true), "") << "large dense layers may gain";
  EXPECT_EQ(precision_note(in(Compute::fp32), true), "");
  EXPECT_THAT(precision_note(in(Compute::bf16), true), HasSubstr("computes in bfloat16"));
}

}  // namespace
}  // namespace comera::cli
