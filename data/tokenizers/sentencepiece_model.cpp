#include <sentencepiece_processor.h>

#include "data/tokenizers/piece_model.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

void spaces_for_symbols(std::string& piece) {
  for (auto at = piece.find(space_symbol); at != std::string::npos; at = piece.find(space_symbol, at))
    piece.replace(at, space_symbol.size(), 1, ' ');
}

// Reads one base-128 number of the protocol buffer format; false at the end of the bytes.
bool read_varint(std::string_view bytes, std::size_t& at, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Whether the outermost message is whole: pieces (field 1), then the trainer's and the normaliser's settings
// (2 and 3). A file cut between two pieces still parses, so SentencePiece would not notice.
bool is_whole_model(std::string_view bytes) {
  std::array<bool, 4> seen{};
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t key = 0;
    std::uint64_t length = 0;
    if (!read_varint(bytes, at, key) || (key & 7) != 2 || !read_varint(bytes, at, length)) return false;
    if (length > bytes.size() - at) return false;
    if ((key >> 3) < seen.size()) seen[key >> 3] = true;
    at += length;
  }
  return seen[1] && seen[2] && seen[3];
}

class SentencePieceModel final : public PieceModel {
 public:
  SentencePieceModel(const std::string& bytes, const std::string& name) {
    const auto status = processor_.LoadFromSerializedProto(bytes);
    COMERA_CHECK(status.ok(), "{}: is not a usable SentencePiece model: {}", name, status.message());
    const int byte_zero = processor_.PieceToId("<0x00>");
    if (byte_zero >= 0 && processor_.IsByte(byte_zero)) byte_zero_ = byte_zero;
  }

  std::int32_t size() const override { return processor_.GetPieceSize(); }
  std::int32_t unknown() const override { return processor_.unk_id(); }
  std::int32_t find(std::string_view piece) const override {
    const int id = processor_.PieceToId(absl::string_view(piece.data(), piece.size()));
    return id >= 0 && processor_.IdToPiece(id) == piece ? id : -1;
  }
  std::string piece(std::int32_t id) const override { return processor_.IdToPiece(id); }
  bool is_control(std::int32_t id) const override { return processor_.IsControl(id); }

  PieceText text(std::int32_t id) const override {
    if (processor_.IsControl(id) || processor_.IsUnknown(id)) return {};
    PieceText text{.bytes = piece(id)};
    if (processor_.IsByte(id)) {  // "<0x41>"
      text.byte = true;
      text.bytes = static_cast<char>(std::stoi(text.bytes.substr(3, 2), nullptr, 16));
      return text;
    }
    spaces_for_symbols(text.bytes);
    return text;
  }

  Cuts cuts() const override {
    Cuts cuts{};
    // A model that puts a space before each text would put one before each part.
    const std::vector<std::string> pieces = processor_.EncodeAsPieces("x");
    if (pieces.empty() || pieces[0].starts_with(space_symbol)) return cuts;
    // One that takes spaces away or changes characters may join what was cut.
    for (const std::string text : {" x  x ", "\uff21\ufb01 e\u0301"}) {
      std::vector<std::int32_t> ids;
      encode(text, ids);
      if (decode(ids) != text) return cuts;
    }
    for (auto& row : cuts) row.fill(true);
    cuts[other][other] = false;  // bytes of one character
    for (int id = 0; id < size(); ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id) || processor_.IsByte(id)) continue;
      const std::string piece = text(id).bytes;
      for (std::size_t i = 1; i < piece.size(); ++i) cuts[kind_of(piece[i - 1])][kind_of(piece[i])] = false;
    }
    return cuts;
  }

  void encode(std::string_view part, std::vector<std::int32_t>& ids) const override {
    // SentencePiece would turn these into something else.
    if (byte_zero_ >= 0 && (part == space_symbol || part == std::string_view("\0", 1))) {
      for (const char c : part) ids.push_back(byte_zero_ + static_cast<unsigned char>(c));
      return;
    }
    std::vector<int> found;
    const auto status = processor_.Encode(absl::string_view(part.data(), part.size()), &found);
    COMERA_CHECK(status.ok(), "the tokenizer could not encode a text of {} bytes: {}", part.size(),
                 status.message());
    ids.insert(ids.end(), found.begin(), found.end());
  }

  // A character that is in no piece stands for the pieces around: no piece goes over its edges, and neither
  // the space that a model puts before texts nor those that it takes away at their ends are the part's.
  void encode_between(std::string_view part, bool piece_before, bool piece_behind,
                      std::vector<std::int32_t>& ids) const override {
    constexpr std::string_view stranger = "\xf4\x8f\xbf\xbd";  // U+10FFFD, of private use
    const std::size_t begin = piece_before ? stranger.size() : 0, end = begin + part.size();
    std::string text(part);
    if (piece_before) text.insert(0, stranger);
    if (piece_behind) text += stranger;
    const auto encoded = processor_.EncodeAsImmutableProto(absl::string_view(text.data(), text.size()));
    for (std::size_t i = 0; i < encoded.pieces_size(); ++i) {
      const auto piece = encoded.pieces(static_cast<int>(i));
      // Of the bytes of one character, all but the last have no length.
      const bool within = piece.begin() >= begin && piece.begin() < end;
      // Unknown characters in a row are one piece, the stranger too.
      if (within || (piece.begin() < begin && piece.end() > begin))
        ids.push_back(static_cast<std::int32_t>(piece.id()));
    }
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    COMERA_CHECK(status.ok(), "the tokenizer could not decode {} ids: {}", ids.size(), status.message());
    return text;
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  std::int32_t byte_zero_ = -1;  // id of the piece of byte 0; the 255 others follow; -1: none
};

}  // namespace

std::unique_ptr<PieceModel> open_sentencepiece(const std::string& bytes, const std::string& name) {
  if (!is_whole_model(bytes)) return nullptr;
  return std::make_unique<SentencePieceModel>(bytes, name);
}

}  // namespace comera::data
