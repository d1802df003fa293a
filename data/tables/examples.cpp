#include "data/tables/examples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "storage/folder.h"

namespace comera::data {

namespace {

TableOptions table_options(const Task& task, bool text, bool label) {
  TableOptions options;
  options.format = task.format;
  options.header = task.header;
  if (text) options.columns = task.text;
  if (label && has_label_columns(task))
    options.columns.insert(options.columns.end(), task.labels.begin(), task.labels.end());
  else if (label)
    options.columns.push_back(task.label);
  if (task.kind == TaskKind::multi_label) options.between_words = between_labels;
  return options;
}

std::optional<double> number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      std::abs(value) > 1e30)
    return std::nullopt;
  return value;
}

constexpr const char *unknown_label = "unknown label", *other_label = "other label";

// The number as Python writes it, so that the equal numbers 1, 1.0 and 1e0 are one class; integers are
// written without a point.
std::string number_label(const std::string& written) {
  constexpr double exact = 9007199254740992;  // 2^53: beyond it, different integers become one
  if (written.find_first_of(".eE") == std::string::npos) return written == "-0" ? "0" : written;
  double value = 0;
  const auto [end, code] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (code != std::errc() || end != written.data() + written.size()) return written;
  if (value == std::trunc(value) && std::abs(value) < exact)
    return std::to_string(static_cast<std::int64_t>(value));
  return fmt::format("{}", value);
}

// The class's index; labels.size() for an unknown label. A JSON number matches the label that is numerically
// equal.
std::size_t find_label(const std::vector<std::string>& labels, const std::string& written, FieldKind kind) {
  auto found = std::ranges::find(labels, written);
  if (found == labels.end() && kind == FieldKind::number)
    found = std::ranges::find(labels, number_label(written), number_label);
  return static_cast<std::size_t>(found - labels.begin());
}

// Without surrounding spaces, which are never intended.
std::string_view without_spaces(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// Of a label's own column.
std::optional<bool> truth_of(std::string_view text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  const auto value = number(text);
  if (!value || (*value != 0 && *value != 1)) return std::nullopt;
  return *value == 1;
}

// By the hash of the texts, which are separated by a byte that no text has. A hard negative behind them does
// not count: it is read in training only.
bool is_in_part(const Task& task, TaskPart part, const TableRow& row) {
  if (part == TaskPart::all) return true;
  std::string texts;
  for (std::size_t i = 0; i < std::min<std::size_t>(task.text.size(), 2); ++i)
    texts += row.fields[i].value_or("") + '\0';
  const bool held_out = storage::unit_interval(storage::hash128(texts).high) < task.held_out;
  return held_out == (part == TaskPart::held_out);
}

std::string abbreviated(const std::string& text) {
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

}  // namespace

// Rows that are left out because of their label.
struct Examples::Refusals {
  TableCounts left_out;
  std::vector<std::string> unknown;  // labels: a few of them

  std::optional<Answer> skip(const char* reason, const TableRow& row) {
    left_out.skip(reason, row.line);
    return std::nullopt;
  }
  std::optional<Answer> skip_unknown(const std::string& label, const TableRow& row) {
    const std::string quoted = fmt::format("'{}'", abbreviated(label));
    if (unknown.size() < 3 && std::ranges::find(unknown, quoted) == unknown.end()) unknown.push_back(quoted);
    return skip(unlisted, row);
  }

  // A contrastive task chooses rows by their label.
  const char* unlisted = unknown_label;
};

std::optional<Examples::Answer> Examples::answer_of(const Task& task, const TableRow& row,
                                                    Refusals& refusals) {
  const std::size_t place = task.text.size();
  Answer answer;
  if (has_label_columns(task)) {
    for (std::size_t i = 0; i < task.labels.size(); ++i) {
      const auto value = truth_of(without_spaces(*row.fields[place + i]));
      if (!value)
        return refusals.skip("a label's column has neither 0 nor 1 (write 0 where there is nothing)", row);
      answer.targets.push_back(*value ? 1.F : 0.F);
    }
    return answer;
  }
  const FieldKind kind = row.kinds[place];
  if (task.kind == TaskKind::multi_label) {
    answer.targets.resize(task.labels.size());
    for (const std::string& label : labels_in(*row.fields[place], kind, task.separator)) {
      const std::size_t found = find_label(task.labels, label, kind);
      if (found == task.labels.size()) return refusals.skip_unknown(label, row);
      answer.targets[found] = 1;
    }
    return answer;
  }
  const std::string written(without_spaces(*row.fields[place]));
  if (written.empty()) return refusals.skip("no label", row);
  if (kind == FieldKind::words) return refusals.skip("label is a list", row);
  if (task.kind == TaskKind::regression) {
    const auto value = number(written);
    if (!value) return refusals.skip("score is not a number", row);
    answer.score = static_cast<float>(*value);
    return answer;
  }
  const std::size_t found = find_label(task.labels, written, kind);
  if (found == task.labels.size()) return refusals.skip_unknown(written, row);
  answer.label = static_cast<std::int32_t>(found);
  return answer;
}

void Examples::find_kept(const TableReader& reader, const KeptColumns& keep) {
  kept_columns_.clear();
  for (const std::string& name : keep.names) {
    if (std::ranges::find(reader.columns(), name) != reader.columns().end())
      kept_columns_.push_back(name);
    else if (keep.required)
      throw UsageError(fmt::format("{}: no column '{}' to keep; it has {}", reader.path().string(), name,
                                   fmt::join(reader.columns(), ", ")));
  }
}

void Examples::read_file(const Task& task, const Task::Set& set, Encoder& encoder, std::int64_t most_tokens,
                         const KeptColumns& keep) {
  TableOptions options = table_options(task, true, labelled_);
  if (!keep.names.empty()) options.between_words = between_labels;  // so that lists stay lists
  options.optional = keep.names;
  options.any_optional = true;
  TableReader reader(set.file, options);
  find_kept(reader, keep);
  const std::size_t first_kept = options.columns.size();
  labels_each_ = labelled_ && task.kind == TaskKind::multi_label ? task.labels.size() : 0;
  Refusals refusals;
  if (task.kind == TaskKind::contrastive) refusals.unlisted = other_label;
  TableCounts& left_out = refusals.left_out;
  const std::array<std::string, 5> special = encoder.tokenizer().special_names();
  std::string_view found_special;
  std::int64_t with_special = 0;
  TableRow row;
  std::vector<std::int32_t> ids;
  while (reader.next(row)) {
    if (!is_in_part(task, set.part, row)) continue;
    std::optional<Answer> answer = Answer();
    if (labelled_) answer = answer_of(task, row, refusals);
    if (!answer) continue;
    const std::size_t before = tokens_.size();
    bool lacks_text = false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(texts_each_); ++i) {
      ids.clear();
      if (i < task.text.size()) {
        std::string& text = *row.fields[i];
        if (row.kinds[i] == FieldKind::words) std::ranges::replace(text, between_labels, ' ');
        encoder.encode(text, ids);
        const auto named = std::ranges::find_if(
            special, [&](const std::string& name) { return text.find(name) != std::string::npos; });
        if (named != special.end() && with_special++ == 0) found_special = *named;
      }
      if (static_cast<std::int64_t>(ids.size()) > most_tokens) ids.resize(most_tokens);
      lacks_text |= i < task.text.size() && ids.empty();
      tokens_.insert(tokens_.end(), ids.begin(), ids.end());
      offsets_.push_back(static_cast<std::int64_t>(tokens_.size()));
    }
    if (tokens_.size() == before || (lacks_text && task.kind == TaskKind::contrastive)) {
      tokens_.resize(before);
      offsets_.resize(offsets_.size() - static_cast<std::size_t>(texts_each_));
      left_out.skip("no text", row.line);
      continue;
    }
    labels_.push_back(answer->label);
    scores_.push_back(answer->score);
    targets_.insert(targets_.end(), answer->targets.begin(), answer->targets.end());
    lines_.push_back(row.line);
    for (std::size_t i = 0; i < keep.names.size(); ++i)
      if (std::ranges::find(kept_columns_, keep.names[i]) != kept_columns_.end())
        kept_.push_back({row.fields[first_kept + i].value_or(""), row.kinds[first_kept + i]});
  }
  if (set.part != TaskPart::held_out)  // the rows to train on have counted them
    for (const auto& [reason, rows] : reader.counts().skipped) left_out.skipped[reason] = rows;
  if (auto rows = left_out.skipped.extract(refusals.unlisted)) {
    rows.key() += fmt::format(" ({})", fmt::join(refusals.unknown, ", "));
    left_out.skipped.insert(std::move(rows));
  }
  if (const std::string report = describe_skipped(set.file, left_out); !report.empty())
    reports_.push_back(report);
  if (const std::string note = note_on_quotes(set.file, reader.counts());
      !note.empty() && set.part != TaskPart::held_out)
    notes_.push_back(note);
  if (with_special > 0)
    notes_.push_back(fmt::format(
        "{}: {} with {} or another special piece's name, which is ordinary text here; transformers reads it "
        "as the special piece",
        set.file.string(), with_special == 1 ? "1 text" : fmt::format("{} texts", with_special),
        found_special));
  // Whoever matches rows of a text with its lines has to know.
  if (const TableCounts& counts = reader.counts();
      reader.format() == TableFormat::text && counts.blank > 0 && set.part != TaskPart::held_out)
    reports_.push_back(
        fmt::format("{}: {} left out (the first is line {})", set.file.string(),
                    counts.blank == 1 ? "1 blank line was" : fmt::format("{} blank lines were", counts.blank),
                    counts.first_blank));
  left_out_ += left_out.all_skipped();
  left_unknown_ |= !refusals.unknown.empty();
}

Examples Examples::read(const Task& task, const std::vector<Task::Set>& sets, const Tokenizer& tokenizer,
                        bool labels, std::int64_t most_tokens, const KeptColumns& keep) {
  Examples examples;
  examples.labelled_ = labels;
  examples.vocabulary_ = tokenizer.vocabulary();
  examples.special_ = tokenizer.special();
  examples.pair_separators_ = tokenizer.pair_separators();
  examples.texts_each_ = std::max<std::int64_t>(2, std::ssize(task.text));
  Encoder encoder(tokenizer);
  const auto is_a_part = [](const Task::Set& set) { return set.part != TaskPart::all; };
  std::vector<std::string> names;
  for (const Task::Set& set : sets) {
    storage::refuse_missing(set.file, "file");
    examples.read_file(task, set, encoder, most_tokens, keep);
    names.push_back(set.part == TaskPart::all ? set.file.string()
                                              : fmt::format("{} ({})", set.file.string(), set.name));
  }
  if (examples.count() == 0)
    throw Error(fmt::format("{}: no example is left{}{}{}{}", fmt::join(names, ", "),
                            examples.reports_.empty() ? "" : ": ", fmt::join(examples.reports_, "; "),
                            labels && task.kind != TaskKind::regression
                                ? fmt::format("; the labels are {}", fmt::join(task.labels, ", "))
                                : "",
                            std::ranges::any_of(sets, is_a_part) && !examples.left_unknown_
                                ? fmt::format("; task.held_out is {}, change it, or give "
                                              "task.validation",
                                              task.held_out)
                            : examples.reports_.empty() ? "; give a file with rows"
                                                        : ""));
  return examples;
}

Examples Examples::of_texts(const std::vector<std::vector<std::string>>& texts, const Tokenizer& tokenizer,
                            std::int64_t most_tokens) {
  Examples examples;
  examples.vocabulary_ = tokenizer.vocabulary();
  examples.special_ = tokenizer.special();
  examples.pair_separators_ = tokenizer.pair_separators();
  Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  for (const std::vector<std::string>& one : texts) {
    COMERA_CHECK(one.size() == 1 || one.size() == 2, "an example has {} texts; give one or two", one.size());
    for (std::size_t i = 0; i < 2; ++i) {
      ids.clear();
      if (i < one.size()) encoder.encode(one[i], ids);
      if (std::ssize(ids) > most_tokens) ids.resize(static_cast<std::size_t>(most_tokens));
      examples.tokens_.insert(examples.tokens_.end(), ids.begin(), ids.end());
      examples.offsets_.push_back(std::ssize(examples.tokens_));
    }
    examples.labels_.push_back(0);
    examples.scores_.push_back(0);
    examples.lines_.push_back(std::ssize(examples.lines_) + 1);
  }
  return examples;
}

std::span<const std::int32_t> Examples::text(std::int64_t example, int which) const {
  const std::int64_t place = texts_each_ * example + which;
  const std::int64_t begin = offsets_[place], end = offsets_[place + 1];
  return std::span(tokens_).subspan(begin, end - begin);
}

std::vector<std::int64_t> Examples::class_counts(std::size_t classes) const {
  std::vector<std::int64_t> counts(classes);
  if (labels_each_ > 0) {
    for (std::size_t i = 0; i < targets_.size(); ++i)
      counts.at(i % labels_each_) += targets_[i] > 0.5F ? 1 : 0;
    return counts;
  }
  for (const std::int32_t label : labels_) ++counts.at(label);
  return counts;
}

void Examples::set_weights(const std::vector<double>& weights) {
  for (std::size_t i = 0; i < labels_.size(); ++i)
    scores_[i] = static_cast<float>(weights.at(static_cast<std::size_t>(labels_[i])));
}

std::string Examples::fingerprint() const {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]);
  };
  std::string parts;
  for (const storage::Hash128& hash : {storage::hash128(bytes(tokens_)), storage::hash128(bytes(offsets_)),
                                       storage::hash128(bytes(labels_)), storage::hash128(bytes(scores_))})
    parts += hash.hex();
  if (!targets_.empty()) parts += storage::hash128(bytes(targets_)).hex();
  return storage::hash128(parts).hex();
}

bool holds_labels_of(const Task& task) {
  for (const Task::Set& set : task.train) {
    storage::refuse_missing(set.file, "file");
    TableReader reader(set.file, table_options(task, false, true));
    for (TableRow row; reader.next(row);)
      if (find_label(task.labels, std::string(without_spaces(*row.fields[0])), row.kinds[0]) <
          task.labels.size())
        return true;
  }
  return false;
}

std::vector<std::string> find_labels(const Task& task, const std::vector<Task::Set>& sets) {
  constexpr std::size_t most = 1000;
  std::set<std::string> found;
  std::int64_t rows = 0;
  for (const Task::Set& set : sets) {
    storage::refuse_missing(set.file, "file");
    TableReader reader(set.file, table_options(task, false, true));
    TableRow row;
    while (reader.next(row)) {
      ++rows;
      if (task.kind == TaskKind::multi_label) {
        const auto several = labels_in(*row.fields[0], row.kinds[0], task.separator);
        if (found.size() <= most) found.insert(several.begin(), several.end());
        continue;
      }
      const std::string_view label = without_spaces(*row.fields[0]);
      if (label.empty() || found.size() > most || row.kinds[0] == FieldKind::words) continue;
      found.insert(row.kinds[0] == FieldKind::number ? number_label(std::string(label)) : std::string(label));
    }
  }
  COMERA_CHECK(
      rows < 20 || 4 * found.size() < static_cast<std::size_t>(rows),
      "column '{}' of {} holds {} different labels in {} rows; is it the label's column, or is this a "
      "regression?",
      task.label, sets[0].file.string(), found.size(), rows);
  COMERA_CHECK(found.size() >= 2 && found.size() <= most,
               "column '{}' of {} holds {} different labels, expected 2 to {}; is it the label's column?",
               task.label, sets.empty() ? "no file" : sets[0].file.string(),
               found.size() > most ? fmt::format("more than {}", most) : std::to_string(found.size()), most);
  std::vector<std::string> labels(found.begin(), found.end());
  const auto whole = [](const std::string& label) {
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(label.data(), label.data() + label.size(), value);
    return code == std::errc() && end == label.data() + label.size();
  };
  if (std::ranges::all_of(labels, whole))
    std::ranges::stable_sort(labels, {}, [](const std::string& label) { return std::stoll(label); });
  return labels;
}

ScoreScale find_score_scale(const Task& task, const std::vector<Task::Set>& sets) {
  double count = 0, mean = 0, squares = 0;  // of the distances from the mean
  for (const Task::Set& set : sets) {
    storage::refuse_missing(set.file, "file");
    TableReader reader(set.file, table_options(task, true, true));
    for (TableRow row; reader.next(row);) {
      const auto score = number(without_spaces(*row.fields[task.text.size()]));
      if (!score || !is_in_part(task, set.part, row)) continue;
      const double distance = *score - mean;
      mean += distance / ++count;
      squares += distance * (*score - mean);
    }
  }
  return squares > 0 ? ScoreScale{.mean = mean, .std = std::sqrt(squares / count)} : ScoreScale();
}

ExampleSamples::ExampleSamples(const Examples& examples, std::int64_t length, std::int64_t types,
                               bool separate, const ScoreScale& scale)
    : examples_(examples),
      length_(length),
      second_type_(types > 1 && !separate ? 1 : 0),
      separate_(separate),
      scale_(scale) {
  if (length < 4 + examples.pair_separators())
    throw UsageError(fmt::format(
        "sequences of {} tokens have no room for two texts between [CLS] and separators", length));
}

ExampleSamples::Sizes ExampleSamples::sizes(std::int64_t sample) const {
  Sizes sizes{static_cast<std::int64_t>(examples_.text(sample, 0).size()),
              static_cast<std::int64_t>(examples_.text(sample, 1).size())};
  if (separate_) {
    sizes.special = 4;
    sizes.truncated = std::max(sizes.first, sizes.second) > length_ - 2;
    sizes.first = std::min(sizes.first, length_ - 2);
    sizes.second = std::min(sizes.second, length_ - 2);
    return sizes;
  }
  if (sizes.second > 0) sizes.special = 2 + examples_.pair_separators();
  const std::int64_t excess = sizes.all() - length_;
  if (excess <= 0) return sizes;
  sizes.truncated = true;
  // Shortens the longer one first, then both in turn.
  std::int64_t& longer = sizes.first >= sizes.second ? sizes.first : sizes.second;
  const std::int64_t difference = std::abs(sizes.first - sizes.second);
  const std::int64_t alone = std::min(excess, difference);
  longer -= alone;
  sizes.second -= (excess - alone + 1) / 2;
  sizes.first -= (excess - alone) / 2;
  return sizes;
}

std::vector<std::int32_t> ExampleSamples::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(examples_.count());
  for (std::int64_t i = 0; i < examples_.count(); ++i)
    lengths.push_back(static_cast<std::int32_t>(sizes(i).all()));
  return lengths;
}

std::int64_t ExampleSamples::truncated() const {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < examples_.count(); ++i) count += sizes(i).truncated;
  return count;
}

void ExampleSamples::read(std::int64_t sample, Sample& to) {
  const Sizes parts = sizes(sample);
  const auto first = examples_.text(sample, 0), second = examples_.text(sample, 1);
  to.ids.clear();
  to.ids.push_back(examples_.special().cls);
  to.ids.insert(to.ids.end(), first.begin(), first.begin() + parts.first);
  to.ids.push_back(examples_.special().separator);
  to.type_ids.assign(to.ids.size(), 0);
  to.second = separate_ ? static_cast<std::int64_t>(to.ids.size()) : 0;
  if (separate_) to.ids.push_back(examples_.special().cls);
  if (parts.special > 2) {
    if (!separate_)  // all but the first of those in the middle
      to.ids.resize(to.ids.size() + static_cast<std::size_t>(parts.special - 3),
                    examples_.special().separator);
    to.type_ids.resize(to.ids.size(), 0);
    to.ids.insert(to.ids.end(), second.begin(), second.begin() + parts.second);
    to.ids.push_back(examples_.special().separator);
    to.type_ids.resize(to.ids.size(), second_type_);
  }
  const auto targets = examples_.targets(sample);
  to.scores.assign(targets.begin(), targets.end());
  to.label = examples_.label(sample);
  to.score = static_cast<float>((examples_.score(sample) - scale_.mean) / scale_.std);
}

}  // namespace comera::data
