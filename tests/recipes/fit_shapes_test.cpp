#include "recipes/fit_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

using testing::HasSubstr;

TensorizedConfig shapes() {
  TensorizedConfig shapes;
  shapes.attention = TTShape{{24, 32}, {32, 24}, {24, 64, 24}};
  shapes.ffn_up = TTShape{{24, 32}, {64, 48}, {24, 64, 48}};
  shapes.ffn_down = TTShape{{48, 64}, {32, 24}, {48, 64, 24}};
  shapes.head = TTShape{{8, 8, 12}, {12, 8, 8}, {8, 30, 30, 30, 8}};
  shapes.embedding = TTMShape{{32, 40, 40}, {8, 8, 12}, {64, 64}};
  return shapes;
}

EncoderArchitecture model_of(std::int64_t hidden, std::int64_t ffn) {
  EncoderArchitecture model;
  model.hidden = hidden;
  model.ffn = ffn;
  return model;
}

void expect_valid(const TensorizedConfig& shapes, const EncoderArchitecture& model, std::int64_t vocabulary) {
  EXPECT_NO_THROW(shapes.attention->validate("attention", model.hidden, model.hidden));
  EXPECT_NO_THROW(shapes.ffn_up->validate("ffn_up", model.hidden, model.ffn));
  EXPECT_NO_THROW(shapes.ffn_down->validate("ffn_down", model.ffn, model.hidden));
  EXPECT_NO_THROW(shapes.head->validate("head", model.hidden, model.hidden));
  EXPECT_NO_THROW(shapes.embedding->validate("embedding", vocabulary, model.hidden));
}

TEST(FitShapes, KeepsThoseThatFit) {
  TensorizedConfig same = shapes();
  EXPECT_TRUE(fit_shapes(same, model_of(768, 3072), 50'265).empty());
  EXPECT_EQ(same, shapes());
}

TEST(FitShapes, MakesAsManyModesForAnotherWidth) {
  for (const auto& [hidden, ffn, vocabulary] : {std::tuple{384, 1536, 30'522},
                                                {128, 512, 30'522},
                                                {312, 1200, 21'128},
                                                {1024, 4096, 250'002},
                                                {16, 24, 28}}) {
    TensorizedConfig fitted = shapes();
    fitted.head = TTShape{{24, 32}, {32, 24}, {24, 64, 24}};
    if (hidden == 16) fitted.embedding = TTMShape{{200, 300}, {24, 32}, {64}};
    const EncoderArchitecture model = model_of(hidden, ffn);
    const auto notes = fit_shapes(fitted, model, vocabulary);
    expect_valid(fitted, model, vocabulary);
    EXPECT_EQ(notes.size(), 5U);
    EXPECT_LE(fitted.embedding->rows(), 2 * vocabulary);
  }
  TensorizedConfig fitted = shapes();
  const auto notes = fit_shapes(fitted, model_of(384, 3072), 50'265);
  EXPECT_EQ(fitted.attention, (TTShape{{16, 24}, {24, 16}, {16, 64, 16}}));
  EXPECT_EQ(fitted.ffn_up, (TTShape{{16, 24}, {64, 48}, {16, 64, 48}}));
  EXPECT_EQ(fitted.head, (TTShape{{6, 8, 8}, {8, 8, 6}, {6, 30, 30, 30, 6}}));
  EXPECT_EQ(fitted.embedding, (TTMShape{{32, 40, 40}, {6, 8, 8}, {64, 64}}));
  EXPECT_THAT(notes[0], HasSubstr("tensorized.attention: [24,32 | 32,24] ranks 24,64,24 fits another width"));
}

// The table and the layer before the decoder have its width; a pooler does not.
TEST(FitShapes, FollowsTheWidthOfNarrowTables) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification}) {
    TensorizedConfig fitted = shapes();
    EncoderArchitecture model = model_of(768, 3072);
    model.embedding_size = 128;
    model.head = head;
    fit_shapes(fitted, model, 50'265);
    EXPECT_EQ(fitted.embedding->columns(), 128);
    EXPECT_EQ(fitted.head->input_size(), 768);
    EXPECT_EQ(fitted.head->output_size(), head == HeadKind::mlm ? 128 : 768);
    EXPECT_EQ(fitted.attention, shapes().attention);
  }
}

// A projection leads to any larger width; the train's columns stay.
TEST(FitShapes, KeepsTheColumnsBeforeAProjection) {
  TensorizedConfig fitted = shapes();
  fitted.embedding = TTMShape{{32, 40, 40}, {4, 4, 8}, {64, 64}, true};
  const TTMShape before = *fitted.embedding;
  fit_shapes(fitted, model_of(768, 3072), 50'265);
  EXPECT_EQ(fitted.embedding, before);
  fit_shapes(fitted, model_of(64, 256), 50'265);
  EXPECT_EQ(fitted.embedding->columns(), 32);
  EXPECT_TRUE(fitted.embedding->projection);
}

TEST(FitShapes, LeavesDenseWhatIsDense) {
  TensorizedConfig one;
  one.attention = TTShape{{24, 32}, {32, 24}, {24, 64, 24}};
  fit_shapes(one, model_of(64, 100), 99);
  EXPECT_TRUE(one.attention && !one.ffn_up && !one.ffn_down && !one.head && !one.embedding);
}

TEST(FitShapes, SaysWhichKeysAPrimeWidthNeeds) {
  TensorizedConfig prime = shapes();
  EXPECT_THAT(test::error_of([&] { fit_shapes(prime, model_of(13, 26), 100); }),
              HasSubstr("tensorized.attention.input_modes: 13 is not a product of 2 numbers above 1"));
}

}  // namespace
}  // namespace comera
