#pragma once

#include <filesystem>

namespace comera::storage {

// Protects a file that another process creates under this name meanwhile: the next DurableFile created with
// this name must find it free, or its commit() is an Error: "FILE: another process has made it meanwhile;
// give --overwrite to replace it, or another name".
void never_replace(const std::filesystem::path& name);

}  // namespace comera::storage
