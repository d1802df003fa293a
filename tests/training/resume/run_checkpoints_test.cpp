#include "training/resume/run_checkpoints.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Steps = std::vector<std::int64_t>;

// One of two processes. The other says what it is given, or else the same.
class OneOfTwo final : public Communicator {
 public:
  explicit OneOfTwo(int rank) : Communicator(rank, 2) {}
  void begin_sum(const Tensor&, const Stream&) override {}
  void begin_max(const Tensor&, const Stream&) override {}
  void finish(const Stream&) override {}
  void sum(std::span<double>) override {}
  std::string broadcast(const std::string& text) override { return first() ? text : from_first; }
  std::vector<std::string> gather(const std::string& text) override {
    return {text, other_has.empty() ? text : other_has};
  }
  void set_advice(const std::string& text) override { advice = text; }
  [[noreturn]] void fail(int, const std::string& message) override { throw Error(message); }

  std::string from_first, other_has, advice;
};

class RunCheckpointsTest : public testing::Test {
 protected:
  RunCheckpointsTest() {
    model_.add({.name = "weight", .shape = {3}, .initializer = {Initializer::Kind::normal, 1}});
    model_.allocate(host_allocator(), DType::float32, false);
    model_.initialize(1);
  }

  RunCheckpoints make(std::int64_t keep = 2, double minutes = 0) { return {directory_, job_, keep, minutes}; }
  void save(RunCheckpoints& checkpoints, std::int64_t step) const {
    checkpoints.save(step, model_, write(step));
  }
  static RunCheckpoints::Write write(std::int64_t step) {
    return [step](CheckpointWriter& writer) { writer.attribute("/trainer", "step", step); };
  }
  static std::int64_t step_in(const std::filesystem::path& file) {
    return CheckpointReader(file).integer("/trainer", "step");
  }
  Steps there() const { return checkpoint_steps(directory_.checkpoints()); }

  TemporaryFolder folder_;
  RunDirectory directory_{folder_ / "run", RunMode::fresh};
  Job job_{one_process(), {}};
  ParameterStore model_;
};

TEST_F(RunCheckpointsTest, BeforeTheFirstThereIsNone) {
  const RunCheckpoints checkpoints = make();
  EXPECT_FALSE(checkpoints.any());
  EXPECT_FALSE(checkpoints.has(0));
  EXPECT_EQ(checkpoints.last_text(), "no checkpoint has been saved yet");
}

TEST_F(RunCheckpointsTest, TheNewestAreKeptAndTheRunSaysThatItHasSome) {
  RunCheckpoints checkpoints = make(2);
  EXPECT_FALSE(std::filesystem::exists(directory_.saved()));
  for (const std::int64_t step : {2, 5, 9}) {
    save(checkpoints, step);
    EXPECT_TRUE(checkpoints.any());
    EXPECT_TRUE(checkpoints.has(step));
    EXPECT_EQ(step_in(checkpoints.last()), step);
    EXPECT_TRUE(std::filesystem::exists(directory_.saved()));
  }
  EXPECT_EQ(there(), (Steps{5, 9}));
  EXPECT_FALSE(checkpoints.has(5)) << "it is not the last one";
  EXPECT_THAT(checkpoints.last_text(),
              AllOf(StartsWith("the last good checkpoint is "), EndsWith("step-00000009.h5")));
}

TEST_F(RunCheckpointsTest, TheyAreDueByTheClock) {
  EXPECT_FALSE(make(2, 0).due()) << "never by time";
  EXPECT_FALSE(make(2, 1e9).due());
  RunCheckpoints checkpoints = make(2, 1. / 60);  // a second
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(checkpoints.due());
  checkpoints.start_clock();
  EXPECT_FALSE(checkpoints.due());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(checkpoints.due());
  save(checkpoints, 1);
  EXPECT_FALSE(checkpoints.due());
}

TEST_F(RunCheckpointsTest, AFailureKeepsTheLastAndSaysWhatToDo) {
  RunCheckpoints checkpoints = make();
  const RunCheckpoints::Write fails = [](CheckpointWriter& writer) {
    write(2)(writer);
    throw Error("no space left");
  };
  EXPECT_EQ(error_of([&] { checkpoints.save(2, model_, fails); }),
            "no space left; no checkpoint has been saved yet; fix that and continue with --resume auto");
  EXPECT_FALSE(checkpoints.any());
  save(checkpoints, 1);
  EXPECT_THAT(error_of([&] { checkpoints.save(2, model_, fails); }),
              AllOf(StartsWith("no space left; the last good checkpoint is "),
                    EndsWith("step-00000001.h5; fix that and continue with --resume auto")));
  EXPECT_TRUE(checkpoints.has(1));
  EXPECT_EQ(there(), Steps{1});
  EXPECT_THAT(left_overs(folder_.path()), testing::IsEmpty());
}

// Another name for a file that never changes: it stays when the checkpoint has gone.
TEST_F(RunCheckpointsTest, TheBestOutlivesItsCheckpoint) {
  RunCheckpoints checkpoints = make(1);
  save(checkpoints, 3);
  checkpoints.keep_best();
  EXPECT_TRUE(std::filesystem::equivalent(checkpoints.last(), directory_.best()));
  save(checkpoints, 4);
  EXPECT_EQ(there(), Steps{4});
  EXPECT_EQ(step_in(directory_.best()), 3);
  checkpoints.keep_best();
  EXPECT_EQ(step_in(directory_.best()), 4);
}

TEST_F(RunCheckpointsTest, AModelThatWentWrongIsNoCheckpoint) {
  RunCheckpoints checkpoints = make();
  save(checkpoints, 3);
  checkpoints.save_aside(directory_.nonfinite(), write(4));
  EXPECT_EQ(step_in(directory_.nonfinite()), 4);
  EXPECT_TRUE(checkpoints.has(3));
  EXPECT_EQ(there(), Steps{3});
}

TEST_F(RunCheckpointsTest, ARunThatGoesOnSetsAsideWhatIsDamaged) {
  {
    RunCheckpoints before = make(3);
    for (const std::int64_t step : {1, 2, 3}) save(before, step);
  }
  for (const char* name : {"step-00000002.h5", "step-00000003.h5"})
    std::filesystem::resize_file(directory_.checkpoints() / name, 100);
  const auto found = find_latest(directory_.checkpoints(), ResumeMode::newest_valid);
  ASSERT_TRUE(found);
  RunCheckpoints checkpoints = make(3);
  std::vector<std::string> said;
  checkpoints.resume(*found, 1, [&](const std::string& line) { said.push_back(line); });
  EXPECT_THAT(said, testing::ElementsAre("step-00000003.h5 is kept as step-00000003.h5.damaged",
                                         "step-00000002.h5 is kept as step-00000002.h5.damaged"));
  EXPECT_TRUE(checkpoints.has(1));
  EXPECT_EQ(step_in(checkpoints.last()), 1);
  EXPECT_EQ(there(), Steps{1});
}

TEST_F(RunCheckpointsTest, ModelsThatDifferAreNotSaved) {
  OneOfTwo host(0);
  Job job(host, {});
  RunCheckpoints checkpoints(directory_, job, 2, 0);
  save(checkpoints, 1);
  EXPECT_THAT(host.advice, AllOf(HasSubstr("step-00000001.h5"), EndsWith(": continue with --resume auto")));
  host.other_has = "another hash";
  EXPECT_THAT(error_of([&] { save(checkpoints, 2); }),
              AllOf(StartsWith("at step 2 process 1 has another model than process 0"),
                    HasSubstr("step-00000001.h5; fix that and continue with --resume auto")));
  EXPECT_TRUE(checkpoints.has(1));
  EXPECT_EQ(there(), Steps{1});
}

// It knows what the first one has saved, and what that could not save.
TEST_F(RunCheckpointsTest, AnotherProcessThanTheFirstWritesNothing) {
  OneOfTwo host(1);
  Job job(host, {});
  RunCheckpoints checkpoints(directory_, job, 2, 0);
  const RunCheckpoints::Write never = [](CheckpointWriter&) { FAIL() << "it writes"; };
  host.from_first = "./elsewhere/step-00000007.h5";  // the first letter: it ended well
  checkpoints.save(7, model_, never);
  checkpoints.keep_best();
  checkpoints.save_aside(directory_.nonfinite(), never);
  EXPECT_EQ(checkpoints.last(), "/elsewhere/step-00000007.h5");
  EXPECT_TRUE(checkpoints.has(7));
  host.from_first = "eno space left";
  EXPECT_EQ(error_of([&] { checkpoints.save(8, model_, never); }),
            "no space left; the last good checkpoint is /elsewhere/step-00000007.h5; fix that and continue "
            "with --resume auto");
  EXPECT_TRUE(checkpoints.has(7));
  for (const std::filesystem::path& file : {directory_.checkpoints(), directory_.best(), directory_.saved()})
    EXPECT_FALSE(std::filesystem::exists(file)) << file;
}

}  // namespace
}  // namespace comera::test
