// The program itself while the disk of a training run fails: its exit code and sentence, and a bit-exact
// resume afterwards. Each run is a separate process, so that this one never starts OpenMP's threads, which do
// not survive a fork.

#include <gmock/gmock.h>

#include <fstream>

#include "cli/program.h"
#include "tests/checkpoints/sample.h"
#include "tests/faults/plans.h"
#include "tests/training/training_fixture.h"

namespace comera::faults {
namespace {

namespace fs = std::filesystem;

class TrainingFaults : public test::TrainingFixture {
 protected:
  static int run_program(const std::vector<std::string>& arguments) {
    std::vector<const char*> pointers = {"comera"};
    for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
    return cli::run_program(static_cast<int>(pointers.size()), pointers.data());
  }
  int train(const fs::path& run) {
    return run_program(
        {"pretrain", write_recipe(), "--output", run, "--resume", "auto", "--set", "run.threads=1"});
  }
  fs::path last(const fs::path& run) const { return run / "checkpoints" / "step-00000012.h5"; }

  // The remains of a run ended by a fault are intact, and the run resumes to the same end.
  void expect_to_go_on(const fs::path& run, const fs::path& whole) {
    for (const std::int64_t step : checkpoint_steps(run / "checkpoints"))
      EXPECT_EQ(test::error_of([&] {
                  CheckpointReader(run / "checkpoints" / fmt::format("step-{:08}.h5", step)).verify();
                }),
                "");
    const Ended resumed = run_forked([&] { return train(run); });
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    test::expect_equal_checkpoints(last(whole), last(run));
    EXPECT_THAT(test::left_overs(run), testing::IsEmpty());
  }
};

TEST_F(TrainingFaults, EndWithAReasonAndGoOnToTheSameBits) {
  const fs::path whole = folder() / "whole", run = folder() / "run", image = folder() / "image";
  std::map<Call, std::int64_t> counts;
  const Ended first = run_forked([&] {
    fs::create_directories(whole);
    const Injection none(whole, {});
    const int status = train(whole);
    std::ofstream out(folder() / "counts");
    for (int call = 0; call < calls; ++call) out << none.count(static_cast<Call>(call)) << '\n';
    return status;
  });
  ASSERT_EQ(first.status, 0) << first.errors;
  std::ifstream in(folder() / "counts");
  for (int call = 0; call < calls; ++call) in >> counts[static_cast<Call>(call)];

  for (Plan plan : plans()) {
    plan.times = (plan.times + 1) / 2;
    for (Fault fault : faults_of(plan, counts[plan.call], 3)) {
      SCOPED_TRACE(
          fmt::format("{}, call {} of {}, seed {}", plan.name, fault.number, counts[plan.call], fault.seed));
      fs::remove_all(run);
      fs::remove_all(image);
      fs::create_directories(run);
      fault.image = image;
      const Ended ended = run_forked([&] {
        Injection injection(run, fault);
        const int status = train(run);
        if (plan.kind == Kind::power_loss) injection.lose_power();
        return status;
      });
      std::string outcome = "went on";
      if (plan.ends_process()) {
        EXPECT_EQ(ended.status, killed_status) << ended.errors;
        outcome = "ended there";
      } else if (plan.harmless()) {
        EXPECT_EQ(ended.status, 0) << ended.errors;
      } else if (ended.status != 0) {
        EXPECT_EQ(ended.status, 1) << ended.errors;
        const std::size_t at = ended.errors.find("comera: error: ");
        ASSERT_NE(at, std::string::npos) << ended.errors;
        const std::string message = ended.errors.substr(at, ended.errors.size() - at - 1);
        EXPECT_TRUE(is_clear(message, run.string(), plan)) << message;
        outcome = "refused with reason";
      }
      const fs::path left = plan.kind == Kind::power_loss ? image : run;
      if (is_after(plan)) {
        EXPECT_TRUE(fs::exists(last(left)));
      }
      expect_to_go_on(left, whole);
      record("training", plan.name, outcome);
    }
  }
}

// Everything that a command has reported as written survives a power failure.
TEST_F(TrainingFaults, CommandsLeaveWholeFiles) {
  const fs::path run = folder() / "run", out = folder() / "out", image = folder() / "image";
  const Ended trained = run_forked([&] { return train(run); });
  ASSERT_EQ(trained.status, 0) << trained.errors;
  std::ofstream input(folder() / "input.py");
  for (int i = 0; i < 100; ++i)
    input << fmt::format("def f{0}(x):\n    \"\"\"Adds the number {0} to it.\"\"\"\n    return x + {0}\n", i);
  input.close();
  const fs::path text = folder() / "input.txt";
  fs::copy_file(folder() / "input.py", text);
  const std::map<std::string, std::vector<std::string>> commands = {
      {"train.jsonl", {"pairs", "--input", folder() / "input.py", "--output", out}},
      {"tok.model", {"tokenizer", "--input", text, "--vocabulary", "330", "--output", out / "tok.model"}},
      {"vectors.h5", {"embed", run, "--input", text, "--threads", "1", "--output", out / "vectors.h5"}},
      {"vectors.jsonl",
       {"embed", run, "--input", text, "--threads", "1", "--output", out / "vectors.jsonl"}}};
  for (const auto& [file, arguments] : commands)
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", file, seed));
      fs::remove_all(out);
      fs::remove_all(image);
      fs::create_directory(out);
      const Ended ended = run_forked([&, &command = arguments] {
        Injection injection(out, {.kind = Kind::power_loss,
                                  .call = Call::close,
                                  .number = INT64_MAX,
                                  .seed = seed,
                                  .image = image});
        if (const int status = run_program(command); status != 0) return status;
        injection.lose_power();
      });
      ASSERT_EQ(ended.status, killed_status) << ended.errors;
      EXPECT_GT(fs::file_size(out / file), 100u);
      ASSERT_TRUE(fs::exists(image / file));
      EXPECT_EQ(test::read_text(image / file), test::read_text(out / file));
    }
}

}  // namespace
}  // namespace comera::faults
