#pragma once

#include <functional>
#include <string>

#include "kernels/emulation/cublaslt_api.h"

// What tests and the emulated backend say to the fake cuBLASLt beside cuBLASLt's own interface
// (cublaslt_fake.cpp). Both functions are looked up in the loaded library by these names.
namespace comera::emulation {

struct FakeCublasLt {
  // Where products are queued: comera::emulation::put().
  std::function<void(std::string, StreamState*, std::function<void()>)> put;
  std::function<bool()> is_capturing;  // whether a stream captures: comera::emulation::is_capturing()
  bool finds_nothing = false;          // no algorithm for any product
  cublasStatus_t state = CUBLAS_STATUS_SUCCESS;  // of the algorithms that are found
  std::string failing_call;                      // this call fails: "cublasLtMatmul"
  std::string refused;                           // why the last call that was refused was
  int heuristics = 0, products = 0;              // calls that were answered
  std::size_t largest_promise = 0;               // of alignments, bytes
};

inline constexpr const char* fake_cublaslt_function = "comera_fake_cublaslt";
using FakeCublasLtFunction = FakeCublasLt* (*)();

}  // namespace comera::emulation
