#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/device_option.h"
#include "cli/options/inference_options.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "data/clicks/click_batch.h"
#include "data/clicks/click_log.h"
#include "data/clicks/click_scores.h"
#include "kernels/core/console.h"
#include "model/dlrm/click_micro_batches.h"
#include "reports/number_text.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/logging/json.h"
#include "training/logging/progress.h"
#include "training/step/step_engine.h"
#include "training/tasks/click_model.h"

namespace comera::cli {
namespace {

struct ClickPredictOptions {
  std::filesystem::path model, encoding;
  std::vector<std::filesystem::path> logs;
  OutputOptions output;
  std::int64_t examples = 4096;
  std::string device = "auto";
  bool score = false;

  data::ClickLabels labels() const {
    return score ? data::ClickLabels::required : data::ClickLabels::optional;
  }
};

// Lines as they are produced: on standard output, or into a file that gets its name when it is complete.
class LineOutput {
 public:
  explicit LineOutput(const std::filesystem::path& file) {
    if (file.empty()) return;
    durable_.emplace(file);
    file_.emplace(storage::FileDescriptor::create(durable_->temporary()));
  }

  void write(std::string_view lines) {
    if (!file_) {
      print_out("{}", lines);
      return check_output();  // without a reader, more output is pointless
    }
    file_->write(bytes_, lines);
    bytes_ += static_cast<std::int64_t>(lines.size());
  }
  void finish() {
    file_.reset();
    if (durable_) durable_->commit();
  }

 private:
  std::optional<storage::DurableFile> durable_;
  std::optional<storage::FileDescriptor> file_;
  std::int64_t bytes_ = 0;
};

// A model's predictions for the rows of logs, micro-batch by micro-batch.
class ClickPredictions {
 public:
  ClickPredictions(const ClickPredictOptions& options, LoadedClickModel& loaded,
                   const data::ClickEncoding& encoding)
      : options_(options),
        encoding_(encoding),
        micro_batches_(loaded.micro_batches(options.examples)),
        engine_(loaded.model, loaded.processor),
        batch_(micro_batches_.capacity, micro_batches_.right_rows),
        numbers_(static_cast<std::size_t>(encoding.dense_features())),
        ids_(static_cast<std::size_t>(encoding.tables())),
        output_(options.output.path) {
    engine_.set_micro_batches(ClickMicroBatches(loaded.model, micro_batches_.capacity));
    if (!options.output.path.empty()) progress_.emplace("predicting");
  }

  void add(const std::filesystem::path& path) {
    data::ClickLog log(path, encoding_.format(), options_.labels());
    data::ClickRow row;
    while (log.next(row)) {
      encoding_.encode(row, numbers_.data(), ids_.data());
      batch_.add(numbers_, ids_, row.clicked ? 1 : 0);
      lines_.push_back(row.line);
      if (options_.score) labels_.push_back(row.clicked ? 1 : 0);
      if (batch_.examples() == options_.examples) answer(log);
    }
    if (batch_.examples() > 0) answer(log);
    if (log.counts().all_skipped() > 0) skipped_.push_back(describe_skipped(path, log.counts()));
  }

  void finish() {
    output_.finish();
    progress_.reset();
    for (const std::string& sentence : skipped_) log_info("note: {}\n", sentence);
    if (options_.score) {
      data::ClickScores scores = data::click_scores(logits_, labels_);
      scores.set = options_.logs.size() == 1 ? options_.logs.front().string()
                                             : fmt::format("{} logs", options_.logs.size());
      log_info("{}\n", data::describe(scores));
    }
    if (!options_.output.path.empty())
      print_out("{} predictions in {}\n", rows_, options_.output.path.string());
  }

 private:
  void answer(const data::ClickLog& log) {
    batch_.finish();
    engine_.load(batch_.block());
    engine_.evaluate();
    const std::vector<double> answers = read_tensor(engine_.micro_batch().answers(), engine_.allocator());
    std::string text;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      require_finite(std::span(&answers[i], 1), options_.model, log.path(), lines_[i]);
      Json line;
      if (options_.logs.size() > 1) line["log"] = log.path().string();
      line["line"] = lines_[i];
      line["probability"] = data::click_probability(answers[i]);
      text += json_text(line) + "\n";
    }
    output_.write(text);
    if (options_.score) logits_.insert(logits_.end(), answers.begin(), answers.begin() + batch_.examples());
    rows_ += batch_.examples();
    if (progress_) progress_->update(rows_, grouped(rows_) + " rows");
    batch_.clear();
    lines_.clear();
  }

  const ClickPredictOptions& options_;
  const data::ClickEncoding& encoding_;
  data::ClickLoaderOptions micro_batches_;
  StepEngine engine_;
  data::Clicks batch_;
  std::vector<std::int64_t> lines_;  // of the batch's rows
  std::vector<float> numbers_;       // per row
  std::vector<std::int32_t> ids_;
  LineOutput output_;
  std::optional<ProgressBar> progress_;
  std::int64_t rows_ = 0;
  std::vector<std::string> skipped_;
  std::vector<double> logits_;  // of all rows, for scores
  std::vector<float> labels_;
};

void predict_clicks(const ClickPredictOptions& options) {
  if (!options.output.path.empty()) output_format(options.output.path, {OutputFormat::jsonl});
  for (const std::filesystem::path& log : options.logs) {
    storage::refuse_missing(log, "file");
    if (std::filesystem::is_directory(log))
      throw UsageError(fmt::format("{}: is a folder; name the logs in it", log.string()));
    if (!options.output.path.empty()) options.output.check(log);
  }
  LoadedClickModel loaded(options.model, options.device);
  const data::ClickEncoding encoding = loaded.load_encoding(options.encoding);
  // Fails for anything but log files now, not after the earlier logs have been read. A pipe can be read only
  // once.
  for (const std::filesystem::path& log : options.logs)
    if (std::filesystem::is_regular_file(log)) data::ClickLog(log, encoding.format(), options.labels());
  ClickPredictions predictions(options, loaded, encoding);
  for (const std::filesystem::path& log : options.logs) predictions.add(log);
  predictions.finish();
}

}  // namespace

void add_click_predict_command(CLI::App& clicks) {
  auto options = std::make_shared<ClickPredictOptions>();
  CLI::App* command = clicks.add_subcommand("predict", "Predict the click probability of each row of a log");
  command->add_option("model", options->model, "A checkpoint, or a run's folder (its best.h5)")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("logs", options->logs,
                   "Logs in the format of the training data, plain, .gz or .zst, with or without labels")
      ->required()
      ->type_name("LOG");
  command
      ->add_option("--encoding", options->encoding,
                   "Encoding of the training data, if it is not encoding.h5 in the run's folder")
      ->type_name("FILE");
  add_output_options(*command, options->output, "Write to this .jsonl file instead of printing", false);
  command->add_flag(
      "--score", options->score,
      "Also print AUC, log loss and accuracy of labelled logs (needs up to 32 bytes of memory per row)");
  command->add_option("--batch-size", options->examples, "Compute this many examples at a time")
      ->check(positive_number)
      ->capture_default_str();
  add_device_option(*command, options->device);
  command->footer(
      "Examples:\n"
      "  comera clicks predict runs/clicks test.txt --output predictions.jsonl\n"
      "Each row gives one line, {\"line\":1,\"probability\":0.25}, with \"log\" added for several logs. "
      "Incomplete rows are skipped and reported.");
  command->callback([options] { predict_clicks(*options); });
}

}  // namespace comera::cli
