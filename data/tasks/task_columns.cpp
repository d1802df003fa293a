#include "data/tasks/task_columns.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_set>

#include "data/tasks/column_names.h"
#include "data/vectors/passages.h"
#include "storage/folder.h"

namespace comera::data {

namespace {

using Columns = std::vector<std::string>;

// A field as a number; none if it is something else.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// A number that is written for readers and that programs take for text: "4,51", "1,096" or "10 %".
bool is_formatted_number(std::string_view text) {
  std::string plain(text);
  if (plain.ends_with('%')) plain.pop_back();
  if (plain.ends_with(' ')) plain.pop_back();
  std::erase(plain, ',');
  return plain.size() < text.size() && std::ranges::count(text, ',') <= 3 && number_in(plain).has_value();
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

bool is_missing(std::string_view field) {
  return is_any_name_of(lower_case(field), {"nan", "n/a", "na", "null", "#n/a"});
}

std::string_view trimmed(std::string_view field) {
  const std::size_t begin = field.find_first_not_of(" \t\r");
  return begin == field.npos ? std::string_view()
                             : field.substr(begin, field.find_last_not_of(" \t\r") + 1 - begin);
}

// What a column contains.
struct Contents {
  std::int64_t rows = 0;  // with something in it
  std::int64_t numbers = 0, fractions = 0, lists = 0, words = 0;
  std::int64_t missing = 0;    // "NaN" and the like, as programs write where there is nothing
  std::int64_t formatted = 0;  // formatted numbers
  std::string first_formatted;
  std::unordered_set<std::string> values;  // at most most_labels + 1

  void add(std::string_view field, FieldKind kind) {
    field = trimmed(field);
    if (field.empty()) return;
    ++rows;
    lists += kind == FieldKind::words ? 1 : 0;
    missing += is_missing(field) ? 1 : 0;
    if (const auto number = number_in(field)) {
      ++numbers;
      fractions += *number != std::trunc(*number) ? 1 : 0;
    } else if (is_formatted_number(field) && formatted++ == 0) {
      first_formatted = field;
    }
    const std::vector<std::string> several =
        kind == FieldKind::words ? labels_in(field, kind, {}) : std::vector<std::string>{std::string(field)};
    for (const std::string& value : several) {
      words += 1 + std::ranges::count(value, ' ');
      if (std::ssize(values) <= most_labels) values.insert(value);
    }
  }

  bool all_numbers() const { return numbers > 0 && numbers + missing == rows; }
  // At least a tenth of the values.
  bool has_formatted_numbers() const { return formatted > 0 && 10 * formatted >= rows - missing; }
  bool all_formatted_numbers() const { return formatted > 0 && numbers + formatted + missing == rows; }
  double mean_words() const { return static_cast<double>(words) / static_cast<double>(rows); }
  bool is_free_text() const {
    return rows > 0 && numbers * 10 < rows && mean_words() >= 3 &&
           5 * std::ssize(values) > std::min(rows, most_labels);
  }
  bool is_score() const { return all_numbers() && fractions > 0; }
  // A few values, short ones, that are repeated.
  bool is_class() const {
    return std::ssize(values) >= 2 && std::ssize(values) <= 100 && 4 * std::ssize(values) <= rows &&
           mean_words() < 3 && fractions == 0;
  }
};

class TaskTable {
 public:
  TaskTable(const std::filesystem::path& file, TableFormat format, bool header)
      : file_(file), format_(format), header_(header) {
    storage::refuse_missing(file, "file");
    TableReader reader(file, {.format = format, .header = header});
    if (const Columns& names = reader.columns();
        reader.format() == TableFormat::csv && names.size() == 1 && names[0].find(';') != std::string::npos)
      throw UsageError(
          fmt::format("{}: semicolons seem to be between its fields: '{}'; give --set "
                      "task.format=semicolon_csv if so; numbers "
                      "need a decimal point",
                      file.string(), first_line_of(names[0], 60)));
    TableRow row;
    reader.next(row);  // JSON members are known from the first object
    all_ = reader.columns();
    found_format_ = reader.format();
    has_header_line_ = header && is_separated(reader.format());
    if (all_.empty())
      throw UsageError(fmt::format("{}: has no columns; give a table with rows", file_.string()));
    for (const std::string& column : all_)
      if (std::ranges::count(all_, column) == 1) columns_.push_back(column);
  }

  const Columns& columns() const { return columns_; }
  Contents contents(const std::string& column) const {
    TableReader reader(file_, {.format = format_,
                               .header = header_,
                               .columns = {column},
                               .nulls = true,
                               .between_words = between_labels});
    TableRow row;
    Contents contents;
    while (reader.next(row))
      if (row.fields[0]) contents.add(*row.fields[0], row.kinds[0]);
    return contents;
  }
  // Of a column that may be unreadable, such as JSON objects.
  Contents contents_if_any(const std::string& column) const {
    try {
      return contents(column);
    } catch (const UnsuitableTable&) {
      return {};
    }
  }

  [[noreturn]] void ask(const std::string& what, const std::string& option) const {
    if (all_.size() == 1)
      throw UsageError(
          fmt::format("{}: has only the column '{}', but a table to learn from has a text and a label; {}",
                      file_.string(), printable(all_[0]), other_format()));
    const bool unnamed = header_ && std::ranges::none_of(columns_, [](const std::string& column) {
                           return is_label_name(plain_name(column)) || is_text_name(plain_name(column));
                         });
    throw UsageError(
        fmt::format("{}: {}; it has the columns {}: give {}{}", file_.string(), what, fmt::join(all_, ", "),
                    option, unnamed ? " (and --set task.header=false if its first line is no header)" : ""));
  }
  void refuse_text_as_name(const std::string& column) const {
    const auto is_text = [](std::string_view name) { return std::ranges::count(name, ' ') >= 3; };
    // A number, a class that occurs below it, an address, or what is empty or not its column's alone.
    const auto is_no_name = [&](const std::string& other) {
      const std::string_view name = trimmed(other);
      std::string decimal(name);
      std::ranges::replace(decimal, ',', '.');
      return name.empty() || is_text(name) || number_in(decimal) || name.find("://") != name.npos ||
             std::ranges::count(all_, other) > 1 || contents_if_any(other).values.contains(std::string(name));
    };
    if (!has_header_line_ || is_text_or_numbered(plain_name(column)) || !is_text(column) ||
        !std::ranges::all_of(all_, is_no_name))
      return;
    throw UsageError(
        fmt::format("{}: its first line seems to be a text and not a name: '{}'; give --set "
                    "task.header=false if so, or name the column with {}",
                    file_.string(), first_line_of(column, 60),
                    column.find(',') == column.npos ? "--text COLUMN" : "--set 'task.text=[\"COLUMN\"]'"));
  }
  void require(const std::string& column, const char* option) const {
    if (std::ranges::find(columns_, column) == columns_.end())
      throw UsageError(fmt::format("{} {}: {} has no such column; it has {}", option, column, file_.string(),
                                   fmt::join(all_, ", ")));
  }

 private:
  static std::string printable(std::string name) {
    for (std::size_t at = 0; (at = name.find('\t', at)) != name.npos;) name.replace(at, 1, "\\t");
    return name;
  }
  // What may be meant by a table of one column.
  std::string other_format() const {
    const std::string& name = all_[0];
    if (found_format_ == TableFormat::text)
      return "lines are read as texts; if it is a table, give --set task.format=csv, or tsv if tabs are "
             "between its fields";
    if (name.find('\t') != name.npos)
      return "tabs seem to be between its fields: if so, give --set task.format=tsv";
    if (found_format_ == TableFormat::tsv && name.find(',') != name.npos)
      return "commas seem to be between its fields: if so, give --set task.format=csv";
    return "if its fields are apart by other than tabs (.tsv) or commas (.csv), save it so";
  }

  std::filesystem::path file_;
  TableFormat format_, found_format_ = TableFormat::automatic;
  bool header_, has_header_line_ = false;
  Columns all_, columns_;  // without those whose name is not theirs alone
};

std::string in_quotes(const Columns& columns) { return fmt::format("'{}'", fmt::join(columns, "', '")); }

Columns with_name(const Columns& columns, bool (*is)(const std::string&)) {
  Columns found;
  for (const std::string& column : columns)
    if (is(plain_name(column))) found.push_back(column);
  return found;
}

bool is_possible(const std::string& name) { return !is_id_name(name); }

std::string label_column(const TaskTable& table, const Columns& text) {
  const char* const option = "--label COLUMN";
  Columns columns = with_name(table.columns(), is_possible);
  std::erase_if(columns,
                [&](const std::string& column) { return std::ranges::find(text, column) != text.end(); });
  const Columns named = with_name(columns, is_label_name);
  if (named.size() == 1) return named[0];
  if (named.size() > 1) table.ask(fmt::format("{} may all be the label", in_quotes(named)), option);
  Columns classes, scores;
  for (const std::string& column : columns) {
    if (is_text_or_numbered(plain_name(column))) continue;
    const Contents contents = table.contents_if_any(column);
    if (contents.is_class()) classes.push_back(column);
    if (contents.is_score()) scores.push_back(column);
  }
  Columns possible = classes;
  possible.insert(possible.end(), scores.begin(), scores.end());
  if (possible.size() == 1) return possible[0];
  table.ask(possible.empty() ? "no column looks like a label"
                             : fmt::format("{} may all be the label", in_quotes(possible)),
            option);
}

Columns text_columns(const TaskTable& table, const Columns& labels) {
  const char* const option = "--text COLUMN, or --text FIRST,SECOND for pairs of texts";
  Columns columns = with_name(table.columns(), is_possible);
  std::erase_if(columns,
                [&](const std::string& column) { return std::ranges::find(labels, column) != labels.end(); });
  Columns named = with_name(columns, is_text_or_numbered);
  if (named.size() == 1 && is_text_name(plain_name(named[0]))) return named;
  if (named.size() == 2 && is_pair_of_texts(plain_name(named[0]), plain_name(named[1]))) return named;
  if (named.size() == 2 && is_pair_of_texts(plain_name(named[1]), plain_name(named[0])))
    return {named[1], named[0]};
  if (named.size() > 1) table.ask(fmt::format("{} may all be the text", in_quotes(named)), option);
  Columns texts;
  for (const std::string& column : columns)
    if (table.contents_if_any(column).is_free_text()) texts.push_back(column);
  if (texts.size() == 1) return texts;
  table.ask(texts.empty() ? "no column looks like free text"
                          : fmt::format("{} may all be the text", in_quotes(texts)),
            option);
}

constexpr const char* number_advice =
    "write scores with a decimal point, and without other commas or %, such as 4.51";

TaskKind kind_of_labels(const TaskTable& table, const std::string& label, const Contents& contents) {
  constexpr std::int64_t few = 20;
  const std::string name = plain_name(label);
  if (contents.all_formatted_numbers() && std::ssize(contents.values) > few)
    table.ask(fmt::format("column '{}' has values such as '{}', which is text; {}", label,
                          contents.first_formatted, number_advice),
              "--set task.kind=classification or --set task.kind=multi_label, if these are no numbers");
  if (!contents.all_numbers()) return TaskKind::classification;
  if (contents.fractions > 0) return TaskKind::regression;
  if (std::ssize(contents.values) <= few) return TaskKind::classification;
  if (is_score_name(name)) return TaskKind::regression;
  if (is_label_name(name)) return TaskKind::classification;
  table.ask(fmt::format("column '{}' has {} different whole numbers, which may be classes or scores", label,
                        std::ssize(contents.values) > most_labels ? fmt::format("more than {}", most_labels)
                                                                  : std::to_string(contents.values.size())),
            "--set task.kind=classification or --set task.kind=regression");
}

// A class that seems to be several, which other classes have too; nothing if there is none.
std::optional<std::string> one_of_several(const Contents& contents, const std::string& separator) {
  std::unordered_set<std::string> parts;
  std::optional<std::string> found;
  for (const std::string& value : contents.values) {
    const std::vector<std::string> several = labels_in(value, FieldKind::text, separator);
    parts.insert(several.begin(), several.end());
    if (several.size() > 1 && (!found || value < *found)) found = value;
  }
  return parts.size() < contents.values.size() ? found : std::nullopt;
}

// Classes that may be one, or none.
std::vector<std::string> notes_on(const Contents& labels) {
  std::map<std::string, Columns> alike;  // by their lower-case form
  Columns missing;
  for (const std::string& label : labels.values) {
    alike[lower_case(label)].push_back(label);
    if (is_missing(label)) missing.push_back(label);
  }
  Columns notes;
  for (auto& [lower, same] : alike) {
    if (same.size() < 2) continue;
    std::ranges::sort(same);
    notes.push_back(fmt::format("{} are different classes; if they are one, write them alike in the table",
                                in_quotes(same)));
  }
  std::ranges::sort(missing);
  if (!missing.empty())
    notes.push_back(
        fmt::format("{} is a class like others; if it says that the label is missing, leave it empty",
                    in_quotes(missing)));
  if (labels.all_formatted_numbers())
    notes.push_back(fmt::format("'{}' is a class; {}", labels.first_formatted, number_advice));
  for (const char* separator : {",", ";", "|"})
    if (const std::optional<std::string> several = one_of_several(labels, separator))
      notes.push_back(
          fmt::format("'{}' is one class; if it is several labels, give --set "
                      "task.kind=multi_label --set 'task.separator=\"{}\"'",
                      *several, separator));
  return notes;
}

std::int64_t labels_between(const Contents& contents, const std::string& separator) {
  std::unordered_set<std::string> labels;
  for (const std::string& value : contents.values)
    for (std::string& label : labels_in(value, FieldKind::text, separator)) labels.insert(std::move(label));
  return std::ssize(labels);
}

// Several labels whose columns are given.
TaskColumns of_label_columns(const TaskTable& table, TaskColumns found) {
  for (const std::string& column : found.label_columns) {
    const Contents contents = table.contents(column);
    const auto other = std::ranges::find_if_not(contents.values, [](const std::string& value) {
      const auto number = number_in(value);
      return is_any_name_of(plain_name(value), {"true", "false"}) ||
             (number && (*number == 0 || *number == 1));
    });
    if (other != contents.values.end())
      table.ask(
          fmt::format("column '{}' has other values than 0 and 1, such as '{}', so it is not one of several "
                      "labels; mend or empty them",
                      column, *other),
          "--label COLUMN for one label");
    found.rows = std::max(found.rows, contents.rows);
  }
  if (found.text.empty()) found.text = text_columns(table, found.label_columns);
  found.kind = TaskKind::multi_label;
  found.labels = std::ssize(found.label_columns);
  return found;
}

// Query, document and perhaps a hard negative, by the names that collections of such triples have.
Columns triple_columns(const TaskTable& table) {
  const auto find = [&](std::initializer_list<const char*> names) {
    Columns found;
    for (const std::string& column : table.columns())
      if (is_any_name_of(plain_name(column), names)) found.push_back(column);
    return found;
  };
  const Columns queries = find({"anchor", "query", "question"}), positives = find({"positive", "pos"}),
                negatives = find({"negative", "neg", "hardnegative"});
  if (queries.size() != 1 || positives.size() != 1 || negatives.size() > 1) return {};
  Columns columns = {queries[0], positives[0]};
  columns.insert(columns.end(), negatives.begin(), negatives.end());
  return columns;
}

// Texts that belong together, with or without a label that says which rows to take.
TaskColumns of_contrastive(const TaskTable& table, TaskColumns found) {
  if (found.text.empty()) found.text = triple_columns(table);
  if (found.text.empty()) {
    Columns labels = with_name(table.columns(), is_label_name);
    if (!found.label.empty()) labels.push_back(found.label);
    found.text = text_columns(table, labels);
  }
  found.rows = table.contents(found.text[0]).rows;
  for (const std::string& column : table.columns())
    if (!is_id_name(plain_name(column)) && column != found.label &&
        std::ranges::find(found.text, column) == found.text.end())
      found.unused.push_back(column);
  return found;
}

}  // namespace

void refuse_text_as_name(const std::filesystem::path& file, TableFormat format, bool header,
                         const std::string& column) {
  TaskTable(file, format, header).refuse_text_as_name(column);
}

std::vector<std::string> find_text_columns(const std::filesystem::path& file, TableFormat format, bool header,
                                           const std::vector<std::string>& others) {
  const TaskTable table(file, format, header);
  Columns found = table.columns().size() == 1 ? table.columns() : text_columns(table, others);
  if (found.size() == 1) table.refuse_text_as_name(found[0]);
  return found;
}

TaskColumns find_task_columns(const std::filesystem::path& file, TableFormat format, bool header,
                              const TaskColumns& given, const std::string& separator) {
  const TaskTable table(file, format, header);
  for (const std::string& column : given.text) table.require(column, "--text");
  if (!given.label.empty()) table.require(given.label, "--label");
  for (const std::string& column : given.label_columns) table.require(column, "--label");
  TaskColumns found = given;
  if (given.kind == TaskKind::contrastive) return of_contrastive(table, found);
  if (!given.label_columns.empty()) return of_label_columns(table, found);
  if (found.label.empty()) found.label = label_column(table, found.text);
  if (found.text.empty()) found.text = text_columns(table, {found.label});
  const Contents labels = table.contents(found.label);
  found.rows = labels.rows;
  found.labels = std::ssize(labels.values);
  if (!found.kind)
    found.kind = labels.lists > 0 ? TaskKind::multi_label : kind_of_labels(table, found.label, labels);
  if (*found.kind == TaskKind::classification) found.notes = notes_on(labels);
  if (*found.kind == TaskKind::regression && labels.has_formatted_numbers())
    throw UsageError(fmt::format("{}: column '{}' has values such as '{}'; {}", file.string(), found.label,
                                 labels.first_formatted, number_advice));
  if (*found.kind == TaskKind::regression) found.rows = labels.numbers;
  if (*found.kind == TaskKind::regression && labels.numbers == 0)
    throw UsageError(
        fmt::format("{}: column '{}' has no numbers, so it has no scores to learn; omit task.kind=regression "
                    "for classes, "
                    "or give --label COLUMN",
                    file.string(), found.label));
  if (*found.kind == TaskKind::multi_label && labels.lists == 0)
    found.labels = labels_between(labels, separator);
  if (*found.kind != TaskKind::multi_label && labels.lists > 0)
    throw UsageError(
        fmt::format("{}: column '{}' has lists in {} rows, but the task has one label for each text; "
                    "give --set task.kind=multi_label, or another column",
                    file.string(), found.label, labels.lists));
  if (header && given.label.empty() && labels.values.contains(found.label))
    throw UsageError(fmt::format(
        "{}: its first line seems to be a row, since '{}' occurs below it too; add a line with the columns' "
        "names, "
        "or give --set task.header=false with --text and --label (columns are called 1, 2, 3, ...)",
        file.string(), found.label));
  for (const std::string& column : table.columns())
    if (!is_id_name(plain_name(column)) && column != found.label &&
        std::ranges::find(found.text, column) == found.text.end())
      found.unused.push_back(column);
  return found;
}

}  // namespace comera::data
