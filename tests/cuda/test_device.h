#pragma once

#include <gtest/gtest.h>

#include "kernels/backends/backends.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "kernels/ops/processor.h"

namespace comera::test {

// A device for CUDA kernels in a test. Its memory is separate, so that tests do not count one another's.
struct TestDevice {
  const Backend& backend;
  std::unique_ptr<Allocator> allocator;
  Processor with_graphs{backend, *allocator, true};
  Processor without{backend, *allocator, false};
};

// Whose streams run late.
inline TestDevice emulated_device(bool tf32 = false) {
  emulation::machine().late = true;
  return {cuda_emulated::backend(tf32), cuda_emulated::make_allocator(0)};
}
// Only where there is one: see SKIP_WITHOUT_A_GPU().
inline TestDevice first_gpu(bool tf32 = false) { return {cuda::backend(tf32), cuda::make_allocator(0)}; }

// To be called in SetUp(): the body of the test is then not run.
#define SKIP_WITHOUT_A_GPU() \
  if (cuda_device_count() == 0) GTEST_SKIP() << why_no_cuda_device()

}  // namespace comera::test
