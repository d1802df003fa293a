#include "exchange/export_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "data/tokenizers/tokenizer_json.h"
#include "exchange/export_folder.h"
#include "exchange/model_card.h"
#include "exchange/probe.h"
#include "exchange/transformers/modeling_file.h"
#include "exchange/transformers/sentence_modules.h"
#include "exchange/transformers/transformers_folder.h"
#include "kernels/backends/processors.h"
#include "model/densify.h"
#include "reports/model_report.h"
#include "storage/durable_file.h"

namespace comera::exchange {

namespace {

// Values read back may differ by rounding: a matrix is rounded once to float32, which the model itself never
// does.
constexpr double most_relative_difference = 1e-3;

EncoderConfig config_to_write(const EncoderConfig& config, bool tensor_trains) {
  EncoderConfig written = tensor_trains ? config : densified(config);
  written.compute = master_of(config.compute);
  written.float8.reset();
  return written;
}

constexpr const char *onnx_file = "model.onnx", *int8_file = "model_quantized.onnx";

void write_onnx(const std::filesystem::path& folder, const Model& model, OnnxOptions options) {
  if (options.int8) storage::write_file_durably(folder / int8_file, onnx_model(model, options));
  options.int8 = false;
  storage::write_file_durably(folder / onnx_file, onnx_model(model, options));
}

}  // namespace

namespace {

// A model of this configuration with the parameters of another one, which has at least these.
std::unique_ptr<Model> copy_of(const Model& model, const EncoderConfig& config, const Processor& processor) {
  auto copy = std::make_unique<Model>(config, processor.allocator, false);
  const ParameterStore &from = model.parameters(), &to = copy->parameters();
  for (ParameterId id = 0; id < to.size(); ++id) {
    const auto same = from.find(to.info(id).name);
    COMERA_CHECK(same, "the model has no {}", to.info(id).name);
    write_tensor(to.value(id), read_tensor(from.value(*same), from.allocator()), to.allocator());
  }
  return copy;
}

// The encoder of a model with another head.
std::unique_ptr<Model> without_head(const Model& model, const Processor& processor, Pooling pooling) {
  EncoderConfig config = model.config();
  if (config.head != HeadKind::contrastive) config.vector_size = 0;
  config.head = HeadKind::contrastive;
  config.pooling = pooling;
  for (const char* layer : {"head.transform", "head.pooler"}) config.tensorized.ranks.erase(layer);
  if (config.tensorized.head && config.tensorized.head->output_size() != config.head_outputs())
    config.tensorized.head.reset();  // it was the shape before a narrower decoder
  return copy_of(model, config, processor);
}

// A regression whose head gives scores themselves, as other programs read it; null if it does already.
std::unique_ptr<Model> with_plain_scores(const Model& model, const Processor& processor) {
  EncoderConfig config = model.config();
  if (config.head != HeadKind::regression || (config.score_of(0) == 0 && config.score_of(1) == 1))
    return nullptr;
  config.score_mean.reset();
  config.score_std.reset();
  auto plain = copy_of(model, config, processor);
  rescale_scores(plain->parameters(), model.config(), config);
  return plain;
}

std::int64_t longest_of(const Recipe& recipe) {
  std::int64_t length = 0;
  for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
  return length;
}

}  // namespace

std::vector<std::string> exported_files() {
  std::vector<std::string> files = {"config.json",        "model.safetensors", "README.md",
                                    "modeling_comera.py", onnx_file,           int8_file};
  const std::vector<std::string> of_tokenizer = data::tokenizer_files();
  files.insert(files.end(), of_tokenizer.begin(), of_tokenizer.end());
  const std::vector<std::string> of_sentences = sentence_files();
  files.insert(files.end(), of_sentences.begin(), of_sentences.end());
  return files;
}

Exported export_weights(const Model& given, const Processor& processor, const data::SpecialIds& special,
                        const std::vector<std::string>& labels, const std::filesystem::path& folder,
                        const ExportOptions& options, const std::vector<CarriedParameter>& carried) {
  const std::unique_ptr<Model> plain = with_plain_scores(given, processor);
  const Model& model = plain ? *plain : given;
  const EncoderConfig& config = model.config();
  if (options.tensor_trains && !config.tensorized.any())
    throw UsageError("the model has no tensor trains; export it without --tensor-trains");
  const FormChoice choice =
      options.tensor_trains ? FormChoice{Form::comera, "it keeps its tensor trains"} : form_of(config);
  const TransformersConfig written{
      .model = config_to_write(config, options.tensor_trains), .form = choice.form, .labels = labels};
  const bool keeps_pooler = !carried.empty() &&
                            (config.head == HeadKind::mlm || config.head == HeadKind::contrastive) &&
                            has_pooler(choice.form);
  const std::vector<data::Sample> samples = probes(config, special);
  const auto before = answers(given, processor, special, samples);
  double largest_logit = 0;
  for (const std::vector<double>& logits : before)
    for (const double logit : logits) {
      COMERA_CHECK(
          std::isfinite(logit),
          "{}: nothing is written: the model's logits are not finite, though its weights are; it has "
          "diverged in training, or its weights were damaged before",
          folder.string());
      largest_logit = std::max(largest_logit, std::abs(logit));
    }
  storage::create_directories_durably(folder);
  std::optional<VectorDense> vector_dense;
  {
    std::optional<Model> dense;
    if (!options.tensor_trains) {
      dense.emplace(written.model, host_allocator(), false);
      densify(model, *dense);
    }
    const Model& to_write = dense ? *dense : model;
    write_weights(folder, to_write, choice.form, keeps_pooler ? carried : std::vector<CarriedParameter>());
    if (config.has_vector_layer()) vector_dense = write_vector_dense(folder, to_write);
    if (options.onnx) write_onnx(folder, to_write, options.of_onnx);
  }
  storage::write_file_durably(folder / "config.json", config_json(written, special));
  if (choice.form == Form::comera)
    storage::write_file_durably(folder / "modeling_comera.py", modeling_file());

  const Processor cpu = cpu_processor();
  TransformersConfig read = read_config(folder);
  if (config.head == HeadKind::contrastive) {  // of which the files of an encoder say nothing
    read.model.head = config.head;
    read.model.pooling = config.pooling;
    read.model.vector_size = config.vector_size;
    read.model.vector_tanh = config.vector_tanh;
  }
  const Model again(read.model, cpu.allocator, false);
  if (vector_dense) read_vector_dense(*vector_dense, again);
  const std::vector<std::string> fresh = read_weights(SafetensorsReader(folder), read, again).fresh;
  COMERA_CHECK(fresh.empty(), "{}: the written files have no {}", folder.string(), fmt::join(fresh, ", "));
  Exported exported{.form = choice.form,
                    .reason = choice.reason,
                    .parameters = again.parameters().count(),
                    .own = model.parameters().count() - generator_parameters(model.parameters()),
                    .dense = dense_parameters(config),
                    .largest_logit = largest_logit,
                    .without_head = config.head == HeadKind::contrastive,
                    .sentence_vectors = config.head == HeadKind::contrastive,
                    .has_pooler = keeps_pooler};
  exported.difference = largest_difference(before, answers(again, cpu, special, samples));
  // Scores far from 0 have no more digits than float32.
  const double scale = plain ? given.config().score_std.value_or(1) + 1e-3 * largest_logit : largest_logit;
  COMERA_CHECK(exported.difference <= most_relative_difference * (plain ? scale : std::max(scale, 1.0)),
               "{}: the written files do not reproduce the model: logits differ by up to {:.3g}, the largest "
               "is {:.3g}",
               folder.string(), exported.difference, exported.largest_logit);
  return exported;
}

Exported export_model(const LoadedModel& loaded, const std::filesystem::path& run,
                      const std::filesystem::path& folder, const ExportOptions& options) {
  ExportFolder target(folder, options.overwrite);
  const std::vector<CarriedParameter> carried = carried_parameters(*loaded.trained.reader);
  std::unique_ptr<Model> changed;
  const HeadKind head = loaded.model.config().head;
  const CheckpointReader& reader = *loaded.trained.reader;
  const bool random = has_random_head(reader);
  const bool modules = options.sentence_vectors || head == HeadKind::contrastive ||
                       head == HeadKind::replaced_tokens || (random && imports_vectors(reader));
  if (random || (modules && head != HeadKind::contrastive))
    changed = without_head(
        loaded.model, loaded.processor,
        modules ? vector_pooling(loaded, "export it without --sentence-vectors") : Pooling::mean);
  const Model& model = changed ? *changed : loaded.model;
  const EncoderConfig& config = model.config();
  Exported exported = export_weights(model, loaded.processor, loaded.tokenizer.special(),
                                     loaded.recipe.task.labels, target.staging(), options, carried);
  exported.loses_pooler = !carried.empty() && !exported.has_pooler;
  exported.sentence_vectors = modules;
  if (modules)
    write_sentence_modules(target.staging(),
                           {.pooling = config.pooling,
                            .width = config.hidden,
                            .length = longest_of(loaded.recipe),
                            .leaves_out_pooler = has_pooler(exported.form) && !exported.has_pooler,
                            .dense = config.has_vector_layer()});
  // Texts are cut where comera cuts them; models of tokens read longer ones in windows.
  const bool cuts = reads_sequences(config.head) || config.head == HeadKind::contrastive;
  const std::int64_t most = config.positions == Positions::learned ? config.max_positions : 0;
  exported.tokenizer_note = data::write_tokenizer_folder(loaded.tokenizer, target.staging(), config.types,
                                                         cuts ? longest_of(loaded.recipe) : most);
  storage::write_file_durably(target.staging() / "README.md", model_card(loaded, run, exported));
  target.commit();
  return exported;
}

}  // namespace comera::exchange
