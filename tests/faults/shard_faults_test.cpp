// A set of shards replaces another while the disk fails.

#include <gmock/gmock.h>

#include "data/shard.h"
#include "tests/checkpoints/sample.h"
#include "tests/faults/plans.h"

namespace comera::faults {
namespace {

namespace fs = std::filesystem;
using data::ShardSet;
using test::TemporaryFolder;

// As build_shards() does it.
void write_set(const fs::path& folder, std::int32_t first, int documents) {
  data::remove_unfinished_shards(folder, "train");
  data::ShardInfo info;
  info.tokenizer_hash = "abc";
  info.vocabulary = 1000;
  info.split = "train";
  data::ShardWriter writer(folder, info, 40);
  for (int i = 0; i < documents; ++i)
    writer.add(std::vector<std::int32_t>(static_cast<std::size_t>(10 + i), first + i));
  writer.finish();
}

constexpr std::int32_t old_first = 5, new_first = 500;

void prepare(const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder / "shards");
  write_set(folder / "shards", old_first, 7);
}

std::string fingerprint_of(std::int32_t first, int documents) {
  const TemporaryFolder folder;
  write_set(folder.path(), first, documents);
  return ShardSet(folder.path(), "train").fingerprint();
}

// "old set", "new set", or "refused" with one line that names the folder. Never a mixture.
std::string examine(const fs::path& shards) {
  static const std::string before = fingerprint_of(old_first, 7), after = fingerprint_of(new_first, 9);
  std::string outcome;
  const std::string message = test::error_of([&] {
    const std::string fingerprint = ShardSet(shards, "train").fingerprint();
    outcome = fingerprint == before ? "old set" : fingerprint == after ? "new set" : "something else";
  });
  if (!message.empty()) {
    EXPECT_THAT(message, testing::HasSubstr(shards.string()));
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    outcome = "refused";
  }
  EXPECT_NE(outcome, "something else");
  // Once more without a fault: the new set, and nothing else.
  write_set(shards, new_first, 9);
  EXPECT_EQ(ShardSet(shards, "train").fingerprint(), after);
  for (const auto& entry : fs::directory_iterator(shards))
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
  return outcome;
}

void try_in_process(const Plan& plan, const Fault& fault, const fs::path& folder) {
  prepare(folder);
  const int descriptors = open_descriptors();
  std::string message;
  {
    const Injection injection(folder, fault);
    message = test::error_of([&] { write_set(folder / "shards", new_first, 9); });
    EXPECT_TRUE(injection.happened());
  }
  EXPECT_EQ(open_descriptors(), descriptors) << "a descriptor was left open";
  if (plan.harmless()) {
    EXPECT_EQ(message, "");
  }
  if (!message.empty()) {
    EXPECT_TRUE(is_clear(message, folder.string(), plan)) << message;
  }
  const std::string outcome = examine(folder / "shards");
  if (message.empty()) {
    EXPECT_EQ(outcome, "new set");
  }
  // Room is needed before the old set is touched only.
  if (plan.code == ENOSPC) {
    EXPECT_EQ(outcome, "old set") << message;
  }
  record("shards", plan.name, message.empty() ? "went on" : "refused with reason");
}

void try_forked(const Plan& plan, Fault fault, const fs::path& folder) {
  prepare(folder);
  fault.image = folder.string() + "-image";
  fs::remove_all(fault.image);
  const Ended ended = run_forked([&] {
    Injection injection(folder, fault);
    write_set(folder / "shards", new_first, 9);
    if (plan.kind == Kind::power_loss) injection.lose_power();
    return 0;
  });
  ASSERT_EQ(ended.status, killed_status) << ended.errors;
  const std::string outcome = examine((plan.kind == Kind::power_loss ? fault.image : folder) / "shards");
  if (is_after(plan)) {
    EXPECT_EQ(outcome, "new set");
  }
  record("shards", plan.name,
         outcome == "new set"   ? "new one is there"
         : outcome == "old set" ? "old one is there"
                                : "incomplete: said so");
  fs::remove_all(fault.image);
}

TEST(Faults, Shards) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "corpus";
  for (const Plan& plan : plans()) {
    prepare(folder);
    std::int64_t count = 0;
    {
      const Injection none(folder, {});
      write_set(folder / "shards", new_first, 9);
      count = none.count(plan.call);
    }
    for (const Fault& fault : faults_of(plan, count, 2)) {
      SCOPED_TRACE(fmt::format("{}, call {} of {}, seed {}", plan.name, fault.number, count, fault.seed));
      if (plan.ends_process())
        try_forked(plan, fault, folder);
      else
        try_in_process(plan, fault, folder);
    }
  }
}

TEST(Faults, EveryFailedWriteOfAShardIsReported) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "corpus";
  data::ShardInfo info;
  info.tokenizer_hash = "abc";
  info.vocabulary = 1000;
  info.split = "train";
  info.labels = info.segment_ids = true;
  const auto write_one = [&] {
    data::ShardWriter writer(folder, info, 1000);
    const std::vector<std::int32_t> tokens(10, 7);
    for (int i = 0; i < 3; ++i) writer.add(tokens, tokens, i);
    writer.finish();
  };
  std::int64_t count = 0;
  fs::create_directories(folder);
  {
    const Injection none(folder, {});
    write_one();
    count = none.count(Call::write);
  }
  EXPECT_GT(count, 5);
  for (std::int64_t number = 1; number <= count; ++number) {
    const Injection injection(folder,
                              {.kind = Kind::error, .call = Call::write, .number = number, .code = EIO});
    EXPECT_THAT(test::error_of(write_one), testing::HasSubstr("Input/output error")) << "write " << number;
  }
  EXPECT_EQ(data::ShardSet(folder, "train").documents(), 3);
}

}  // namespace
}  // namespace comera::faults
