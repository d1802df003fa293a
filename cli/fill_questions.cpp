#include "cli/fill_questions.h"

#include <fmt/format.h>

#include "data/batching/loader.h"
#include "data/shards/permutation.h"
#include "data/shards/sequence_set.h"
#include "data/tokenizers/hidden_piece.h"
#include "kernels/core/console.h"
#include "storage/hash.h"

namespace comera::cli {

std::vector<Question> hidden_pieces(const HiddenPieces& wanted, const LoadedModel& loaded,
                                    std::int64_t length) {
  const auto set =
      data::open_sequences(wanted.folder, "validation", loaded.tokenizer, data::TargetKind::dynamic);
  set->check_types(static_cast<std::int32_t>(loaded.model.config().types));
  const auto samples = set->samples(length, data::LoaderOptions().cache_bytes);
  const auto seed = static_cast<std::uint64_t>(wanted.seed);
  const data::Permutation order(samples->count(), seed, 0);
  std::vector<Question> questions;
  data::Sample sample;
  for (std::int64_t i = 0; i < order.count() && std::ssize(questions) < wanted.examples; ++i) {
    samples->read(order[i], sample);
    const auto hidden = data::hide_piece(loaded.tokenizer, sample.ids, storage::mix64(seed) + i);
    if (!hidden) continue;
    questions.push_back({.place = fmt::format("sequence {} of {}", order[i], wanted.folder.string()),
                         .title = "",
                         .number_key = "sequence",
                         .number = order[i],
                         .text = hidden->text,
                         .types = sample.type_ids,
                         .truth = hidden->truth});
  }
  COMERA_CHECK(!questions.empty(), "{}: its held-out sequences have no piece to hide",
               wanted.folder.string());
  if (std::ssize(questions) < wanted.examples)
    log_info("{}: only {} held-out sequences of up to {} tokens have a piece to hide\n",
             wanted.folder.string(), questions.size(), length);
  return questions;
}

std::string shortened_text(const std::string& text) {
  std::size_t end = std::min<std::size_t>(text.size(), 40);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return end < text.size() ? text.substr(0, end) + "..." : text;
}

void check_text(const Question& question, const LoadedModel& loaded, std::int64_t length) {
  if (question.text.positions.empty())
    throw UnfitText(fmt::format("{} has no {}: put it where a piece is to be predicted", question.place,
                                data::MaskedText::mark));
  const auto tokens = static_cast<std::int64_t>(question.text.ids.size());
  if (tokens <= length) return;
  const EncoderConfig& config = loaded.model.config();
  const bool fits = config.positions != Positions::learned || tokens <= config.max_positions;
  throw UnfitText(fmt::format(
      "{} has {} tokens with [CLS] and [SEP], and sequences have at most {}: {}", question.place, tokens,
      length,
      fits ? fmt::format("give --length {}, or shorten it", tokens)
           : fmt::format("shorten it; the model has learned {} positions", config.max_positions)));
}

void answer(std::vector<Question>& questions, std::int64_t top, const InferenceOptions& inference,
            const LoadedModel& loaded) {
  std::vector<data::Sample> sequences;
  for (Question& question : questions) {
    const data::MaskedText& text = question.text;
    question.answers.resize(text.positions.size());
    data::Sample sample;
    sample.ids = text.ids;
    sample.type_ids = question.types;
    sample.type_ids.resize(text.ids.size());
    sample.targets = {text.positions, std::vector<std::int32_t>(text.positions.size())};
    sequences.push_back(std::move(sample));
  }
  const std::int64_t pieces = loaded.tokenizer.vocabulary();
  run_masked(loaded.model, loaded.processor, sequences, loaded.tokenizer.special(),
             [&](std::size_t sequence, std::size_t mark, std::span<const double> logits) {
               Question& question = questions[sequence];
               require_finite(logits, inference, question.place);
               Answer& answer = question.answers[mark];
               answer.fillings = likeliest(logits, pieces, top);
               if ((answer.truth = question.truth) >= 0)
                 answer.standing = standing_of(question.truth, logits, pieces);
             });
}

}  // namespace comera::cli
