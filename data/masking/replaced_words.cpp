#include "data/masking/replaced_words.h"

#include <algorithm>

#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"
#include "storage/hash.h"

namespace comera::data {

namespace {

constexpr std::size_t least_bytes = 3;

bool is_letter(char32_t c) { return is_word_character(c) && !(c >= '0' && c <= '9') && c != '_'; }

// Of a piece's text without the space that may begin it.
bool consists_of_letters(std::string_view text) {
  if (text.size() < least_bytes || continues_character(text[0])) return false;
  for (std::size_t at = 0; at < text.size();)
    if (!is_letter(next_character(text, at))) return false;
  return true;
}

}  // namespace

ReplaceableWords::ReplaceableWords(const Tokenizer& tokenizer)
    : table_(tokenizer), is_word_(static_cast<std::size_t>(tokenizer.vocabulary())) {
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (tokenizer.special().contains(id)) continue;
    const PieceText piece = tokenizer.text(id);
    if (piece.byte || !piece.bytes.starts_with(' ') ||
        !consists_of_letters(std::string_view(piece.bytes).substr(1)))
      continue;
    is_word_[static_cast<std::size_t>(id)] = true;
    ids_.push_back(id);
  }
}

bool ReplaceableWords::stands_alone(std::span<const std::int32_t> ids, std::size_t i) const {
  return count() > 1 && is_word_[static_cast<std::size_t>(ids[i])] &&
         (i + 1 == ids.size() || !table_.joins(ids[i], ids[i + 1]));
}

std::int64_t ReplaceableWords::count_in(std::span<const std::int32_t> ids) const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) count += stands_alone(ids, i) ? 1 : 0;
  return count;
}

void ReplaceableWords::replace(double probability, std::uint64_t key, std::vector<std::int32_t>& ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!stands_alone(ids, i)) continue;
    const std::uint64_t draw = storage::mix64(key + i);
    if (storage::unit_interval(draw) >= probability) continue;
    const auto own = std::ranges::lower_bound(ids_, ids[i]) - ids_.begin();
    const auto other = static_cast<std::int64_t>(storage::unit_interval(storage::mix64(draw)) *
                                                 static_cast<double>(count() - 1));
    ids[i] = ids_[static_cast<std::size_t>(other < own ? other : other + 1)];
  }
}

WithReplacedWords::WithReplacedWords(std::unique_ptr<SampleSource> source,
                                     std::shared_ptr<const ReplaceableWords> words, double probability)
    : source_(std::move(source)), words_(std::move(words)), probability_(probability) {
  COMERA_CHECK(!source_->masked(), "words of a masked sample are not replaced");
}

std::vector<std::int32_t> WithReplacedWords::lengths() const {
  std::vector<std::int32_t> twice;
  for (const std::int32_t length : source_->lengths()) twice.insert(twice.end(), 2, length);
  return twice;
}

void WithReplacedWords::read(std::int64_t sample, Sample& to) {
  source_->read(sample / 2, to);
  if (sample % 2 == 1)
    words_->replace(probability_, storage::mix64(static_cast<std::uint64_t>(sample)), to.ids);
}

}  // namespace comera::data
