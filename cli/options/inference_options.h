#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/batching/batch.h"
#include "data/tables/examples.h"
#include "training/inference/trained_model.h"

namespace CLI {
class App;
}

namespace comera::cli {

// Shared by `eval`, `predict`, `embed` and `fill`: a trained model, and how to run it.
struct InferenceOptions {
  std::filesystem::path model;  // checkpoint or run directory
  std::filesystem::path tokenizer;
  std::vector<std::string> overrides;
  std::vector<std::string> text;   // columns; empty: the model's
  std::vector<std::string> label;  // column, or those of several labels
  std::int64_t length = 0;         // of sequences; 0: that of the longest phase
  std::string device = "auto";
  std::int64_t threads = 0;

  LoadedModel load() const;
  // overrides with those of text and label.
  std::vector<std::string> all_overrides() const;
};

void add_inference_options(CLI::App& command, InferenceOptions& options);

// --text, and --label where labels are read: the columns of tables, as the recipe's task.text and task.label.
void add_column_options(CLI::App& command, InferenceOptions& options, bool labels);

// The maximum length of sequences, and the micro-batches to run them in.
MicroBatchCapacity inference_capacity(const InferenceOptions& options, const LoadedModel& loaded);

// Error if a model's outputs are not finite. of: names their subject.
void require_finite(std::span<const double> values, const InferenceOptions& options, const std::string& of);
// The same for a line of a file.
void require_finite(std::span<const double> values, const std::filesystem::path& model,
                    const std::filesystem::path& file, std::int64_t line);
// The same for the loss on a whole file or folder.
void require_finite(double loss, const InferenceOptions& options, const std::filesystem::path& file);

// Prints what was read, and what was dropped or truncated, on stderr.
void report_examples(const std::string& name, const data::ExampleSamples& samples,
                     const data::Examples& examples, std::int64_t length);

// The output format, chosen by the file's suffix.
enum class OutputFormat : std::uint8_t { tsv, csv, jsonl, hdf5 };
// UsageError if the suffix is not among those allowed.
OutputFormat output_format(const std::filesystem::path& file, const std::vector<OutputFormat>& allowed);

}  // namespace comera::cli
