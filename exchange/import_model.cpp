#include "exchange/import_model.h"

#include "checkpoints/model_state.h"
#include "data/tokenizers/tokenizer_json.h"
#include "exchange/transformers_folder.h"
#include "recipes/recipe.h"
#include "training/checkpoint_tokenizer.h"
#include "training/run_state.h"

namespace comera::exchange {

namespace {

constexpr std::int64_t longest_by_default = 512, pack = 4096;

// As much of a recipe as the model itself decides: what trains it further has a recipe of its own.
Recipe recipe_of(const TransformersConfig& config) {
  Recipe recipe;
  recipe.model = config.model;
  static_cast<TensorizedConfig&>(recipe.tensorized) = config.model.tensorized;
  recipe.tensorized.enabled = config.model.tensorized.any();
  if (config.model.head != HeadKind::mlm) {
    recipe.task.name = "imported";
    recipe.task.labels = config.labels;
    recipe.task.kind = config.model.head == HeadKind::regression ? data::TaskKind::regression
                                                                 : data::TaskKind::classification;
  }
  PhaseSection phase;
  phase.name = "imported";
  phase.length = std::min(config.model.max_positions, longest_by_default);
  phase.tokens_per_pack = std::max(pack, phase.length);
  phase.steps = 1;
  recipe.phases = {phase};
  return recipe;
}

}  // namespace

Imported import_model(const std::filesystem::path& folder, const std::filesystem::path& tokenizer_file,
                      const std::filesystem::path& checkpoint, data::LetterCase letter_case) {
  const TransformersConfig config = read_config(folder);
  const SafetensorsReader reader(folder);
  const data::Tokenizer tokenizer =
      load_tokenizer(tokenizer_file.empty() ? folder : tokenizer_file, letter_case);
  COMERA_CHECK(tokenizer.vocabulary() <= config.model.vocabulary,
               "{}: its tokenizer has {} pieces, but the model only {} rows for them", folder.string(),
               tokenizer.vocabulary(), config.model.vocabulary);
  Model model(config.model, host_allocator(), false);
  model.parameters().initialize(1);
  Imported imported{.form = config.form, .config = config.model, .notes = tokenizer.notes(), .tokenizer = tokenizer.settings()};
  if (tokenizer.vocabulary() < config.model.vocabulary / 2)
    imported.notes.push_back(
        fmt::format("the tokenizer has {} pieces, the model rows for {}: it may be another model's",
                    tokenizer.vocabulary(), config.model.vocabulary));
  imported.fresh = read_weights(reader, config.form, model);

  const Recipe recipe = recipe_of(config);
  CheckpointWriter writer(checkpoint);
  save_parameters(writer, model.parameters());
  writer.attributes("/recipe", {{"toml", to_toml(recipe)}});
  writer.attributes("/trainer", RunState().attributes());
  writer.attributes("/rng", {{"seed", recipe.run.seed}});
  writer.attributes(
      "/data", {{"vocabulary", std::int64_t{tokenizer.vocabulary()}}, {"tokenizer_hash", tokenizer.hash()}});
  writer.attributes("/import", {{"form", std::string(name_of(config.form))},
                                {"tokenizer", data::described(tokenizer.settings())}});
  save_tokenizer(writer, tokenizer);
  writer.commit();
  return imported;
}

}  // namespace comera::exchange
