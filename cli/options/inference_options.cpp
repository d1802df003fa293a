#include "cli/options/inference_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "kernels/core/tensors/finite.h"
#include "training/logging/json.h"

namespace comera::cli {

void add_inference_options(CLI::App& command, InferenceOptions& options) {
  command
      .add_option("model", options.model, "A checkpoint, or a run's folder (its best model, else its newest)")
      ->required()
      ->type_name("MODEL");
  command
      .add_option("--tokenizer", options.tokenizer,
                  "Use the model's tokenizer from this file instead of the one in the checkpoint")
      ->type_name("FILE");
  command
      .add_option("--set", options.overrides,
                  "Set a key of the model's recipe, such as task.header=false; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command
      .add_option("--length", options.length,
                  "The most tokens of a sequence: longer ones are cut, or refused where text must not be "
                  "lost (default: as in training)")
      ->check(positive_number);
  add_device_option(command, options.device);
  command.add_option("--threads", options.threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
}

LoadedModel InferenceOptions::load() const {
  prepare_threads(static_cast<int>(threads));
  return {model, tokenizer, all_overrides(), device, length};
}

// A string in JSON is one in TOML too.
std::vector<std::string> InferenceOptions::all_overrides() const {
  std::vector<std::string> all = overrides;
  if (!text.empty()) all.push_back("task.text=" + Json(text).dump());
  if (label.size() == 1) all.push_back("task.label=" + Json(label[0]).dump());
  return all;
}

void add_column_options(CLI::App& command, InferenceOptions& options, bool labels) {
  command
      .add_option("--text", options.text,
                  "The column with the text, or the two columns of a pair of texts (default: as in training)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN,...");
  if (labels)
    command
        .add_option("--label", options.label,
                    "The column with the label or the score, or those of several labels with 0 or 1 each "
                    "(default: as in training)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("COLUMN,...");
}

MicroBatchCapacity inference_capacity(const InferenceOptions& options, const LoadedModel& loaded) {
  std::int64_t length = options.length, tokens = 4096;
  for (const PhaseSection& phase : loaded.recipe.phases)
    if (options.length == 0) length = std::max(length, phase.length);
  const std::int64_t most = loaded.model.config().max_positions;
  if (length > most)
    throw UsageError(fmt::format(
        "--length {} is more than the model's max_positions = {}, which limits learned positions; lower it",
        length, most));
  tokens = std::max(tokens, length);
  return data::capacity_for(tokens, length, 0, loaded.model.config().vocabulary);
}

namespace {

[[noreturn]] void refuse_outputs(const std::filesystem::path& model, const std::string& of) {
  throw Error(
      fmt::format("{}: its output for {} is not finite, because training has diverged; use an older "
                  "checkpoint, or train with a lower learning rate",
                  model.string(), of));
}

}  // namespace

void require_finite(std::span<const double> values, const InferenceOptions& options, const std::string& of) {
  if (!all_finite(values)) refuse_outputs(options.model, of);
}

void require_finite(std::span<const double> values, const std::filesystem::path& model,
                    const std::filesystem::path& file, std::int64_t line) {
  if (!all_finite(values)) refuse_outputs(model, fmt::format("line {} of {}", line, file.string()));
}

void require_finite(double loss, const InferenceOptions& options, const std::filesystem::path& file) {
  if (!all_finite(std::span(&loss, 1))) refuse_outputs(options.model, file.string());
}

void report_examples(const std::string& name, const data::ExampleSamples& samples,
                     const data::Examples& examples, std::int64_t length) {
  log_info("{}: {} {}, {} cut to {} tokens\n", name, examples.count(),
           examples.count() == 1 ? "example" : "examples", samples.truncated(), length);
  for (const auto* lines : {&examples.reports(), &examples.notes()})
    for (const std::string& line : *lines) log_info("{}\n", line);
}

OutputFormat output_format(const std::filesystem::path& file, const std::vector<OutputFormat>& allowed) {
  std::string suffix = file.extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::vector<std::pair<std::string, OutputFormat>> known = {{".tsv", OutputFormat::tsv},
                                                                   {".csv", OutputFormat::csv},
                                                                   {".jsonl", OutputFormat::jsonl},
                                                                   {".h5", OutputFormat::hdf5}};
  std::vector<std::string> suffixes;
  for (const auto& [name, format] : known) {
    if (std::ranges::find(allowed, format) == allowed.end()) continue;
    if (suffix == name) return format;
    suffixes.push_back(name);
  }
  throw UsageError(fmt::format("--output {}: the name must end with {}, which selects the format",
                               file.string(), fmt::join(suffixes, ", ")));
}

}  // namespace comera::cli
