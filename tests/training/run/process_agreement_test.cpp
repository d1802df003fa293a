#include "training/run/process_agreement.h"

#include <gmock/gmock.h>

#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

using test::error_of;
using testing::HasSubstr;

// Processes that exist in a test alone: process 0 of three, of which the second says what it is told to, and
// the third what process 0 says.
class FakeRanks final : public Communicator {
 public:
  explicit FakeRanks(std::vector<std::string> second = {}) : Communicator(0, 3), second_(std::move(second)) {}
  std::vector<std::string> gather(const std::string& text) override {
    heard_ = text;
    return {text, at_ < second_.size() ? second_[at_++] : text, text};
  }
  const std::string& heard() const { return heard_; }

  void begin_sum(const Tensor&, const Stream&) override {}
  void begin_max(const Tensor&, const Stream&) override {}
  void finish(const Stream&) override {}
  void sum(std::span<double>) override {}
  std::string broadcast(const std::string& text) override { return text; }
  [[noreturn]] void fail(int, const std::string& message) override { throw Error(message); }

 private:
  std::vector<std::string> second_;
  std::size_t at_ = 0;
  std::string heard_;
};

// What a process says of these files.
std::string said_of(const std::vector<GivenFile>& files) {
  FakeRanks processes;
  require_same_files(processes, files);
  return processes.heard();
}

TEST(RankAgreement, TheRankAndTheFileAreNamed) {
  const GivenFile train{"data.train", "shards/train-00000.h5", "aa"};
  const GivenFile more{"data.train", "shards/train-00001.h5", "bb"};
  const GivenFile tokenizer{"data.tokenizer", "tok.model", "cc"};
  const auto said = [](const std::vector<GivenFile>& own, const std::vector<GivenFile>& theirs) {
    return error_of([&] {
      FakeRanks processes({said_of(theirs)});
      require_same_files(processes, own);
    });
  };
  EXPECT_EQ(said({train, tokenizer}, {train, tokenizer}), "");
  const std::string give = "; give all machines the same files";
  GivenFile other = train;
  other.content = "ab";
  EXPECT_EQ(said({train, tokenizer}, {other, tokenizer}),
            "process 1 has other contents in shards/train-00000.h5 (data.train) than process 0" + give);
  EXPECT_EQ(said({train, more}, {train}),
            "process 1 has no shards/train-00001.h5 (data.train), which process 0 has" + give);
  EXPECT_EQ(said({train}, {train, more}),
            "process 1 has shards/train-00001.h5 (data.train), which process 0 does not have" + give);
  EXPECT_EQ(said({train, more}, {more, train}),
            "process 1 lists the files in another order than process 0" + give);
}

TEST(RankAgreement, ADifferenceIsAMistakeOfUseButForModels) {
  FakeRanks command({"other"}), processor({"other"}), model({"other"});
  EXPECT_THROW(require_same_command(command, "pretrain"), UsageError);
  EXPECT_THROW(require_same_processor(processor, "cpu", "v3"), UsageError);
  FakeRanks lanes({"cpu", "v4"});
  EXPECT_THAT(error_of([&] { require_same_processor(lanes, "cpu", "v3"); }), HasSubstr("COMERA_ISA=v3"));
  EXPECT_THROW(require_same_model(model, 7, "hash"), Error);
  FakeRanks again({"other"});
  EXPECT_THAT(error_of([&] { require_same_model(again, 7, "hash"); }),
              HasSubstr("at step 7 process 1 has another model than process 0"));
}

TEST(RankAgreement, OneProcessAgreesWithItself) {
  EXPECT_NO_THROW(require_same_files(one_process(), {{"data.train", "a", "b"}}));
  EXPECT_NO_THROW(require_same_command(one_process(), "pretrain"));
}

}  // namespace
}  // namespace comera
