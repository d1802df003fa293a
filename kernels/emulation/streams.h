#pragma once

// Shared between the emulated runtime's memory (runtime.cpp) and its streams (streams.cpp).

#include "kernels/emulation/runtime.h"

namespace comera::emulation {

// Logs a call, if there is a log.
void log_call(std::string call);
// Returns the error as the call's result, and keeps it for cudaGetLastError().
cudaError_t result_of(cudaError_t error);
// For calls that wait or allocate: they fail while any stream captures, and so does the capture.
cudaError_t not_while_capturing();
// Runs all pending work on all streams.
void drain_all();

// Whether the address lies in memory from cudaMallocHost().
bool is_pinned(const void* address);

}  // namespace comera::emulation
