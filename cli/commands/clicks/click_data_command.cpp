#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/choice.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "data/clicks/click_encoding.h"
#include "data/clicks/click_log.h"
#include "data/clicks/click_shards.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "storage/folder.h"
#include "training/logging/progress.h"

namespace comera::cli {
namespace {

using Seconds = std::chrono::duration<double>;

struct ClickDataOptions {
  std::vector<std::filesystem::path> logs;
  std::string format;  // empty: as in the first log
  std::filesystem::path output;
  std::int64_t threshold = 10;
  std::vector<std::int64_t> heights;  // if given: values are hashed
  std::filesystem::path encoding;     // if given: that of an earlier call
  double held_out = 0.1;
  std::int64_t rows_per_shard = 1 << 20;
  bool overwrite = false;
};

// Shows the number of rows read, and their total if known (not 0), during the work.
template <class Work>
auto with_progress(const char* what, std::int64_t rows, Work&& work) {
  ProgressBar bar(what);
  const std::string of = rows > 0 ? " of " + grouped(rows) : "";
  const auto start = std::chrono::steady_clock::now();
  return work([&](std::int64_t done) {
    const double seconds = Seconds(std::chrono::steady_clock::now() - start).count();
    bar.update(done, fmt::format("{}{} rows, {} rows/s", grouped(done), of,
                                 grouped(static_cast<std::int64_t>(static_cast<double>(done) / seconds))));
  });
}

void check_logs(const ClickDataOptions& options) {
  for (const std::filesystem::path& log : options.logs) {
    storage::refuse_missing(log, "file");
    if (std::filesystem::is_directory(log))
      throw UsageError(
          fmt::format("{}: is a folder; name the logs in it, in the order of time", log.string()));
    if (!std::filesystem::is_regular_file(log))
      throw UsageError(fmt::format(
          "{}: is not a regular file, but logs are read more than once; write it into a file", log.string()));
  }
}

data::ClickFormat format_of_logs(const ClickDataOptions& options,
                                 const std::optional<data::ClickEncoding>& earlier) {
  if (options.format.empty())
    return earlier ? earlier->format() : data::detect_click_format(options.logs.front());
  const data::ClickFormat format = data::click_format(options.format);
  if (earlier && earlier->format() != format)
    throw UsageError(fmt::format("{}: is an encoding of logs of {}, not of {}", options.encoding.string(),
                                 data::name_of(earlier->format()), options.format));
  return format;
}

std::vector<std::int64_t> heights_of_tables(const ClickDataOptions& options, data::ClickFormat format) {
  const std::size_t tables = data::columns_of(format).categories.size();
  if (options.heights.size() == 1) return std::vector<std::int64_t>(tables, options.heights.front());
  if (options.heights.size() != tables)
    throw UsageError(
        fmt::format("--heights has {} numbers; a log of {} has {} tables: give one number, or one per table",
                    options.heights.size(), data::name_of(format), tables));
  return options.heights;
}

void print_split(const char* name, const data::ClickSplitCounts& counts) {
  if (counts.rows == 0) return;
  const double share = static_cast<double>(counts.clicks) / static_cast<double>(counts.rows);
  print_out("{:<24}{:>14}{:>14}{:>9.2f} %{:>9}\n", name, grouped(counts.rows), grouped(counts.clicks),
            100 * share, grouped(counts.shards));
}

void print_tables(const data::ClickEncoding& encoding) {
  const std::vector<std::string>& names = data::columns_of(encoding.format()).categories;
  std::int64_t rows = 0;
  print_out("\n{:<24}{:>14}\n", "table", "rows");
  for (std::size_t t = 0; t < names.size(); ++t) {
    print_out("{:<24}{:>14}\n", names[t], grouped(encoding.heights()[t]));
    rows += encoding.heights()[t];
  }
  print_out("{:<24}{:>14}\n\n", fmt::format("all {}", names.size()), grouped(rows));
}

void print_counts(const data::ClickBuildCounts& counts) {
  print_out("{:<24}{:>14}{:>14}{:>11}{:>9}\n", "", "rows", "clicks", "share", "shards");
  print_split("train", counts.train);
  print_split("validation", counts.validation);
  std::int64_t left_out = 0;
  for (const auto& [reason, rows] : counts.left_out) left_out += rows;
  print_out("{:<24}{:>14}\n", "left out", grouped(left_out));
  for (const auto& [reason, rows] : counts.left_out) print_out("  {:<26}{:>10}\n", reason, grouped(rows));
  for (const std::string& sentence : counts.skipped) log_info("note: {}\n", sentence);
}

std::string described(const ClickDataOptions& options, const data::ClickEncoding& encoding) {
  if (!options.encoding.empty()) return fmt::format("ids are those of {}", options.encoding.string());
  if (!encoding.has_vocabulary()) return "ids are hashes of the values";
  return fmt::format("a row for each value that occurs at least {} in training, and one for all others",
                     options.threshold == 1 ? "once" : fmt::format("{} times", options.threshold));
}

void make_click_data(const ClickDataOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  check_shard_folder(options.output, options.overwrite);
  check_logs(options);
  std::optional<data::ClickEncoding> encoding;
  if (!options.encoding.empty()) encoding = data::ClickEncoding::load(options.encoding);
  const data::ClickFormat format = format_of_logs(options, encoding);
  if (!options.heights.empty())
    encoding = data::ClickEncoding::hashed(format, heights_of_tables(options, format));
  if (!encoding && options.held_out == 1)
    throw UsageError(
        "--held-out 1 leaves no rows to build a vocabulary from; give the --encoding of earlier rows, or "
        "--heights");
  // Missing labels or another header must fail now, not after the earlier logs have been read.
  for (const std::filesystem::path& log : options.logs) data::ClickLog(log, format);

  const data::ClickSplit split = with_progress("counting", 0, [&](const data::ClickProgress& progress) {
    return data::split_by_time(options.logs, format, options.held_out, progress);
  });
  if (!encoding)
    encoding = with_progress("vocabulary", split.train, [&](const data::ClickProgress& progress) {
      return data::learn_vocabulary(options.logs, format, split, options.threshold, progress);
    });
  const std::int64_t rows = split.train + split.validation;
  const data::ClickBuildCounts counts =
      with_progress("encoding", rows, [&](const data::ClickProgress& progress) {
        return data::build_click_shards(options.logs, *encoding, split, options.output,
                                        options.rows_per_shard, progress, options.overwrite);
      });
  print_counts(counts);
  print_tables(*encoding);
  const double seconds = Seconds(std::chrono::steady_clock::now() - start).count();
  print_out("{}\n{:.1f} s, {} rows/s\nwrote {}\n", described(options, *encoding), seconds,
            grouped(static_cast<std::int64_t>(static_cast<double>(rows) / seconds)), options.output.string());
}

const CLI::Validator share(
    [](const std::string& text) {
      double value = 0;
      const bool good = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= 1;
      return good ? std::string() : text + " is not a share from 0 to 1";
    },
    "SHARE");

}  // namespace

void add_click_data_command(CLI::App& clicks) {
  auto options = std::make_shared<ClickDataOptions>();
  CLI::App* command = clicks.add_subcommand("data", "Encode click logs as HDF5 shards, split by time");
  command->add_option("logs", options->logs, "Logs in order of time, plain, .gz or .zst")
      ->required()
      ->type_name("LOG");
  command
      ->add_option("--format", options->format,
                   "Format of the logs: criteo separates fields by tabs, avazu by commas (default: detected)")
      ->check(one_of({"criteo", "avazu"}));
  command->add_option("--output", options->output, "Write the shards and the encoding to this folder")
      ->required()
      ->type_name("DIR");
  CLI::Option* threshold = command
                               ->add_option("--threshold", options->threshold,
                                            "Give a category value a row in its table if the training rows "
                                            "have it at least this often; rarer values share one row")
                               ->check(positive_number)
                               ->capture_default_str();
  CLI::Option* heights = command
                             ->add_option("--heights", options->heights,
                                          "Hash values into tables of this many rows instead; give one "
                                          "number for all tables, or one per table")
                             ->excludes(threshold)
                             ->delimiter(',')
                             ->allow_extra_args(false)
                             ->check(whole_number(false, std::numeric_limits<std::int32_t>::max()))
                             ->type_name("ROWS,...");
  command
      ->add_option("--encoding", options->encoding,
                   "Reuse the ids of an earlier call (encoding.h5 in its output folder), for instance to "
                   "test a model on later logs with --held-out 1")
      ->excludes(threshold)
      ->excludes(heights)
      ->type_name("FILE");
  command
      ->add_option("--held-out", options->held_out,
                   "Keep this share of the rows for validation, the last ones; 0: none, 1: all")
      ->check(share)
      ->capture_default_str();
  command->add_option("--rows-per-shard", options->rows_per_shard, "Start a new shard after this many")
      ->check(positive_number)
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace the shards in the output folder");
  command->footer(
      "Examples:\n"
      "  comera clicks data criteo/train.txt --output criteo-shards\n"
      "  comera clicks data day_0.gz day_1.gz day_2.gz --heights 1000000 --output days\n"
      "  comera clicks data day_3.gz --encoding days/encoding.h5 --held-out 1 \\\n"
      "    --output day-3");
  command->callback([options] { make_click_data(*options); });
}

}  // namespace comera::cli
