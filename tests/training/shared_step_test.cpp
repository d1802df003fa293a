// The exchange between processes in a step, from the view of one of them.
#include <gmock/gmock.h>

#include <numeric>

#include "training/job.h"

namespace comera::test {
namespace {

// One of several processes, with others that send given values.
class OneOfThree final : public Communicator {
 public:
  OneOfThree(int process, std::vector<double> others)
      : Communicator(process, 3), others_(std::move(others)) {}
  void begin_sum(const Tensor&, const Stream&) override {}
  void begin_max(const Tensor&, const Stream&) override {}
  void finish(const Stream&) override {}
  void sum(std::span<double> values) override {
    ASSERT_EQ(values.size(), others_.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += others_[i];
  }
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text, text, text}; }
  void fail(int, const std::string& message) override { throw Error(message); }

 private:
  std::vector<double> others_;  // targets, tokens, stop, save, seconds, and the milliseconds of each process
};

TEST(SharedStep, AProcessAloneAgreesWithItself) {
  bool asked = false;
  Job job(one_process(), [&] { return asked; });
  const Job::Step step = job.share({.targets = 5, .units = 70, .save = true, .waited_ms = 3});
  EXPECT_EQ(step.targets, 5);
  EXPECT_EQ(step.units, 70);
  EXPECT_TRUE(step.save);
  EXPECT_FALSE(job.take_waiting()) << "it waits for nobody";
  EXPECT_FALSE(job.stop_wanted());
  asked = true;
  EXPECT_TRUE(job.stop_wanted()) << "at once, not only behind the next step";
}

TEST(SharedStep, TargetsAndTokensAreSummed) {
  OneOfThree second(1, {10, 200, 0, 1, 1.5, 2, 0, 8});
  Job job(second, {});
  // Only the clock of process 0 decides when to save, so this one's request does not count.
  const Job::Step step = job.share({.targets = 5, .units = 70, .save = true, .waited_ms = 5, .seconds = 100});
  EXPECT_EQ(step.targets, 15);
  EXPECT_EQ(step.units, 270);
  EXPECT_TRUE(step.save) << "the first one's";
  EXPECT_EQ(step.seconds, 1.5) << "by the first one's clock";
  EXPECT_FALSE(job.stop_wanted());
  OneOfThree alone_in_this(1, {10, 200, 0, 0, 1.5, 2, 0, 8});
  EXPECT_FALSE(Job(alone_in_this, {}).share({.save = true}).save);
}

TEST(SharedStep, OneThatIsAskedToStopStopsAll) {
  OneOfThree others_asked(0, {0, 0, 1, 0, 0, 0, 0, 0});
  Job job(others_asked, [] { return false; });
  job.share({});
  EXPECT_TRUE(job.stop_wanted());
  OneOfThree nobody_asked(0, {0, 0, 0, 0, 0, 0, 0, 0});
  Job asked(nobody_asked, [] { return true; });
  EXPECT_FALSE(asked.stop_wanted()) << "the others do not know yet";
  asked.share({});
  EXPECT_TRUE(asked.stop_wanted());
}

// The last process to arrive waits only for the sums: all further waiting of the others was for it.
TEST(SharedStep, WaitingIsSplitInSumsAndProcesses) {
  OneOfThree second(1, {0, 0, 0, 0, 0, 2, 0, 8});
  Job job(second, {});
  job.share({.waited_ms = 5});
  job.share({.waited_ms = 5});
  const std::optional<Job::Waiting> waiting = job.take_waiting();
  ASSERT_TRUE(waiting);
  EXPECT_DOUBLE_EQ(waiting->sums, 2);
  EXPECT_DOUBLE_EQ(waiting->processes, 3);
  EXPECT_FALSE(job.take_waiting()) << "each step is told once";
}

}  // namespace
}  // namespace comera::test
