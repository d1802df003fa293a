#include "cli/inference_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/tables/table_reader.h"
#include "kernels/core/console.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

std::vector<std::string> columns_of(const data::Task& task, const std::filesystem::path& file) {
  const data::TableFormat format =
      task.format == data::TableFormat::automatic ? data::format_of(file) : task.format;
  if (format == data::TableFormat::text) return {"text"};
  data::TableReader reader(file, {.format = format, .header = task.header});
  data::TableRow row;
  reader.next(row);  // JSON members are known from the first object
  return reader.columns();
}

bool is_among(const std::string& column, const std::vector<std::string>& columns) {
  return std::ranges::find(columns, column) != columns.end();
}

bool is_set(const InferenceOptions& options, std::string_view key) {
  return std::ranges::any_of(options.overrides, [&](const std::string& assignment) {
    return assignment.substr(0, assignment.find('=')) == key;
  });
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

std::string find_label(const data::Task& task, const std::filesystem::path& file,
                       const std::vector<std::string>& columns) {
  std::vector<std::string> found;
  for (const char* name : {"label", "score"})
    if (is_among(name, columns) && (task.kind == data::TaskKind::regression || name == std::string("label")))
      found.emplace_back(name);
  if (found.size() == 1) {
    log_info("{}: using column '{}' as the label\n", file.string(), found[0]);
    return found[0];
  }
  throw UsageError(fmt::format(
      "{}: has the columns {}, and neither the model nor --set names the label; give --set task.label=COLUMN",
      file.string(), fmt::join(columns, ", ")));
}

std::vector<std::string> find_text(const data::Task& task, const std::filesystem::path& file,
                                   std::vector<std::string> columns) {
  std::erase(columns, task.label);
  if (columns.size() == 1) {
    log_info("{}: using column '{}' as the text\n", file.string(), columns[0]);
    return columns;
  }
  throw UsageError(fmt::format(
      "{}: has the columns {}, and neither the model nor --set names the text columns; give --set "
      "'task.text=[\"{}\"]'",
      file.string(), fmt::join(columns, ", "),
      columns.empty()
          ? "COLUMN"
          : fmt::format("{}", fmt::join(columns.begin(),
                                        columns.begin() + std::min<std::ptrdiff_t>(std::ssize(columns), 2),
                                        "\", \""))));
}

}  // namespace

data::Task task_for(const InferenceOptions& options, const LoadedModel& loaded,
                    const std::filesystem::path& file, bool labels) {
  check_files(options, loaded.recipe.task);
  data::Task task = task_of(loaded.recipe.task, TaskUse::inference);
  const bool label_is_set = is_set(options, "task.label") && !labels,
             needs_label = labels && task.label.empty() && !data::has_label_columns(task);
  if (!task.text.empty() && !label_is_set && !needs_label) return task;
  // The file is read twice, which is impossible for a pipe.
  if (std::error_code code; !std::filesystem::is_regular_file(file, code))
    throw UsageError(
        fmt::format("{}: is not a regular file, so name its columns: --set 'task.text=[\"COLUMN\"]'{}",
                    file.string(), needs_label ? " and --set task.label=COLUMN" : ""));
  const std::vector<std::string> columns = columns_of(task, file);
  if (label_is_set && !is_among(task.label, columns))
    throw UsageError(fmt::format(
        "--set task.label = {}: {} has no such column (it has {}), and labels are not read here; omit it",
        task.label, file.string(), fmt::join(columns, ", ")));
  if (needs_label) task.label = find_label(task, file, columns);
  if (task.text.empty()) task.text = find_text(task, file, columns);
  return task;
}

}  // namespace comera::cli
