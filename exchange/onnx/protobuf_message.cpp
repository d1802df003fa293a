#include "exchange/onnx/protobuf_message.h"

#include <bit>

namespace comera::exchange {

namespace {
enum WireType { is_varint = 0, has_length = 2, is_fixed32 = 5 };
}  // namespace

void ProtobufMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::key(int field, int wire_type) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}

void ProtobufMessage::number(int field, std::int64_t value) {
  key(field, is_varint);
  varint(static_cast<std::uint64_t>(value));
}

void ProtobufMessage::real(int field, float value) {
  key(field, is_fixed32);
  auto bits = std::bit_cast<std::uint32_t>(value);
  for (int i = 0; i < 4; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 0xFF);
}

void ProtobufMessage::text(int field, std::string_view value) {
  key(field, has_length);
  varint(value.size());
  bytes_ += value;
}

}  // namespace comera::exchange
