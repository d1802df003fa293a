#include "exchange/export_model.h"

#include <algorithm>
#include <cmath>

#include "exchange/model_card.h"
#include "exchange/modeling_file.h"
#include "exchange/probe.h"
#include "exchange/transformers_folder.h"
#include "kernels/backends/processors.h"
#include "model/densify.h"
#include "reports/model_report.h"
#include "storage/durable_file.h"

namespace comera::exchange {

namespace {

// What is read back may differ by rounding: a matrix was rounded to float32 once, which the model itself
// never does with it.
constexpr double most_relative_difference = 1e-3;

EncoderConfig config_to_write(const EncoderConfig& config, bool tensor_trains) {
  EncoderConfig written = tensor_trains ? config : densified(config);
  written.compute = master_of(config.compute);
  written.float8.reset();
  return written;
}

bool has_trains(const EncoderConfig& config) { return config.tensorized.any(); }

}  // namespace

std::vector<std::string> exported_files() {
  return {
      "config.json",           "model.safetensors",      "README.md", "modeling_comera.py", "tokenizer.json",
      "tokenizer_config.json", "special_tokens_map.json"};
}

Exported export_model(const LoadedModel& loaded, const std::filesystem::path& run,
                      const std::filesystem::path& folder, const ExportOptions& options) {
  const EncoderConfig& config = loaded.model.config();
  if (options.tensor_trains && !has_trains(config))
    throw UsageError(fmt::format("{}: the model has no tensor trains; export it without --tensor-trains",
                                 loaded.trained.checkpoint.string()));
  Exported exported;
  if (options.tensor_trains) {
    exported.reason = "it keeps its tensor trains";
  } else {
    const FormChoice choice = form_of(config);
    exported.form = choice.form;
    exported.reason = choice.reason;
  }
  const data::SpecialIds& special = loaded.tokenizer.special();
  const TransformersConfig written{.model = config_to_write(config, options.tensor_trains),
                                   .form = exported.form,
                                   .labels = loaded.recipe.task.labels};
  storage::create_directories_durably(folder);
  {
    std::optional<Model> dense;
    if (!options.tensor_trains) {
      dense.emplace(written.model, host_allocator(), false);
      densify(loaded.model, *dense);
    }
    write_weights(folder, dense ? *dense : loaded.model, exported.form);
  }
  storage::write_file_durably(folder / "config.json", config_json(written, special));
  if (exported.form == Form::comera)
    storage::write_file_durably(folder / "modeling_comera.py", modeling_file());

  const Processor cpu = find_processor("cpu", written.model.compute, OperandKind{});
  const TransformersConfig read = read_config(folder);
  const Model again(read.model, cpu.allocator, false);
  const std::vector<std::string> fresh = read_weights(SafetensorsReader(folder), read.form, again);
  COMERA_CHECK(fresh.empty(), "{}: what was written has no {}", folder.string(), fresh.front());
  const std::vector<data::Sample> samples = probes(config, special);
  const auto before = answers(loaded.model, loaded.processor, special, samples);
  exported.difference = largest_difference(before, answers(again, cpu, special, samples));
  for (const std::vector<double>& logits : before)
    for (const double logit : logits)
      exported.largest_logit = std::max(exported.largest_logit, std::abs(logit));
  COMERA_CHECK(exported.difference <= most_relative_difference * std::max(exported.largest_logit, 1.0),
               "{}: what was written says something else than the model: logits differ by up to {:.3g}, the "
               "largest is {:.3g}",
               folder.string(), exported.difference, exported.largest_logit);
  exported.parameters = again.parameters().count();
  exported.dense = dense_parameters(config);
  storage::write_file_durably(folder / "README.md", model_card(loaded, run, exported));
  return exported;
}

}  // namespace comera::exchange
