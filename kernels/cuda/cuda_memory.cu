#include "kernels/cuda/cuda_memory.h"

#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

namespace {

class CudaRecording final : public Recording {
 public:
  CudaRecording(cudaStream_t stream, const std::function<void()>& body) {
    COMERA_CUDA_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
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

class CudaAllocator final : public Allocator {
 public:
  explicit CudaAllocator(int device) : Allocator(Device{DeviceKind::cuda, device}) {
    COMERA_CUDA_CALL(cudaSetDevice(device));
    COMERA_CUDA_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaAllocator() override { cudaStreamDestroy(stream_); }

  void upload(void* device_memory, const void* host, std::size_t bytes, const Stream& stream) override {
    COMERA_CUDA_CALL(cudaMemcpyAsync(device_memory, host, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
  }
  void download(void* host, const void* device_memory, std::size_t bytes, const Stream& stream) override {
    COMERA_CUDA_CALL(cudaMemcpyAsync(host, device_memory, bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
  }
  void synchronize(const Stream& stream) override {
    COMERA_CUDA_CALL(cudaStreamSynchronize(stream_of(stream)));
  }
  Stream stream() const override { return {device(), stream_}; }
  std::unique_ptr<Recording> record(const Stream& stream, const std::function<void()>& body) override {
    return std::make_unique<CudaRecording>(stream_of(stream), body);
  }

 private:
  void* do_allocate(std::size_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // the caller says what was wanted
      return nullptr;
    }
    check_call(error, "cudaMalloc", __FILE__, __LINE__);
    COMERA_CUDA_CALL(cudaMemsetAsync(data, 0, bytes, stream_));
    COMERA_CUDA_CALL(cudaStreamSynchronize(stream_));
    return data;
  }
  void do_deallocate(void* data, std::size_t) noexcept override {
    cudaStreamSynchronize(stream_);  // whatever still uses it
    cudaFree(data);
  }

  cudaStream_t stream_ = nullptr;
};

}  // namespace

int device_count() {
  int count = 0;  // left as it is by a call that fails
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : (cudaGetLastError(), 0);
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  if (error == cudaSuccess || error == cudaErrorNoDevice) return "no GPU was found";
  if (error == cudaErrorInsufficientDriver)
    return "no driver for NVIDIA's GPUs was found, or one that is too old for this program";
  return fmt::format("no GPU can be used ({})", cudaGetErrorString(error));
}

std::unique_ptr<Allocator> make_allocator(int device) {
  const int count = device_count();
  COMERA_CHECK(device >= 0 && device < count, "there is no CUDA device {}: {}", device,
               count == 0 ? why_no_device() : fmt::format("this machine has {}", count));
  return std::make_unique<CudaAllocator>(device);
}

}  // namespace comera::COMERA_CUDA
