// A run's checkpoints while a third one is saved and the disk fails: docs/developer/testing.md lists the
// guarantees.

#include <gmock/gmock.h>

#include "tests/checkpoints/sample.h"
#include "tests/faults/plans.h"

namespace comera::faults {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using test::fill_sample;
using test::TemporaryFolder;

constexpr std::int64_t keep = 2;

void save(const fs::path& folder, std::int64_t step) {
  CheckpointDirectory directory(folder, keep);
  directory.save(step, [&](CheckpointWriter& writer) { fill_sample(writer, static_cast<double>(step)); });
}

// The content of that step's checkpoint.
const std::string& expected(std::int64_t step) {
  static std::map<std::int64_t, std::string> contents;
  std::string& content = contents[step];
  if (content.empty()) {
    const TemporaryFolder folder;
    test::write_sample(folder / "sample.h5", static_cast<double>(step));
    content = content_of(folder / "sample.h5");
  }
  return content;
}

void prepare(const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  save(folder / "checkpoints", 1);
  save(folder / "checkpoints", 2);
}

// No checkpoint is lost, none is wrong, and the next save succeeds and cleans up. Returns the newest step.
std::int64_t examine(const fs::path& checkpoints, std::int64_t least) {
  std::int64_t newest = 0;
  for (const std::int64_t step : checkpoint_steps(checkpoints)) {
    const fs::path file = checkpoints / fmt::format("step-{:08}.h5", step);
    EXPECT_EQ(content_of(file), expected(step)) << file;  // renamed when complete: none is ever refused
    newest = std::max(newest, step);
  }
  const auto found = find_latest(checkpoints, ResumeMode::newest);
  EXPECT_TRUE(found);
  if (found) {
    EXPECT_EQ(found->step, newest);
  }
  EXPECT_GE(newest, least);
  save(checkpoints, 4);
  EXPECT_EQ(find_latest(checkpoints, ResumeMode::newest)->step, 4);
  EXPECT_EQ(test::read_text(checkpoints / "latest"), "step-00000004.h5\n");
  EXPECT_THAT(test::left_overs(checkpoints), testing::IsEmpty());
  return newest;
}

void try_in_process(const Plan& plan, const Fault& fault, const fs::path& folder) {
  prepare(folder);
  expected(2);
  const int descriptors = open_descriptors();
  std::string message;
  bool happened = false;
  {
    const Injection injection(folder, fault);
    message = test::error_of([&] { save(folder / "checkpoints", 3); });
    happened = injection.happened();
  }
  EXPECT_TRUE(happened);
  EXPECT_EQ(open_descriptors(), descriptors) << "a descriptor was left open";
  if (plan.harmless()) {
    EXPECT_EQ(message, "");
  }
  if (!message.empty()) {
    EXPECT_TRUE(is_clear(message, folder.string(), plan)) << message;
  }
  const std::int64_t newest = examine(folder / "checkpoints", message.empty() ? 3 : 2);
  record("checkpoint", plan.name,
         !message.empty() ? "refused with reason"
         : newest == 3    ? "went on"
                          : "lost");
}

void try_forked(const Plan& plan, Fault fault, const fs::path& folder) {
  prepare(folder);
  fault.image = folder.string() + "-image";
  fs::remove_all(fault.image);
  const Ended ended = run_forked([&] {
    Injection injection(folder, fault);
    save(folder / "checkpoints", 3);
    if (plan.kind == Kind::power_loss) injection.lose_power();
    return 0;
  });
  ASSERT_EQ(ended.status, killed_status) << ended.errors;
  const fs::path left = plan.kind == Kind::power_loss ? fault.image : folder;
  const std::int64_t newest = examine(left / "checkpoints", is_after(plan) ? 3 : 2);
  record("checkpoint", plan.name, newest == 3 ? "new one is there" : "old one is there");
  fs::remove_all(fault.image);
}

TEST(Faults, Checkpoints) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "run";
  for (const Plan& plan : plans()) {
    prepare(folder);
    std::int64_t count = 0;
    {
      const Injection none(folder, {});
      save(folder / "checkpoints", 3);
      count = none.count(plan.call);
    }
    for (const Fault& fault : faults_of(plan, count, 1)) {
      SCOPED_TRACE(fmt::format("{}, call {} of {}, seed {}", plan.name, fault.number, count, fault.seed));
      if (plan.ends_process())
        try_forked(plan, fault, folder);
      else
        try_in_process(plan, fault, folder);
    }
  }
}

// HDF5 once hid a failure: values that it writes only when a dataset is closed were lost, and the save was
// reported as successful.
TEST(Faults, EveryFailedWriteOfACheckpointIsReported) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "run";
  std::int64_t count = 1;
  for (std::int64_t number = 1; number <= count; ++number) {
    prepare(folder);
    const Injection injection(folder,
                              {.kind = Kind::error, .call = Call::write, .number = number, .code = EIO});
    const std::string message = test::error_of([&] { save(folder / "checkpoints", 3); });
    EXPECT_THAT(message, testing::HasSubstr("Input/output error")) << "write " << number;
    if (number == 1) {
      const Injection none(folder, {});
      save(folder / "checkpoints", 3);
      count = none.count(Call::write);
    }
  }
  EXPECT_GT(count, 5);
}

// The tests above are worthless unless a power loss exposes omissions: the same save without syncs must lose
// checkpoints.
TEST(Faults, ThePowerLossFindsAMissingSync) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "run", image = temporary / "image";
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    prepare(folder);
    fs::remove_all(image);
    run_forked([&] {
      Injection injection(folder,
                          {.kind = Kind::power_loss, .number = INT64_MAX, .seed = seed, .image = image});
      fs::copy_file(folder / "checkpoints/step-00000002.h5", folder / "checkpoints/copy.tmp");
      fs::rename(folder / "checkpoints/copy.tmp", folder / "checkpoints/step-00000003.h5");
      injection.lose_power();
      return 0;
    });
    const std::string message = test::error_of([&] {
      const auto found = find_latest(image / "checkpoints", ResumeMode::newest);
      if (!found || found->step != 3) throw Error("lost");
    });
    if (!message.empty()) ++lost;
  }
  EXPECT_GT(lost, 2);
}

}  // namespace
}  // namespace comera::faults
