#include "training/tasks/file_task.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "training/tasks/sequence_task.h"

namespace comera {

std::string FileTask::source() const {
  std::vector<std::string> files;
  for (const data::Task::Set& set : task_.train) files.push_back(set.file.string());
  return fmt::format("{}", fmt::join(files, ", "));
}

std::string FileTask::held_out_fingerprint() const {
  std::vector<std::string> contents;
  for (const GivenFile& file : held_out()) contents.push_back(file.content);
  return fingerprint_of_all(contents);
}

std::vector<GivenFile> FileTask::inputs() const {
  std::vector<GivenFile> inputs = {{"task.train", source(), fingerprint()}};
  for (GivenFile& file : held_out()) inputs.push_back(std::move(file));
  return inputs;
}

std::string FileTask::describe(const Evaluation& evaluation) const { return describe_sets(evaluation); }

Json FileTask::metrics(const Evaluation& evaluation) const { return metrics_of_sets(evaluation); }

Evaluation FileTask::evaluation_of(std::vector<data::TaskScores> sets, double score) {
  const data::TaskScores& first = sets.at(0);
  return {.score = score,
          .loss = first.loss,
          .accuracy = first.accuracy,
          .targets = first.examples,
          .details = std::move(sets)};
}

}  // namespace comera
