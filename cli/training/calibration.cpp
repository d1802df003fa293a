#include "cli/training/calibration.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "data/tables/examples.h"
#include "data/tables/table_reader.h"
#include "data/vectors/contrastive_samples.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "storage/folder.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::cli {

std::int64_t usual_length(const ModelSection& model) {
  constexpr std::int64_t usual = 128;
  return model.positions == Positions::learned ? std::min(usual, model.max_positions) : usual;
}

void add_calibration_options(CLI::App& command, CalibrationOptions& options, CLI::Option& needed) {
  CLI::Option* file =
      command
          .add_option("--activations", options.file,
                      "Cut what layers say least about such texts, a table or a text file of one "
                      "text a line: errors are then those of their outputs")
          ->type_name("FILE")
          ->needs(&needed);
  command.add_option("--text", options.text, "The columns of --activations with texts (default: text)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN,...")
      ->needs(file);
}

namespace {

Activations measure(const std::filesystem::path& checkpoint, const data::Task& task,
                    const std::string& called) {
  const TrainedModel trained = find_trained_model(checkpoint);
  const Recipe recipe = checkpoint_recipe(*trained.reader);
  const ModelSection& model = recipe.model;
  const data::Tokenizer tokenizer = load_tokenizer_of(*trained.reader, trained.tokenizer);
  const std::int64_t length = usual_length(model);
  const Ticker ticker(fmt::format("activations over {}", called));
  const auto examples = data::Examples::read(task, task.train, tokenizer, false, length);
  std::unique_ptr<data::SampleSource> texts;
  if (reads_sequences(model.head) && model.pairs == PairEncoding::joint)
    texts = std::make_unique<data::ExampleSamples>(examples, length, model.types);
  else
    texts = std::make_unique<data::SeparateTexts>(examples, std::ssize(task.text), length);
  for (const std::string& report : examples.reports()) log_info("{}\n", report);
  Activations activations = measure_activations(checkpoint, std::move(texts), length);
  if (activations.tokens < activations.enough)
    log_info("note: {} tokens of text are few to tell what matters to the layers; {} and more would do\n",
             grouped(activations.tokens), grouped(activations.enough));
  return activations;
}

}  // namespace

Activations calibrate(const std::filesystem::path& checkpoint, const CalibrationOptions& options) {
  storage::refuse_missing(options.file, "file");
  data::Task task;
  task.name = "activations";
  task.text = options.text.empty() ? std::vector<std::string>{"text"} : options.text;
  task.train = {{"activations", options.file}};
  Activations activations;
  try {
    activations = measure(checkpoint, task, options.file);
  } catch (const data::UnsuitableTable& error) {
    if (!options.text.empty()) throw;
    throw Error(fmt::format("{}; name the columns of the texts with --text COLUMN,...", error.what()));
  }
  log_info("activations over {} tokens of {}\n", grouped(activations.tokens), options.file);
  return activations;
}

Activations calibrate(const std::filesystem::path& checkpoint, const data::Task& task) {
  return measure(checkpoint, task, "the texts");
}

}  // namespace comera::cli
