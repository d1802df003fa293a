#include "data/tokenizers/tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/tokenizers/models/wordpiece.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"

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

std::string described(const std::vector<TokenizerSetting>& settings) {
  constexpr std::size_t most_source = 40;  // of a line of 80 columns; longer ones have their own
  std::string text;
  for (const TokenizerSetting& setting : settings)
    text += fmt::format("  {:<22}{:<16}{}{}\n", setting.name, setting.value,
                        setting.source.size() > most_source ? "\n      " : "", setting.source);
  return text;
}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_bytes(std::string bytes, const std::string& name) {
  Tokenizer tokenizer;
  OpenedTokenizer opened{.model = open_sentencepiece(bytes, name)};
  const bool sentencepiece = opened.model != nullptr;
  if (!sentencepiece) opened.model = open_wordpiece(bytes, name);
  if (opened.model == nullptr) opened = open_tokenizer_json(bytes, name);
  COMERA_CHECK(
      opened.model != nullptr,
      "{}: is not a SentencePiece model, or is truncated; nor is it a WordPiece vocabulary, one piece "
      "per line with [UNK] among them, or a tokenizer.json",
      name);
  tokenizer.model_ = std::move(opened.model);
  tokenizer.pair_separators_ = opened.pair_separators;
  tokenizer.vocabulary_ = tokenizer.model_->size();
  for (const AddedToken& token : opened.added)
    tokenizer.vocabulary_ = std::max(tokenizer.vocabulary_, token.id + 1);
  tokenizer.added_tokens_ = std::move(opened.added);
  tokenizer.find_special(opened.special, name);
  if (!opened.special_in_text)
    for (const AddedToken& token : tokenizer.added_tokens_)
      if (token.special && token.id >= tokenizer.model_->size()) tokenizer.names_[token.id] = token.content;
  std::erase_if(tokenizer.added_tokens_,
                [&](const AddedToken& token) { return token.special && !opened.special_in_text; });
  tokenizer.take_added(std::exchange(tokenizer.added_tokens_, {}));
  tokenizer.cuts_ = tokenizer.model_->cuts();
  tokenizer.sentencepiece_ = sentencepiece;
  tokenizer.symbols_apart_ = sentencepiece && tokenizer.cuts_ != Cuts{};
  tokenizer.restores_text_ = true;
  for (const std::string_view text : awkward_texts)
    tokenizer.restores_text_ = tokenizer.restores_text_ && tokenizer.decode(tokenizer.encode(text)) == text;
  if (!tokenizer.restores_text_)
    tokenizer.notes_.push_back(
        fmt::format("{}: the tokenizer normalises text or has no pieces for rare characters, so its ids do "
                    "not give back the exact text",
                    name));
  tokenizer.hash_ = opened.hash.empty() ? storage::hash128(bytes).hex() : opened.hash;
  tokenizer.bytes_ = std::move(bytes);
  return tokenizer;
}

// Given or known names first, then new ids after the other pieces, in a fixed order.
void Tokenizer::find_special(const SpecialNames& names, const std::string& name) {
  const std::int32_t size = vocabulary_;
  std::vector<std::string> missing;
  const auto find = [&](const std::string& piece) {
    if (const std::int32_t id = model_->find(piece); id >= 0) {
      special_in_text_ = special_in_text_ || !model_->is_control(id);
      return id;
    }
    const auto added = std::ranges::find(added_tokens_, piece, &AddedToken::content);
    if (added == added_tokens_.end()) return std::int32_t{-1};
    names_[added->id] = piece;
    return added->id;
  };
  const auto id_of = [&](const std::string& given, std::vector<std::string> known) {
    if (!given.empty()) known = {given};
    for (const std::string& piece : known)
      if (const std::int32_t id = find(piece); id >= 0) return id;
    missing.push_back(known[0]);
    names_[vocabulary_] = known[0];
    return vocabulary_++;
  };
  special_.pad = id_of(names.pad, {"[PAD]", "<pad>"});
  special_.unknown = names.unknown.empty() && model_->unknown() >= 0
                         ? model_->unknown()
                         : id_of(names.unknown, {"[UNK]", "<unk>"});
  special_.cls = id_of(names.cls, {"[CLS]", "<cls>", "<s>"});
  special_.separator = id_of(names.separator, {"[SEP]", "<sep>", "</s>"});
  special_.mask = id_of(names.mask, {"[MASK]", "<mask>"});
  if (missing.empty()) return;
  notes_.push_back(
      fmt::format("{}: the tokenizer has no {}; added behind its {} pieces, which makes a vocabulary of {}",
                  name, fmt::join(missing, ", "), size, vocabulary_));
}

// Special ones first: of two with the same text, the first counts.
void Tokenizer::take_added(std::vector<AddedToken> tokens) {
  std::erase_if(tokens, [&](const AddedToken& token) { return special_.contains(token.id); });
  std::ranges::stable_sort(tokens, std::greater<>(), &AddedToken::special);
  for (const AddedToken& token : tokens)
    if (token.normalized)
      normalized_tokens_.add(token, model_->normalize(token.content));
    else
      raw_tokens_.add(token, token.content);
  std::ranges::sort(tokens, {}, &AddedToken::id);
  added_tokens_ = std::move(tokens);
}

const AddedToken* Tokenizer::find_added(std::int32_t id) const {
  const auto found = std::ranges::lower_bound(added_tokens_, id, {}, &AddedToken::id);
  return found != added_tokens_.end() && found->id == id ? &*found : nullptr;
}

template <class VisitText, class VisitToken>
void Tokenizer::for_each_segment(std::string_view text, VisitText&& visit_text,
                                 VisitToken&& visit_token) const {
  if (added_tokens_.empty()) return visit_text(text);
  raw_tokens_.split(
      text,
      [&](std::string_view segment) {
        if (normalized_tokens_.empty()) return visit_text(segment);
        const std::string normalized = model_->normalize(segment);
        normalized_tokens_.split(normalized, visit_text, visit_token);
      },
      visit_token);
}

// Cuts text where no piece can span the cut, so that the ids are the same: short parts, which occur
// repeatedly. U+2581 and NUL, which SentencePiece would replace, are passed one by one.
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
  for_each_segment(
      text,
      [&](std::string_view segment) {
        for_each_part(segment, [&](std::string_view part) { encode_part(part, ids); });
      },
      [&](std::int32_t token) { ids.push_back(token); });
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_between(std::string_view part, bool piece_before,
                                                    bool piece_behind) const {
  // Where text may be cut, its ends have no effect.
  if (symbols_apart_ || part.empty()) return encode(part);
  // Texts, and the added tokens between them; nothing is joined across these.
  struct Segment {
    std::string text;
    std::int32_t token = -1;
  };
  std::vector<Segment> segments;
  for_each_segment(
      part, [&](std::string_view text) { segments.push_back({std::string(text)}); },
      [&](std::int32_t token) {
        segments.push_back({{}, token});
      });
  std::vector<std::int32_t> ids, found;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].token >= 0) {
      ids.push_back(segments[i].token);
      continue;
    }
    found.clear();
    model_->encode_between(segments[i].text, piece_before && i == 0, piece_behind && i + 1 == segments.size(),
                           found);
    hide_special(found, 0);
    ids.insert(ids.end(), found.begin(), found.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  std::vector<std::int32_t> pieces;  // of the model, to be decoded together
  const auto decode_pieces = [&] {
    if (pieces.empty()) return;
    const std::string decoded = model_->decode(pieces);
    const bool apart = !text.empty() && model_->added_text("") == " " && !this->text(pieces[0]).inside_word;
    text += apart ? " " + decoded : decoded;
    pieces.clear();
  };
  for (const std::int32_t id : ids) {
    require_id(id);
    if (const AddedToken* token = find_added(id)) {
      decode_pieces();
      text += text.empty() ? token->content : model_->added_text(token->content);
    } else if (id < model_->size() && (id == special_.unknown || !special_.contains(id))) {
      pieces.push_back(id);
    }
  }
  decode_pieces();
  return text;
}

void Tokenizer::require_id(std::int32_t id) const {
  COMERA_CHECK(id >= 0 && id < vocabulary_, "token id {} is outside the vocabulary of {} pieces", id,
               vocabulary_);
}

std::string Tokenizer::piece(std::int32_t id) const {
  require_id(id);
  if (const AddedToken* token = find_added(id)) return token->content;
  const auto name = names_.find(id);
  if (name != names_.end()) return name->second;
  return id < model_->size() ? model_->piece(id) : "";
}

std::array<std::string, 5> Tokenizer::special_names() const {
  return {piece(special_.pad), piece(special_.unknown), piece(special_.cls), piece(special_.separator),
          piece(special_.mask)};
}

PieceText Tokenizer::text(std::int32_t id) const {
  require_id(id);
  if (const AddedToken* token = find_added(id)) return {.bytes = model_->added_text(token->content)};
  return id >= model_->size() || special_.contains(id) ? PieceText{} : model_->text(id);
}

void Encoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  constexpr std::size_t longest_word = 48;
  constexpr std::size_t most_words = 1 << 18;
  const auto encode_word = [&](std::string_view part) {
    if (part.size() > longest_word) return tokenizer_.encode_part(part, ids);
    auto found = words_.find(part);
    if (found == words_.end()) {
      if (words_.size() >= most_words) words_.clear();
      found = words_.emplace(part, std::vector<std::int32_t>()).first;
      tokenizer_.encode_part(part, found->second);
    }
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  };
  tokenizer_.for_each_segment(
      text, [&](std::string_view segment) { tokenizer_.for_each_part(segment, encode_word); },
      [&](std::int32_t token) { ids.push_back(token); });
}

}  // namespace comera::data
