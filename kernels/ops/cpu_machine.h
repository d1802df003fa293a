#pragma once

#include "kernels/ops/machine.h"

namespace comera {

// For products of typical sizes on a few cores. The same for every CPU, see MachineModel.
inline constexpr MachineModel cpu_machine{.flops_per_second = 150e9,
                                          .narrow_flops_per_second = 150e9,
                                          .bytes_per_second = 15e9,
                                          .seconds_per_call = 2e-6};

}  // namespace comera
