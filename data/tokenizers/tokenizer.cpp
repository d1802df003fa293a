#include "data/tokenizers/tokenizer.h"

#include <fmt/ranges.h>

#include <array>

#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/small_file.h"

namespace comera::data {
namespace {

constexpr std::array<CharacterKind, 256> kind_table = [] {
  std::array<CharacterKind, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    table[static_cast<std::size_t>(c)] = is_letter               ? letter
                                         : c >= '0' && c <= '9'  ? digit
                                         : c == ' '              ? space
                                         : c == '\n'             ? line_end
                                         : c == '\t'             ? tab
                                         : c > ' ' && c < '\x7f' ? punctuation
                                                                 : other;
  }
  return table;
}();

// Spaces, tabs, line ends, case, composed and wide characters, rare ones.
constexpr std::string_view awkward_texts[] = {"  a  b ", "\tIf\n\n x\r\n", "e\u0301 \uff21 \ufb01 \u00a0",
                                              "\u6f22\U0001f642\u2581"};

}  // namespace

CharacterKind kind_of(char c) { return kind_table[static_cast<unsigned char>(c)]; }

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  constexpr std::int64_t limit = std::int64_t{256} << 20;  // some fifty times the largest in use
  return from_bytes(
      storage::read_small_file(
          path, limit, "a tokenizer, a SentencePiece model, WordPiece's vocab.txt or a tokenizer.json"),
      path.string());
}

Tokenizer Tokenizer::from_bytes(std::string bytes, const std::string& name) {
  Tokenizer tokenizer;
  tokenizer.model_ = open_sentencepiece(bytes, name);
  const bool sentencepiece = tokenizer.model_ != nullptr;
  if (!sentencepiece) tokenizer.model_ = open_wordpiece(bytes, name);
  if (tokenizer.model_ == nullptr) tokenizer.model_ = open_tokenizer_json(bytes, name);
  COMERA_CHECK(
      tokenizer.model_ != nullptr,
      "{}: is not a SentencePiece model, or is truncated; nor is it a WordPiece vocabulary, one piece "
      "per line with [UNK] among them, or a tokenizer.json",
      name);
  tokenizer.find_special(name);
  tokenizer.cuts_ = tokenizer.model_->cuts();
  tokenizer.sentencepiece_ = sentencepiece;
  tokenizer.symbols_apart_ = sentencepiece && tokenizer.cuts_ != Cuts{};
  tokenizer.restores_text_ = true;
  for (const std::string_view text : awkward_texts)
    tokenizer.restores_text_ = tokenizer.restores_text_ && tokenizer.decode(tokenizer.encode(text)) == text;
  if (!tokenizer.restores_text_)
    tokenizer.notes_.push_back(
        fmt::format("{}: the tokenizer normalises text or has no pieces for rare characters, so that text "
                    "does not come back "
                    "exactly from its ids",
                    name));
  tokenizer.hash_ = storage::hash128(bytes).hex();
  tokenizer.bytes_ = std::move(bytes);
  return tokenizer;
}

// Known names first, then new ids behind the model's pieces, in a fixed order.
void Tokenizer::find_special(const std::string& name) {
  vocabulary_ = model_->size();
  const auto id_of = [&](std::initializer_list<const char*> names) {
    for (const char* piece : names)
      if (const std::int32_t id = model_->find(piece); id >= 0) {
        special_in_text_ = special_in_text_ || !model_->is_control(id);
        return id;
      }
    added_.emplace_back(*names.begin());
    return vocabulary_++;
  };
  special_.pad = id_of({"[PAD]", "<pad>"});
  special_.unknown = model_->unknown() >= 0 ? model_->unknown() : id_of({"[UNK]", "<unk>"});
  special_.cls = id_of({"[CLS]", "<cls>", "<s>"});
  special_.separator = id_of({"[SEP]", "<sep>", "</s>"});
  special_.mask = id_of({"[MASK]", "<mask>"});
  if (added_.empty()) return;
  notes_.push_back(
      fmt::format("{}: the tokenizer has no {}; added behind its {} pieces, which makes a vocabulary of {}",
                  name, fmt::join(added_, ", "), model_->size(), vocabulary_));
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
    if (symbols_apart_ &&
        (c == '\0' || (c == space_symbol[0] && text.substr(at).starts_with(space_symbol)))) {
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
  const std::size_t before = ids.size();
  model_->encode(part, ids);
  hide_special(ids, before);
}

void Tokenizer::hide_special(std::vector<std::int32_t>& ids, std::size_t begin) const {
  if (!special_in_text_) return;
  for (std::size_t i = begin; i < ids.size(); ++i)
    if (special_.contains(ids[i])) ids[i] = special_.unknown;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  for_each_part(text, [&](std::string_view part) { encode_part(part, ids); });
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_between(std::string_view part, bool piece_before,
                                                    bool piece_behind) const {
  // Where text may be cut anyway, its ends change nothing.
  if (symbols_apart_ || part.empty()) return encode(part);
  std::vector<std::int32_t> ids;
  model_->encode_between(part, piece_before, piece_behind, ids);
  hide_special(ids, 0);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> pieces;
  pieces.reserve(ids.size());
  for (const std::int32_t id : ids) {
    COMERA_CHECK(id >= 0 && id < vocabulary_, "token id {} is outside the vocabulary of {} pieces", id,
                 vocabulary_);
    if (id < model_->size() && (id == special_.unknown || !special_.contains(id))) pieces.push_back(id);
  }
  return model_->decode(pieces);
}

std::string Tokenizer::piece(std::int32_t id) const {
  COMERA_CHECK(id >= 0 && id < vocabulary_, "token id {} is outside the vocabulary of {} pieces", id,
               vocabulary_);
  return id < model_->size() ? model_->piece(id) : added_[static_cast<std::size_t>(id - model_->size())];
}

PieceText Tokenizer::text(std::int32_t id) const {
  COMERA_CHECK(id >= 0 && id < vocabulary_, "token id {} is outside the vocabulary of {} pieces", id,
               vocabulary_);
  return id >= model_->size() || special_.contains(id) ? PieceText{} : model_->text(id);
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
