#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// The CRC-32C (Castagnoli) of RFC 3720, masked as TFRecord files have it.
std::uint32_t masked_crc32c(std::string_view bytes);

// An event file of TensorBoard with a run's metrics as scalars: "learning_rate/cores" of a number within an
// object. TFRecord: the length, its checksum, an Event, its checksum, for each line. Events have the seconds
// since 1970 at which their step was made, if the run's last one was made at `end`.
std::string tensorboard_events(const std::vector<nlohmann::ordered_json>& metrics, double end);

}  // namespace comera
