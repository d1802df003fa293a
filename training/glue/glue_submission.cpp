#include "training/glue/glue_submission.h"

#include <algorithm>

#include "data/batching/batch.h"
#include "data/tables/line_reader.h"
#include "kernels/core/tensors/finite.h"
#include "storage/durable_file.h"
#include "training/inference/inference_engine.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

constexpr double lowest_score = 0, highest_score = 5;  // for STS-B

std::int64_t rows_of(const data::GlueTest& test) {
  data::LineReader lines(test.file);
  std::int64_t count = 0;
  for (std::string line; lines.next(line) != data::LineReader::Result::end;) ++count;
  return std::max<std::int64_t>(count - (test.task.header ? 1 : 0), 0);
}

}  // namespace

std::int64_t write_submission(const LoadedModel& model, const data::GlueTest& test, std::int64_t length,
                              const std::filesystem::path& file) {
  constexpr std::int64_t micro_batch = 4096;
  const EncoderConfig& config = model.model.config();
  const bool regression = test.task.kind == data::TaskKind::regression;
  const auto examples =
      data::Examples::read(test.task, {{"test", test.file}}, model.tokenizer, false, length);
  const std::int64_t rows = rows_of(test), header = test.task.header ? 1 : 0;
  std::vector<std::string> predictions(static_cast<std::size_t>(rows));
  InferenceEngine engine(model.model, InferenceEngine::Output::predictions, model.processor);
  engine.run(
      samples_for(config, test.task, examples, length),
      data::capacity_for(std::max(micro_batch, length), length, 0, config.vocabulary),
      [&](std::int64_t sample, std::span<const double> values) {
        COMERA_CHECK(all_finite(values), "{}: the model's output for line {} is not finite",
                     test.file.string(), examples.line(sample));
        const std::int64_t row = examples.line(sample) - 1 - header;
        COMERA_CHECK(row >= 0 && row < rows, "{}: changed while it was read", test.file.string());
        predictions[static_cast<std::size_t>(row)] =
            regression
                ? fmt::format("{:.6g}", std::clamp(values[0], lowest_score, highest_score))
                : test.task
                      .labels[static_cast<std::size_t>(std::ranges::max_element(values) - values.begin())];
      });
  std::int64_t unread = 0;
  std::string text = "index\tprediction\n";
  for (std::int64_t row = 0; row < rows; ++row) {
    std::string& prediction = predictions[static_cast<std::size_t>(row)];
    if (prediction.empty()) {
      ++unread;
      prediction = regression ? fmt::format("{}", (lowest_score + highest_score) / 2) : test.task.labels[0];
    }
    text += fmt::format("{}\t{}\n", row, prediction);
  }
  storage::write_file_durably(file, text);
  return unread;
}

}  // namespace comera
