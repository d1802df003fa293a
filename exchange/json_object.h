#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace comera::exchange {

// A small JSON file of a model's folder; nothing if it is not there. Error in one sentence if it is damaged.
std::optional<nlohmann::json> read_json(const std::filesystem::path& file);
// The same of one that must be an object.
std::optional<nlohmann::json> read_object(const std::filesystem::path& file);

}  // namespace comera::exchange
