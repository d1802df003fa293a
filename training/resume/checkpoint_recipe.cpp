#include "training/resume/checkpoint_recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "checkpoints/model_state.h"
#include "recipes/changes.h"
#include "recipes/encoder_config.h"

namespace comera {

namespace {

// A tensor train without its ranks, for comparison, and with them.
struct Train {
  std::vector<std::vector<std::int64_t>> modes;
  std::vector<std::int64_t> ranks;
};

// By layer.
std::map<std::string, Train> trains_of(const Recipe& recipe) {
  std::map<std::string, Train> trains;
  if (!recipe.tensorized.enabled) return trains;
  if (recipe.dlrm) {
    const DlrmConfig config = dlrm_config(recipe);
    const auto add = [&](const std::string& name, const std::optional<TTShape>& shape) {
      if (shape) trains[name] = {{shape->input_modes, shape->output_modes}, shape->ranks};
    };
    for (std::size_t i = 0; i < config.bottom.size(); ++i) add(bottom_name(i), config.bottom[i].train);
    for (std::size_t i = 0; i < config.top.size(); ++i) add(top_name(i), config.top[i].train);
    for (std::size_t t = 0; t < config.tables.size(); ++t)
      if (const auto& shape = config.tables[t].train)
        trains[table_name(t)] = {{shape->row_modes, shape->column_modes}, shape->ranks};
    return trains;
  }
  const EncoderConfig config = encoder_config(recipe, recipe.model.vocabulary > 0 ? 0 : 1);
  for (const EncoderConfig::LinearLayer& layer : config.linear_layers())
    if (layer.shape)
      trains[layer.name] = {{layer.shape->input_modes, layer.shape->output_modes}, layer.shape->ranks};
  if (const auto shape = config.tensorized.embedding_shape())
    trains[EncoderConfig::embedding_layer] = {{shape->row_modes, shape->column_modes}, shape->ranks};
  return trains;
}

}  // namespace

Recipe checkpoint_recipe(const CheckpointReader& reader, const std::vector<std::string>& overrides) {
  return parse_stored_recipe(reader.text("/recipe", "toml"), reader.path().string(), overrides);
}

void require_same_encoder(const Recipe& recipe, const CheckpointReader& reader) {
  const Recipe saved = checkpoint_recipe(reader);
  for (const RecipeChange& change : recipe_changes(saved, recipe))
    for (const char* key : {"model.heads", "model.embedding_size", "model.activation", "model.norm",
                            "model.positions", "model.rotary_theta", "model.relative_buckets"})
      if (change.key == key)
        throw UsageError(
            fmt::format("{} was trained with {} = {}, but the recipe has {}; use the recipe of that run",
                        reader.path().string(), key, change.from, change.to));
  const ModelSection &was = saved.model, &now = recipe.model;
  if (was.has_vector_layer() && now.has_vector_layer() && was.vector_size == now.vector_size &&
      (was.pooling != now.pooling || was.vector_tanh != now.vector_tanh))
    throw UsageError(fmt::format(
        "{}: the layer behind its pooling was trained with another model.pooling or model.vector_tanh; leave "
        "these out, or set model.vector_size=0",
        reader.path().string()));
  if (saved.lte && recipe.lte && saved.lte->lora_alpha != recipe.lte->lora_alpha)
    require_merged_adapters(reader, "another lte.lora_alpha would rescale");
}

bool takes_carried_head(const Recipe& recipe) {
  return recipe.model.pooling == Pooling::first && recipe.model.pairs == PairEncoding::joint;
}

void take_score_scale(Recipe& recipe, const CheckpointReader& reader) {
  const ModelSection before = checkpoint_recipe(reader).model;
  if (before.head != HeadKind::regression) return;
  if (!recipe.model.score_mean) recipe.model.score_mean = before.score_mean;
  if (!recipe.model.score_std) recipe.model.score_std = before.score_std;
}

void take_ranks(Recipe& recipe, const CheckpointReader& reader, RanksOf checkpoint) {
  const Recipe trained = checkpoint_recipe(reader);
  if (recipe.dlrm.has_value() != trained.dlrm.has_value())
    throw UsageError(fmt::format("{} holds {}, but the recipe is for {}; give another recipe",
                                 reader.path().string(), trained.dlrm ? "a click model" : "an encoder",
                                 recipe.dlrm ? "a click model" : "an encoder"));
  Recipe sized = recipe;  // the checkpoint knows the sizes of the data, which are not available yet
  if (sized.dlrm && sized.dlrm->tables.empty()) sized.dlrm->tables = trained.dlrm->tables;
  if (sized.dlrm && !sized.dlrm->dense_features) sized.dlrm->dense_features = trained.dlrm->dense_features;
  const std::map<std::string, Train> own = trains_of(sized), saved = trains_of(trained);
  const LayerRanks taken = trained.tensorized.ranks;
  const bool adapted = checkpoint == RanksOf::resumed && !reader.attributes("/ranks").empty();
  for (const auto& [layer, train] : saved) {
    const auto mine = own.find(layer);
    if (mine == own.end() || mine->second.modes != train.modes) continue;
    const bool may_have_shrunk =
        adapted && std::ranges::equal(train.ranks, mine->second.ranks, std::ranges::less_equal());
    if (recipe.tensorized.ranks.contains(layer) && mine->second.ranks != train.ranks && !may_have_shrunk)
      throw UsageError(fmt::format(
          "tensorized.ranks.{0} is [{1}], but {0} has the ranks [{2}] in {3}; remove it from the recipe; the "
          "checkpoint's ranks are used",
          layer, fmt::join(mine->second.ranks, ", "), fmt::join(train.ranks, ", "), reader.path().string()));
    if (taken.contains(layer)) recipe.tensorized.ranks[layer] = train.ranks;
  }
}

}  // namespace comera
