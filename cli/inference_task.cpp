#include "cli/inference_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/tables/table_reader.h"
#include "data/tasks/task_columns.h"
#include "kernels/core/console.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

constexpr const char* text_column = "text";  // as a table reader calls the lines of a text

std::vector<std::string> columns_of(const data::Task& task, const std::filesystem::path& file) {
  const data::TableFormat format =
      task.format == data::TableFormat::automatic ? data::format_of(file) : task.format;
  if (format == data::TableFormat::text) return {text_column};
  data::TableReader reader(file, {.format = format, .header = task.header});
  data::TableRow row;
  reader.next(row);  // JSON members are known from the first object
  return reader.columns();
}

bool is_among(const std::string& column, const std::vector<std::string>& columns) {
  return std::ranges::find(columns, column) != columns.end();
}

// Files that these commands do not read must still exist.
void check_files(const InferenceOptions& options, const TaskSection& section) {
  std::error_code code;
  for (const auto& [key, files] :
       {std::pair{"task.train", &section.train}, {"task.validation", &section.validation}})
    for (const std::string& name : *files)
      if (is_set(options, key) && !std::filesystem::exists(name, code))
        throw UsageError(fmt::format(
            "--set {} = {}: no such file, and this command does not read it; omit it", key, name));
}

// "LABEL_0" and so on, as transformers calls classes that have no names.
bool have_names(const std::vector<std::string>& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != fmt::format("LABEL_{}", i)) return true;
  return false;
}

const char* kind_of(HeadKind head) {
  return head == HeadKind::regression    ? "a regression"
         : head == HeadKind::multi_label ? "several labels for each text"
                                         : "one of several classes";
}

// What a model has learned cannot be set: other settings would give its outputs another meaning.
void require_learned(const InferenceOptions& options, const LoadedModel& loaded, const data::Task& task) {
  const EncoderConfig& config = loaded.model.config();
  const TaskSection learned =
      parse_stored_recipe(loaded.trained.recipe, loaded.trained.checkpoint.string()).task;
  const std::string model = options.model.string();
  const bool fits = (task.kind == data::TaskKind::regression) == (config.head == HeadKind::regression) &&
                    (task.kind == data::TaskKind::multi_label) == (config.head == HeadKind::multi_label);
  if (is_set(options, "task.kind") && !fits)
    throw UsageError(fmt::format("--set task.kind: {} has learned {}; omit it", model, kind_of(config.head)));
  if (is_set(options, "task.labels") && task.labels != learned.labels &&
      (have_names(learned.labels) || std::ssize(task.labels) != config.sequence_outputs()))
    throw UsageError(fmt::format("--set task.labels: {} has learned these {}, in this order: {}; omit it",
                                 model, config.sequence_outputs(), fmt::join(learned.labels, ", ")));
  if (options.label.size() > 1 &&
      (config.head != HeadKind::multi_label || !std::ranges::is_permutation(options.label, learned.labels)))
    throw UsageError(fmt::format(
        "--label {}: {} has learned {}; give {}", fmt::join(options.label, ","), model,
        config.head == HeadKind::multi_label ? fmt::format("the labels {}", fmt::join(learned.labels, ", "))
                                             : kind_of(config.head),
        config.head == HeadKind::multi_label ? "a column of this name for each"
                                             : "one column (with a comma in its name: --set "
                                               "task.label=...)"));
  if (learned.text.size() == 1 && task.text.size() == 2)
    throw UsageError(fmt::format("{} has learned single texts, but {} and {} are pairs; give --text COLUMN",
                                 model, task.text[0], task.text[1]));
}

void say(const std::filesystem::path& file, const std::vector<std::string>& columns, const char* what) {
  log_info("{}: using column{} '{}' as the {}\n", file.string(), columns.size() == 1 ? "" : "s",
           fmt::join(columns, "' and '"), what);
}

// Lines of a plain text have no column of their own.
void read_lines_as_text(data::Task& task, const InferenceOptions& options,
                        const std::filesystem::path& file) {
  if (task.text.size() != 1 || task.text[0] == text_column || !options.text.empty() ||
      is_set(options, "task.text"))
    return;
  const data::TableFormat format =
      task.format == data::TableFormat::automatic ? data::found_format_of(file, task.text) : task.format;
  if (format != data::TableFormat::text) return;
  task.text = {text_column};
  log_info("{}: each line is a text\n", file.string());
}

// By its name, or as in a table to learn from.
std::string find_label(const data::Task& task, const std::filesystem::path& file,
                       const std::vector<std::string>& columns) {
  std::vector<std::string> found;
  for (const char* name : {"label", "score"})
    if (is_among(name, columns) && (task.kind == data::TaskKind::regression || name == std::string("label")))
      found.emplace_back(name);
  if (found.size() != 1)
    found = {data::find_task_columns(file, task.format, task.header, {.text = task.text, .kind = task.kind},
                                     task.separator)
                 .label};
  say(file, found, "label");
  return found[0];
}

[[noreturn]] void refuse_column(const std::filesystem::path& file, const std::string& column,
                                const std::vector<std::string>& columns, const char* what,
                                const char* option) {
  if (columns.size() == 1 && columns[0].find_first_of("\t;") != std::string::npos)
    throw UsageError(
        fmt::format("{}: its fields are apart by other than its name says; save it as .tsv (tabs) or .csv "
                    "(commas), or give "
                    "--set task.format=tsv, csv or semicolon_csv",
                    file.string()));
  throw UsageError(fmt::format("{}: has no column '{}' for the {}; it has {}: give {}", file.string(), column,
                               what, fmt::join(columns, ", "), option));
}

// Objects of JSON may lack members.
void require_columns(const data::Task& task, const std::filesystem::path& file, bool labels) {
  const data::TableFormat format =
      task.format == data::TableFormat::automatic ? data::found_format_of(file) : task.format;
  if (!data::is_separated(format)) return;
  const std::vector<std::string> columns = columns_of(task, file);
  if (columns.empty()) throw UsageError(fmt::format("{}: is empty", file.string()));
  const auto require = [&](const std::string& column, const char* what, const char* option) {
    if (!is_among(column, columns)) refuse_column(file, column, columns, what, option);
  };
  for (const std::string& column : task.text)
    require(column, "text", task.text.size() == 1 ? "--text COLUMN" : "--text COLUMN,COLUMN");
  if (labels && !task.label.empty()) require(task.label, "label", "--label COLUMN");
}

}  // namespace

bool is_set(const InferenceOptions& options, std::string_view key) {
  return std::ranges::any_of(options.overrides, [&](const std::string& assignment) {
    return assignment.substr(0, assignment.find('=')) == key;
  });
}

bool has_other_columns(const data::Task& task, data::TableFormat format, const std::filesystem::path& file) {
  std::error_code code;
  if (!data::is_separated(format) || !std::filesystem::is_regular_file(file, code)) return false;
  const std::vector<std::string> columns = columns_of(task, file);
  return std::ranges::any_of(task.text,
                             [&](const std::string& column) { return !is_among(column, columns); });
}

std::vector<std::string> find_texts(const data::Task& task, const std::filesystem::path& file) {
  std::vector<std::string> others = columns_of(task, file);
  if (std::erase(others, task.label) == 0 || others.size() != 1)
    others = data::find_text_columns(file, task.format, task.header, {task.label});
  say(file, others, "text");
  return others;
}

data::Task task_for(const InferenceOptions& options, const LoadedModel& loaded,
                    const std::filesystem::path& file, bool labels) {
  check_files(options, loaded.recipe.task);
  data::Task task = task_of(loaded.recipe.task, TaskUse::inference);
  require_learned(options, loaded, task);
  if (options.label.size() > 1) task.label.clear();  // the labels' own columns
  const bool label_is_set = is_set(options, "task.label") && !labels,
             needs_label = labels && task.label.empty() && !data::has_label_columns(task);
  // The file is read twice, which is impossible for a pipe.
  std::error_code code;
  const bool is_regular = std::filesystem::is_regular_file(file, code);
  if (!task.text.empty() && !label_is_set && !needs_label) {
    if (is_regular && !labels) read_lines_as_text(task, options, file);
    if (is_regular) require_columns(task, file, labels);
    return task;
  }
  if (!is_regular)
    throw UsageError(fmt::format("{}: is not a regular file, so name its columns: --text COLUMN{}",
                                 file.string(), needs_label ? " and --label COLUMN" : ""));
  const std::vector<std::string> columns = columns_of(task, file);
  if (label_is_set && !is_among(task.label, columns))
    throw UsageError(fmt::format(
        "--set task.label = {}: {} has no such column (it has {}), and labels are not read here; omit it",
        task.label, file.string(), fmt::join(columns, ", ")));
  if (needs_label) task.label = find_label(task, file, columns);
  if (task.text.empty()) task.text = find_texts(task, file);
  return task;
}

}  // namespace comera::cli
