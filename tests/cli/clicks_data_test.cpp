// 'comera clicks data', through the real program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/clicks/click_encoding.h"
#include "data/clicks/click_shards.h"
#include "tests/cli/click_logs.h"
#include "tests/cli/shell.h"
#include "tests/data/tables/gzip.h"

namespace comera::cli {
namespace {

namespace fs = std::filesystem;
using test::criteo_rows;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ClicksData : public testing::Test, public test::Shell {
 protected:
  ClicksData() { setenv("D", folder_.path().c_str(), 1); }

  Ended data(const std::string& words) { return shell("\"$C\" clicks data " + words); }
  void refuses(const std::string& words, int code, const std::string& what) {
    const Ended ended = data(words);
    EXPECT_EQ(ended.code, code) << words;
    EXPECT_THAT(ended.errors, AllOf(StartsWith("comera: error: "), HasSubstr(what))) << words;
    EXPECT_EQ(std::ranges::count(ended.errors, '\n'), 1) << ended.errors;
    EXPECT_EQ(ended.output, "");
  }

  test::TemporaryFolder folder_;
};

// Tables whose ids are cut into other digits are other tables, which their shards say.
TEST_F(ClicksData, SyntheticTablesMayHaveAModelsDigits) {
  const auto made = [&](const std::string& name, const std::string& words) {
    const Ended ended =
        shell("\"$C\" clicks synthetic --rows 200 --held-out-rows 100 --tables tensor_train --output $D/" +
              name + " " + words);
    EXPECT_EQ(ended.code, 0) << ended.errors;
    EXPECT_THAT(ended.output, HasSubstr("the known model has a log loss of"));
    return data::ClickShardSet(folder_ / name, "train").info().encoding;
  };
  const std::string equal = made("equal", "--shape-rank 0");
  EXPECT_EQ(made("default", ""), equal);
  EXPECT_NE(made("of_32", "--shape-rank 32"), equal);
  const Ended refused = shell("\"$C\" clicks synthetic --tables low_rank --shape-rank 32 --output $D/none");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("add --tables tensor_train"));
}

TEST_F(ClicksData, MakesShardsOfLogsInTheOrderOfTime) {
  folder_.write("b.gz", data::gzip(criteo_rows(0, 120)));
  folder_.write("a.txt", criteo_rows(120, 150) + "broken\n" + criteo_rows(150, 200));
  const Ended ended = data("$D/b.gz $D/a.txt --output $D/out --threshold 18 --rows-per-shard 100");
  ASSERT_EQ(ended.code, 0) << ended.errors;
  EXPECT_THAT(ended.output,
              HasSubstr("train                              180            60    33.33 %        2\n"
                        "validation                          20             7    35.00 %        1\n"
                        "left out                             1\n"
                        "  wrong number of fields             1\n"));
  EXPECT_THAT(ended.output, HasSubstr("C1                                  11\n"
                                      "C2                                   2\n"));
  EXPECT_THAT(ended.output, HasSubstr("all 26                              61\n"));
  EXPECT_THAT(ended.output, HasSubstr("a row for each value that occurs at least 18 times in training"));
  EXPECT_THAT(ended.output, HasSubstr("wrote " + (folder_ / "out").string() + "\n"));
  EXPECT_THAT(ended.errors, AllOf(HasSubstr("note: "), HasSubstr("a.txt: 1 row was left out"),
                                  HasSubstr("first in line 31")));

  const auto encoding = data::ClickEncoding::load(folder_ / "out/encoding.h5");
  const data::ClickShardSet train(folder_ / "out", "train"), validation(folder_ / "out", "validation");
  EXPECT_EQ(train.info().encoding, encoding.fingerprint());
  EXPECT_EQ(train.rows(), 180);
  EXPECT_EQ(train.clicks(), 60);
  data::ClickExamples examples;
  validation.read(0, 20, examples);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(examples.labels[i], (180 + i) % 3 == 0 ? 1 : 0);
    EXPECT_EQ(examples.dense_features[13 * i], data::click_number(180 + i));
    EXPECT_EQ(examples.ids[26 * i], encoding.id(fmt::format("{:08x}", i % 10), 0));
  }
}

// The next day's rows become the ids that a model knows, whole and for validation.
TEST_F(ClicksData, TakesTheEncodingOfAnEarlierCall) {
  folder_.write("day_0", criteo_rows(0, 100));
  folder_.write("day_1", criteo_rows(100, 130));
  ASSERT_EQ(data("$D/day_0 --output $D/0 --held-out 0 --threshold 1").code, 0);
  const Ended ended = data("$D/day_1 --output $D/1 --held-out 1 --encoding $D/0/encoding.h5");
  ASSERT_EQ(ended.code, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("ids are those of " + (folder_ / "0/encoding.h5").string()));
  EXPECT_THAT(ended.output, testing::Not(HasSubstr("\ntrain")));
  const data::ClickShardSet train(folder_ / "0", "train"), test(folder_ / "1", "validation");
  EXPECT_EQ(train.rows(), 100);
  EXPECT_EQ(test.rows(), 30);
  EXPECT_EQ(test.info().encoding, train.info().encoding);
  EXPECT_EQ(data::ClickEncoding::load(folder_ / "1/encoding.h5").fingerprint(), test.info().encoding);
  EXPECT_FALSE(fs::exists(folder_ / "1/train-00000.h5"));
  refuses("$D/day_1 --output $D/2 --held-out 1", 2, "leaves no rows to build a vocabulary from");
  refuses("$D/day_1 --output $D/2 --format avazu --encoding $D/0/encoding.h5", 2,
          "is an encoding of logs of criteo, not of avazu");
  refuses("$D/day_1 --output $D/2 --encoding $D/0/train-00000.h5", 1, "is not a click encoding");
}

TEST_F(ClicksData, HashesIntoTablesOfAGivenHeight) {
  folder_.write("log", criteo_rows(0, 100));
  std::string heights = "5";
  for (int i = 1; i < 26; ++i) heights += fmt::format(",{}", 5 + i);
  const Ended ended = data("--heights 50 $D/log --output $D/one");
  ASSERT_EQ(ended.code, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("ids are hashes of the values"));
  EXPECT_EQ(data::ClickShardSet(folder_ / "one", "train").info().heights, std::vector<std::int64_t>(26, 50));
  ASSERT_EQ(data("$D/log --output $D/each --heights " + heights).code, 0);
  const data::ClickShardSet each(folder_ / "each", "train");
  EXPECT_EQ(each.info().heights.front(), 5);
  EXPECT_EQ(each.info().heights.back(), 30);
  refuses("$D/log --output $D/x --heights 5,6", 2,
          "--heights has 2 numbers; a log of criteo has 26 tables: give one number, or one per table");
  refuses("$D/log --output $D/x --heights 0", 2, "0 is not a whole number above 0");
  refuses("$D/log --output $D/x --heights 3000000000", 2, "3000000000 is more than 2147483647");
  refuses("$D/log --output $D/x --heights 5 --threshold 3", 2, "cannot be given together");
  EXPECT_FALSE(fs::exists(folder_ / "x"));
}

TEST_F(ClicksData, ReplacesShardsOnlyWhenItIsTold) {
  folder_.write("log", criteo_rows(0, 100));
  ASSERT_EQ(data("$D/log --output $D/out --rows-per-shard 30").code, 0);
  refuses("$D/log --output $D/out", 2, "exists and is not an empty folder; give --overwrite");
  refuses("$D/log --output $D/log", 2, "is a file; name a folder for the shards");
  folder_.write("bad", "1\t2\n");
  refuses("$D/bad --output $D/out --overwrite", 1, "is it a log in the format of criteo, with tabs");
  EXPECT_EQ(data::ClickShardSet(folder_ / "out", "train").rows(), 90);
  ASSERT_EQ(data("$D/log --output $D/out --overwrite --held-out 0.2").code, 0);
  EXPECT_EQ(data::ClickShardSet(folder_ / "out", "train").rows(), 80);
  EXPECT_FALSE(fs::exists(folder_ / "out/train-00001.h5"));
}

TEST_F(ClicksData, WhatIsWrongIsOneSentence) {
  folder_.write("log", criteo_rows(0, 100));
  folder_.write("unlabelled", criteo_rows(0, 1).substr(2));
  folder_.write("words", "words\n");
  folder_.write("damaged.gz", data::gzip(criteo_rows(0, 5000)).substr(0, 5000));
  refuses("--output $D/x", 2, "the argument LOGS is missing");
  refuses("$D/log", 2, "--output is missing: give --output DIR");
  refuses("$D/log --ouput $D/x", 2, "--ouput is not an option of clicks data; did you mean --output?");
  refuses("$D/log $D/none --output $D/x", 2, "none: no such file");
  refuses("$D --output $D/x", 2, "is a folder; name the logs in it");
  refuses("/dev/null --output $D/x", 2, "is not a regular file");
  refuses("$D/words --output $D/x", 2, "its first row has neither tabs nor commas");
  refuses("$D/log --format kaggle --output $D/x", 2, "'kaggle' is not a choice; give criteo, avazu");
  refuses("$D/log --format avazu --output $D/x", 1,
          "has 24): is it a log in the format of avazu, with commas between its fields?");
  refuses("$D/log $D/unlabelled --output $D/x", 1, "without its label");
  refuses("$D/damaged.gz --output $D/x", 1, "damaged.gz");
  refuses("$D/log --held-out 1.5 --output $D/x", 2, "1.5 is not a share from 0 to 1");
  refuses("$D/log --held-out nan --output $D/x", 2, "nan is not a share from 0 to 1");
  refuses("$D/log --held-out 0.999 --output $D/x", 1, "none of 100 rows is left for training");
  refuses("$D/log --threshold 0 --output $D/x", 2, "0 is not a whole number above 0");
  EXPECT_FALSE(fs::exists(folder_ / "x"));
  const Ended none = shell("\"$C\" clicks");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.errors, "comera: error: a command is required; see comera clicks --help\n");
  EXPECT_THAT(shell("\"$C\" clicks dat").errors, HasSubstr("did you mean 'data'?"));
  EXPECT_THAT(shell("\"$C\" clicks data --help").output, HasSubstr("Examples:"));
}

// The first rows of the published logs, where they lie beside the sources.
TEST_F(ClicksData, EncodesRealLogs) {
  const fs::path logs = fs::path(COMERA_SOURCE_DIR) / "../shared/data/ctr";
  if (!fs::exists(logs)) GTEST_SKIP() << logs << " is not there";
  setenv("L", logs.c_str(), 1);
  const Ended criteo = data("$L/criteo_10k/train $L/criteo_10k/test --output $D/criteo --held-out 0.2");
  ASSERT_EQ(criteo.code, 0) << criteo.errors;
  EXPECT_THAT(criteo.output, AllOf(HasSubstr("8,000"), HasSubstr("2,000"),
                                   HasSubstr("left out                             0\n")));
  const data::ClickShardSet train(folder_ / "criteo", "train"), test(folder_ / "criteo", "validation");
  EXPECT_EQ(train.rows() + test.rows(), 10000);
  EXPECT_EQ(train.info().tables(), 26);
  EXPECT_NEAR(static_cast<double>(train.clicks()) / 8000, 0.21, 0.03);

  // By the two commands in the head of the recipe: some columns have no missing values, and a row for others
  // yet.
  ASSERT_EQ(
      data("$L/criteo_10k/train $L/criteo_10k/test --output $D/kaggle --threshold 1 --held-out 0.143").code,
      0);
  const Ended trained = shell(
      "\"$C\" clicks train dlrm_criteo_kaggle --data $D/kaggle --output $D/run --set "
      "phase.0.warmup_steps=1");
  EXPECT_EQ(trained.code, 0) << trained.errors;
  EXPECT_THAT(trained.output, HasSubstr("best.h5"));

  const Ended avazu = data("$L/avazu_10k/train $L/avazu_10k/test --output $D/avazu --heights 1000");
  ASSERT_EQ(avazu.code, 0) << avazu.errors;
  const data::ClickShardSet shards(folder_ / "avazu", "train");
  EXPECT_EQ(shards.rows(), 8999);
  EXPECT_EQ(shards.info().dense_features, 0);
  EXPECT_EQ(shards.info().tables(), 23);
}

}  // namespace
}  // namespace comera::cli
