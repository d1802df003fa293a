#pragma once

#include <unistd.h>

namespace comera {

// Whether the system has a file by which NVIDIA's driver is called, and so probably a GPU.
inline bool has_device_file() { return access("/dev/nvidiactl", F_OK) == 0; }

}  // namespace comera
