#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace comera {

// The files with this name in the folders of NVIDIA's libraries among Python's packages, where `binary` is
// the program or the module of the wheel: PACKAGES/comera/bin/comera or PACKAGES/comera/_comera.so, and
// PACKAGES/nvidia/cu13/lib/NAME. In the order of their folders. Nothing where it is installed otherwise.
inline std::vector<std::string> in_python_packages(const std::filesystem::path& binary,
                                                   const std::string& name) {
  std::vector<std::string> found;
  std::error_code failed;
  std::filesystem::path wheel = binary.parent_path();
  if (wheel.filename() == "bin") wheel = wheel.parent_path();
  if (wheel.filename() != "comera" || !std::filesystem::is_regular_file(wheel / "__init__.py", failed))
    return found;
  std::filesystem::directory_iterator package(wheel.parent_path() / "nvidia", failed);
  for (; !failed && package != std::filesystem::directory_iterator(); package.increment(failed)) {
    std::error_code ignored;
    const auto file = package->path() / "lib" / name;
    if (std::filesystem::is_regular_file(file, ignored)) found.push_back(file.string());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace comera
