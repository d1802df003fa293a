// 'comera clicks train' and 'comera clicks eval', and 'comera resume' of such a run, through the real
// program.
#include <filesystem>

#include "tests/cli/click_run.h"
#include "tests/recipes/ranked_checkpoint.h"
#include "tests/training/training_fixture.h"

namespace comera::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ClicksRun : public test::ClickRun {
 protected:
  Ended clicks(const std::string& words) { return shell("\"$C\" clicks " + words); }
  fs::path last(const std::string& run) const {
    std::string name = test::read_text(folder_ / (run + "/checkpoints/latest"));
    if (!name.empty()) name.pop_back();
    return folder_ / (run + "/checkpoints/" + name);
  }
};

TEST_F(ClicksRun, AStoppedRunGoesOnToTheSameEnd) {
  make_data();
  const std::string train = "train $R $TINY --set phase.0.epochs=2 --data $D/shards --output $D/";
  ASSERT_EQ(clicks(train + "whole").code, 0);
  // In the middle of the first pass, and of the second one.
  for (const int step : {4, 13}) {
    const std::string run = fmt::format("run-{}", step);
    const Ended stopped = clicks(train + run + fmt::format(" --stop-after {}", step));
    ASSERT_EQ(stopped.code, 0) << stopped.errors;
    EXPECT_THAT(stopped.output, AllOf(HasSubstr(fmt::format("stopped at step {} of 18", step)),
                                      HasSubstr("continue with: comera resume ")));
    const Ended resumed = shell("\"$C\" resume $D/" + run);
    ASSERT_EQ(resumed.code, 0) << resumed.errors;
    EXPECT_THAT(resumed.output, AllOf(HasSubstr("best             log loss"), HasSubstr("examples/s")));
    test::expect_equal_checkpoints(last("whole"), last(run));
    test::expect_equal_checkpoints(folder_ / "whole/best.h5", folder_ / (run + "/best.h5"));
  }
  EXPECT_EQ(last("whole").filename(), "step-00000018.h5");
}

TEST_F(ClicksRun, ScoresEitherPart) {
  train();
  EXPECT_EQ(clicks("eval $D/run").output, clicks("eval $D/run --data $D/shards").output);
  EXPECT_THAT(clicks("eval $D/run").output, AllOf(HasSubstr("log loss"), HasSubstr("60 examples\n")));
  EXPECT_THAT(clicks("eval $D/run --train").output, HasSubstr("540 examples\n"));
  EXPECT_EQ(clicks("eval $D/run --batch-size 7").output, clicks("eval $D/run").output);
  EXPECT_THAT(clicks("eval $D/run --json").output, HasSubstr("\"examples\":60"));
}

TEST_F(ClicksRun, TrainRefusesInOneSentence) {
  make_data();
  folder_.write("encoder.toml", test::ranked_recipe());
  fs::create_directories(folder_ / "empty");
  refuses("train $D/encoder.toml --data $D/shards --output $D/x", 2,
          HasSubstr("encoder.toml: has no [dlrm], so it is an encoder's recipe"));
  refuses("train $R --data $D/none --output $D/x", 2, HasSubstr("none"));
  refuses("train $R --data $D/empty --output $D/x", 1, HasSubstr("empty: holds no shards of clicks; make"));
  refuses("train $R --output $D/x", 2,
          HasSubstr("data.train is empty; training needs a folder made by `comera clicks data`"));
  refuses(
      "train $R --data $D/shards --set 'dlrm.tables=[5, 6]' --output $D/x", 2,
      AllOf(HasSubstr("which do not fit into dlrm.tables = [5, 6]"), HasSubstr("--set 'dlrm.tables=[]'")));
  refuses("train $R --data $D/shards --set dlrm.dense_features=12 --output $D/x", 2,
          HasSubstr("set it to 13, or remove"));
  refuses("train $R --data $D/shards", 2,
          HasSubstr("run.output (the folder for checkpoints and metrics) is missing"));
  ASSERT_EQ(clicks("data $D/log --heights 20 --held-out 1 --output $D/all").code, 0);
  refuses("train $R --data $D/all --output $D/x", 1, HasSubstr("all: all of its rows are held out"));
  EXPECT_THAT(shell("\"$C\" pretrain $R --output $D/x").errors, HasSubstr("comera clicks train"));
  EXPECT_FALSE(fs::exists(folder_ / "x"));
  // Held-out rows whose ids mean other values.
  ASSERT_EQ(clicks("data $D/log --heights 20 --output $D/hashed").code, 0);
  refuses("train $R --set data.train=$D/shards --set data.validation=$D/hashed --output $D/x", 1,
          HasSubstr("have different encodings"));
}

// A model that is larger than the target of its late stage is no best one.
TEST_F(ClicksRun, AMissedTargetIsSaid) {
  make_data();
  const std::string late =
      "train $R $TINY --data $D/shards --set phase.0.objective=compress "
      "--set phase.0.adaptation.target_ratio=0.5 ";
  EXPECT_THAT(clicks(late + "--output $D/run").output,
              HasSubstr("best             none: no evaluated model was"));
  EXPECT_FALSE(fs::exists(folder_ / "run/best.h5"));
  const Ended dense = clicks(late + "--output $D/dense --set tensorized.enabled=false");
  EXPECT_THAT(dense.errors + dense.output, HasSubstr("phase.0.objective has no effect: with tensorized"));
  EXPECT_TRUE(fs::exists(folder_ / "dense/best.h5"));
}

TEST_F(ClicksRun, InspectTakesTheTablesOfShards) {
  make_data();
  const Ended ended = shell("\"$C\" inspect $R --data $D/shards");
  EXPECT_EQ(ended.code, 0) << ended.errors;
  EXPECT_THAT(ended.output, HasSubstr("table.25 "));
  EXPECT_THAT(shell("\"$C\" inspect $R").errors, HasSubstr("give --data FOLDER of shards"));
  const std::string tables = "\"$C\" inspect $R --set 'dlrm.tables=[1000, 50]' ";
  EXPECT_THAT(shell(tables).errors, HasSubstr("dlrm.dense_features is missing"));
  EXPECT_THAT(shell(tables + "--set dlrm.dense_features=13").output, HasSubstr("bottom.0  dense 13 x 64"));
  folder_.write("encoder.toml", test::ranked_recipe());
  EXPECT_THAT(shell("\"$C\" inspect $D/encoder.toml --data $D/shards").errors,
              HasSubstr("--data is for recipes of click models"));
}

TEST_F(ClicksRun, EvalRefusesInOneSentence) {
  train();
  test::write_ranked(folder_ / "encoder.h5", {});
  fs::create_directories(folder_ / "empty");
  ASSERT_EQ(clicks("data $D/log --heights 20 --output $D/hashed").code, 0);
  refuses("eval $D/run --data $D/hashed", 1,
          AllOf(HasSubstr("hashed has another encoding than the training data of "),
                HasSubstr("--encoding FILE")));
  refuses("eval $D/run --data $D/empty", 1, HasSubstr("empty: holds no shards of clicks; make"));
  refuses("eval $D/run --data $D/none", 2, HasSubstr("none: no such folder of click shards"));
  refuses("eval $D/run --data $D/log", 1, HasSubstr("log: is a file; give the folder of the shards"));
  refuses("eval $D/none", 2, HasSubstr("no such checkpoint or run's folder"));
  refuses("eval $D/encoder.h5", 2, HasSubstr("encoder.h5: holds an encoder"));
  // Trained without held-out rows.
  ASSERT_EQ(clicks("data $D/log --held-out 0 --output $D/all").code, 0);
  ASSERT_EQ(clicks("train $R $TINY --data $D/all --output $D/trained").code, 0);
  refuses("eval $D/trained", 2, HasSubstr("was trained without held-out data; give --data FOLDER of shards"));
  refuses("eval $D/run --data $D/all", 1, HasSubstr("all: none of its rows are held out"));
}

}  // namespace
}  // namespace comera::cli
