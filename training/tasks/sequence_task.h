#pragma once

#include "data/tables/examples.h"
#include "data/tasks/scores.h"
#include "recipes/recipe.h"
#include "training/inference/inference_engine.h"
#include "training/tasks/file_task.h"

namespace comera {

// Evaluation::details of a task with examples: the scores of each validation set. As readable lines, and for
// metrics.jsonl.
const std::vector<data::TaskScores>& sets_of(const Evaluation& evaluation);
std::string describe_sets(const Evaluation& evaluation);
Json metrics_of_sets(const Evaluation& evaluation);

// Files as sets, called by the files' names, or by their whole paths where these are equal.
std::vector<data::Task::Set> named_sets(const std::vector<std::string>& files);

// The task that a recipe's [task] describes: a GLUE task by its name, or files of the user's own. UsageError
// for what is missing or contradicts itself. Labels that the recipe leaves open are not looked for here.
//   inference: neither files to train on nor columns are asked for.
enum class TaskUse : std::uint8_t { training, inference };
data::Task task_of(const TaskSection& section, TaskUse use = TaskUse::training);

// The recipe with everything that the task determines filled in: labels, kind and metric, model.head,
// model.classes and the scale of scores. Reads the training files' labels if the recipe leaves these open.
Recipe resolve_task(const Recipe& recipe);

// Scores a model with a sequence head on one set of examples, which the processes share. Nothing if `stop`
// requests a stop.
std::optional<data::TaskScores> score(InferenceEngine& engine, const data::Task& task,
                                      const data::Examples& examples, const std::string& set,
                                      const MicroBatchCapacity& capacity, const EncoderConfig& config,
                                      const std::function<bool()>& stop = {},
                                      Communicator& communicator = one_process());

// The examples in the form that the model expects.
std::unique_ptr<data::ExampleSamples> samples_for(const EncoderConfig& config, const data::Task& task,
                                                  const data::Examples& examples, std::int64_t length);

Json metrics_of(const data::TaskScores& scores);

// The weights of classes with so many examples each, as scikit-learn's compute_class_weight.
std::vector<double> class_weights(const ClassWeights& given, const std::vector<std::int64_t>& counts);

// Fine-tuning: whole sequences with a label or a score.
class SequenceTask final : public FileTask {
 public:
  // Reads all files; `section` is resolved. length: of the longest phase.
  SequenceTask(const TaskSection& section, const data::Tokenizer& tokenizer, const EncoderConfig& config,
               std::int64_t length);

  std::string fingerprint() const override { return train_.fingerprint(); }
  std::vector<GivenFile> inputs() const override;
  std::unique_ptr<data::SampleSource> samples(std::int64_t length) const override;
  // Of weighted classes: the sum of the examples' weights.
  double targets(const data::Batch& batch) const override;
  double loss_scale() const override;
  double loss_unit() const override;
  using EncoderTask::evaluate;
  // score: the task's metric on the first set.
  std::optional<Evaluation> evaluate(StepEngine& engine, const Model& model,
                                     const data::LoaderOptions& options, std::int64_t most_micro_batches,
                                     const std::function<bool()>& stop, Communicator& communicator) override;

  // What was read and what was left out: readable lines.
  std::vector<std::string> reports() const;

 private:
  std::vector<GivenFile> held_out() const override;
  std::string scale_text() const;

  EncoderConfig config_;
  std::int64_t length_;
  data::Examples train_;
  std::vector<double> weights_;  // of the classes; empty: all count alike
  std::vector<data::Examples> validation_;
};

}  // namespace comera
