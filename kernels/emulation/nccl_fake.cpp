// A library that is loaded in place of NCCL. It sums over the processes of a machine, in memory that they
// share, when the emulated streams come to it. It rejects what NCCL's documentation forbids (NCCL 2.28,
// "Creating a Communicator", "Group Calls", "Using NCCL with CUDA Graphs", "Error handling"):
// - a communicator that is used after its end, or whose end would wait for graphs that captured its
// operations;
// - groups that are ended without a start, or still open when communicators are made or destroyed;
// - operations of a group that go to several streams, of which only some capture;
// - other operations, types or counts than those of the other ranks, and a capture on some ranks only.
// NCCL itself would hang, crash or give wrong sums. Where only the comparison with others shows the fault,
// the operation never ends, and ncclCommGetAsyncError() returns an error on all ranks, as it does when a
// process has died.

#include "kernels/emulation/nccl_fake.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using comera::emulation::FakeNccl;
using comera::emulation::StreamState;

namespace {

constexpr int most_ranks = 64;
constexpr std::size_t most_operations = 64;  // of a group
constexpr std::size_t bytes_of_a_rank = std::size_t{64}
                                        << 20;  // of a group's values; pages are taken when written

FakeNccl& fake() {
  static FakeNccl made;
  return made;
}

ncclResult_t refuse(ncclResult_t result, std::string why) {
  fake().refused = std::move(why);
  return result;
}

bool fails(std::string_view call) {
  if (fake().failing_call != call) return false;
  fake().refused = "it was told to fail";
  return true;
}

std::size_t bytes_of(ncclDataType_t type) { return type == ncclDouble ? 8 : 4; }

// What all ranks must do alike.
struct Operation {
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat;
  ncclRedOp_t op = ncclSum;
  friend bool operator==(const Operation&, const Operation&) = default;
};
struct Group {
  std::size_t size = 0;
  bool captured = false;
  std::array<Operation, most_operations> operations{};
};

// A rank's part of the memory that the processes share.
struct SharedRank {
  std::atomic<pid_t> process;  // 0: it has not come yet
  std::atomic<std::uint64_t> arrived,
      taken;                // groups that it has brought its values for, and taken results of
  std::atomic<bool> ended;  // its communicator was destroyed
  Group group;              // the last one that arrived
};
struct Shared {
  std::atomic<ncclResult_t> fault;  // on all ranks; set when `why` is written
  std::atomic<bool> failing;        // a rank writes, or has written, them
  char why[256];
  SharedRank ranks[most_ranks];
};

std::filesystem::path file_of(const ncclUniqueId& id) {
  return std::filesystem::temp_directory_path() / (id.internal + std::string(".nccl"));
}

}  // namespace

struct FakeNcclComm {
  int ranks = 1, rank = 0;
  Shared* shared = nullptr;
  std::byte* values = nullptr;  // bytes_of_a_rank of each
  bool destroyed = false;
  std::shared_ptr<int> in_graphs = std::make_shared<int>(0);  // shared by captured operations

  SharedRank& own() const { return shared->ranks[rank]; }
  std::byte* values_of(int of) const { return values + static_cast<std::size_t>(of) * bytes_of_a_rank; }

  template <class Reached>
  bool all(const Reached& reached) const {
    return std::all_of(shared->ranks, shared->ranks + ranks, reached);
  }
  void fail(ncclResult_t result, const std::string& why) const {
    if (shared->failing.exchange(true)) return;  // the first reason is kept
    std::strncpy(shared->why, why.c_str(), sizeof shared->why - 1);
    shared->fault = result;
  }
};

namespace {

// Calls of ncclAllReduce() that a group has put together.
struct Call {
  FakeNcclComm* comm;
  StreamState* stream;
  const void* from;
  void* to;
  Operation operation;
};
int open_groups = 0;
std::vector<Call> grouped;

template <class T>
void reduce(const FakeNcclComm& comm, std::size_t offset, const Operation& operation, void* to) {
  auto* result = static_cast<T*>(to);
  for (std::size_t i = 0; i < operation.count; ++i) {
    T value{};
    for (int rank = 0; rank < comm.ranks; ++rank) {  // in their order, so that all get the same bits
      T other;
      std::memcpy(&other, comm.values_of(rank) + offset + i * sizeof(T), sizeof other);
      value = rank == 0 ? other : operation.op == ncclSum ? value + other : std::max(value, other);
    }
    result[i] = value;
  }
}

// A launch of NCCL: the operations of a group on one communicator and stream.
struct Launch {
  FakeNcclComm* comm;
  Group group;
  std::vector<Call> calls;

  // The values of the last launch have been taken by all.
  bool may_arrive() const {
    const std::uint64_t before = comm->own().arrived;
    return comm->shared->fault == ncclSuccess &&
           comm->all([&](const SharedRank& each) { return each.taken >= before; });
  }
  void arrive() const {
    std::size_t offset = 0;
    for (const Call& call : calls) {
      const std::size_t bytes = call.operation.count * bytes_of(call.operation.type);
      std::memcpy(comm->values_of(comm->rank) + offset, call.from, bytes);
      offset += bytes;
    }
    comm->own().group = group;
    ++comm->own().arrived;
  }
  bool may_take() const {
    const std::uint64_t now = comm->own().arrived;
    if (comm->shared->fault != ncclSuccess) return false;
    if (!comm->all([&](const SharedRank& each) { return each.arrived >= now; })) return false;
    return !differs();
  }
  void take() const {
    std::size_t offset = 0;
    for (const Call& call : calls) {
      if (call.operation.type == ncclFloat) reduce<float>(*comm, offset, call.operation, call.to);
      if (call.operation.type == ncclDouble) reduce<double>(*comm, offset, call.operation, call.to);
      if (call.operation.type == ncclUint32) reduce<std::uint32_t>(*comm, offset, call.operation, call.to);
      offset += call.operation.count * bytes_of(call.operation.type);
    }
    ++comm->own().taken;
  }

 private:
  bool differs() const {
    const auto process = [](int rank) { return "rank " + std::to_string(rank); };
    for (int rank = 0; rank < comm->ranks; ++rank) {
      const Group& other = comm->shared->ranks[rank].group;
      if (other.captured != group.captured)
        comm->fail(ncclInvalidUsage, process(group.captured ? comm->rank : rank) +
                                         " has captured its operation, and " +
                                         process(group.captured ? rank : comm->rank) + " has not");
      else if (other.size != group.size || other.operations != group.operations)
        comm->fail(ncclInvalidUsage,
                   process(comm->rank) + " and " + process(rank) + " have other operations, types or counts");
    }
    return comm->shared->fault != ncclSuccess;
  }
};

ncclResult_t enqueue(std::vector<Call> calls) {
  if (calls.size() > most_operations) return refuse(ncclInvalidUsage, "too many operations in a group");
  const auto launch = std::make_shared<Launch>();
  launch->comm = calls.front().comm;
  std::size_t bytes = 0;
  for (const Call& call : calls) {
    if (call.comm != launch->comm || call.stream != calls.front().stream)
      return refuse(ncclInvalidUsage, "the operations of a group are on several communicators or streams");
    launch->group.operations[launch->group.size++] = call.operation;
    bytes += call.operation.count * bytes_of(call.operation.type);
  }
  if (bytes > bytes_of_a_rank) return refuse(ncclInvalidUsage, "a group is larger than this library can sum");
  StreamState* const stream = calls.front().stream;
  launch->group.captured = fake().captures(stream);
  launch->calls = std::move(calls);
  const std::shared_ptr<int> graph = launch->group.captured ? launch->comm->in_graphs : nullptr;
  fake().put([launch] { return launch->may_arrive(); }, stream, [launch, graph] { launch->arrive(); });
  fake().put([launch] { return launch->may_take(); }, stream, [launch, graph] { launch->take(); });
  ++fake().launches;
  return ncclSuccess;
}

}  // namespace

extern "C" {

FakeNccl* comera_fake_nccl() { return &fake(); }

ncclResult_t ncclGetVersion(int* version) {
  *version = 22803;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static thread_local std::string text;
  text = result == ncclSuccess           ? "no error"
         : result == ncclInvalidUsage    ? "invalid usage"
         : result == ncclInvalidArgument ? "invalid argument"
         : result == ncclRemoteError     ? "remote process exited or there was a network error"
                                         : "internal error";
  if (result != ncclSuccess) text += " (" + fake().refused + ")";
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (fails("ncclGetUniqueId")) return ncclSystemError;
  static int made = 0;
  *id = {};
  const std::string name = "comera-" + std::to_string(getpid()) + "-" + std::to_string(made++);
  std::strncpy(id->internal, name.c_str(), sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (fails("ncclCommInitRank")) return ncclSystemError;
  if (open_groups > 0) return refuse(ncclInvalidUsage, "a communicator is made within a group");
  if (ranks < 1 || ranks > most_ranks || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "there is no such rank");
  const std::filesystem::path file = file_of(id);
  const std::size_t bytes = sizeof(Shared) + static_cast<std::size_t>(ranks) * bytes_of_a_rank;
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)
    return refuse(ncclSystemError, "no memory to share: " + std::string(std::strerror(errno)));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory == MAP_FAILED) return refuse(ncclSystemError, "no memory to share");
  // Never freed: it may be used after its end, which is an error, but no crash.
  auto* made = new FakeNcclComm;
  made->ranks = ranks, made->rank = rank;
  made->shared = static_cast<Shared*>(memory);
  made->values = static_cast<std::byte*>(memory) + sizeof(Shared);
  if (pid_t none = 0; !made->own().process.compare_exchange_strong(none, getpid()))
    return refuse(ncclInvalidUsage, "two processes have the same rank");
  while (!made->all([](const SharedRank& each) { return each.process != 0; }))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::error_code ignored;  // each of them removes it, since all have it open now
  std::filesystem::remove(file, ignored);
  *comm = made;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (open_groups > 0) return refuse(ncclInvalidUsage, "a communicator is destroyed within a group");
  if (comm == nullptr || comm->destroyed)
    return refuse(ncclInvalidArgument, "the communicator has been destroyed before");
  if (comm->in_graphs.use_count() > 1)
    return refuse(ncclInvalidUsage,
                  "graphs that captured its operations exist, and it would never end waiting for them");
  comm->destroyed = true;
  comm->own().ended = true;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || comm->destroyed)
    return refuse(ncclInvalidArgument, "the communicator has been destroyed before");
  for (int rank = 0; rank < comm->ranks; ++rank) {
    const SharedRank& other = comm->shared->ranks[rank];
    if (other.ended) {
      if (other.taken < comm->own().arrived)
        comm->fail(ncclRemoteError, "rank " + std::to_string(rank) + " has destroyed its communicator");
    } else if (kill(other.process, 0) != 0 && errno == ESRCH) {
      comm->fail(ncclRemoteError, "rank " + std::to_string(rank) + " has died");
    }
  }
  *error = comm->shared->fault;
  if (*error != ncclSuccess) fake().refused = comm->shared->why;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_groups == 0) return refuse(ncclInvalidUsage, "a group ends that was not started");
  if (--open_groups > 0 || grouped.empty()) return ncclSuccess;
  return enqueue(std::exchange(grouped, {}));
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, ncclStream stream) {
  if (fails("ncclAllReduce")) return ncclInternalError;
  if (comm == nullptr || comm->destroyed)
    return refuse(ncclInvalidArgument, "the communicator has been destroyed before");
  if (from == nullptr || to == nullptr) return refuse(ncclInvalidArgument, "there is no memory");
  ++fake().all_reduces;
  const Call call{.comm = comm,
                  .stream = stream,
                  .from = from,
                  .to = to,
                  .operation = {.count = count, .type = type, .op = op}};
  if (open_groups == 0) return enqueue({call});
  grouped.push_back(call);
  return ncclSuccess;
}
}
