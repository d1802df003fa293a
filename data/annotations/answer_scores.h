#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tasks/scores.h"

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

// A question that may have no answer in its text, and what a model found.
struct AnsweredQuestion {
  std::string predicted;           // the best span
  double no_answer = 0;            // the score of no answer, less the span's
  std::vector<std::string> given;  // none: there is no answer
};

// Scores of such questions, as SQuAD 2.0's script says them (Rajpurkar et al., 2018): a question is answered
// with "" where no_answer is above a threshold. Given answers of which nothing is left when they are
// normalised do not count beside others.
struct QuestionScores {
  AnswerScores all;  // means over all questions
  // The best threshold is the middle of the lowest that have the best F1. As in the script, a span counts as
  // wrong there where there is no answer, even if nothing is left of it when it is normalised. Unlike there,
  // questions with the same no_answer are answered together.
  UnanswerableScores apart;
};
QuestionScores question_scores(std::span<const AnsweredQuestion> questions, double threshold);

}  // namespace comera::data
