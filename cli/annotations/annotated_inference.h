#pragma once

#include <filesystem>
#include <string>

#include "cli/options/inference_options.h"
#include "cli/options/output_options.h"
#include "data/tasks/scores.h"

namespace comera::cli {

// Inference of models whose answers lie within a text: labels of words, answers to questions.

// The scores of one set of examples, whose answers its file has.
data::TaskScores score_annotations(const InferenceOptions& options, LoadedModel& loaded,
                                   const data::Task::Set& set);

// Writes the predictions for a file; its format follows from the output's name. UsageError for another name.
void predict_annotations(const InferenceOptions& options, LoadedModel& loaded,
                         const std::filesystem::path& input, const OutputOptions& output);

// Whether an output's name selects a format that only these predictions have.
bool is_annotation_output(const std::filesystem::path& output);

}  // namespace comera::cli
