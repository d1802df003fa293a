#pragma once

#include <optional>
#include <string_view>

#include "kernels/core/device.h"

namespace comera {

// The device named by "cpu", "cuda" (the first GPU) or "cuda:N"; nothing for any other text.
std::optional<Device> device_named(std::string_view name);

// The names that a user may give: those, and "auto".
inline constexpr const char* device_names = "auto, cpu, cuda or cuda:N";
inline bool is_device_name(std::string_view name) { return name == "auto" || device_named(name); }

}  // namespace comera
