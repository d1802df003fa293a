#include <sentencepiece_processor.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "data/tokenizers/models/piece_model.h"
#include "data/tokenizers/models/sentencepiece_proto.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

void spaces_for_symbols(std::string& piece) {
  for (auto at = piece.find(space_symbol); at != std::string::npos; at = piece.find(space_symbol, at))
    piece.replace(at, space_symbol.size(), 1, ' ');
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
    // A model that adds a space before each text would add one before each part.
    const std::vector<std::string> pieces = processor_.EncodeAsPieces("x");
    if (pieces.empty() || pieces[0].starts_with(space_symbol)) return cuts;
    // One that removes spaces or changes characters may join parts that were split.
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
    // SentencePiece would replace these.
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

  // A character that is in no piece replaces the neighbouring pieces: no piece crosses its edges, and the
  // part neither gets the space that a model adds before texts nor loses the spaces that it removes at their
  // ends.
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
      // Of the bytes of one character, all but the last have length zero.
      const bool within = piece.begin() >= begin && piece.begin() < end;
      // Consecutive unknown characters are one piece, including the stranger.
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

  nlohmann::ordered_json tokenizer_json() const override;

 private:
  sentencepiece::SentencePieceProcessor processor_;
  std::int32_t byte_zero_ = -1;  // id of the piece of byte 0; the 255 others follow; -1: none
};

using Json = nlohmann::ordered_json;
using PieceKind = SentencePieceFile::Kind;

// SentencePiece joins the two neighbours whose piece has the highest score; tokenizers joins pairs in the
// order of a list. All pairs that form a piece are listed at the position of its score.
Json merges_of(const SentencePieceFile& file) {
  std::unordered_set<std::string_view> pieces;
  std::vector<const SentencePieceFile::Piece*> order;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.kind != PieceKind::normal) continue;
    pieces.emplace(piece.text);
    order.push_back(&piece);
  }
  std::ranges::stable_sort(order, std::greater<>(), &SentencePieceFile::Piece::score);
  Json merges = Json::array();
  for (const SentencePieceFile::Piece* joined : order) {
    const std::string_view piece = joined->text;
    std::size_t at = 0;
    for (next_character(piece, at); at < piece.size(); next_character(piece, at))
      if (pieces.contains(piece.substr(0, at)) && pieces.contains(piece.substr(at)))
        merges.push_back({piece.substr(0, at), piece.substr(at)});
  }
  return merges;
}

// A piece that text never produces must lose against every other segmentation.
constexpr double never = -1e6;

Json unigram_scores(const SentencePieceFile& file) {
  Json scores = Json::array();
  for (const auto& piece : file.pieces)
    scores.push_back(
        {piece.text, piece.kind == PieceKind::normal ? static_cast<double>(piece.score) : never});
  return scores;
}

Json SentencePieceModel::tokenizer_json() const {
  SentencePieceFile file = read_sentencepiece(processor_.serialized_model_proto());
  const bool is_known =
      (file.bpe || file.unigram) && file.byte_fallback && file.charsmap.empty() && !file.dummy_prefix &&
      !file.removes_spaces && file.escapes_spaces &&
      std::ranges::none_of(file.pieces, [](const auto& piece) { return piece.kind == PieceKind::unused; });
  COMERA_CHECK(
      is_known,
      "this SentencePiece model has no tokenizer.json here, since it normalises text, adds or removes "
      "spaces, or has no pieces for single bytes; train one with 'comera tokenizer'");
  // With spaces unchanged, U+2581 in text is an ordinary character, and nothing needs to be normalised.
  std::vector<std::string> pieces;
  Json added = Json::array();
  for (auto& piece : file.pieces) {
    spaces_for_symbols(piece.text);
    if (piece.kind == PieceKind::user_defined)
      added.push_back({{"id", pieces.size()}, {"content", piece.text}});
    pieces.push_back(piece.text);
  }
  Json model = {{"type", "Unigram"}, {"unk_id", unknown()}, {"byte_fallback", true}};
  if (file.bpe)
    model = {{"type", "BPE"},
             {"dropout", nullptr},
             {"unk_token", piece(unknown())},
             {"fuse_unk", false},
             {"byte_fallback", true},
             {"ignore_merges", false},
             {"vocab", ids_by_piece(pieces)},
             {"merges", merges_of(file)}};
  else
    model["vocab"] = unigram_scores(file);
  return {{"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}},
          {"model", model},
          {"added_tokens", added}};
}

}  // namespace

std::unique_ptr<PieceModel> open_sentencepiece(const std::string& bytes, const std::string& name) {
  if (!is_whole_sentencepiece(bytes)) return nullptr;
  return std::make_unique<SentencePieceModel>(bytes, name);
}

}  // namespace comera::data
