#pragma once

#include "kernels/ops/backend.h"

namespace comera {

// The backend of a device: the one place that knows which there are. Everything above kernels/ asks here.
const Backend& backend_of(DeviceKind kind);

// To be called once before work begins: how many threads host work uses (0: one for each core), and how
// they treat numbers that are too small for normal floats (as zero).
void prepare_threads(int threads);
// How many there are, and the instruction set of the CPU backend: for reports.
int thread_count();
const char* instruction_set();

}  // namespace comera
