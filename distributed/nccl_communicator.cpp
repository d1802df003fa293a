#include "distributed/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>

#include "kernels/core/check.h"
#include "kernels/core/console.h"

namespace comera {

namespace {

// NCCL's functions. It is loaded at run time, so that the same program works without it.
struct Library {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) comm_init_rank;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclGetErrorString) get_error_string;
};

const Library& library() {
  static const Library loaded = [] {
    // Where the system searches, then where the library was when this program was built.
    void* handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr && *COMERA_NCCL_FILE != 0) handle = dlopen(COMERA_NCCL_FILE, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      throw_error(
          fmt::format("NCCL cannot be loaded: {}; install it, put its folder into LD_LIBRARY_PATH, or train "
                      "on the CPU with --device cpu",
                      reason != nullptr ? reason : "libnccl.so.2 was not found"));
    }
    Library found{};
    const auto find = [&](auto& function, const char* name) {
      void* symbol = dlsym(handle, name);
      COMERA_CHECK(symbol != nullptr, "the NCCL that was loaded has no {}; install a newer one", name);
      std::memcpy(&function, &symbol, sizeof symbol);
    };
    find(found.get_version, "ncclGetVersion");
    find(found.get_unique_id, "ncclGetUniqueId");
    find(found.comm_init_rank, "ncclCommInitRank");
    find(found.comm_destroy, "ncclCommDestroy");
    find(found.all_reduce, "ncclAllReduce");
    find(found.group_start, "ncclGroupStart");
    find(found.group_end, "ncclGroupEnd");
    find(found.comm_get_async_error, "ncclCommGetAsyncError");
    find(found.get_error_string, "ncclGetErrorString");
    return found;
  }();
  return loaded;
}

void check(ncclResult_t result, const char* call) {
  COMERA_CHECK(result == ncclSuccess, "{}: {}; NCCL_DEBUG=INFO shows more", call,
               library().get_error_string(result));
}
void check(cudaError_t error, const char* call) {
  COMERA_CHECK(error == cudaSuccess, "{}: {}", call, cudaGetErrorString(error));
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, Device device, const Patience& patience)
      : Communicator(host.process(), host.world_size()),
        host_(host),
        stalled_seconds_(patience.stalled_seconds) {
    check(cudaSetDevice(device.index), "cudaSetDevice");
    ncclUniqueId id{};
    if (first()) check(library().get_unique_id(&id), "ncclGetUniqueId");
    const std::string text = host.broadcast({id.internal, sizeof id.internal});
    std::memcpy(id.internal, text.data(), sizeof id.internal);
    in_time(
        [&] { check(library().comm_init_rank(&comm_, world_size(), id, process()), "ncclCommInitRank"); });
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~NcclCommunicator() override {
    // If this process is failing, the others are not here: all would have to destroy the communicator
    // together, and work on the stream may wait for them. The process is about to end.
    if (std::uncaught_exceptions() > 0) return;
    cudaStreamSynchronize(stream_);
    // It waits for graphs that have recorded sums: they must be destroyed before.
    if (const ncclResult_t result = library().comm_destroy(comm_); result != ncclSuccess)
      log_info("note: NCCL could not be ended: {}\n", library().get_error_string(result));
    cudaEventDestroy(event_);
    cudaStreamDestroy(stream_);
  }

  int local_process() const override { return host_.local_process(); }
  int local_processes() const override { return host_.local_processes(); }
  int own_cpus() const override { return host_.own_cpus(); }
  std::string name() const override { return "NCCL " + nccl_version(); }

  void begin_sum(const Tensor& values, const Stream& stream) override {
    const bool wide = values.dtype() == DType::float64;
    COMERA_CHECK(wide || values.dtype() == DType::float32, "processes sum float32 and float64, not {}",
                 name_of(values.dtype()));
    begin(values, static_cast<std::size_t>(values.elements()), wide ? ncclDouble : ncclFloat, ncclSum,
          stream);
  }
  void begin_max(const Tensor& words, const Stream& stream) override {
    begin(words, words.bytes() / 4, ncclUint32, ncclMax, stream);
  }
  void together(const Stream& stream, const std::function<void()>& begin_all) override {
    order(stream_, static_cast<cudaStream_t>(stream.handle));
    check(library().group_start(), "ncclGroupStart");
    grouping_ = true;
    try {
      begin_all();
    } catch (...) {
      grouping_ = false;
      library().group_end();  // whose result says less than the exception
      throw;
    }
    grouping_ = false;
    check(library().group_end(), "ncclGroupEnd");
  }
  void finish(const Stream& stream) override {
    if (!begun_) return;
    begun_ = false;
    order(static_cast<cudaStream_t>(stream.handle), stream_);
  }

  void wait(const Stream& stream) override {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    for (std::int64_t turn = 0;; ++turn) {
      const cudaError_t state = cudaStreamQuery(static_cast<cudaStream_t>(stream.handle));
      if (state == cudaSuccess) return;
      if (state != cudaErrorNotReady) check(state, "a step on the GPU");
      ncclResult_t result = ncclSuccess;
      check(library().comm_get_async_error(comm_, &result), "ncclCommGetAsyncError");
      if (result != ncclSuccess && result != ncclInProgress)
        fail(1, fmt::format("NCCL can no longer sum over the GPUs: {}; NCCL_DEBUG=INFO shows more",
                            library().get_error_string(result)));
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (seconds > stalled_seconds_)
        fail(1, fmt::format("a step on the GPU has not ended for {:.0f} s: a GPU or the network between GPUs "
                            "has failed; NCCL_DEBUG=INFO shows more",
                            seconds));
      // A step takes milliseconds: polls without sleeping at first.
      if (turn > 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  void sum(std::span<double> values) override { host_.sum(values); }
  std::string broadcast(const std::string& text) override { return host_.broadcast(text); }
  std::vector<std::string> gather(const std::string& text) override { return host_.gather(text); }
  void set_patience(const Patience& patience) override {
    stalled_seconds_ = patience.stalled_seconds;
    host_.set_patience(patience);
  }
  void set_advice(const std::string& advice) override { host_.set_advice(advice); }
  void fail(int exit_code, const std::string& message) override { host_.fail(exit_code, message); }

 private:
  // A call that returns when all processes have made it, and does not watch them meanwhile.
  template <class Call>
  void in_time(const Call& call) {
    if (alone()) return call();
    std::mutex mutex;
    std::condition_variable_any changed;
    const std::jthread clock([&](const std::stop_token& stop) {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, stop, std::chrono::duration<double>(stalled_seconds_), [] { return false; });
      if (!stop.stop_requested())
        fail(1, fmt::format("NCCL has not connected the GPUs within {:.0f} s: a process's GPU or the network "
                            "between them has failed; NCCL_DEBUG=INFO shows more",
                            stalled_seconds_));
    });
    call();
  }

  // Orders work put on `later` from now on after the current work on `earlier`. If one of them captures, the
  // other one joins the capture. All processes must capture, or none: their recipes have been compared.
  void order(cudaStream_t later, cudaStream_t earlier) {
    check(cudaEventRecord(event_, earlier), "cudaEventRecord");
    check(cudaStreamWaitEvent(later, event_, 0), "cudaStreamWaitEvent");
  }

  void begin(const Tensor& values, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
             const Stream& stream) {
    COMERA_CHECK(values.device().kind == DeviceKind::cuda, "NCCL sums the memory of GPUs only");
    if (!grouping_) order(stream_, static_cast<cudaStream_t>(stream.handle));
    check(library().all_reduce(values.raw(), values.raw(), count, type, op, comm_, stream_), "ncclAllReduce");
    begun_ = true;
  }

  Communicator& host_;
  double stalled_seconds_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
  bool begun_ = false, grouping_ = false;
};

}  // namespace

std::unique_ptr<Communicator> start_nccl(Communicator& host, Device device,
                                         const Communicator::Patience& patience) {
  return std::make_unique<NcclCommunicator>(host, device, patience);
}

std::string nccl_version() {
  int version = 0;
  check(library().get_version(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace comera
