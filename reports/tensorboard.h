#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// The CRC-32C (Castagnoli) of RFC 3720, masked as in TFRecord files.
std::uint32_t masked_crc32c(std::string_view bytes);

// A TensorBoard event file with a run's metrics as scalars; a number within an object is named
// "learning_rate/cores". TFRecord: the length, its checksum, an Event, its checksum, for each line. Events
// carry the time of their step in seconds since 1970, if the run's last one was made at `end`.
std::string tensorboard_events(const std::vector<nlohmann::ordered_json>& metrics, double end);

// The parts of such a file, for one that grows: its beginning, and one line of metrics. Times are seconds
// since 1970. from_step: TensorBoard drops what earlier files of the folder say of this step and later ones;
// 0: nothing.
std::string tensorboard_beginning(double time, std::int64_t from_step = 0);
std::string tensorboard_event(const nlohmann::ordered_json& line, double time);

}  // namespace comera
