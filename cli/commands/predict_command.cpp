#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/inference_task.h"
#include "cli/options/inference_options.h"
#include "cli/options/output_options.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

struct PredictOptions {
  InferenceOptions inference;
  std::filesystem::path input;
  OutputOptions output;
};

std::vector<double> softmax(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> shares;
  double sum = 0;
  for (const double logit : logits) sum += shares.emplace_back(std::exp(logit - largest));
  for (double& share : shares) share /= sum;
  return shares;
}

// One line of the output file.
std::string line_of(OutputFormat format, std::int64_t line, const data::Task& task,
                    std::span<const double> values) {
  const bool json = format == OutputFormat::jsonl;
  if (task.kind == data::TaskKind::regression)
    return json ? json_text({{"line", line}, {"score", values[0]}})
                : fmt::format("{}\t{:.6g}", line, values[0]);
  const std::vector<double> shares = softmax(values);
  const std::size_t best = std::ranges::max_element(shares) - shares.begin();
  if (!json) {
    std::string text = fmt::format("{}\t{}", line, task.labels[best]);
    for (const double share : shares) text += fmt::format("\t{:.6g}", share);
    return text;
  }
  Json object = {{"line", line}, {"label", task.labels[best]}};
  for (std::size_t c = 0; c < shares.size(); ++c) object["probabilities"][task.labels[c]] = shares[c];
  return json_text(object);
}

std::string header_of(const data::Task& task) {
  if (task.kind == data::TaskKind::regression) return "line\tscore";
  std::string text = "line\tlabel";
  for (const std::string& label : task.labels) text += "\t" + label;
  return text;
}

void predict(const PredictOptions& options) {
  const OutputFormat format = output_format(options.output.path, {OutputFormat::tsv, OutputFormat::jsonl});
  options.output.check(options.input);
  LoadedModel loaded = options.inference.load();
  if (loaded.model.config().head == HeadKind::mlm)
    throw UsageError(
        fmt::format("{} is a pretrained model without a task; fine-tune it first, or use `comera "
                    "embed`",
                    options.inference.model.string()));
  const data::Task task = task_for(options.inference, loaded, options.input, false);
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  const auto examples =
      data::Examples::read(task, {{"input", options.input}}, loaded.tokenizer, false, capacity.longest);
  auto samples = samples_for(loaded.model.config(), task, examples, capacity.longest);
  report_examples(options.input.string(), *samples, examples, capacity.longest);
  InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
  std::vector<std::string> lines(examples.count());
  engine.run(std::move(samples), capacity, [&](std::int64_t sample, std::span<const double> values) {
    require_finite(values, options.inference.model, options.input, examples.line(sample));
    lines[sample] = line_of(format, examples.line(sample), task, values);
  });
  std::string text = format == OutputFormat::tsv ? header_of(task) + "\n" : "";
  for (const std::string& line : lines) text += line + "\n";
  storage::write_file_durably(options.output.path, text);
  print_out("{} predictions in {}\n", lines.size(), options.output.path.string());
}

}  // namespace

void add_predict_command(CLI::App& program) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command =
      program.add_subcommand("predict", "Predict labels and probabilities, or scores, for new examples");
  add_inference_options(*command, options->inference);
  command
      ->add_option(
          "--input", options->input,
          "Read a TSV, CSV or JSONL file with the task's text columns (task.text); plain, .gz or .zst")
      ->required()
      ->type_name("FILE");
  add_output_options(*command, options->output, "Write the predictions to this .tsv or .jsonl file");
  command->footer(
      "Examples:\n"
      "  comera predict runs/mnli --input glue/MNLI/test_matched.tsv \\\n"
      "    --output predictions.tsv\n"
      "  comera predict imported.h5 --input pairs.csv --output predictions.tsv \\\n"
      "    --set 'task.text=[\"premise\", \"hypothesis\"]'\n"
      "Each output line names its input line. Unreadable rows are skipped and reported.");
  command->callback([options] { predict(*options); });
}

}  // namespace comera::cli
