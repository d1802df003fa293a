#pragma once

#include <filesystem>

namespace comera::storage {

// What another process puts under this name while this one works stays: the next DurableFile that gets the
// name from here finds it free, or its commit() is an Error: "FILE: another process has made it meanwhile;
// give --overwrite to replace it, or another name".
void never_replace(const std::filesystem::path& name);

}  // namespace comera::storage
