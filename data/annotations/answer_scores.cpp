#include "data/annotations/answer_scores.h"

#include <algorithm>
#include <map>
#include <vector>

#include "data/tokenizers/text/unicode_tables.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_ascii_letter_or_digit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Of Python's regular expressions; an underscore is punctuation.
bool is_word(char32_t c) {
  if (c < 0x80) return is_ascii_letter_or_digit(c);
  return within(letter_characters(), c) || within(number_characters(), c);
}

// Of Python's str.split().
bool is_space(char32_t c) { return is_space_character(c) || (c >= 0x1c && c <= 0x1f); }

std::u32string lowered(std::string_view text) {
  std::u32string result;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    const auto folds = case_folds();
    const auto found = std::ranges::lower_bound(folds, c, {}, &Fold::from);
    if (found == folds.end() || found->from != c) {
      result += c;
      continue;
    }
    for (const char32_t to : found->to)
      if (to != 0) result += to;
  }
  return result;
}

std::u32string without_articles(const std::u32string& text) {
  std::u32string result;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == begin) {
      result += text[begin++];
      continue;
    }
    const std::u32string word = text.substr(begin, end - begin);
    const bool article = word == U"a" || word == U"an" || word == U"the";
    result += article ? std::u32string(U" ") : word;
    begin = end;
  }
  return result;
}

std::vector<std::u32string> words_of(std::string_view answer) {
  std::u32string text = lowered(answer);
  std::erase_if(text, is_ascii_punctuation);
  std::vector<std::u32string> words;
  bool inside = false;
  for (const char32_t c : without_articles(text)) {
    if (!is_space(c)) {
      if (!inside) words.emplace_back();
      words.back() += c;
    }
    inside = !is_space(c);
  }
  return words;
}

void append_utf8(std::string& text, char32_t c) {
  const auto byte = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      byte(0xE0 | (c >> 12));
    } else {
      byte(0xF0 | (c >> 18));
      byte(0x80 | ((c >> 12) & 0x3F));
    }
    byte(0x80 | ((c >> 6) & 0x3F));
  }
  byte(0x80 | (c & 0x3F));
}

double f1_of(const std::vector<std::u32string>& predicted, const std::vector<std::u32string>& given) {
  if (predicted.empty() || given.empty()) return predicted == given ? 1 : 0;
  std::map<std::u32string, std::int64_t> counts;
  for (const std::u32string& word : given) ++counts[word];
  std::int64_t same = 0;
  for (const std::u32string& word : predicted)
    if (counts[word]-- > 0) ++same;
  return 2 * static_cast<double>(same) / static_cast<double>(predicted.size() + given.size());
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  std::string text;
  for (const std::u32string& word : words_of(answer)) {
    if (!text.empty()) text += ' ';
    for (const char32_t c : word) append_utf8(text, c);
  }
  return text;
}

AnswerScores answer_scores(std::string_view predicted, std::span<const std::string> given) {
  const std::vector<std::u32string> found = words_of(predicted);
  AnswerScores best;
  const auto compare = [&](std::string_view answer) {
    const std::vector<std::u32string> wanted = words_of(answer);
    best.exact_match = std::max(best.exact_match, found == wanted ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(found, wanted));
  };
  for (const std::string& answer : given) compare(answer);
  if (given.empty()) compare("");
  return best;
}

QuestionScores question_scores(std::span<const AnsweredQuestion> questions, double threshold) {
  QuestionScores scores;
  UnanswerableScores& apart = scores.apart;
  struct Gain {
    double no_answer, f1;  // what answering adds to the sum, where "" is the answer otherwise
  };
  std::vector<Gain> gains;
  for (const AnsweredQuestion& question : questions) {
    const bool answerable = !question.given.empty();
    std::vector<std::string> given = question.given;
    std::erase_if(given, [](const std::string& answer) { return words_of(answer).empty(); });
    const AnswerScores span = answer_scores(question.predicted, given), none = answer_scores("", given);
    const AnswerScores& counted = question.no_answer > threshold ? none : span;
    scores.all.exact_match += counted.exact_match;
    scores.all.f1 += counted.f1;
    if (answerable) {
      apart.exact_match += counted.exact_match;
      apart.f1 += counted.f1;
    } else {
      apart.recognised += counted.exact_match;
      ++apart.questions;
    }
    gains.push_back({question.no_answer, answerable ? span.f1 : question.predicted.empty() ? 0.0 : -1.0});
  }
  std::ranges::sort(gains, {}, &Gain::no_answer);
  constexpr double beyond = 0.5;  // the first and the last
  if (!gains.empty()) apart.best_threshold = gains[0].no_answer - beyond;
  auto sum = static_cast<double>(apart.questions);  // without a single answer
  apart.best_f1 = sum;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    sum += gains[i].f1;
    const double now = gains[i].no_answer,
                 next = i + 1 < gains.size() ? gains[i + 1].no_answer : now + 2 * beyond;
    if (next == now || sum <= apart.best_f1) continue;
    apart.best_f1 = sum;
    apart.best_threshold = now + (next - now) / 2;
  }
  const auto over = [](double& value, std::int64_t count) { value /= std::max<double>(count, 1); };
  const std::int64_t all = std::ssize(questions);
  for (double* value : {&scores.all.exact_match, &scores.all.f1, &apart.best_f1}) over(*value, all);
  for (double* value : {&apart.exact_match, &apart.f1}) over(*value, all - apart.questions);
  over(apart.recognised, apart.questions);
  return scores;
}

}  // namespace comera::data
