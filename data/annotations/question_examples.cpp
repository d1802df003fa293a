#include "data/annotations/question_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/annotations/answer_scores.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/core/grouped.h"
#include "storage/hash.h"

namespace comera::data {

namespace {

// Without white space at its ends.
std::pair<std::int64_t, std::int64_t> trimmed(const std::string& text, std::int64_t begin, std::int64_t end) {
  const auto is_space = [&](std::int64_t at) {
    return std::string_view(" \t\r\n").find(text[static_cast<std::size_t>(at)]) != std::string_view::npos;
  };
  while (begin < end && is_space(begin)) ++begin;
  while (begin < end && is_space(end - 1)) --end;
  return {begin, end};
}

// −log of the target's share.
double nats(std::span<const double> values, std::int64_t which, std::int64_t target) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t i = which; i < values.size(); i += 2) largest = std::max(largest, values[i]);
  for (std::size_t i = which; i < values.size(); i += 2) sum += std::exp(values[i] - largest);
  return largest + std::log(sum) - values[static_cast<std::size_t>(2 * target + which)];
}

}  // namespace

struct QuestionExamples::Reading {
  const Task& task;
  const Tokenizer& tokenizer;
  std::int64_t questions = 0, windows = 0, long_texts = 0, cut_questions = 0;
};

QuestionExamples::QuestionExamples(const Task& task, const std::vector<Task::Set>& sets,
                                   const Tokenizer& tokenizer, bool answers, std::int64_t length)
    : AnnotatedExamples(tokenizer),
      length_(length),
      overlap_(task.overlap),
      separators_(tokenizer.pair_separators()),
      answered_(answers),
      unanswerable_(task.unanswerable),
      threshold_(task.unanswerable ? task.no_answer_threshold : std::numeric_limits<double>::infinity()) {
  if (length < 6 + separators_)
    throw UsageError(fmt::format(
        "sequences of {} tokens have no room for a question and a text between [CLS] and separators",
        length));
  for (const Task::Set& set : sets) {
    Reading reading{.task = task, .tokenizer = tokenizer};
    read_file(set, reading);
  }
  if (count() == 0)
    throw Error(fmt::format("{}: no question is left{}", sets.empty() ? "" : sets[0].file.string(),
                            task.held_out > 0 ? fmt::format("; task.held_out is {}, change it, or give "
                                                            "task.validation",
                                                            task.held_out)
                                              : ""));
}

void QuestionExamples::read_file(const Task::Set& set, Reading& reading) {
  SquadFile file = read_squad(set.file, answered_);
  std::size_t context = std::numeric_limits<std::size_t>::max();  // in the file
  for (SquadQuestion& question : file.questions) {
    const std::string& text = file.contexts[question.context];
    if (answered_ && !unanswerable_ && question.answers.empty())
      throw UsageError(fmt::format(
          "{}: question {} has no answer; give it one, or let questions have none (SQuAD 2.0) with --set "
          "task.unanswerable=true",
          set.file.string(), question.id));
    if (!is_in_part(reading.task, set.part, text)) continue;
    if (question.context != context) {
      context = question.context;
      contexts_.push_back({text, located_pieces(reading.tokenizer, text)});
      COMERA_CHECK(!contexts_.back().pieces.empty(), "{}: the text of question {} has no pieces",
                   set.file.string(), question.id);
    }
    add(std::move(question), contexts_.size() - 1, reading);
  }
  if (!answered_ && !unanswerable_ && file.impossible)
    reports_.push_back(
        fmt::format("{}: some questions have no answer, by its is_impossible, but this model answers all; "
                    "let it give none "
                    "with --set task.unanswerable=true if it has learned that",
                    set.name));
  std::string report = fmt::format("{}: {} questions in {} sequences", set.name, grouped(reading.questions),
                                   grouped(reading.windows));
  if (reading.long_texts > 0)
    report += fmt::format(
        "; the texts of {} are longer than {} tokens with their question and are read in "
        "windows that share up to {}",
        grouped(reading.long_texts), length_, std::min(overlap_, length_ / 2));
  if (reading.cut_questions > 0)
    report += fmt::format("; {} questions are cut to half of a sequence", grouped(reading.cut_questions));
  reports_.push_back(report);
}

void QuestionExamples::add(SquadQuestion asked, std::size_t context, Reading& reading) {
  Question question{.asked = std::move(asked), .context = context, .ids = {}, .first_window = sequences()};
  question.ids = reading.tokenizer.encode(question.asked.question);
  const std::int64_t content = length_ - 2 - separators_;
  if (std::ssize(question.ids) > content / 2) {
    question.ids.resize(static_cast<std::size_t>(content / 2));
    ++reading.cut_questions;
  }
  const std::int64_t room = content - std::ssize(question.ids), all = std::ssize(contexts_[context].pieces);
  const std::int64_t step = room - std::min(overlap_, room / 2);
  questions_.push_back(std::move(question));
  for (std::int64_t first = 0;; first += step) {
    windows_.push_back({.question = questions_.size() - 1,
                        .first = first,
                        .count = std::min(room, all - first),
                        .first_position = positions_});
    positions_ += length(sequences() - 1);
    if (first + room >= all) break;
  }
  ++reading.questions;
  reading.windows += sequences() - questions_.back().first_window;
  reading.long_texts += all > room ? 1 : 0;
}

std::int64_t QuestionExamples::prefix(const Window& window) const {
  return 1 + std::ssize(questions_[window.question].ids) + separators_;
}

std::int64_t QuestionExamples::length(std::int64_t sequence) const {
  const Window& window = windows_[sequence];
  return prefix(window) + window.count + 1;
}

std::int64_t QuestionExamples::end_of_windows(std::size_t question) const {
  return question + 1 < questions_.size() ? questions_[question + 1].first_window : sequences();
}

std::pair<std::int32_t, std::int32_t> QuestionExamples::targets(const Window& window) const {
  const Question& question = questions_[window.question];
  if (question.asked.answers.empty()) return {0, 0};
  const SquadAnswer& answer = question.asked.answers[0];
  const std::int64_t end = answer.begin + std::ssize(answer.text);
  const std::vector<LocatedPiece>& pieces = contexts_[question.context].pieces;
  const auto first =
      std::ranges::find_if(pieces, [&](const auto& piece) { return piece.end > answer.begin; });
  const auto behind =
      std::find_if(first, pieces.end(), [&](const auto& piece) { return piece.begin >= end; });
  const std::int64_t from = first - pieces.begin() - window.first,
                     to = behind - pieces.begin() - 1 - window.first;
  if (from < 0 || to < from || to >= window.count) return {0, 0};
  return {static_cast<std::int32_t>(prefix(window) + from), static_cast<std::int32_t>(prefix(window) + to)};
}

void QuestionExamples::read(std::int64_t sequence, bool asked, Sample& to) const {
  const Window& window = windows_[sequence];
  const Question& question = questions_[window.question];
  const std::vector<LocatedPiece>& pieces = contexts_[question.context].pieces;
  to.ids.assign(1, special_.cls);
  to.ids.insert(to.ids.end(), question.ids.begin(), question.ids.end());
  to.ids.resize(static_cast<std::size_t>(prefix(window)), special_.separator);
  to.type_ids.assign(to.ids.size(), 0);
  for (std::int64_t i = 0; i < window.count; ++i) to.ids.push_back(pieces[window.first + i].id);
  to.ids.push_back(special_.separator);
  to.type_ids.resize(to.ids.size(), 1);
  to.targets.positions.clear();
  if (asked) {
    for (std::size_t i = 0; i < to.ids.size(); ++i)
      to.targets.positions.push_back(static_cast<std::int32_t>(i));
    to.targets.ids.assign(to.ids.size(), 0);
    return;
  }
  const auto [first, last] = targets(window);
  to.targets.positions = to.targets.ids = {first, last};
}

void QuestionExamples::keep(std::int64_t /*position*/, std::span<const double> logits, double* to) const {
  std::ranges::copy(logits, to);
}

QuestionExamples::Span QuestionExamples::best_span(std::size_t question,
                                                   std::span<const double> values) const {
  const std::vector<LocatedPiece>& pieces = contexts_[questions_[question].context].pieces;
  Span best{.score = -std::numeric_limits<double>::infinity()};
  for (std::int64_t w = questions_[question].first_window; w < end_of_windows(question); ++w) {
    const Window& window = windows_[w];
    const double* at = values.data() + 2 * (window.first_position + prefix(window));
    for (std::int64_t last = 0; last < window.count; ++last)
      for (std::int64_t first = std::max<std::int64_t>(last + 1 - most_answer_tokens, 0); first <= last;
           ++first)
        if (const double score = at[2 * first] + at[2 * last + 1]; score > best.score)
          best = {pieces[window.first + first].begin, pieces[window.first + last].end, score};
  }
  std::tie(best.begin, best.end) =
      trimmed(contexts_[questions_[question].context].text, best.begin, best.end);
  return best;
}

double QuestionExamples::no_answer(std::size_t question, std::span<const double> values) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t w = questions_[question].first_window; w < end_of_windows(question); ++w) {
    const double* cls = values.data() + 2 * windows_[w].first_position;
    least = std::min(least, cls[0] + cls[1]);
  }
  return least;
}

std::string QuestionExamples::text_of(std::size_t question, const Span& span) const {
  const auto [begin, end, _] = span;
  return contexts_[questions_[question].context].text.substr(static_cast<std::size_t>(begin),
                                                             static_cast<std::size_t>(end - begin));
}

TaskScores QuestionExamples::scores(std::span<const double> values) const {
  TaskScores scores;
  scores.kind = TaskKind::question_answering;
  scores.examples = count();
  std::vector<AnsweredQuestion> answered;
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    const Span span = best_span(i, values);
    answered.push_back(
        {.predicted = text_of(i, span), .no_answer = no_answer(i, values) - span.score, .given = {}});
    for (const SquadAnswer& each : questions_[i].asked.answers) answered.back().given.push_back(each.text);
  }
  if (unanswerable_) {
    const QuestionScores found = question_scores(answered, threshold_);
    scores.exact_match = found.all.exact_match;
    scores.f1 = found.all.f1;
    scores.unanswerable = found.apart;
  } else {
    for (const AnsweredQuestion& question : answered) {
      const AnswerScores of = answer_scores(question.predicted, question.given);
      scores.exact_match += of.exact_match;
      scores.f1 += of.f1;
    }
    scores.exact_match /= static_cast<double>(count());
    scores.f1 /= static_cast<double>(count());
  }
  for (const Window& window : windows_) {
    const std::int64_t tokens = prefix(window) + window.count + 1;
    const auto own = values.subspan(static_cast<std::size_t>(2 * window.first_position),
                                    static_cast<std::size_t>(2 * tokens));
    const auto [first, last] = targets(window);
    scores.loss += (nats(own, 0, first) + nats(own, 1, last)) / 2;
  }
  scores.loss /= static_cast<double>(windows_.size());
  return scores;
}

std::string QuestionExamples::predictions(std::span<const double> values, AnnotationFormat format) const {
  using Json = nlohmann::ordered_json;
  const auto dumped = [](const auto& json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  std::string lines;
  nlohmann::json all = nlohmann::json::object();
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    const Question& question = questions_[i];
    const std::string& text = contexts_[question.context].text;
    const Span span = best_span(i, values);
    const auto before = std::string_view(text).substr(0, static_cast<std::size_t>(span.begin));
    const auto start = std::ranges::count_if(before, [](char c) { return !continues_character(c); });
    const double none = no_answer(i, values) - span.score;
    const bool answers = none <= threshold_;
    const std::string found = answers ? text_of(i, span) : "";
    all[question.asked.id] = found;
    Json line = {{"id", question.asked.id},
                 {"question", question.asked.question},
                 {"answer", found},
                 {"answer_start", answers ? Json(start) : Json()},
                 {"score", span.score}};
    if (unanswerable_) line["no_answer"] = none;
    lines += dumped(line, -1);
  }
  return format == AnnotationFormat::json ? dumped(all, 1) : lines;
}

std::string QuestionExamples::fingerprint() const {
  storage::Hash128 hash;
  const auto add = [&](std::string_view bytes) {
    hash = storage::hash128(hash.hex() + storage::hash128(bytes).hex());
  };
  for (const Context& context : contexts_) {
    add(context.text);
    for (const LocatedPiece& piece : context.pieces)
      hash.low = storage::mix64(hash.low ^ static_cast<std::uint64_t>(piece.id));
  }
  for (const Question& question : questions_) {
    add(question.asked.id + '\n' + question.asked.question);
    for (const SquadAnswer& each : question.asked.answers) add(fmt::format("{} {}", each.begin, each.text));
  }
  for (const Window& window : windows_)
    hash.low = storage::mix64(hash.low ^ static_cast<std::uint64_t>(window.first));
  add(fmt::format("{} {}", length_, overlap_));
  return hash.hex();
}

}  // namespace comera::data
