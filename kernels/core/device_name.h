#pragma once

#include <optional>
#include <string_view>

#include "kernels/core/device.h"

namespace comera {

// The device that "cpu", "cuda" (the first GPU) or "cuda:N" names; nothing of any other text.
std::optional<Device> device_named(std::string_view name);

// What a user may ask for: those, and "auto".
inline constexpr const char* device_names = "auto, cpu, cuda or cuda:N";
inline bool is_device_name(std::string_view name) { return name == "auto" || device_named(name); }

}  // namespace comera
