#include "exchange/import_model.h"

#include <fmt/ranges.h>

#include "checkpoints/model_state.h"
#include "data/tokenizers/tokenizer_json.h"
#include "exchange/transformers/sentence_modules.h"
#include "exchange/transformers/sequence_length.h"
#include "exchange/transformers/transformers_folder.h"
#include "recipes/recipe.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/resume/run_state.h"

namespace comera::exchange {

namespace {

constexpr std::int64_t micro_batch = 4096;

data::TaskKind kind_of(HeadKind head) {
  switch (head) {
    case HeadKind::regression:
      return data::TaskKind::regression;
    case HeadKind::multi_label:
      return data::TaskKind::multi_label;
    case HeadKind::token_classification:
      return data::TaskKind::token_classification;
    case HeadKind::question_answering:
      return data::TaskKind::question_answering;
    case HeadKind::contrastive:
      return data::TaskKind::contrastive;
    case HeadKind::classification:
    case HeadKind::mlm:
    case HeadKind::replaced_tokens:
      break;
  }
  return data::TaskKind::classification;
}

// The part of a recipe that the model determines; training it further takes another recipe.
Recipe recipe_of(const TransformersConfig& config, std::int64_t length) {
  Recipe recipe;
  recipe.model = config.model;
  static_cast<TensorizedConfig&>(recipe.tensorized) = config.model.tensorized;
  recipe.tensorized.enabled = config.model.tensorized.any();
  if (config.model.head != HeadKind::mlm) {
    recipe.task.name = "imported";
    recipe.task.labels = config.labels;
    recipe.task.kind = kind_of(config.model.head);
  }
  PhaseSection phase;
  phase.name = "imported";
  phase.length = length;
  phase.tokens_per_micro_batch = std::max(micro_batch, phase.length);
  phase.steps = 1;
  recipe.phases = {phase};
  return recipe;
}

void say_head(const ReadWeights& weights, std::vector<std::string>& notes) {
  if (!weights.pooler.empty())
    notes.push_back(
        "its pooler is kept: `finetune --from` starts a classification or regression head from it, as "
        "transformers does");
  if (!weights.left_out.empty())
    notes.push_back(fmt::format("skipped, since they belong to heads that this model does not have: {}",
                                fmt::join(weights.left_out, ", ")));
}

void save_pooler(CheckpointWriter& writer, const ReadWeights& weights) {
  for (const CarriedParameter& parameter : weights.pooler) {
    std::vector<float> values(parameter.values.begin(), parameter.values.end());
    save_carried(writer, parameter.name, Tensor(values.data(), parameter.shape, DType::float32));
  }
}

}  // namespace

Imported import_model(const std::filesystem::path& folder, const std::filesystem::path& tokenizer_file,
                      const std::filesystem::path& checkpoint, data::LetterCase letter_case) {
  require_encoder_in(folder);
  TransformersConfig config = read_config(folder);
  const VectorModules modules = vector_modules_in(folder, config.model);
  const std::optional<VectorDense>& dense = modules.dense;
  if (dense) {
    config.model.head = HeadKind::contrastive;
    config.model.pooling = modules.pooling == "first" ? Pooling::first : Pooling::mean;
    config.model.pairs = PairEncoding::separate;
    config.model.vector_size = dense->outputs;
    config.model.vector_tanh = dense->tanh;
  }
  const SafetensorsReader reader(folder);
  const data::Tokenizer tokenizer =
      load_tokenizer(tokenizer_file.empty() ? folder : tokenizer_file, letter_case);
  COMERA_CHECK(tokenizer.vocabulary() <= config.model.vocabulary,
               "{}: the tokenizer has {} pieces, but the model only {} rows", folder.string(),
               tokenizer.vocabulary(), config.model.vocabulary);
  Model model(config.model, host_allocator(), false);
  model.parameters().initialize(1);
  Imported imported{.form = config.form,
                    .config = config.model,
                    .notes = tokenizer.notes(),
                    .tokenizer = tokenizer.settings()};
  if (tokenizer.vocabulary() < config.model.vocabulary / 2)
    imported.notes.push_back(
        fmt::format("the tokenizer has {} pieces, the model rows for {}: it may belong to another model",
                    tokenizer.vocabulary(), config.model.vocabulary));
  imported.labels = config.labels;
  const ReadWeights weights = read_weights(reader, config, model);
  if (dense) read_vector_dense(*dense, model);
  imported.fresh = weights.fresh;
  say_head(weights, imported.notes);
  if (config.model.head == HeadKind::question_answering)
    imported.notes.emplace_back(
        "if it has learned questions without an answer (SQuAD 2.0), give eval and predict --set "
        "task.unanswerable=true");
  if (!weights.note.empty()) imported.notes.push_back(weights.note);
  const SequenceLength length = sequence_length(folder, config.model);
  if (!length.note.empty()) imported.notes.push_back(length.note);
  for (const std::string& note : sentence_notes(folder, tokenizer, modules)) imported.notes.push_back(note);

  const Recipe recipe = recipe_of(config, length.tokens);
  CheckpointWriter writer(checkpoint);
  save_parameters(writer, model.parameters());
  save_pooler(writer, weights);
  writer.attributes("/recipe", {{"toml", to_toml(recipe)}});
  writer.attributes("/trainer", RunState().attributes());
  writer.attributes("/rng", {{"seed", recipe.run.seed}});
  writer.attributes(
      "/data", {{"vocabulary", std::int64_t{tokenizer.vocabulary()}}, {"tokenizer_hash", tokenizer.hash()}});
  writer.attributes("/import", {{"form", std::string(name_of(config.form))},
                                {"folder", std::filesystem::absolute(folder).lexically_normal().string()},
                                {"pooling", modules.words()},
                                {"random_parameters", fmt::format("{}", fmt::join(weights.fresh, ", "))},
                                {"tokenizer", data::described(tokenizer.settings())}});
  save_tokenizer(writer, tokenizer);
  writer.commit();
  return imported;
}

}  // namespace comera::exchange
