#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/annotations/annotated_inference.h"
#include "cli/commands/commands.h"
#include "cli/inference_task.h"
#include "cli/options/inference_options.h"
#include "cli/options/output_options.h"
#include "cli/precision_note.h"
#include "data/annotations/annotated_examples.h"
#include "data/corpus/documents/standard_input.h"
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
  std::vector<std::string> keep;
};

std::vector<double> softmax(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> shares;
  double sum = 0;
  for (const double logit : logits) sum += shares.emplace_back(std::exp(logit - largest));
  for (double& share : shares) share /= sum;
  return shares;
}

// The columns of the output that every task has; those of classes come behind them.
std::vector<std::string> own_columns(const data::Task& task) {
  return {"line", task.kind == data::TaskKind::regression    ? "score"
                  : task.kind == data::TaskKind::multi_label ? "labels"
                                                             : "label"};
}

bool stands_in(const std::string& column, const std::vector<std::string>& columns) {
  return std::ranges::find(columns, column) != columns.end();
}

// Columns that number the rows are kept unless others are named.
data::KeptColumns columns_to_keep(const PredictOptions& options) {
  data::KeptColumns keep{.names = {}, .required = !options.keep.empty()};
  for (const std::string& name : options.keep)
    if (!stands_in(name, keep.names)) keep.names.push_back(name);
  if (!options.keep.empty()) return keep;
  for (const char* name :
       {"id", "ID", "Id", "idx", "IDX", "Idx", "guid", "GUID", "Guid", "index", "INDEX", "Index"})
    keep.names.emplace_back(name);
  return keep;
}

void say_kept(const PredictOptions& options, const std::vector<std::string>& columns) {
  if (options.keep.empty() && !columns.empty())
    log_info("{}: column '{}' is in the output too; --keep COLUMN takes others\n", options.input.string(),
             fmt::join(columns, "', '"));
}

Json json_of(const data::KeptField& field) {
  if (field.kind == data::FieldKind::words) return data::labels_in(field.text, field.kind, {});
  if (field.kind == data::FieldKind::absent || field.kind == data::FieldKind::null) return nullptr;
  if (field.kind == data::FieldKind::number || field.kind == data::FieldKind::truth)
    if (Json value = Json::parse(field.text, nullptr, false); !value.is_discarded()) return value;
  return field.text;
}

std::string text_of(const data::KeptField& field) {
  if (field.kind != data::FieldKind::words) return field.text;
  return fmt::format("{}", fmt::join(data::labels_in(field.text, field.kind, {}), ","));
}

// TSV has no way to write a tab or a line's end within a field.
std::string tsv_of(std::string field) {
  std::ranges::replace_if(
      field, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return field;
}

// RFC 4180: quoted where needed.
std::string csv_of(const std::string& field) {
  if (field.find_first_of(",\"\n\r") == field.npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

// The rows of an output file.
class Predictions {
 public:
  Predictions(OutputFormat format, const data::Task& task, const data::Examples& examples)
      : format_(format), task_(task), examples_(examples) {
    if (task.kind != data::TaskKind::multi_label || format == OutputFormat::jsonl) return;
    for (const std::string& label : task.labels)
      if (label.find(task.separator) != label.npos)
        throw UsageError(fmt::format(
            "label '{}' contains '{}', which stands between the labels of a text in TSV and CSV; write the "
            "predictions to a .jsonl file, or set another task.separator",
            label, task.separator));
  }

  std::string header() const {
    if (format_ == OutputFormat::jsonl) return "";
    std::vector<std::string> columns = own_columns(task_);
    for (std::size_t i = 0; i < examples_.kept_columns().size(); ++i)
      columns.insert(columns.begin() + 1 + static_cast<std::ptrdiff_t>(i), kept_name(i));
    const std::vector<std::string> others = columns;
    for (const std::string& label : task_.labels)
      columns.push_back(stands_in(label, others) ? fmt::format("p({})", label) : label);
    return line_of(columns) + "\n";
  }

  // values: the model's for this example.
  std::string row(std::int64_t example, std::span<const double> values) const {
    return format_ == OutputFormat::jsonl ? json_row(example, values) : line_of(fields(example, values));
  }

 private:
  // A kept column that is called as one of the output's own: "input_label".
  std::string kept_name(std::size_t i) const {
    const std::string& name = examples_.kept_columns()[i];
    return stands_in(name, own_columns(task_)) || name == "probabilities" ? "input_" + name : name;
  }
  // Of each class or label.
  std::vector<double> probabilities(std::span<const double> values) const {
    if (task_.kind == data::TaskKind::classification) return softmax(values);
    std::vector<double> shares;
    for (const double logit : values) shares.push_back(1 / (1 + std::exp(-logit)));
    return shares;
  }
  // The most probable class, or the labels with more than half.
  std::vector<std::string> answers(const std::vector<double>& shares) const {
    if (task_.kind == data::TaskKind::classification)
      return {task_.labels[static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin())]};
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (shares[i] > 0.5) labels.push_back(task_.labels[i]);
    return labels;
  }

  std::string line_of(std::vector<std::string> row) const {
    const bool csv = format_ == OutputFormat::csv;
    for (std::string& field : row) field = csv ? csv_of(field) : tsv_of(field);
    return fmt::format("{}", fmt::join(row, csv ? "," : "\t"));
  }

  std::vector<std::string> fields(std::int64_t example, std::span<const double> values) const {
    std::vector<std::string> row = {std::to_string(examples_.line(example))};
    for (const data::KeptField& field : examples_.kept(example)) row.push_back(text_of(field));
    const auto add = [&](double number) { row.push_back(fmt::format("{:.6g}", number)); };
    if (task_.kind == data::TaskKind::regression) {
      add(values[0]);
      return row;
    }
    const std::vector<double> shares = probabilities(values);
    row.push_back(fmt::format("{}", fmt::join(answers(shares), task_.separator)));
    std::ranges::for_each(shares, add);
    return row;
  }

  std::string json_row(std::int64_t example, std::span<const double> values) const {
    Json object = {{"line", examples_.line(example)}};
    for (std::size_t i = 0; i < examples_.kept_columns().size(); ++i)
      object[kept_name(i)] = json_of(examples_.kept(example)[i]);
    if (task_.kind == data::TaskKind::regression) {
      object["score"] = values[0];
      return json_text(object);
    }
    const std::vector<double> shares = probabilities(values);
    if (task_.kind == data::TaskKind::multi_label)
      object["labels"] = answers(shares);
    else
      object["label"] = answers(shares)[0];
    for (std::size_t c = 0; c < shares.size(); ++c) object["probabilities"][task_.labels[c]] = shares[c];
    return json_text(object);
  }

  OutputFormat format_;
  const data::Task& task_;
  const data::Examples& examples_;
};

void predict(const PredictOptions& options) {
  const auto table_format = [&] {
    return output_format(options.output.path, {OutputFormat::tsv, OutputFormat::csv, OutputFormat::jsonl});
  };
  if (!is_annotation_output(options.output.path)) table_format();
  options.output.check(options.input);
  LoadedModel loaded = options.inference.load();
  log_info("{}", inference_precision_note(loaded.recipe));
  if (is_pretraining(loaded.model.config().head))
    throw UsageError(
        fmt::format("{} is a pretrained model without a task; fine-tune it first, or use `comera "
                    "embed`",
                    options.inference.model.string()));
  if (loaded.model.config().head == HeadKind::contrastive)
    throw UsageError(
        fmt::format("{}: is trained for vectors and has no labels to predict; use `comera embed`",
                    options.inference.model.string()));
  require_trained_head(*loaded.trained.reader, "fine-tune it first, or use comera embed");
  if (data::is_annotation(loaded.recipe.task.kind)) {
    if (!options.keep.empty())
      throw UsageError("--keep is for tables; predictions within a text come with the whole input");
    return predict_annotations(options.inference, loaded, options.input, options.output);
  }
  const OutputFormat format = table_format();
  const data::Task task = task_for(options.inference, loaded, options.input, false);
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  const auto examples = data::Examples::read(task, {{"input", options.input}}, loaded.tokenizer, false,
                                             capacity.longest, columns_to_keep(options));
  auto samples = samples_for(loaded.model.config(), task, examples, capacity.longest);
  report_examples(options.input.string(), *samples, examples, capacity.longest);
  say_kept(options, examples.kept_columns());
  const Predictions predictions(format, task, examples);
  InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
  std::vector<std::string> lines(examples.count());
  engine.run(std::move(samples), capacity, [&](std::int64_t sample, std::span<const double> values) {
    require_finite(values, options.inference.model, options.input, examples.line(sample));
    lines[sample] = predictions.row(sample, values);
  });
  std::string text = predictions.header();
  for (const std::string& line : lines) text += line + "\n";
  storage::write_file_durably(options.output.path, text);
  print_out("{} predictions in {}\n", lines.size(), options.output.path.string());
}

}  // namespace

void add_predict_command(CLI::App& program) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = program.add_subcommand(
      "predict", "Predict labels and probabilities, scores, labels of words, or answers");
  add_inference_options(*command, options->inference);
  add_column_options(*command, options->inference, false);
  command
      ->add_option(
          "--input", options->input,
          "Read a TSV, CSV or JSONL file with the task's text columns (task.text), or what the model was "
          "tuned on: CoNLL's columns, SQuAD's JSON; plain, .gz or .zst")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--keep", options->keep,
          "Write these columns of the input beside the predictions (default: a column called id, idx, "
          "guid or index)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN,...");
  add_output_options(
      *command, options->output,
      "Write the predictions to this .tsv, .csv or .jsonl file; labels of words to .conll or .jsonl, answers "
      "to .json or .jsonl");
  command->footer(
      "Examples:\n"
      "  comera predict runs/mnli --input glue/MNLI/test_matched.tsv \\\n"
      "    --output predictions.tsv\n"
      "  comera predict imported.h5 --input pairs.csv --text premise,hypothesis \\\n"
      "    --output predictions.csv\n"
      "Each output line names its input line. Unreadable rows are skipped and reported.");
  command->callback([options] {
    options->input = data::or_standard_input(options->input);
    predict(*options);
  });
}

}  // namespace comera::cli
