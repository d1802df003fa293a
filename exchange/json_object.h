#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace comera::exchange {

// Reads a small JSON file of a model's folder; nothing if it does not exist. Error in one sentence if it is
// damaged.
std::optional<nlohmann::json> read_json(const std::filesystem::path& file);
// The same for a file that must contain an object.
std::optional<nlohmann::json> read_object(const std::filesystem::path& file);

}  // namespace comera::exchange
