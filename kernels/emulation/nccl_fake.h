#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kernels/emulation/nccl_api.h"

// Control functions of the fake NCCL, besides NCCL's own interface (nccl_fake.cpp), for tests and the
// emulated communicator. The function is looked up in the loaded library by this name.
namespace comera::emulation {

struct FakeNccl {
  // Where collective operations are queued: comera::emulation::put_when().
  std::function<void(std::function<bool()>, StreamState*, std::function<void()>)> put;
  std::function<bool(StreamState*)> captures;  // comera::emulation::captures()
  std::string refused;                         // why the last rejected call failed
  std::string_view failing_call;               // this call fails: "ncclAllReduce"
  int all_reduces = 0, launches = 0;           // calls, and groups of them that were enqueued
};

inline constexpr const char* fake_nccl_function = "comera_fake_nccl";
using FakeNcclFunction = FakeNccl* (*)();

}  // namespace comera::emulation
