// The data of a click log replace others while the disk fails.

#include <gmock/gmock.h>

#include "data/clicks/click_shards.h"
#include "tests/checkpoints/sample.h"
#include "tests/cli/click_logs.h"
#include "tests/faults/plans.h"

namespace comera::faults {
namespace {

namespace fs = std::filesystem;
using data::ClickEncoding;
using data::ClickShardSet;
using test::TemporaryFolder;

// As in 'comera clicks data', with one encoding for the old data and another for the new: two shards for
// training and one held out.
class ClickFaults : public testing::Test {
 protected:
  void write(bool after, const fs::path& output) {
    const ClickEncoding encoding =
        ClickEncoding::hashed(data::ClickFormat::criteo, std::vector<std::int64_t>(26, after ? 30 : 20));
    data::build_click_shards({log_}, encoding, after ? data::ClickSplit{32, 8} : data::ClickSplit{30, 10},
                             output, 20);
  }

  void prepare() {
    fs::remove_all(folder());
    fs::create_directories(folder());
    write(false, folder() / "shards");
  }

  // Of both parts and the encoding beside them.
  static std::string fingerprint_of(const fs::path& shards) {
    const ClickShardSet train(shards, "train"), validation(shards, "validation");
    const std::string encoding = ClickEncoding::load(shards / data::click_encoding_file).fingerprint();
    EXPECT_EQ(train.info().encoding, encoding);
    EXPECT_EQ(validation.info().encoding, encoding);
    return train.fingerprint() + validation.fingerprint();
  }

  // "old data", "new data", or "refused" with one line that names the folder. Never a mixture.
  std::string examine(const fs::path& shards) {
    std::string outcome;
    const std::string message = test::error_of([&] {
      const std::string found = fingerprint_of(shards);
      outcome = found == old_ ? "old data" : found == new_ ? "new data" : "something else";
    });
    if (!message.empty()) {
      EXPECT_THAT(message, testing::HasSubstr(shards.string()));
      EXPECT_EQ(message.find('\n'), message.npos) << message;
      outcome = "refused";
    }
    EXPECT_NE(outcome, "something else");
    // Once more without a fault: the new data, and nothing else.
    write(true, shards);
    EXPECT_EQ(fingerprint_of(shards), new_);
    EXPECT_EQ(std::distance(fs::directory_iterator(shards), fs::directory_iterator()), 4);
    return outcome;
  }

  void try_in_process(const Plan& plan, const Fault& fault) {
    prepare();
    const int descriptors = open_descriptors();
    std::string message;
    {
      const Injection injection(folder(), fault);
      message = test::error_of([&] { write(true, folder() / "shards"); });
      EXPECT_TRUE(injection.happened());
    }
    EXPECT_EQ(open_descriptors(), descriptors) << "a descriptor was left open";
    if (plan.harmless()) {
      EXPECT_EQ(message, "");
    }
    if (!message.empty()) {
      EXPECT_TRUE(is_clear(message, folder().string(), plan)) << message;
    }
    const std::string outcome = examine(folder() / "shards");
    if (message.empty()) {
      EXPECT_EQ(outcome, "new data");
    }
    // Room is needed before the old data are touched only.
    if (plan.code == ENOSPC) {
      EXPECT_EQ(outcome, "old data") << message;
    }
    record("click shards", plan.name, message.empty() ? "went on" : "refused with reason");
  }

  void try_forked(const Plan& plan, Fault fault) {
    prepare();
    fault.image = folder().string() + "-image";
    fs::remove_all(fault.image);
    const Ended ended = run_forked([&] {
      Injection injection(folder(), fault);
      write(true, folder() / "shards");
      if (plan.kind == Kind::power_loss) injection.lose_power();
      return 0;
    });
    ASSERT_EQ(ended.status, killed_status) << ended.errors;
    const std::string outcome = examine((plan.kind == Kind::power_loss ? fault.image : folder()) / "shards");
    if (is_after(plan)) {
      EXPECT_EQ(outcome, "new data");
    }
    record("click shards", plan.name,
           outcome == "new data"   ? "new one is there"
           : outcome == "old data" ? "old one is there"
                                   : "incomplete: said so");
    fs::remove_all(fault.image);
  }

  fs::path folder() const { return temporary_ / "data"; }

  TemporaryFolder temporary_;
  fs::path log_ = temporary_.write("log", test::criteo_rows(0, 40));
  std::string old_, new_;
};

TEST_F(ClickFaults, OldDataOrNewOrRefused) {
  const std::pair<std::string*, bool> both[] = {{&old_, false}, {&new_, true}};
  for (const auto& [fingerprint, after] : both) {
    const TemporaryFolder fresh;
    write(after, fresh.path());
    *fingerprint = fingerprint_of(fresh.path());
  }
  for (const Plan& plan : plans()) {
    prepare();
    std::int64_t count = 0;
    {
      const Injection none(folder(), {});
      write(true, folder() / "shards");
      count = none.count(plan.call);
    }
    for (const Fault& fault : faults_of(plan, count, 3)) {
      SCOPED_TRACE(fmt::format("{}, call {} of {}, seed {}", plan.name, fault.number, count, fault.seed));
      if (plan.ends_process())
        try_forked(plan, fault);
      else
        try_in_process(plan, fault);
    }
  }
}

TEST_F(ClickFaults, EveryFailedWriteIsReported) {
  std::int64_t count = 1;
  for (std::int64_t number = 0; number <= count; ++number) {
    prepare();
    const Kind kind = number > 0 ? Kind::error : Kind::none;
    const Injection injection(folder(), {.kind = kind, .call = Call::write, .number = number, .code = EIO});
    const std::string message = test::error_of([&] { write(true, folder() / "shards"); });
    if (number == 0) {
      EXPECT_EQ(message, "");
      count = injection.count(Call::write);
      EXPECT_GT(count, 10);
    } else {
      EXPECT_THAT(message, testing::HasSubstr("Input/output error")) << "write " << number;
    }
  }
}

}  // namespace
}  // namespace comera::faults
