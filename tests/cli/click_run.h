#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/cli/click_logs.h"
#include "tests/cli/shell.h"

namespace comera::test {

// Runs of click models through the program, in a folder $D, with the small recipe $R made tiny by $TINY.
class ClickRun : public testing::Test, public Shell {
 protected:
  ClickRun() {
    setenv("D", folder_.path().c_str(), 1);
    setenv("R", COMERA_SOURCE_DIR "/recipes/dlrm_small.toml", 1);
    setenv("TINY",
           "--set dlrm.width=4 --set dlrm.bottom=[4] --set dlrm.top=[4] --set dlrm.table_rank=2 --set "
           "phase.0.examples_per_micro_batch=64 --set phase.0.epochs=1 --set phase.0.warmup_steps=1 --set "
           "run.threads=1",
           1);
  }

  // Rows 0 to 599 of Criteo's as shards $D/shards, the last tenth of them held out.
  void make_data() {
    folder_.write("log", criteo_rows(0, 600));
    const Ended ended = shell("\"$C\" clicks data $D/log --output $D/shards");
    ASSERT_EQ(ended.code, 0) << ended.errors;
  }
  // And of them the run $D/run.
  void train() {
    make_data();
    const Ended ended = shell("\"$C\" clicks train $R $TINY --data $D/shards --output $D/run");
    ASSERT_EQ(ended.code, 0) << ended.errors;
  }

  // 'comera clicks WORDS' ends with this code and one line that contains all of this, and prints nothing
  // else.
  void refuses(const std::string& words, int code, const testing::Matcher<std::string>& what) {
    const Ended ended = shell("\"$C\" clicks " + words);
    EXPECT_EQ(ended.code, code) << words;
    EXPECT_THAT(ended.errors, testing::AllOf(testing::StartsWith("comera: error: "), what)) << words;
    EXPECT_EQ(std::ranges::count(ended.errors, '\n'), 1) << ended.errors;
    EXPECT_EQ(ended.output, "");
  }

  TemporaryFolder folder_;
};

}  // namespace comera::test
