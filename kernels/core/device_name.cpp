#include "kernels/core/device_name.h"

#include <charconv>

namespace comera {

std::optional<Device> device_named(std::string_view name) {
  if (name == "cpu") return Device{};
  if (name == "cuda") return Device{DeviceKind::cuda, 0};
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  Device device{DeviceKind::cuda, -1};
  const auto [rest, code] = std::from_chars(name.data(), name.data() + name.size(), device.index);
  if (code != std::errc() || rest != name.data() + name.size() || device.index < 0) return std::nullopt;
  return device;
}

}  // namespace comera
