#include "training/logging/progress.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "kernels/core/console.h"
#include "kernels/core/terminal.h"
#include "tests/support/pseudo_terminal.h"
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
            "pretrain [####......] 40/100, 2.5 steps/s, 24 s left, loss 5.1");
  for (int columns = 0; columns < 120; ++columns)
    EXPECT_LE(progress_bar("pretrain", state, columns).size(),
              static_cast<std::size_t>(std::max(columns - 1, 0)));
  EXPECT_THAT(progress_bar("x", {0, 9, 0, ""}, 80), testing::HasSubstr("0/9"));
  EXPECT_THAT(progress_bar("x", {7, 5, 1, ""}, 80), testing::HasSubstr("7/5"));
}

TEST(Progress, BarsKeepTheirWidthWhateverIsSaidBesideThem) {
  const auto bar = [](const std::string& line) { return line.substr(0, line.find(']') + 1); };
  const std::string first = progress_bar("pretrain", {1120, 1800, 0, ""}, 80);
  for (const char* note :
       {"loss 5.1", "loss 11,366,879.1234, 12,345 tokens/s, 17 skipped", "evaluating on held-out data"})
    for (const double rate : {0.0, 0.001, 2.5, 123.4})
      EXPECT_EQ(bar(progress_bar("pretrain", {1120, 1800, rate, note}, 80)), bar(first)) << note;
  // What does not fit is left out as a whole.
  EXPECT_EQ(progress_bar("pretrain", {1120, 1800, 2.5, "loss 5.1234, 12,345 tokens/s"}, 80),
            "pretrain [######....] 1,120/1,800, 2.5 steps/s, 4 min 32 s left, loss 5.1234");
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

// ---- On a terminal

TEST(TerminalProgress, PrintsAboveTheBarAndDrawsItAgain) {
  test::PseudoTerminal terminal(80);
  {
    ProgressBar bar("work", 10, 0, terminal.file());
    bar.announce("evaluating");
    log_to(terminal.file(), "from elsewhere\n");
    bar.print("saved");
    log_to(terminal.file(), "warning: careful\n");
  }
  log_to(terminal.file(), "done\n");
  const std::vector<std::string> screen = terminal.screen();
  ASSERT_EQ(screen.size(), 5U) << testing::PrintToString(screen);
  EXPECT_EQ(screen[0], "from elsewhere");
  EXPECT_EQ(screen[1], "saved");
  EXPECT_EQ(screen[2], "warning: careful");
  EXPECT_EQ(screen[3], "work [..........] 0/10, evaluating");
  EXPECT_EQ(screen[4], "done");
}

TEST(TerminalProgress, BarsAreCutToNarrowTerminals) {
  test::PseudoTerminal terminal(30);
  {
    ProgressBar bar("pretrain", 1000, 0, terminal.file());
    bar.update(5, "loss 1.2345, 12,345 tokens/s");
  }
  for (const std::string& line : terminal.screen()) EXPECT_LT(line.size(), 30U) << line;
}

TEST(TerminalProgress, ATickerSpeaksAfterTwoSilentSecondsAndLeavesNothing) {
  test::PseudoTerminal terminal(80);
  {
    const Ticker outer("outer", terminal.file());
    const Ticker ticker("thinking", terminal.file());
    log_to(terminal.file(), "begun\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(2600));
    log_to(terminal.file(), "found\n");
  }
  log_to(terminal.file(), "done\n");
  const std::string all = terminal.text();
  EXPECT_THAT(all, testing::HasSubstr("thinking: 2."));
  EXPECT_THAT(all, testing::Not(testing::HasSubstr("outer")));
  EXPECT_EQ(terminal.screen(), (std::vector<std::string>{"begun", "found", "done"}));
}

TEST(TerminalProgress, ATickerSaysOneLineElsewhere) {
  test::TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  log_info("");  // so that there is silence from now on
  {
    const Ticker ticker("thinking", file);
    std::this_thread::sleep_for(std::chrono::milliseconds(2900));
  }
  std::fclose(file);
  const std::string text = test::read_text(folder / "out");
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_THAT(text, testing::StartsWith("thinking: still at work after 2."));
}

TEST(TerminalProgress, WhatWasAnnouncedIsNotTheLastWord) {
  test::PseudoTerminal terminal(80);
  {
    ProgressBar bar("work", 10, 9, terminal.file());
    bar.update(10, "loss 1");
    bar.announce("evaluating");
  }
  EXPECT_THAT(terminal.screen().back(), testing::EndsWith("loss 1"));
}

TEST(TerminalText, WordsAreNotBrokenAtTheEdge) {
  EXPECT_EQ(fitted("one two three", 8), "one two three");
  EXPECT_EQ(fitted("one three two", 7), "one    three  two");
  EXPECT_EQ(fitted("a\nlonglonglong b", 5), "a\nlonglonglong b") << "longer than a row";
  EXPECT_EQ(fitted("ab \033[1mcd\033[0m", 4), "ab  \033[1mcd\033[0m");
  EXPECT_EQ(fitted("äöü ßäö", 5), "äöü  ßäö");
  test::PseudoTerminal terminal(20);
  log_to(terminal.file(), "a message of several words\n");
  EXPECT_EQ(terminal.screen(), std::vector<std::string>{"a message of several words"});
  log_to(terminal.file(), "a message of a few more words\n");
  EXPECT_EQ(terminal.screen()[1], "a message of a few  more words");
}

TEST(TerminalColours, AreForTerminalsThatWantThem) {
  const test::PseudoTerminal terminal(80);
  const auto red = [&] { return styled(terminal.file(), Style::error, "bad") != "bad"; };
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(red());
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(red());
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(red()) << "an empty NO_COLOR declines nothing";
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(red());
  setenv("TERM", "xterm", 1);
  test::TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  EXPECT_EQ(styled(file, Style::error, "bad"), "bad");
  log_to(file, "warning: careful\n");
  std::fclose(file);
  EXPECT_EQ(test::read_text(folder / "out"), "warning: careful\n");
  EXPECT_EQ(with_heading(terminal.file(), "a  b\n1  2\n"), "\033[1ma  b\033[0m\n1  2\n");
}

TEST(TerminalColours, MessagesShowHowSeriousTheyAre) {
  test::PseudoTerminal terminal(80);
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  log_to(terminal.file(), "warning: careful\n");
  log_to(terminal.file(), "comera: error: no\n");
  log_to(terminal.file(), "a warning: none\n");
  EXPECT_EQ(terminal.text(),
            "\033[1;33mwarning:\033[0m careful\r\n\033[1;31mcomera: error:\033[0m no\r\n"
            "a warning: none\r\n");
}

}  // namespace
}  // namespace comera
