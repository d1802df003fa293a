#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoints/checkpoint_directory.h"
#include "cli/commands/commands.h"
#include "cli/fill_questions.h"
#include "cli/options/arguments.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "cli/options/training_options.h"
#include "kernels/core/console.h"
#include "kernels/core/version.h"
#include "reports/metrics_file.h"
#include "reports/page/run_report.h"
#include "reports/tensorboard.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/small_file.h"
#include "training/logging/run_starts.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::cli {

namespace {

constexpr std::int64_t longest_filling = 64;  // tokens of a displayed held-out sequence

struct ReportOptions {
  std::vector<std::filesystem::path> runs;
  OutputOptions output;
  std::filesystem::path tensorboard;
  std::vector<std::string> texts;
  std::int64_t examples = 6;
};

// A name for each folder: its last part, with as many of the preceding parts as are needed to distinguish
// them.
std::vector<std::string> names_of(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> names;
  std::vector<std::filesystem::path> rest;
  for (const std::filesystem::path& folder : folders) {
    names.push_back(storage::last_part(folder));
    rest.push_back(storage::without_last_part(folder));
  }
  const auto is_double = [&](const std::string& name) { return std::ranges::count(names, name) > 1; };
  while (std::ranges::any_of(names, is_double)) {
    const std::vector<std::string> before = names;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (std::ranges::count(before, before[i]) == 1) continue;
      if (!rest[i].has_relative_path())
        throw UsageError(fmt::format("{}: is given twice", folders[i].string()));
      names[i] = fmt::format("{}/{}", storage::last_part(rest[i]), names[i]);
      rest[i] = storage::without_last_part(rest[i]);
    }
  }
  return names;
}

bool is_glue(const std::filesystem::path& folder) {
  std::error_code code;
  return std::filesystem::is_regular_file(folder / "glue.json", code);
}

ReportedFilling reported(const Question& question, std::size_t mark, const FillReport& report) {
  const data::Reading reading = report.reader().unfilled(question.text, mark);
  ReportedFilling filling{.before = reading.before, .behind = reading.behind, .truth = {}};
  const auto text_of = [&](std::int32_t id) {
    return report.reader().filled(question.text, mark, id).filling;
  };
  const Answer& answer = question.answers[mark];
  if (answer.truth >= 0) filling.truth = text_of(answer.truth), filling.rank = answer.standing.rank;
  for (const Filling& each : answer.fillings)
    filling.guesses.emplace_back(text_of(each.id), each.probability);
  return filling;
}

// From the held-out data, if they still exist, and from the user's texts.
void add_fillings(ReportedRun& reported_run, const std::filesystem::path& run, const ReportOptions& options) {
  const Recipe& recipe = *reported_run.recipe;
  if (recipe.dlrm || recipe.model.head != HeadKind::mlm) {
    if (!options.texts.empty())
      reported_run.notes.push_back("it has no masked-language head, so --fill does not apply");
    return;
  }
  if (options.examples == 0 && options.texts.empty()) return;
  InferenceOptions inference;
  inference.model = run;
  const LoadedModel loaded = inference.load();
  const FillReport report(loaded.tokenizer);
  std::vector<Question> questions;
  for (const std::string& text : options.texts) {
    questions.push_back({.place = fmt::format("'{}'", shortened_text(text)),
                         .title = "",
                         .number_key = "line",
                         .text = report.reader().read(text)});
    const EncoderConfig& config = loaded.model.config();
    check_text(questions.back(), loaded,
               config.positions == Positions::relative ? std::numeric_limits<std::int64_t>::max()
                                                       : config.max_positions);
  }
  const std::string& folder = recipe.data.validation.empty() && !recipe.data.sources.empty()
                                  ? recipe.data.sources.front().folder
                                  : recipe.data.validation;
  std::error_code code;
  if (options.examples > 0 && !folder.empty() && std::filesystem::exists(folder, code)) {
    const HiddenPieces wanted{.folder = folder, .examples = options.examples};
    const std::vector<Question> hidden =
        hidden_pieces(wanted, loaded, std::min(longest_filling, recipe.phases.front().length));
    questions.insert(questions.end(), hidden.begin(), hidden.end());
  } else if (options.examples > 0) {
    reported_run.notes.push_back("its held-out data are missing, so no guesses for them are shown");
  }
  answer(questions, 3, inference, loaded);
  for (const Question& question : questions)
    for (std::size_t mark = 0; mark < question.answers.size(); ++mark)
      reported_run.fillings.push_back(reported(question, mark, report));
}

// Unreadable parts of a run become notes: the rest is still reported.
template <class Call>
void note_failure(ReportedRun& run, const char* what, Call&& call) {
  try {
    call();
  } catch (const UnfitText&) {
    throw;
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("{}: {}", what, error.what()));
  }
}

// "shards" of "/data/shards", "data.train=shards" of "data.train=/data/shards", "[a.tsv,b.tsv]" of a list.
std::string without_folder(const std::string& word) {
  if (word.find('/') == std::string::npos) return word;
  const std::size_t equals = word.find('='), begin = equals == std::string::npos ? 0 : equals + 1;
  std::string value = word.substr(begin);
  const bool is_list = value.starts_with('[') && value.ends_with(']');
  if (is_list) value = value.substr(1, value.size() - 2);
  std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
  std::vector<std::string> parts;
  std::istringstream entries(value);
  for (std::string entry; std::getline(entries, entry, is_list ? ',' : '\0');)
    parts.push_back(storage::last_part(entry.substr(std::min(entry.find_first_not_of(' '), entry.size()))));
  const std::string joined = fmt::format("{}", fmt::join(parts, ","));
  return word.substr(0, begin) + (is_list ? "[" + joined + "]" : joined);
}

// The first start, and how often the run was resumed. Without folders, since reports are passed on to others.
std::vector<std::pair<std::string, std::string>> facts_of_starts(const std::vector<RunStart>& starts) {
  if (starts.empty()) return {};
  const RunStart &first = starts.front(), &last = starts.back();
  std::vector<std::pair<std::string, std::string>> facts = {
      {"date", first.time + (starts.size() > 1 ? fmt::format("; resumed {}, last {}",
                                                             starts.size() == 2
                                                                 ? std::string("once")
                                                                 : fmt::format("{} times", starts.size() - 1),
                                                             last.time)
                                               : std::string())},
      {"machine", first.machine}};
  std::string command;
  for (const std::string& word : first.command)
    command += (command.empty() ? "" : " ") + for_shell(without_folder(word));
  facts.emplace_back("command", command);
  return facts;
}

ReportedRun read_run(const std::filesystem::path& run, const std::string& name,
                     const ReportOptions& options) {
  std::error_code code;
  if (!std::filesystem::is_directory(run, code))
    throw UsageError(fmt::format("{}: no such folder; give the folder of a run", run.string()));
  if (!std::filesystem::exists(run / "metrics.jsonl", code) &&
      !std::filesystem::is_directory(run / "checkpoints", code))
    throw UsageError(
        fmt::format("{}: is not a run of comera: it has neither metrics nor checkpoints", run.string()));
  ReportedRun reported{.name = name};
  note_failure(reported, "no curves", [&] {
    RunMetrics metrics = read_metrics(run / "metrics.jsonl");
    reported.metrics = std::move(metrics.lines);
    reported.notes = std::move(metrics.notes);
  });
  note_failure(reported, "showing the recipe of its newest checkpoint", [&] {
    if (storage::exists(run / "recipe.toml")) static_cast<void>(load_recipe(run / "recipe.toml", {}));
  });
  note_failure(reported, "no recipe", [&] { reported.recipe = recipe_of_run(run); });
  reported.facts = facts_of_starts(read_starts(run / "starts.jsonl"));
  note_failure(reported, "no layers", [&] {
    const auto found = find_latest(run / "checkpoints", ResumeMode::newest_to_read);
    if (!found) throw Error("there is no checkpoint yet");
    const auto bytes = std::filesystem::file_size(found->path, code);  // a continuing run may remove it
    reported.checkpoint_bytes = code ? 0 : static_cast<double>(bytes);
    reported.ranks = checkpoint_ranks(CheckpointReader(found->path));
  });
  if (reported.recipe && reported.ranks)
    note_failure(reported, "no fillings", [&] { add_fillings(reported, run, options); });
  return reported;
}

// The table of `comera glue`.
ReportedTable read_glue(const std::filesystem::path& folder, const std::string& name) {
  const std::string text =
      storage::read_small_file(folder / "glue.json", 1 << 26, "the results of comera glue");
  const Json json = Json::parse(text, nullptr, false);
  ReportedTable table{.title = fmt::format("GLUE: {}", name),
                      .titles = {"task", "set", "number", "mean", "deviation", "seeds"}};
  try {
    for (const Json& task : json.at("tasks"))
      for (const Json& number : task.at("numbers"))
        table.rows.push_back({task.at("task"), number.at("set"), number.at("metric"), number.at("mean"),
                              task.at("seeds").size() > 1 ? number.at("deviation") : Json(""),
                              task.at("seeds").size()});
    if (json.contains("average"))
      table.rows.push_back({"average", "", "without WNLI", json.at("average"), "", ""});
  } catch (const Json::exception&) {
    throw Error(fmt::format("{}: was not written by comera glue", (folder / "glue.json").string()));
  }
  return table;
}

double written_at(const std::filesystem::path& file) {
  const auto age = std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(file);
  return static_cast<double>(std::time(nullptr)) - std::chrono::duration<double>(age).count();
}

void write_tensorboard(const ReportOptions& options, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (is_glue(options.runs[i])) {
      log_info("{}: has no curves for TensorBoard; its runs are in {}\n", names[i],
               (options.runs[i] / "runs").string());
      continue;
    }
    const std::filesystem::path metrics = options.runs[i] / "metrics.jsonl";
    const RunMetrics read = read_metrics(metrics);
    for (const std::string& note : read.notes) log_info("{}: {}\n", names[i], note);
    const std::string events = tensorboard_events(read.lines, written_at(metrics));
    const std::filesystem::path folder = options.tensorboard / names[i];
    storage::create_directories_durably(folder);
    // TensorBoard reads files with this in their names; the name is always the same, so that a new file
    // replaces the old one.
    storage::write_file_durably(folder / "events.out.tfevents.comera", events);
  }
  print_out("saved {}; look at it with: tensorboard --logdir {}\n", options.tensorboard.string(),
            for_shell(options.tensorboard.string()));
}

void write_report(const ReportOptions& options, const std::vector<std::string>& names) {
  options.output.check("");
  std::vector<ReportedRun> runs;
  std::vector<ReportedTable> tables;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (is_glue(options.runs[i]))
      tables.push_back(read_glue(options.runs[i], names[i]));
    else
      runs.push_back(read_run(options.runs[i], names[i], options));
  }
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  const std::string page =
      report_page(runs, tables, fmt::format("comera {}, {:%Y-%m-%d %H:%M}", version(), local));
  storage::write_file_durably(options.output.path, page);
  for (const ReportedRun& run : runs)
    for (const std::string& note : run.notes) log_info("{}: {}\n", run.name, note);
  print_out("saved {}, {:.0f} kB\n", options.output.path.string(), static_cast<double>(page.size()) * 1e-3);
}

// The suffix tells browsers, and people, what the file is.
void check_suffix(const std::filesystem::path& page) {
  const std::string suffix = page.extension().string();
  if (suffix != ".html" && suffix != ".htm")
    throw UsageError(
        fmt::format("--output {}: the report is an HTML page; give it a name in .html", page.string()));
}

void report(const ReportOptions& options) {
  if (options.output.path.empty() && options.tensorboard.empty())
    throw UsageError("nothing to write: give --output report.html, --tensorboard DIR or both");
  if (!options.output.path.empty()) check_suffix(options.output.path);
  if (!options.texts.empty() && options.output.path.empty())
    throw UsageError("--fill is for the page; give --output report.html");
  if (options.output.path.empty() && std::ranges::all_of(options.runs, is_glue))
    throw UsageError(fmt::format("{0}: has no curves for TensorBoard; give the folders in {0}/runs",
                                 options.runs.front().string()));
  const std::vector<std::string> names = names_of(options.runs);
  if (!options.output.path.empty()) write_report(options, names);
  if (!options.tensorboard.empty()) write_tensorboard(options, names);
}

}  // namespace

void add_report_command(CLI::App& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = program.add_subcommand(
      "report",
      "Write an HTML report of runs: curves, sizes, ranks, scores, differences and fill-mask examples");
  command->add_option("runs", options->runs, "Folders of runs or of comera glue")
      ->required()
      ->type_name("RUN");
  add_output_options(*command, options->output, "Write the report to this .html file", false);
  command
      ->add_option("--tensorboard", options->tensorboard,
                   "Write event files for TensorBoard to this folder, with or without a report")
      ->type_name("DIR");
  command
      ->add_option("--fill", options->texts,
                   "Also show the models' guesses for the [MASK] of this text; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command
      ->add_option("--examples", options->examples,
                   "Show the models' guesses for this many pieces of held-out sequences")
      ->check(number_from_0)
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  comera report runs/first --output report.html\n"
      "  comera report runs/first runs/dense --output report.html \\\n"
      "    --fill 'for i [MASK] range(10):'\n"
      "  comera report runs/first --tensorboard events");
  command->callback([options] { report(*options); });
}

}  // namespace comera::cli
