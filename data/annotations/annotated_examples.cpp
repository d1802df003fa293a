#include "data/annotations/annotated_examples.h"

#include <algorithm>

#include "data/annotations/question_examples.h"
#include "data/annotations/token_examples.h"
#include "storage/hash.h"

namespace comera::data {

std::unique_ptr<AnnotatedExamples> read_annotated(const Task& task, const std::vector<Task::Set>& sets,
                                                  const Tokenizer& tokenizer, bool labels,
                                                  std::int64_t length) {
  if (task.kind == TaskKind::question_answering)
    return std::make_unique<QuestionExamples>(task, sets, tokenizer, labels, length);
  return std::make_unique<TokenExamples>(task, sets, tokenizer, labels, length);
}

bool is_in_part(const Task& task, TaskPart part, std::string_view text) {
  if (part == TaskPart::all) return true;
  const bool held_out = storage::unit_interval(storage::hash128(text).high) < task.held_out;
  return held_out == (part == TaskPart::held_out);
}

std::vector<std::int32_t> AnnotatedSamples::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(count()));
  for (std::int64_t i = 0; i < count(); ++i) lengths.push_back(static_cast<std::int32_t>(length(i)));
  return lengths;
}

void AnnotatedSamples::read(std::int64_t sample, Sample& to) {
  examples_.read(sample, asked_, to);
  to.masked = true;
  to.second = 0;
  if (types_ < 2) std::ranges::fill(to.type_ids, 0);
}

}  // namespace comera::data
