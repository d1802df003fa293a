#include "data/tokenizer.h"

#include <sentencepiece_processor.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "kernels/core/check.h"

namespace comera::data {
namespace {

constexpr std::string_view space_symbol = "\xe2\x96\x81";  // U+2581, which SentencePiece puts for a space

// Kinds of characters, by their first or last byte.
enum Kind : std::uint8_t { letter, digit, punctuation, space, line_end, tab, other };

constexpr std::array<std::uint8_t, 256> kind_table = [] {
  std::array<std::uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    table[c] = is_letter               ? letter
               : c >= '0' && c <= '9'  ? digit
               : c == ' '              ? space
               : c == '\n'             ? line_end
               : c == '\t'             ? tab
               : c > ' ' && c < '\x7f' ? punctuation
                                       : other;
  }
  return table;
}();

std::uint8_t kind_of(char c) { return kind_table[static_cast<unsigned char>(c)]; }

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

}  // namespace

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code code;
  COMERA_CHECK(std::filesystem::is_regular_file(path, code), "{}: no such tokenizer model", path.string());
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  COMERA_CHECK(stream.good(), "{}: could not open the tokenizer model: {}", path.string(),
               std::strerror(errno));
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  COMERA_CHECK(!stream.bad(), "{}: could not read the tokenizer model", path.string());
  return from_bytes(std::move(bytes).str(), path.string());
}

Tokenizer Tokenizer::from_bytes(std::string bytes, const std::string& name) {
  COMERA_CHECK(is_whole_model(bytes), "{}: is not a SentencePiece model, or is truncated", name);
  Tokenizer tokenizer;
  tokenizer.processor_ = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status = tokenizer.processor_->LoadFromSerializedProto(bytes);
  COMERA_CHECK(status.ok(), "{}: is not a usable SentencePiece model: {}", name, status.message());
  tokenizer.vocabulary_ = tokenizer.processor_->GetPieceSize();
  const auto id_of = [&](const char* piece) {
    const int id = tokenizer.processor_->PieceToId(piece);
    COMERA_CHECK(id >= 0 && tokenizer.processor_->IdToPiece(id) == piece,
                 "{}: the tokenizer has no piece {}; train one with 'comera tokenizer'", name, piece);
    return id;
  };
  tokenizer.special_ = {id_of("[PAD]"), id_of("[UNK]"), id_of("[CLS]"), id_of("[SEP]"), id_of("[MASK]")};
  const int byte_zero = tokenizer.processor_->PieceToId("<0x00>");
  if (byte_zero >= 0 && tokenizer.processor_->IsByte(byte_zero)) tokenizer.byte_zero_ = byte_zero;
  tokenizer.find_cuts();
  tokenizer.hash_ = hash128(bytes).hex();
  tokenizer.bytes_ = std::move(bytes);
  return tokenizer;
}

void Tokenizer::find_cuts() {
  // A model that puts a space before each text would put one before each part.
  const std::vector<std::string> pieces = processor_->EncodeAsPieces("x");
  if (pieces.empty() || pieces[0].starts_with(space_symbol)) return;
  for (auto& row : cuts_) row.fill(true);
  cuts_[other][other] = false;  // bytes of one character
  for (int id = 0; id < vocabulary_; ++id) {
    if (processor_->IsControl(id) || processor_->IsUnknown(id) || processor_->IsByte(id)) continue;
    std::string piece = processor_->IdToPiece(id);
    spaces_for_symbols(piece);
    for (std::size_t i = 1; i < piece.size(); ++i) cuts_[kind_of(piece[i - 1])][kind_of(piece[i])] = false;
  }
}

// Cuts text where no piece can span the cut, so that the parts encode to what the whole would: short parts,
// which occur again and again. U+2581 and NUL, which SentencePiece would turn into something else, come one
// by one.
template <class Visit>
void Tokenizer::for_each_part(std::string_view text, Visit&& visit) const {
  std::size_t begin = 0;
  std::size_t at = 0;
  const auto cut = [&](std::size_t end) {
    if (end > begin) visit(text.substr(begin, end - begin));
    begin = end;
  };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\0' || (c == space_symbol[0] && text.substr(at).starts_with(space_symbol))) {
      cut(at);
      at += c == '\0' ? 1 : space_symbol.size();
      cut(at);
      continue;
    }
    if (at > begin && cuts_[kind_of(text[at - 1])][kind_of(c)]) cut(at);
    ++at;
  }
  cut(text.size());
}

void Tokenizer::encode_part(std::string_view part, std::vector<std::int32_t>& ids) const {
  if (byte_zero_ >= 0 && (part == space_symbol || part == std::string_view("\0", 1))) {
    for (const char c : part) ids.push_back(byte_zero_ + static_cast<unsigned char>(c));
    return;
  }
  std::vector<int> found;
  const auto status = processor_->Encode(absl::string_view(part.data(), part.size()), &found);
  COMERA_CHECK(status.ok(), "the tokenizer could not encode a text of {} bytes: {}", part.size(),
               status.message());
  ids.insert(ids.end(), found.begin(), found.end());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  for_each_part(text, [&](std::string_view part) { encode_part(part, ids); });
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<int> pieces;
  pieces.reserve(ids.size());
  for (const std::int32_t id : ids) {
    COMERA_CHECK(id >= 0 && id < vocabulary_, "token id {} is outside the vocabulary of {} pieces", id,
                 vocabulary_);
    if (id == special_.unknown || !special_.contains(id)) pieces.push_back(id);
  }
  std::string text;
  const auto status = processor_->Decode(pieces, &text);
  COMERA_CHECK(status.ok(), "the tokenizer could not decode {} ids: {}", ids.size(), status.message());
  return text;
}

std::string Tokenizer::piece(std::int32_t id) const {
  COMERA_CHECK(id >= 0 && id < vocabulary_, "token id {} is outside the vocabulary of {} pieces", id,
               vocabulary_);
  return processor_->IdToPiece(id);
}

PieceText Tokenizer::text(std::int32_t id) const {
  PieceText text{.bytes = piece(id)};
  if (special_.contains(id) || processor_->IsControl(id)) return {};
  if (processor_->IsByte(id)) {  // "<0x41>"
    text.byte = true;
    text.bytes = static_cast<char>(std::stoi(text.bytes.substr(3, 2), nullptr, 16));
    return text;
  }
  spaces_for_symbols(text.bytes);
  return text;
}

void Encoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  constexpr std::size_t longest_word = 48;
  constexpr std::size_t most_words = 1 << 18;
  tokenizer_.for_each_part(text, [&](std::string_view part) {
    if (part.size() > longest_word) return tokenizer_.encode_part(part, ids);
    auto found = words_.find(part);
    if (found == words_.end()) {
      if (words_.size() >= most_words) words_.clear();
      found = words_.emplace(part, std::vector<std::int32_t>()).first;
      tokenizer_.encode_part(part, found->second);
    }
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  });
}

}  // namespace comera::data
