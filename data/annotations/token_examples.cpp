#include "data/annotations/token_examples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "data/annotations/entity_scores.h"
#include "kernels/core/grouped.h"
#include "storage/folder.h"
#include "storage/hash.h"

namespace comera::data {

namespace {

std::string text_of(const std::vector<ConllWord>& sentence) {
  std::string text;
  for (const ConllWord& word : sentence) text += word.text + ' ';
  return text;
}

// A word's pieces do not depend on its neighbours. Byte-level pieces know a word by the space before it, and
// transformers gives the first word one too.
class WordEncoder {
 public:
  explicit WordEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer), encoder_(tokenizer) {}

  // Replaces ids by the pieces of a word, of which there is at least one.
  void encode(const std::string& word, bool first, std::vector<std::int32_t>& ids) {
    ids.clear();
    const bool space = !first || !tokenizer_.is_sentencepiece();
    encoder_.encode(space ? " " + word : word, ids);
    // A piece that is nothing but the space is none of the word's.
    const auto is_space = [&](std::int32_t id) {
      const std::string bytes = tokenizer_.text(id).bytes;
      return !bytes.empty() && bytes.find_first_not_of(' ') == bytes.npos;
    };
    leading_space_ = ids.size() > 1 && space && is_space(ids[0]);
    if (ids.empty()) ids.push_back(tokenizer_.special().unknown);
  }
  // Whether the first of these pieces is nothing but a space, so that the second has the word's label.
  bool begins_with_space() const { return leading_space_; }

 private:
  const Tokenizer& tokenizer_;
  Encoder encoder_;
  bool leading_space_ = false;
};

}  // namespace

// What reading the files needs, and counts.
struct TokenExamples::Reading {
  const Task& task;
  WordEncoder encoder;
  bool labelled = false;
  std::int64_t sentences = 0, words = 0, long_sentences = 0, parts = 0, long_words = 0;
  std::int64_t unknown_words = 0;
  std::set<std::string> unknown = {};
};

TokenExamples::TokenExamples(const Task& task, const std::vector<Task::Set>& sets, const Tokenizer& tokenizer,
                             bool labels, std::int64_t length)
    : AnnotatedExamples(tokenizer),
      content_(length - 2),
      labels_(task.labels),
      classes_(std::ssize(task.labels)) {
  if (content_ < 1)
    throw UsageError(
        fmt::format("sequences of {} tokens have no room for a word between [CLS] and [SEP]", length));
  for (const Task::Set& set : sets) {
    storage::refuse_missing(set.file, "file");
    Reading reading{.task = task, .encoder = WordEncoder(tokenizer), .labelled = labels};
    read_file(set, reading);
  }
  if (count() == 0)
    throw Error(fmt::format("{}: no sentence is left{}", sets.empty() ? "" : sets[0].file.string(),
                            task.held_out > 0 ? fmt::format("; task.held_out is {}, change it, or give "
                                                            "task.validation",
                                                            task.held_out)
                                              : ""));
}

void TokenExamples::read_file(const Task::Set& set, Reading& reading) {
  ConllReader reader(set.file, reading.task, reading.labelled);
  std::vector<ConllWord> sentence;
  while (reader.next(sentence)) {
    if (!is_in_part(reading.task, set.part, text_of(sentence))) continue;
    add(sentence, reading);
    if (!reading.labelled) document_lines_.push_back(reader.document_lines());
  }
  std::string report =
      fmt::format("{}: {} sentences, {} words", set.name, grouped(reading.sentences), grouped(reading.words));
  if (reading.long_sentences > 0)
    report += fmt::format("; {} longer than {} tokens are read in {} parts, divided between words",
                          grouped(reading.long_sentences), content_ + 2, grouped(reading.parts));
  if (reading.long_words > 0)
    report += fmt::format("; of {} longer words the first {} pieces are read", grouped(reading.long_words),
                          content_);
  if (reading.unknown_words > 0)
    report += fmt::format("; {} words have labels that are no classes of the model ({}) and count as errors",
                          grouped(reading.unknown_words), fmt::join(reading.unknown, ", "));
  reports_.push_back(report);
}

std::int32_t TokenExamples::label_of(const ConllWord& word, Reading& reading) {
  if (!reading.labelled) return 0;
  const auto found = std::ranges::find(labels_, word.label);
  const auto label = static_cast<std::int32_t>(found - labels_.begin());
  if (label >= classes_) {
    ++reading.unknown_words;
    reading.unknown.insert(word.label);
  }
  if (found == labels_.end()) labels_.push_back(word.label);
  return label;
}

void TokenExamples::add(const std::vector<ConllWord>& sentence, Reading& reading) {
  struct Pieces {
    std::vector<std::int32_t> ids;
    std::int32_t labelled = 0;  // the piece with the label
  };
  std::vector<Pieces> words;
  std::int64_t all = 0;
  for (const ConllWord& word : sentence) {
    Pieces& pieces = words.emplace_back();
    reading.encoder.encode(word.text, words.size() == 1, pieces.ids);
    if (content_ > 1) pieces.labelled = reading.encoder.begins_with_space() ? 1 : 0;
    if (std::ssize(pieces.ids) > content_) {
      pieces.ids.resize(static_cast<std::size_t>(content_));
      ++reading.long_words;
    }
    all += std::ssize(pieces.ids);
  }
  const std::int64_t fewest = (all + content_ - 1) / content_, usual = (all + fewest - 1) / fewest;
  std::int64_t parts = 0, filled = 0;
  const auto end_part = [&] {
    tokens_end_.push_back(std::ssize(tokens_));
    words_end_.push_back(std::ssize(words_));
    ++parts;
    filled = 0;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::int64_t size = std::ssize(words[i].ids);
    if (filled > 0 && (filled + size > content_ || filled >= usual)) end_part();
    words_.push_back(
        {static_cast<std::int32_t>(1 + filled + words[i].labelled), label_of(sentence[i], reading)});
    tokens_.insert(tokens_.end(), words[i].ids.begin(), words[i].ids.end());
    filled += size;
  }
  end_part();
  sentence_ends_.push_back(std::ssize(words_));
  ++reading.sentences;
  reading.words += std::ssize(sentence);
  if (parts > 1) ++reading.long_sentences, reading.parts += parts;
  if (!reading.labelled) texts_.insert(texts_.end(), sentence.begin(), sentence.end());
}

std::int64_t TokenExamples::length(std::int64_t sequence) const {
  return tokens_end_[sequence] - (sequence > 0 ? tokens_end_[sequence - 1] : 0) + 2;
}

std::int64_t TokenExamples::first_position(std::int64_t sequence) const {
  return sequence > 0 ? words_end_[sequence - 1] : 0;
}

void TokenExamples::read(std::int64_t sequence, bool asked, Sample& to) const {
  const std::int64_t begin = sequence > 0 ? tokens_end_[sequence - 1] : 0;
  to.ids.assign(1, special_.cls);
  to.ids.insert(to.ids.end(), tokens_.begin() + begin, tokens_.begin() + tokens_end_[sequence]);
  to.ids.push_back(special_.separator);
  to.type_ids.assign(to.ids.size(), 0);
  to.targets.positions.clear();
  to.targets.ids.clear();
  for (std::int64_t i = first_position(sequence); i < words_end_[sequence]; ++i) {
    const Word& word = words_[i];
    if (!asked && word.label >= classes_) continue;
    to.targets.positions.push_back(word.position);
    to.targets.ids.push_back(asked ? 0 : word.label);
  }
}

void TokenExamples::keep(std::int64_t position, std::span<const double> logits, double* to) const {
  const auto largest = std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - *largest);
  const std::int32_t label = words_[position].label;
  to[0] = static_cast<double>(largest - logits.begin());
  to[1] = 1 / sum;
  to[2] = label < classes_ ? *largest + std::log(sum) - logits[static_cast<std::size_t>(label)] : 0;
  // An output that is not a number is found as the nats of whatever label.
  if (!std::isfinite(sum)) to[2] = sum;
}

TaskScores TokenExamples::scores(std::span<const double> values) const {
  TaskScores scores{.set = {}, .kind = TaskKind::token_classification, .examples = count()};
  std::vector<std::string> wanted, found;
  std::vector<std::int64_t> counts(labels_.size());
  std::int64_t right = 0, known = 0;
  for (std::int64_t i = 0; i < std::ssize(words_); ++i) {
    const auto label = static_cast<std::size_t>(words_[i].label);
    wanted.push_back(labels_[label]);
    found.push_back(predicted(values, i));
    right += wanted.back() == found.back() ? 1 : 0;
    known += words_[i].label < classes_ ? 1 : 0;
    scores.loss += values[static_cast<std::size_t>(3 * i + 2)];
    ++counts[label];
  }
  const auto words = static_cast<double>(words_.size());
  scores.words = std::ssize(words_);
  scores.loss /= std::max(static_cast<double>(known), 1.0);
  scores.accuracy = static_cast<double>(right) / words;
  scores.majority = static_cast<double>(*std::ranges::max_element(counts)) / words;
  if (std::ranges::none_of(labels_, is_chunk_label)) return scores;
  const EntityScores entities = entity_scores(wanted, found, sentence_ends_);
  const auto part = [](const std::string& type, const EntityCounts& of) {
    return EntityTypeScores{.type = type,
                            .precision = of.precision(),
                            .recall = of.recall(),
                            .f1 = of.f1(),
                            .entities = of.wanted};
  };
  scores.entities = part("", entities.all);
  scores.f1 = scores.entities->f1;
  for (const auto& [type, of_type] : entities.types) scores.types.push_back(part(type, of_type));
  return scores;
}

std::string TokenExamples::predictions(std::span<const double> values, AnnotationFormat format) const {
  return format == AnnotationFormat::columns ? columns(values) : lines_of_json(values);
}

std::string TokenExamples::columns(std::span<const double> values) const {
  std::string text;
  std::int64_t word = 0;
  for (std::size_t i = 0; i < sentence_ends_.size(); ++i) {
    for (const std::string& line : document_lines_[i]) text += line + "\tO\n\n";
    for (; word < sentence_ends_[i]; ++word)
      text += texts_[word].columns + "\t" + predicted(values, word) + "\n";
    text += "\n";
  }
  return text;
}

std::string TokenExamples::lines_of_json(std::span<const double> values) const {
  using Json = nlohmann::ordered_json;
  std::string text;
  std::int64_t word = 0;
  for (const std::int64_t end : sentence_ends_) {
    Json line = {{"line", texts_[word].line}};
    std::vector<std::string> labels;
    for (; word < end; ++word) {
      line["tokens"].push_back(texts_[word].text);
      labels.push_back(predicted(values, word));
      line["probabilities"].push_back(values[static_cast<std::size_t>(3 * word + 1)]);
    }
    line["labels"] = labels;
    if (std::ranges::any_of(labels_, is_chunk_label)) line["entities"] = Json::array();
    for (const Entity& entity : line.contains("entities") ? entities_in(labels) : std::vector<Entity>())
      line["entities"].push_back({{"type", entity.type}, {"first", entity.first}, {"last", entity.last}});
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::string TokenExamples::fingerprint() const {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  };
  std::string parts = fmt::format("{}", fmt::join(labels_, "\n"));
  for (const std::string_view part :
       {bytes(tokens_), bytes(tokens_end_), bytes(words_end_), bytes(words_), bytes(sentence_ends_)})
    parts += storage::hash128(part).hex();
  return storage::hash128(parts).hex();
}

TokenFile survey_token_file(const std::filesystem::path& file, const Task& task) {
  storage::refuse_missing(file, "file");
  ConllReader reader(file, task, true);
  TokenFile found;
  std::vector<ConllWord> sentence;
  while (reader.next(sentence)) {
    ++found.sentences;
    found.words += std::ssize(sentence);
    for (const ConllWord& word : sentence) found.labels.insert(word.label);
  }
  found.columns = reader.columns();
  return found;
}

std::vector<std::string> find_token_labels(const Task& task, const std::vector<Task::Set>& sets) {
  constexpr std::size_t most = 1000;
  std::set<std::string> found;
  for (const Task::Set& set : sets) found.merge(survey_token_file(set.file, task).labels);
  COMERA_CHECK(found.size() >= 2 && found.size() <= most,
               "{}: its words have {} different labels, expected 2 to {}; name the label's column with "
               "task.label",
               sets.empty() ? "no file" : sets[0].file.string(),
               found.size() > most ? fmt::format("more than {}", most) : std::to_string(found.size()), most);
  return {found.begin(), found.end()};
}

}  // namespace comera::data
