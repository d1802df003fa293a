#pragma once

// What the emulated runtime's memory (runtime.cpp) and its streams (streams.cpp) know of one another.

#include "kernels/emulation/runtime.h"

namespace comera::emulation {

// Writes a call down, if somebody listens.
void log_call(std::string call);
// The error as the call's result, kept for cudaGetLastError().
cudaError_t result_of(cudaError_t error);
// Of a call that waits or allocates: it fails while any stream captures, and so does the capture.
cudaError_t not_while_capturing();
// Does all that waits on any stream.
void drain_all();

// Whether the address lies in what cudaMallocHost() gave.
bool is_pinned(const void* address);

}  // namespace comera::emulation
