#include "training/logging/progress.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0), "0.0 s");
  EXPECT_EQ(duration_text(3.21), "3.2 s");
  EXPECT_EQ(duration_text(9.99), "10 s");
  EXPECT_EQ(duration_text(59.7), "1 min 00 s");
  EXPECT_EQ(duration_text(245), "4 min 05 s");
  EXPECT_EQ(duration_text(7620), "2 h 07 min");
  EXPECT_EQ(duration_text(273600), "3 d 04 h");
  EXPECT_EQ(duration_text(-1), "?");
  EXPECT_EQ(duration_text(0.0 / 0.0), "?");
  EXPECT_NE(duration_text(1e300), "");
}

TEST(Progress, Bar) {
  const ProgressState state{40, 100, 2.5, "loss 5.1"};
  EXPECT_EQ(progress_bar("pretrain", state, 80),
            "pretrain [########............] 40/100, 2.5 steps/s, 24 s left, loss 5.1");
  for (int columns = 0; columns < 120; ++columns)
    EXPECT_LE(progress_bar("pretrain", state, columns).size(),
              static_cast<std::size_t>(std::max(columns - 1, 0)));
  EXPECT_THAT(progress_bar("x", {0, 9, 0, ""}, 80), testing::HasSubstr("0/9"));
  EXPECT_THAT(progress_bar("x", {7, 5, 1, ""}, 80), testing::HasSubstr("7/5"));
}

TEST(Progress, Line) {
  EXPECT_EQ(progress_line("pretrain", {40, 100, 0.4, "loss 5.1"}),
            "pretrain: step 40 of 100, 2.5 s/step, 2 min 30 s left, loss 5.1");
  EXPECT_EQ(progress_line("pretrain", {100, 100, 2, ""}), "pretrain: step 100 of 100, 2.0 steps/s");
  EXPECT_EQ(progress_line("pretrain", {0, 100, 0, ""}), "pretrain: step 0 of 100");
}

TEST(Progress, OfWorkWhoseEndNobodyKnows) {
  const ProgressState state{1234, 0, 80, "1,234 documents, 5.0 MB"};
  EXPECT_EQ(progress_line("reading", state), "reading: 1,234 documents, 5.0 MB");
  EXPECT_EQ(progress_bar("reading", state, 80), "reading: 1,234 documents, 5.0 MB");
  EXPECT_EQ(progress_bar("reading", state, 12), "reading: 1,");
  test::TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  {
    ProgressBar bar("reading", 0, 0, file);
    for (int document = 1; document <= 1000; ++document) bar.update(document, "documents");
  }
  std::fclose(file);
  EXPECT_EQ(test::read_text(folder / "out"), "") << "work that ends at once says nothing";
}

TEST(Progress, PlainLinesWhereThereIsNoTerminal) {
  test::TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  {
    ProgressBar bar("work", 1000, 0, file);
    for (int step = 1; step <= 1000; ++step) bar.update(step, "loss 1");
    bar.print("saved");
  }
  std::fclose(file);
  const std::string text = test::read_text(folder / "out");
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;  // the first, the last, and "saved"
  EXPECT_THAT(text, testing::HasSubstr("step 1,000 of 1,000"));
  EXPECT_THAT(text, testing::EndsWith("\nsaved\n"));
  EXPECT_EQ(text.find('\r'), text.npos);
  EXPECT_EQ(text.find('\033'), text.npos);
}

}  // namespace
}  // namespace comera
