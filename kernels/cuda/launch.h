#pragma once

#include <cstdint>

#include "kernels/core/check.h"
#include "kernels/core/device.h"
#include "kernels/cuda/cuda.h"

namespace comera::COMERA_CUDA {

// Throws Error with the call, its file and line, and CUDA's reason if the call failed.
void check_call(cudaError_t error, const char* call, const char* file, int line);
#define COMERA_CUDA_CALL(call) check_call(call, #call, __FILE__, __LINE__)

inline cudaStream_t stream_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle); }

// The launch configuration of a kernel. Further axes are for independent work, such as heads.
struct Shape3 {
  std::int64_t x = 1, y = 1, z = 1;
};
struct LaunchShape {
  Shape3 grid = {};
  int threads = 256;
  std::size_t shared_bytes = 0;
};

inline constexpr int warp = 32;
inline constexpr std::int64_t most_blocks_x = 0x7fffffff;
// Shared memory of a block on every supported GPU: that of compute capabilities 8.6, 8.9 and 12.0.
inline constexpr std::size_t most_shared_bytes_everywhere = std::size_t{99} << 10;

// Blocks for this many items, with `each` items per block.
inline std::int64_t blocks_for(std::int64_t items, std::int64_t each) { return (items + each - 1) / each; }

// Grids are counted in 64 bits, but a launch takes 32: overflow is an error with the kernel's name.
inline void check_shape(const char* name, const LaunchShape& shape) {
  constexpr std::int64_t most_yz = 65535;
  constexpr int most_threads = 1024;
  const Shape3& grid = shape.grid;
  COMERA_CHECK(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= most_blocks_x && grid.y <= most_yz &&
                   grid.z <= most_yz && shape.threads > 0 && shape.threads <= most_threads,
               "{} cannot be launched with {} x {} x {} blocks of {} threads; use smaller micro-batches",
               name, grid.x, grid.y, grid.z, shape.threads);
  COMERA_CHECK(shape.shared_bytes <= most_shared_bytes_everywhere,
               "{} cannot be launched with {} bytes of shared memory: a block has {} on some GPUs", name,
               shape.shared_bytes, most_shared_bytes_everywhere);
}

#if defined(COMERA_EMULATED)
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, const char*, int, void (*kernel)(Parameters...), const Stream& stream,
                   const LaunchShape& shape, Arguments&&... arguments) {
  check_shape(name, shape);
  const Index3 grid{static_cast<unsigned>(shape.grid.x), static_cast<unsigned>(shape.grid.y),
                    static_cast<unsigned>(shape.grid.z)};
  launch(name, kernel, grid, {static_cast<unsigned>(shape.threads)}, shape.shared_bytes, stream_of(stream),
         std::forward<Arguments>(arguments)...);
}
#else
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, const char* file, int line, void (*kernel)(Parameters...),
                   const Stream& stream, const LaunchShape& shape, Arguments&&... arguments) {
  check_shape(name, shape);
  constexpr std::size_t usual_shared_bytes = 48 << 10;
  if (shape.shared_bytes > usual_shared_bytes)
    check_call(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               name, file, line);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.grid.x), static_cast<unsigned>(shape.grid.y),
                        static_cast<unsigned>(shape.grid.z));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream_of(stream);
  check_call(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name, file, line);
}
#endif

// COMERA_LAUNCH(stream, shape, (kernel<float>), arguments...). A grid without blocks is an error.
#define COMERA_LAUNCH(stream, shape, kernel, ...) \
  launch_kernel(#kernel, __FILE__, __LINE__, kernel, stream, shape, __VA_ARGS__)

// The shared memory of a block, laid out as `Layout`; the launch sets its size.
#if defined(COMERA_EMULATED)
template <class T>
T* shared_array(std::size_t count) {
  return reinterpret_cast<T*>(shared_memory(count * sizeof(T)));
}
#else
template <class T>
__device__ __forceinline__ T* shared_array(std::size_t) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  return reinterpret_cast<T*>(shared_bytes);
}
#endif

}  // namespace comera::COMERA_CUDA
