// Processes that die, hang, differ or are told to stop: how the job ends, and that it goes on from what it
// saved.
#include <signal.h>

#include <random>

#include "tests/distributed/processes.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Processes of the job that were started with this output.
std::vector<pid_t> processes_of(const std::string& run) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (line.starts_with(COMERA_PROGRAM) && line.find(run) != std::string::npos)
      found.push_back(std::stoi(name));
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> long_run() {
  return {"phase.0.steps=4000",        "phase.0.warmup_steps=0", "run.checkpoint_interval=2",
          "run.evaluation_interval=0", "run.log_interval=50",    "distributed.silence_seconds=3"};
}

void wait_for_checkpoint(const fs::path& run) {
  for (int i = 0; i < 600 && checkpoint_steps(run / "checkpoints").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// Killed, or stopped for good, at random moments: the job ends by itself, and its last checkpoint is good.
TEST_F(Processes, ADeadRankEndsTheJobWhichGoesOn) {
  std::mt19937 random(7);
  for (const int signal : {SIGKILL, SIGSTOP, SIGKILL}) {
    const std::string run = fmt::format("dead-{}-{}", signal, random() % 1000);
    Mpirun job(3, command(run, long_run()));
    wait_for_checkpoint(folder() / run);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
    const std::vector<pid_t> processes = processes_of((folder() / run).string());
    ASSERT_EQ(processes.size(), 3u);
    const pid_t victim = processes[random() % 3];
    kill(victim, signal);
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result = job.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 25);
    EXPECT_NE(result.code, 0);
    if (signal == SIGSTOP) {
      EXPECT_THAT(result.output, HasSubstr(" has not been heard of for "));
      EXPECT_THAT(result.output, HasSubstr("the last good checkpoint is "));
    } else {
      EXPECT_THAT(result.output, HasSubstr("exited on signal 9"));
    }
    EXPECT_TRUE(processes_of((folder() / run).string()).empty()) << "a process is left";
    const std::int64_t last = checkpoint_steps(folder() / run / "checkpoints").back();
    for (const int number : {2, 1}) {
      const ProgramResult more = run_processes(
          number, command(run, long_run(),
                          {"--resume", "auto", "--stop-after", std::to_string(last + 4 * (3 - number))}));
      EXPECT_EQ(more.code, 0) << more.output;
    }
    EXPECT_EQ(checkpoint_steps(folder() / run / "checkpoints").back(), last + 8);
  }
}

// Two hosts of their own on this machine, if it lets us make them, and a link between them that goes down.
TEST_F(Processes, ALinkThatStopsEndsTheJobWhichGoesOn) {
  const ProgramResult check = Mpirun({COMERA_TWO_HOSTS, "--check"}, {}).wait();
  if (check.code != 0) GTEST_SKIP() << check.output;
  std::mt19937 random(11);
  for (int i = 0; i < 2; ++i) {
    const std::string run = fmt::format("cut-{}", i);
    Mpirun job({COMERA_TWO_HOSTS, "--rate", "1gbit"}, command(run, long_run()));
    wait_for_checkpoint(folder() / run);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
    ASSERT_EQ(processes_of((folder() / run).string()).size(), 2u);
    kill(job.pid(), SIGUSR2);
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result = job.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 40);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.output,
                HasSubstr("comera: error: process 1 (host-b) has not been heard of for 3 s: it has died or "
                          "the network to it is broken; the last good checkpoint is "));
    EXPECT_THAT(result.output, testing::Not(HasSubstr("two_hosts: error: killed")));
    EXPECT_TRUE(processes_of((folder() / run).string()).empty()) << "a process is left";
    const std::int64_t last = checkpoint_steps(folder() / run / "checkpoints").back();
    for (const int number : {2, 1}) {
      const ProgramResult more = run_processes(
          number, command(run, long_run(),
                          {"--resume", "auto", "--stop-after", std::to_string(last + 4 * (3 - number))}));
      EXPECT_EQ(more.code, 0) << more.output;
    }
  }
}

// As Slurm asks before it takes the machines away: mpirun hands SIGUSR1 on to all processes.
TEST_F(Processes, ASignalStopsAllAtTheSameStep) {
  Mpirun job(3, command("asked", long_run()));
  wait_for_checkpoint(folder() / "asked");
  kill(job.pid(), SIGUSR1);
  const ProgramResult result = job.wait();
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("stopped at step "));
  const std::size_t said = result.output.find("stopping after this step");
  ASSERT_NE(said, std::string::npos);
  EXPECT_EQ(result.output.find("stopping after this step", said + 1), std::string::npos)
      << "said more than once";
}

TEST_F(Processes, DriftIsFoundBeforeItIsSaved) {
  const std::string run = (folder() / "drift").string();
  const ProgramResult result =
      run_processes(2, {COMERA_WORKER, "drift", write_recipe().string(),
                        fmt::format("run.output=\"{}\"", run), "run.threads=1", "run.checkpoint_interval=2"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("process 1 has another model than process 0"));
  EXPECT_THAT(result.output, HasSubstr("step-00000002.h5; fix that and continue with --resume auto"));
  EXPECT_EQ(checkpoint_steps(folder() / "drift" / "checkpoints"), std::vector<std::int64_t>{2});
}

TEST_F(Processes, AnErrorOnOneEndsAll) {
  const std::string run = (folder() / "hit").string();
  const ProgramResult result =
      run_processes(3, {COMERA_WORKER, "hit", write_recipe().string(), fmt::format("run.output=\"{}\"", run),
                        "run.threads=1", "run.checkpoint_interval=2", "phase.0.micro_batches_per_step=5",
                        "phase.1.micro_batches_per_step=5"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, testing::ContainsRegex(
                                 "comera: error: process 1 \\([^)]*\\): this process's disk has gone; the "
                                 "last good checkpoint is [^ ]*step-00000002.h5"));
  EXPECT_EQ(result.output.find("has gone"), result.output.rfind("has gone")) << result.output;
}

// As Ctrl-Z, or a batch system that gives the machine to another job for a while.
TEST_F(Processes, AJobThatWasSuspendedGoesOn) {
  Mpirun job(3, command("suspended", long_run()));
  wait_for_checkpoint(folder() / "suspended");
  const auto processes = processes_of((folder() / "suspended").string());
  ASSERT_EQ(processes.size(), 3u);
  for (const pid_t process : processes) kill(process, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  for (const pid_t process : processes) kill(process, SIGCONT);
  const std::int64_t before = checkpoint_steps(folder() / "suspended" / "checkpoints").back();
  for (int i = 0; i < 100 && checkpoint_steps(folder() / "suspended" / "checkpoints").back() < before + 10;
       ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(job.pid(), SIGUSR1);
  const ProgramResult result = job.wait();
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_GE(checkpoint_steps(folder() / "suspended" / "checkpoints").back(), before + 10);
}

}  // namespace
}  // namespace comera::test
