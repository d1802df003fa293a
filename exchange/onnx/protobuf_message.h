#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace comera::exchange {

// A message in the wire format of protocol buffers (version 3), written field by field: the few kinds that
// ONNX's messages have. The library itself is not used, since the one inside SentencePiece's library exports
// symbols of the same names.
class ProtobufMessage {
 public:
  // int64, enumerations; negative numbers take ten bytes.
  void number(int field, std::int64_t value);
  // float.
  void real(int field, float value);
  // string, bytes.
  void text(int field, std::string_view value);
  // A message within.
  void message(int field, const ProtobufMessage& value) { text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  void key(int field, int wire_type);

  std::string bytes_;
};

}  // namespace comera::exchange
