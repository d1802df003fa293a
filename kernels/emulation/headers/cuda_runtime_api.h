// In place of CUDA's header, for code outside kernels/cuda that is compiled for the emulation.
#pragma once

#include "kernels/emulation/runtime.h"

using namespace comera::emulation;  // NOLINT(google-build-using-namespace): CUDA's names are global
