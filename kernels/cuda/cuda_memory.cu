#include "kernels/cuda/cuda_memory.h"

#include <unistd.h>

#include "kernels/cuda/device_file.h"
#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

namespace {

class CudaRecording final : public Recording {
 public:
  CudaRecording(cudaStream_t stream, const std::function<void()>& body) {
    // Relaxed: kernels that run for the first time are loaded during the capture.
    COMERA_CUDA_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaGraph_t graph = nullptr;
    try {
      body();
    } catch (...) {
      if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    COMERA_CUDA_CALL(cudaStreamEndCapture(stream, &graph));
    const cudaError_t error = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    check_call(error, "cudaGraphInstantiate", __FILE__, __LINE__);
  }
  ~CudaRecording() override { cudaGraphExecDestroy(exec_); }

  void launch(const Stream& stream) override { COMERA_CUDA_CALL(cudaGraphLaunch(exec_, stream_of(stream))); }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

// Frees what the runtime gave.
struct Free {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(std::byte* pinned) const { cudaFreeHost(pinned); }
};
using StreamHandle = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Free>;
using EventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Free>;
using PinnedMemory = std::unique_ptr<std::byte, Free>;

StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  COMERA_CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return StreamHandle(stream);
}
EventHandle make_event() {
  cudaEvent_t event = nullptr;
  COMERA_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return EventHandle(event);
}
PinnedMemory make_pinned(std::size_t bytes) {
  void* memory = nullptr;
  COMERA_CUDA_CALL(cudaMallocHost(&memory, bytes));
  return PinnedMemory(static_cast<std::byte*>(memory));
}

class CudaProfileClock final : public ProfileClock {
 public:
  explicit CudaProfileClock(cudaStream_t stream) : stream_(stream) {}

  std::size_t mark() noexcept override {
    cudaEvent_t event = nullptr;
    if (cudaEventCreateWithFlags(&event, cudaEventDefault) == cudaSuccess) cudaEventRecord(event, stream_);
    events_.emplace_back(event);
    return events_.size() - 1;
  }
  double seconds_between(std::size_t from, std::size_t to) override {
    COMERA_CUDA_CALL(cudaEventSynchronize(events_[to].get()));
    float milliseconds = 0;
    COMERA_CUDA_CALL(cudaEventElapsedTime(&milliseconds, events_[from].get(), events_[to].get()));
    return milliseconds * 1e-3;
  }

 private:
  cudaStream_t stream_;
  std::vector<EventHandle> events_;
};

// A block is uploaded on a separate stream into one of two slots, while the allocator's stream still works
// with the previous block; it is then moved to its final address, which recordings use.
class CudaFeed final : public Feed {
 public:
  CudaFeed(Allocator& allocator, void* place, std::size_t bytes)
      : stream_(stream_of(allocator.stream())), copies_(make_stream()), place_(place), bytes_(bytes) {
    for (Slot& slot : slots_)
      slot = {make_pinned(bytes), Buffer(allocator, bytes, MemoryKind::workspace), make_event(),
              make_event()};
  }
  ~CudaFeed() override { cudaStreamSynchronize(stream_); }  // moves that still read the slots

  void* next() override {
    current_ = 1 - current_;
    COMERA_CUDA_CALL(cudaEventSynchronize(slots_[current_].taken.get()));
    return slots_[current_].host.get();
  }
  void send() override {
    const Slot& slot = slots_[current_];
    COMERA_CUDA_CALL(
        cudaMemcpyAsync(slot.device.data(), slot.host.get(), bytes_, cudaMemcpyHostToDevice, copies_.get()));
    COMERA_CUDA_CALL(cudaEventRecord(slot.arrived.get(), copies_.get()));
    COMERA_CUDA_CALL(cudaStreamWaitEvent(stream_, slot.arrived.get(), 0));
    COMERA_CUDA_CALL(cudaMemcpyAsync(place_, slot.device.data(), bytes_, cudaMemcpyDeviceToDevice, stream_));
    COMERA_CUDA_CALL(cudaEventRecord(slot.taken.get(), stream_));
  }

 private:
  struct Slot {
    PinnedMemory host;
    Buffer device;
    EventHandle arrived, taken;
  };
  cudaStream_t stream_;
  StreamHandle copies_;
  void* place_;
  std::size_t bytes_;
  Slot slots_[2];
  int current_ = 0;
};

class CudaAllocator final : public Allocator {
 public:
  explicit CudaAllocator(int device) : Allocator(Device{DeviceKind::cuda, device}) {
    COMERA_CUDA_CALL(cudaSetDevice(device));
    stream_ = make_stream();
  }

  void upload(void* device_memory, const void* host, std::size_t bytes, const Stream& stream) override {
    COMERA_CUDA_CALL(cudaMemcpyAsync(device_memory, host, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
  }
  void download(void* host, const void* device_memory, std::size_t bytes, const Stream& stream) override {
    COMERA_CUDA_CALL(cudaMemcpyAsync(host, device_memory, bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
  }
  void synchronize(const Stream& stream) override {
    COMERA_CUDA_CALL(cudaStreamSynchronize(stream_of(stream)));
  }
  Stream stream() const override { return {device(), stream_.get()}; }
  std::size_t available() const override {
    std::size_t free = 0, total = 0;
    COMERA_CUDA_CALL(cudaMemGetInfo(&free, &total));
    return free;
  }
  std::unique_ptr<Feed> feed(void* place, std::size_t bytes) override {
    return std::make_unique<CudaFeed>(*this, place, bytes);
  }
  std::unique_ptr<Recording> record(const Stream& stream, const std::function<void()>& body) override {
    return std::make_unique<CudaRecording>(stream_of(stream), body);
  }
  std::unique_ptr<ProfileClock> profile_clock(const Stream& stream) override {
    return std::make_unique<CudaProfileClock>(stream_of(stream));
  }

 private:
  void* do_allocate(std::size_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // the caller reports what was requested
      return nullptr;
    }
    check_call(error, "cudaMalloc", __FILE__, __LINE__);
    COMERA_CUDA_CALL(cudaMemsetAsync(data, 0, bytes, stream_.get()));
    COMERA_CUDA_CALL(cudaStreamSynchronize(stream_.get()));
    return data;
  }
  void do_deallocate(void* data, std::size_t) noexcept override {
    cudaStreamSynchronize(stream_.get());  // waits for its last use
    cudaFree(data);
  }

  StreamHandle stream_;
};

}  // namespace

int device_count() {
  int count = 0;  // a failed call leaves it unchanged
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : (cudaGetLastError(), 0);
}

namespace {

// Compute capability, 8.9 as 89.
int capability_of(int device) {
  int major = 0, minor = 0;
  COMERA_CUDA_CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  COMERA_CUDA_CALL(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

// The newest CUDA that the driver supports, 12.4 as 12040; 0 without a driver.
int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : (cudaGetLastError(), 0);
}

std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

bool multiplies_float8(int device) { return capability_of(device) >= 89; }

std::string why_unfit(int device) {
  constexpr int least = 80;  // Ampere, whose tensor cores the kernels use
  const int capability = capability_of(device);
  return capability >= least ? ""
                             : fmt::format(
                                   "cuda:{} has compute capability {}.{}, and this program needs 8.0 "
                                   "(Ampere) or newer",
                                   device, capability / 10, capability % 10);
}

std::string device_address(int device) {
  char machine[256] = {}, address[32] = {};
  gethostname(machine, sizeof machine - 1);
  COMERA_CUDA_CALL(cudaDeviceGetPCIBusId(address, sizeof address, device));
  return std::string(machine) + ' ' + address;
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  if (error == cudaSuccess || error == cudaErrorNoDevice) return "no GPU was found";
  const int driver = driver_version();
  if (error == cudaErrorInsufficientDriver && driver == 0) return "no driver for NVIDIA's GPUs was found";
  // CUDA 13 needs r580. Programs of CUDA 12 run on any driver of its time, but kernels here have parameters
  // that drivers accept since 530.
  constexpr int least_driver = CUDART_VERSION >= 13000 ? 580 : 530;
  if (error == cudaErrorInsufficientDriver)
    return fmt::format(
        "the driver of this machine's GPU supports CUDA {} at most, and this program needs {}; install "
        "driver r{} "
        "or newer ({})",
        cuda_version(driver), cuda_version(CUDART_VERSION), least_driver, cudaGetErrorString(error));
  return fmt::format("no GPU can be used ({})", cudaGetErrorString(error));
}

bool misses_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  // A user may have hidden the GPUs (CUDA_VISIBLE_DEVICES): then there is a driver, and no device.
  if (error == cudaSuccess || error == cudaErrorNoDevice) return false;
  return driver_version() > 0 || has_device_file();
}

std::unique_ptr<Allocator> make_allocator(int device) {
  const int count = device_count();
  COMERA_CHECK(device >= 0 && device < count, "there is no CUDA device {}: {}", device,
               count == 0 ? why_no_device() : fmt::format("this machine has {}", count));
  return std::make_unique<CudaAllocator>(device);
}

}  // namespace comera::COMERA_CUDA
