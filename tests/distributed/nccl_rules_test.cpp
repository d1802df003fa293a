// The rules that the fake NCCL checks on each rank by itself, and what the communicator does about them.
#include <gmock/gmock.h>

#include "kernels/core/check.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "tests/distributed/emulated_nccl.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Function>
Function* function(const char* name) {
  return reinterpret_cast<Function*>(fake_nccl_symbol(name));
}
#define COMERA_FAKE(name) function<decltype(name)>(#name)

class NcclRules : public testing::Test {
 protected:
  NcclRules() {
    emulation::machine().late = true;
    fake_nccl().refused = "";
    ncclUniqueId id{};
    EXPECT_EQ(COMERA_FAKE(ncclGetUniqueId)(&id), ncclSuccess);
    EXPECT_EQ(COMERA_FAKE(ncclCommInitRank)(&comm_, 1, id, 0), ncclSuccess);
  }
  ncclResult_t sum() {
    return COMERA_FAKE(ncclAllReduce)(memory_.data(), memory_.data(), 16, ncclFloat, ncclSum, comm_,
                                      static_cast<ncclStream>(stream_.handle));
  }
  ncclResult_t destroy() { return COMERA_FAKE(ncclCommDestroy)(comm_); }
  void expect_a_refusal(ncclResult_t result, ncclResult_t expected, const std::string& reason) {
    EXPECT_EQ(result, expected);
    EXPECT_THAT(COMERA_FAKE(ncclGetErrorString)(result), HasSubstr(reason));
  }

  std::unique_ptr<Allocator> device_ = cuda_emulated::make_allocator(0);
  Stream stream_ = device_->stream();
  Buffer memory_{*device_, 64, MemoryKind::workspace};
  ncclComm_t comm_ = nullptr;
};

TEST_F(NcclRules, NothingIsUsedAfterItsEnd) {
  EXPECT_EQ(sum(), ncclSuccess);
  device_->synchronize(stream_);
  EXPECT_EQ(destroy(), ncclSuccess);
  expect_a_refusal(sum(), ncclInvalidArgument, "has been destroyed");
  ncclResult_t state = ncclSuccess;
  expect_a_refusal(COMERA_FAKE(ncclCommGetAsyncError)(comm_, &state), ncclInvalidArgument,
                   "has been destroyed");
  expect_a_refusal(destroy(), ncclInvalidArgument, "has been destroyed");
}

TEST_F(NcclRules, GroupsBeginAndEnd) {
  expect_a_refusal(COMERA_FAKE(ncclGroupEnd)(), ncclInvalidUsage, "a group ends that was not started");
  EXPECT_EQ(COMERA_FAKE(ncclGroupStart)(), ncclSuccess);
  expect_a_refusal(destroy(), ncclInvalidUsage, "destroyed within a group");
  const int before = fake_nccl().launches;
  EXPECT_EQ(sum(), ncclSuccess);
  EXPECT_EQ(sum(), ncclSuccess);
  EXPECT_EQ(fake_nccl().launches, before);
  EXPECT_EQ(COMERA_FAKE(ncclGroupEnd)(), ncclSuccess);
  EXPECT_EQ(fake_nccl().launches, before + 1);
  device_->synchronize(stream_);
  EXPECT_EQ(destroy(), ncclSuccess);
}

TEST_F(NcclRules, GraphsEndBeforeTheirCommunicator) {
  auto recording = device_->record(stream_, [&] { EXPECT_EQ(sum(), ncclSuccess); });
  recording->launch(stream_);
  device_->synchronize(stream_);
  expect_a_refusal(destroy(), ncclInvalidUsage, "graphs that captured its operations exist");
  recording.reset();
  EXPECT_EQ(destroy(), ncclSuccess);
}

class NcclRank : public testing::Test {
 protected:
  NcclRank() {
    emulation::machine().late = true;
    fake_nccl();
  }
  ~NcclRank() override { fake_nccl().failing_call = ""; }
  std::unique_ptr<Allocator> device_ = cuda_emulated::make_allocator(0);
  Stream stream_ = device_->stream();
  Buffer memory_{*device_, 64, MemoryKind::workspace};
  Tensor values_ = memory_.tensor({16}, DType::float32);
};

TEST_F(NcclRank, BeginsAGroupInOneLaunch) {
  const auto nccl = start_emulated_nccl(one_process(), device_->device());
  const int before = fake_nccl().launches;
  nccl->together(stream_, [&] {
    nccl->begin_sum(values_, stream_);
    nccl->begin_max(values_, stream_);
  });
  nccl->finish(stream_);
  nccl->wait(stream_);
  EXPECT_EQ(fake_nccl().launches, before + 1);
}

// Otherwise nothing would ever be launched again.
TEST_F(NcclRank, LeavesNoGroupOpenBehindAnError) {
  const auto nccl = start_emulated_nccl(one_process(), device_->device());
  fake_nccl().failing_call = "ncclAllReduce";
  EXPECT_THAT(error_of([&] { nccl->together(stream_, [&] { nccl->begin_sum(values_, stream_); }); }),
              AllOf(HasSubstr("ncclAllReduce"), HasSubstr("it was told to fail")));
  fake_nccl().failing_call = "";
  const int before = fake_nccl().launches;
  nccl->begin_sum(values_, stream_);
  EXPECT_EQ(fake_nccl().launches, before + 1);
}

TEST_F(NcclRank, SaysWhyItCouldNotBeEnded) {
  auto nccl = start_emulated_nccl(one_process(), device_->device());
  const auto recording = device_->record(stream_, [&] {
    nccl->begin_sum(values_, stream_);
    nccl->finish(stream_);
  });
  testing::internal::CaptureStderr();
  nccl.reset();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("note: NCCL could not be ended"), HasSubstr("graphs that captured its operations")));
}

}  // namespace
}  // namespace comera::test
