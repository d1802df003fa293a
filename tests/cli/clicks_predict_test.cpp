// 'comera clicks predict', through the real program.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/cli/click_run.h"
#include "tests/data/tables/gzip.h"
#include "tests/recipes/ranked_checkpoint.h"
#include "tests/training/training_fixture.h"

namespace comera::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::avazu_rows;
using test::criteo_rows;
using testing::AllOf;
using testing::HasSubstr;

struct Prediction {
  std::string log;
  std::int64_t line = 0;
  double probability = 0;
  bool operator==(const Prediction&) const = default;
};

std::vector<Prediction> predictions_of(const std::string& text) {
  std::vector<Prediction> predictions;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line);
    predictions.push_back({object.value("log", ""), object.at("line"), object.at("probability")});
  }
  return predictions;
}

std::vector<double> probabilities(const std::vector<Prediction>& predictions) {
  std::vector<double> values;
  for (const Prediction& prediction : predictions) values.push_back(prediction.probability);
  return values;
}

class ClicksPredict : public test::ClickRun {
 protected:
  Ended predict(const std::string& words) { return shell("\"$C\" clicks predict " + words); }
  std::vector<Prediction> predicted(const std::string& words) {
    const Ended ended = predict(words);
    EXPECT_EQ(ended.code, 0) << words << ": " << ended.errors;
    return predictions_of(ended.output);
  }
};

TEST_F(ClicksPredict, AnswersWhatTheModelIsScoredBy) {
  train();
  folder_.write("held-out", criteo_rows(540, 600));
  const Ended scored = shell("\"$C\" clicks eval $D/run --data $D/shards --json");
  ASSERT_EQ(scored.code, 0) << scored.errors;
  const json scores = json::parse(scored.output);
  // With a last micro-batch that is full, one that is not, and one that holds all.
  for (const char* micro_batch : {"", "--batch-size 7", "--batch-size 20"}) {
    const Ended ended = predict(std::string("$D/run $D/held-out --score ") + micro_batch);
    ASSERT_EQ(ended.code, 0) << ended.errors;
    const std::vector<Prediction> predictions = predictions_of(ended.output);
    ASSERT_EQ(predictions.size(), 60u);
    double loss = 0;
    for (int i = 0; i < 60; ++i) {
      EXPECT_EQ(predictions[i].line, i + 1);
      EXPECT_EQ(predictions[i].log, "");
      const double p = predictions[i].probability;
      loss -= std::log((540 + i) % 3 == 0 ? p : 1 - p) / 60;
    }
    EXPECT_NEAR(loss, scores.at("loss"), 1e-5);
    EXPECT_EQ(ended.errors,
              fmt::format("{}: AUC {:.4f}, log loss {:.4f} ({:.4f} of guessing the click rate), accuracy "
                          "{:.2f} %, clicks 33.33 %, 60 examples\n",
                          (folder_ / "held-out").string(), scores.at("auc").get<double>(),
                          scores.at("loss").get<double>(), scores.at("normalised_entropy").get<double>(),
                          100 * scores.at("accuracy").get<double>()));
  }
}

TEST_F(ClicksPredict, NeedsNoLabels) {
  train();
  folder_.write("labelled", criteo_rows(590, 700));
  folder_.write("unlabelled.gz", data::gzip(criteo_rows(590, 700, false)));
  // Of a log whose first row is not whole the next one tells it.
  folder_.write("broken", "broken\n" + criteo_rows(590, 700, false));
  const std::vector<Prediction> labelled = predicted("$D/run $D/labelled");
  EXPECT_EQ(labelled.size(), 110u);
  EXPECT_EQ(predicted("$D/run $D/unlabelled.gz"), labelled);
  EXPECT_EQ(probabilities(predicted("$D/run $D/broken")), probabilities(labelled));
  const Ended piped = shell("cat $D/unlabelled.gz | \"$C\" clicks predict $D/run/best.h5 /dev/stdin");
  EXPECT_EQ(piped.code, 0) << piped.errors;
  EXPECT_EQ(predictions_of(piped.output), labelled) << "a log is read once";
  refuses("predict $D/run $D/unlabelled.gz --score", 1, HasSubstr("a row of criteo without its label"));
  refuses("data $D/unlabelled.gz --output $D/x", 1, HasSubstr("a row of criteo without its label"));
}

TEST_F(ClicksPredict, TakesLogsOfAvazu) {
  folder_.write("log", avazu_rows(0, 200));
  ASSERT_EQ(shell("\"$C\" clicks data $D/log --heights 50 --output $D/shards").code, 0);
  const Ended trained = shell("\"$C\" clicks train $R $TINY --data $D/shards --output $D/run");
  ASSERT_EQ(trained.code, 0) << trained.errors;
  folder_.write("unlabelled", avazu_rows(100, 200, false));
  std::string rows = avazu_rows(100, 200, false);
  folder_.write("no-header", rows.substr(rows.find('\n') + 1));
  const std::vector<Prediction> all = predicted("$D/run $D/log"), some = predicted("$D/run $D/unlabelled");
  ASSERT_EQ(all.size(), 200u);
  ASSERT_EQ(some.size(), 100u);
  EXPECT_EQ(some.front().line, 2);
  EXPECT_EQ(probabilities(some), probabilities({all.begin() + 100, all.end()}));
  EXPECT_EQ(probabilities(predicted("$D/run $D/no-header")), probabilities(some));
}

TEST_F(ClicksPredict, LeavesOutFaultyRowsAndSaysSo) {
  train();
  folder_.write("whole", criteo_rows(0, 20));
  std::string faulty = criteo_rows(0, 5) + "broken\n" + criteo_rows(5, 20);
  faulty += "2" + criteo_rows(0, 1).substr(1) + "1\tx" + criteo_rows(0, 1).substr(3) + "1\t2\n";
  folder_.write("faulty", faulty);
  const std::vector<Prediction> whole = predicted("$D/run $D/whole");
  const Ended ended = predict("$D/run $D/faulty $D/whole");
  ASSERT_EQ(ended.code, 0) << ended.errors;
  EXPECT_EQ(
      ended.errors,
      fmt::format("note: {}: 4 rows were left out: label is neither 0 nor 1: 1 (first in line 22), not an "
                  "integer: 1 (first in line 23), wrong number of fields: 2 (first in line 6)\n",
                  (folder_ / "faulty").string()));
  const std::vector<Prediction> both = predictions_of(ended.output);
  ASSERT_EQ(both.size(), 40u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(both[i].log, folder_ / "faulty");
    EXPECT_EQ(both[i].line, i < 5 ? i + 1 : i + 2);
    EXPECT_EQ(both[20 + i].log, folder_ / "whole");
    EXPECT_EQ(both[20 + i].line, i + 1);
    EXPECT_EQ(both[i].probability, whole[i].probability);
    EXPECT_EQ(both[20 + i].probability, whole[i].probability);
  }
}

TEST_F(ClicksPredict, WritesAFileWholeOrNotAtAll) {
  train();
  folder_.write("some", criteo_rows(0, 100));
  const std::string printed = predict("$D/run $D/some").output;
  const Ended ended = predict("$D/run $D/some --output $D/new/out.jsonl");
  ASSERT_EQ(ended.code, 0) << ended.errors;
  EXPECT_EQ(ended.output, "100 predictions in " + (folder_ / "new/out.jsonl").string() + "\n");
  EXPECT_EQ(test::read_text(folder_ / "new/out.jsonl"), printed);
  refuses("predict $D/run $D/some --output $D/new/out.jsonl", 2,
          HasSubstr("already exists; give --overwrite"));
  refuses("predict $D/run $D/some --output $D/new/out.csv", 2, HasSubstr("must end with .jsonl"));
  refuses("predict $D/run $D/some --overwrite", 2, HasSubstr("--output"));
  fs::copy_file(folder_ / "some", folder_ / "log.jsonl");
  refuses("predict $D/run $D/log.jsonl --output $D/log.jsonl --overwrite", 2, HasSubstr("is the input"));
  // The log turns out to be damaged, after predictions.
  folder_.write("damaged.gz", data::gzip(criteo_rows(0, 5000)).substr(0, 20000));
  refuses("predict $D/run $D/damaged.gz --batch-size 16 --output $D/new/out.jsonl --overwrite", 1,
          HasSubstr("damaged.gz: damaged compressed data"));
  EXPECT_EQ(test::read_text(folder_ / "new/out.jsonl"), printed);
  EXPECT_THAT(test::left_overs(folder_.path()), testing::IsEmpty());
  EXPECT_EQ(predict("$D/run $D/some --output $D/new/out.jsonl --overwrite").code, 0);
  EXPECT_EQ(predict("$D/run $D/some > /dev/full").code, 1);
  EXPECT_EQ(predict("$D/run $D/some >&9").code, 128 + SIGPIPE);
}

TEST_F(ClicksPredict, ARunThatWasMovedHasItsEncoding) {
  train();
  const std::vector<Prediction> before = predicted("$D/run $D/log");
  fs::remove_all(folder_ / "shards");
  fs::rename(folder_ / "run", folder_ / "moved");
  EXPECT_EQ(predicted("$D/moved $D/log"), before);
  EXPECT_EQ(predicted("$D/moved/best.h5 $D/log"), before);
  EXPECT_EQ(predicted("$D/moved/checkpoints/$(cat $D/moved/checkpoints/latest) $D/log").size(), 600u);
  fs::create_directories(folder_ / "alone");
  fs::copy_file(folder_ / "moved/best.h5", folder_ / "alone/best.h5");
  refuses(
      "predict $D/alone/best.h5 $D/log", 2,
      AllOf(HasSubstr("alone/best.h5: its run's folder has no encoding.h5"), HasSubstr("--encoding FILE")));
  EXPECT_EQ(predicted("$D/alone/best.h5 $D/log --encoding $D/moved/encoding.h5"), before);
}

TEST_F(ClicksPredict, WhatIsWrongIsOneSentence) {
  train();
  ASSERT_EQ(shell("\"$C\" clicks data $D/log --threshold 3 --output $D/other").code, 0);
  folder_.write("avazu", avazu_rows(0, 50));
  folder_.write("empty", "");
  folder_.write("words", "words\n");
  test::write_ranked(folder_ / "encoder.h5", {});
  refuses("predict $D/run", 2, HasSubstr("the argument LOGS is missing: give"));
  refuses("predict $D/run $D/log $D/none", 2, HasSubstr("none: no such file"));
  refuses("predict $D/run $D", 2, HasSubstr("is a folder; name the logs in it"));
  refuses("predict $D/none $D/log", 2, HasSubstr("none: no such checkpoint or run's folder"));
  refuses("predict $D/encoder.h5 $D/log", 2,
          HasSubstr("encoder.h5: holds an encoder; use comera eval, predict or embed"));
  refuses("predict $D/run $D/log --encoding $D/other/encoding.h5", 1,
          AllOf(HasSubstr("other/encoding.h5: is not the encoding of "), HasSubstr("best.h5")));
  refuses("predict $D/run $D/log --encoding $D/none", 2, HasSubstr("none"));
  refuses("predict $D/run $D/log --encoding $D/run/best.h5", 1, HasSubstr("is not a click encoding"));
  refuses("predict $D/run $D/log $D/avazu --output $D/x.jsonl", 1,
          AllOf(HasSubstr("avazu: "), HasSubstr("is it a log in the format of criteo, ")));
  refuses("predict $D/run $D/empty", 1, HasSubstr("holds no rows"));
  refuses("predict $D/run $D/words", 1, HasSubstr("is it a log in the format of criteo, "));
  refuses("predict $D/run $D/log --batch-size 0", 2, HasSubstr("0 is not a whole number above 0"));
  EXPECT_THAT(shell("\"$C\" clicks predict --help").output, HasSubstr("Examples:"));
  EXPECT_THAT(shell("\"$C\" predict $D/run --input $D/log --output $D/x.jsonl").errors,
              HasSubstr("holds a click model; use comera clicks"));

  // Numbers that are finite, but not what comes of them.
  test::copy_checkpoint(folder_ / "run/best.h5", folder_ / "run/diverged.h5",
                        [](const std::string&, std::vector<float>& values) {
                          for (float& value : values) value *= 1e30f;
                          return true;
                        });
  refuses("predict $D/run/diverged.h5 $D/log --output $D/x.jsonl", 1,
          AllOf(HasSubstr("its output for line 1 of"), HasSubstr("is not finite")));
  EXPECT_FALSE(fs::exists(folder_ / "x.jsonl"));
}

// The first rows of the published logs, where they lie beside the sources.
TEST_F(ClicksPredict, AnswersRealLogs) {
  const fs::path logs = fs::path(COMERA_SOURCE_DIR) / "../shared/data/ctr/criteo_10k";
  if (!fs::exists(logs)) GTEST_SKIP() << logs << " is not there";
  setenv("L", logs.c_str(), 1);
  ASSERT_EQ(shell("\"$C\" clicks data $L/train --held-out 0.2 --output $D/shards").code, 0);
  const Ended trained = shell("\"$C\" clicks train $R $TINY --data $D/shards --output $D/run");
  ASSERT_EQ(trained.code, 0) << trained.errors;
  ASSERT_EQ(shell("cut -f 2- $L/test > $D/test.txt").code, 0);
  const std::vector<Prediction> predictions = predicted("$D/run $L/test");
  EXPECT_GT(predictions.size(), 900u);
  EXPECT_EQ(predicted("$D/run $D/test.txt"), predictions);
}

}  // namespace
}  // namespace comera::cli
