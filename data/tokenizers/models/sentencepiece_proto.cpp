#include "data/tokenizers/models/sentencepiece_proto.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "kernels/core/check.h"

namespace comera::data {

namespace {

// Reads the fields of one message of the protocol buffer format, one after another.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  // False at the end, and where the bytes are not a field: then whole() is false.
  bool next() {
    if (at_ == bytes_.size()) return false;
    std::uint64_t key = 0;
    if (!read_varint(key)) return fail();
    number_ = key >> 3;
    content_ = {};
    is_bytes_ = (key & 7) == 2;
    switch (key & 7) {
      case 0:
        return read_varint(value_) || fail();
      case 1:
        return skip(8) || fail();
      case 2: {
        std::uint64_t length = 0;
        return (read_varint(length) && skip(length)) || fail();
      }
      case 5:
        return skip(4) || fail();
      default:
        return fail();
    }
  }
  bool whole() const { return whole_; }
  std::uint64_t number() const { return number_; }
  bool is_bytes() const { return is_bytes_; }            // a text or a message
  std::uint64_t value() const { return value_; }         // of a number
  std::string_view content() const { return content_; }  // of anything else
  std::size_t end() const { return at_; }                // of the field
  float as_float() const {
    float value = 0;
    if (content_.size() == sizeof value) std::memcpy(&value, content_.data(), sizeof value);
    return value;
  }

 private:
  bool fail() {
    whole_ = false;
    return false;
  }
  bool skip(std::uint64_t length) {
    if (length > bytes_.size() - at_) return false;
    content_ = bytes_.substr(at_, length);
    at_ += length;
    return true;
  }
  bool read_varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::string_view bytes_, content_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0, value_ = 0;
  bool is_bytes_ = false, whole_ = true;
};

// Calls visit with each field.
template <class Visit>
void for_each_field(std::string_view bytes, const Visit& visit) {
  Message message(bytes);
  while (message.next()) visit(message);
  COMERA_CHECK(message.whole(), "the SentencePiece model is damaged");
}

}  // namespace

bool is_whole_sentencepiece(std::string_view bytes) {
  std::array<bool, 4> seen{};
  Message message(bytes);
  while (message.next()) {
    if (!message.is_bytes()) return false;
    if (message.number() < seen.size()) seen[message.number()] = true;
  }
  return message.whole() && seen[1] && seen[2] && seen[3];
}

SentencePieceFile read_sentencepiece(std::string_view bytes) {
  SentencePieceFile file;
  for_each_field(bytes, [&](const Message& outer) {
    if (outer.number() == 1) {
      SentencePieceFile::Piece& piece = file.pieces.emplace_back();
      for_each_field(outer.content(), [&](const Message& field) {
        if (field.number() == 1) piece.text = field.content();
        if (field.number() == 2) piece.score = field.as_float();
        if (field.number() == 3) piece.kind = static_cast<SentencePieceFile::Kind>(field.value());
      });
    } else if (outer.number() == 2) {
      for_each_field(outer.content(), [&](const Message& field) {
        if (field.number() == 3) {
          file.unigram = field.value() == 1;
          file.bpe = field.value() == 2;
        }
        if (field.number() == 35) file.byte_fallback = field.value() != 0;
      });
    } else if (outer.number() == 3) {
      for_each_field(outer.content(), [&](const Message& field) {
        if (field.number() == 2) file.charsmap = field.content();
        if (field.number() == 3) file.dummy_prefix = field.value() != 0;
        if (field.number() == 4) file.removes_spaces = field.value() != 0;
        if (field.number() == 5) file.escapes_spaces = field.value() != 0;
      });
    }
  });
  return file;
}

std::string number_by_frequency(std::string_view bytes, const std::vector<std::int64_t>& counts) {
  const std::vector<SentencePieceFile::Piece> pieces = read_sentencepiece(bytes).pieces;
  COMERA_CHECK(pieces.size() == counts.size(), "{} counts of {} pieces", counts.size(), pieces.size());
  std::vector<std::size_t> frequent;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    if (pieces[id].kind == SentencePieceFile::Kind::normal) frequent.push_back(id);
  std::ranges::stable_sort(frequent, std::greater(), [&](std::size_t id) { return counts[id]; });

  std::vector<std::string_view> fields;  // of pieces, with their keys
  std::string others;
  std::size_t begin = 0;
  for_each_field(bytes, [&](const Message& field) {
    const std::string_view whole = bytes.substr(begin, field.end() - begin);
    begin = field.end();
    if (field.number() == 1)
      fields.push_back(whole);
    else
      others += whole;
  });
  std::string numbered;
  auto next = frequent.begin();
  for (std::size_t id = 0; id < pieces.size(); ++id)
    numbered += fields[pieces[id].kind == SentencePieceFile::Kind::normal ? *next++ : id];
  return numbered + others;
}

}  // namespace comera::data
