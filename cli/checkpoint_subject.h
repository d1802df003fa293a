#pragma once

#include <filesystem>
#include <string>

namespace comera::cli {

// The path of a checkpoint as given, or of the newest checkpoint of a run's folder. UsageError for a folder
// without one; `instead` names the alternative to a run's folder: "a checkpoint (.h5)".
std::filesystem::path checkpoint_subject(const std::filesystem::path& subject, const std::string& instead);

}  // namespace comera::cli
