#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tasks/task.h"
#include "training/ranks/activations.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace comera::cli {

// Texts like those that a model will read, to measure what its layers meet.
struct CalibrationOptions {
  std::string file;               // a table, or a text of one text a line
  std::vector<std::string> text;  // columns

  bool given() const { return !file.empty(); }
};

// Tokens of the sequences in which texts are read where nothing else is said, if the model has the positions.
std::int64_t usual_length(const ModelSection& model);

// --activations and --text, which need the option given.
void add_calibration_options(CLI::App& command, CalibrationOptions& options, CLI::Option& needed);

// Of a dense model's checkpoint, in sequences of up to 128 tokens: each text by itself, or, for a model that
// has learned pairs in one sequence, all columns together. UsageError for what the file lacks.
Activations calibrate(const std::filesystem::path& checkpoint, const CalibrationOptions& options);

// The same on the texts that a task trains on.
Activations calibrate(const std::filesystem::path& checkpoint, const data::Task& task);

}  // namespace comera::cli
