#pragma once

#include <span>
#include <string>
#include <string_view>

namespace comera::data {

// An answer as SQuAD's evaluation script compares it (Rajpurkar et al., 2016): in lower case, without ASCII
// punctuation and English articles, with single spaces.
std::string normalized_answer(std::string_view answer);

struct AnswerScores {
  double exact_match = 0;  // 1 or 0
  double f1 = 0;           // of the words of both
};
// The best over all given answers, each score by itself. No answer, "", is right where no answer is given, or
// an empty one.
AnswerScores answer_scores(std::string_view predicted, std::span<const std::string> given);

}  // namespace comera::data
