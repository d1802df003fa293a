#pragma once

#include <functional>
#include <string>

#include "kernels/emulation/cublaslt_api.h"

// Control functions of the fake cuBLASLt, besides cuBLASLt's own interface (cublaslt_fake.cpp), for tests and
// the emulated backend. Both functions are looked up in the loaded library by these names.
namespace comera::emulation {

struct FakeCublasLt {
  // Where products are queued: comera::emulation::put().
  std::function<void(std::string, StreamState*, std::function<void()>)> put;
  std::function<bool()> is_capturing;  // whether a stream captures: comera::emulation::is_capturing()
  bool finds_nothing = false;          // no algorithm for any product
  cublasStatus_t state = CUBLAS_STATUS_SUCCESS;  // of the algorithms found
  std::string failing_call;                      // this call fails: "cublasLtMatmul"
  std::string refused;                           // why the last rejected call failed
  int heuristics = 0, products = 0;              // answered calls
  std::size_t largest_promise = 0;               // of alignments, bytes
};

inline constexpr const char* fake_cublaslt_function = "comera_fake_cublaslt";
using FakeCublasLtFunction = FakeCublasLt* (*)();

}  // namespace comera::emulation
