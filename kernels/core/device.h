#pragma once

#include <cstdint>

namespace comera {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// A queue for work. The CPU has none: work is done when the call returns.
struct Stream {
  Device device;
  void* handle = nullptr;
};

}  // namespace comera
