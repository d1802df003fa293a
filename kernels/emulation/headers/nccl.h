// In place of NCCL's header, for code that is compiled for the emulation.
#pragma once

#include "kernels/emulation/nccl_api.h"
