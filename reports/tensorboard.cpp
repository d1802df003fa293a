#include "reports/tensorboard.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "reports/metrics_file.h"

namespace comera {

namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little);

// A number's bytes in memory order.
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Fields of protocol buffers.
enum class Wire : std::uint8_t { number = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}
std::string field(int number, const std::string& bytes) {
  return key(number, Wire::bytes) + varint(bytes.size()) + bytes;
}

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
std::string event(double time, std::int64_t step, const std::string& what) {
  return key(1, Wire::eight_bytes) + raw(time) + key(2, Wire::number) +
         varint(static_cast<std::uint64_t>(step)) + what;
}

// message Summary { message Value { string tag = 1; float simple_value = 2; } repeated Value value = 1; }
std::string scalars(const Json& line) {
  std::string summary;
  for_each_number(line, [&](const std::string& tag, double value) {
    summary += field(1, field(1, tag) + key(2, Wire::four_bytes) + raw(static_cast<float>(value)));
  });
  return summary;
}

std::string record(const std::string& data) {
  const std::string length = raw(static_cast<std::uint64_t>(data.size()));
  return length + raw(masked_crc32c(length)) + data + raw(masked_crc32c(data));
}

// When each line was written, computed from the milliseconds of steps.
std::vector<double> times_of(const std::vector<Json>& metrics, double end) {
  std::vector<double> times;
  double step = 0, seconds = 0;
  for (const Json& line : metrics) {
    const auto taken = line.find("ms_per_step");
    const double now = line["step"].get<double>();
    if (taken != line.end() && taken->is_number()) {
      seconds += (now - step) * taken->get<double>() * 1e-3;
      step = now;
    }
    times.push_back(seconds);
  }
  for (double& time : times) time += end - seconds;
  return times;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
      made[i] = crc;
    }
    return made;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  crc = ~crc;
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string tensorboard_beginning(double time, std::int64_t from_step) {
  std::string file = record(event(time, 0, field(3, "brain.Event:2")));
  // message SessionLog { enum SessionStatus { START = 1; ... } SessionStatus status = 1; }, of an Event's
  // field 7
  if (from_step > 0) file += record(event(time, from_step, field(7, key(1, Wire::number) + varint(1))));
  return file;
}

std::string tensorboard_event(const Json& line, double time) {
  return record(event(time, line["step"].get<std::int64_t>(), field(5, scalars(line))));
}

std::string tensorboard_events(const std::vector<Json>& metrics, double end) {
  const std::vector<double> times = times_of(metrics, end);
  std::string file = tensorboard_beginning(times.empty() ? end : times.front());
  for (std::size_t i = 0; i < metrics.size(); ++i) file += tensorboard_event(metrics[i], times[i]);
  return file;
}

}  // namespace comera
