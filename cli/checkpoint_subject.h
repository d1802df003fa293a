#pragma once

#include <filesystem>
#include <string>

namespace comera::cli {

// A checkpoint's path as it is; a run's folder stands for its newest checkpoint. UsageError for a folder
// without one; `instead` says what could be given beside a run's folder: "a checkpoint (.h5)".
std::filesystem::path checkpoint_subject(const std::filesystem::path& subject, const std::string& instead);

}  // namespace comera::cli
