// What is said of a number format where a training begins.
#include "cli/precision_note.h"

#include <gmock/gmock.h>

namespace comera::cli {
namespace {

using testing::HasSubstr;

Recipe in(Compute compute, bool tensorized = true) {
  Recipe recipe;
  recipe.precision.compute = compute;
  recipe.tensorized.enabled = tensorized;
  return recipe;
}

TEST(PrecisionNote, SaysWhereAnotherFormatIsFaster) {
  EXPECT_THAT(precision_note(in(Compute::fp32), false, true),
              HasSubstr("faster and takes less memory in bfloat16"));
  EXPECT_EQ(precision_note(in(Compute::fp32), false, false), "");
  for (const Compute compute : {Compute::fp8, Compute::fp8_fp32})
    EXPECT_THAT(precision_note(in(compute), true, true),
                HasSubstr("on a GPU 8-bit products of tensor trains are slower than bfloat16"));
}

TEST(PrecisionNote, SaysNothingOfOthers) {
  EXPECT_EQ(precision_note(in(Compute::fp8), false, true), "") << "a CPU shows the numerical effect";
  EXPECT_EQ(precision_note(in(Compute::fp8, false), true, true), "") << "large dense layers may gain";
  EXPECT_EQ(precision_note(in(Compute::bf16), true, true), "");
}

}  // namespace
}  // namespace comera::cli
