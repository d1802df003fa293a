#pragma once

#include <cstdint>

namespace comera::emulation {

// The order in which the threads of a block, and the blocks of a grid, run. A kernel must give the same
// result in every order.
enum class Order : std::uint8_t { forward, reverse, random };

struct Options {
  Order order = Order::forward;
  std::uint64_t seed = 1;  // for the random order
  int workers = 1;  // host threads that run blocks; more than one lets a race detector see across blocks
};

// Process-wide; read at every launch. Initialised from COMERA_EMULATION_ORDER (forward, reverse, random),
// COMERA_EMULATION_SEED and COMERA_EMULATION_WORKERS.
Options& options();

}  // namespace comera::emulation
