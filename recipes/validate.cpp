#include "recipes/validate.h"
#include "recipes/phase_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "kernels/core/device_name.h"
#include "recipes/encoder_config.h"
#include "recipes/recipe.h"
#include "recipes/schema/schema.h"

namespace comera {

namespace recipe_detail {

namespace {

void check_sources(const DataSection& data, const Places& places) {
  if (!data.sources.empty() && !data.train.empty())
    places.fail("data.train", "data.train and [[data.source]] both name training data; remove one of them");
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < data.sources.size(); ++i) {
    const DataSource& source = data.sources[i];
    const std::string key = fmt::format("data.source.{}", i);
    if (source.name().empty())
      places.fail(
          key + ".folder",
          fmt::format("{}.folder = \"{}\" has no name; give the folder of the shards", key, source.folder));
    const auto [same, added] = numbers.emplace(source.name(), i);
    if (!added)
      places.fail(key + ".folder", fmt::format("{}.folder and data.source.{}.folder both end in \"{}\", but "
                                               "sources need different names; rename one",
                                               key, same->second, source.name()));
    if (source.weight.has_value() != data.sources[0].weight.has_value())
      places.fail(
          key, fmt::format("{} has {} weight, unlike data.source.0; give weights to all sources, or to none",
                           key, source.weight ? "a" : "no"));
  }
}

void check_data(const DataSection& data, const Places& places) {
  if (data.replace_share + data.random_share > 1)
    places.fail("data.random_share",
                fmt::format("data.random_share = {} and data.replace_share = {} add up to more than 1",
                            data.random_share, data.replace_share));
  check_sources(data, places);
}

void check_task(const TaskSection& task, const Places& places) {
  const auto check = [&](const char* key, const std::vector<std::string>& files) {
    if (std::ranges::find(files, std::string()) != files.end())
      places.fail(key, fmt::format("{} has an empty file name; name a table, or remove it", key));
  };
  check("task.train", task.train);
  check("task.validation", task.validation);
  check("task.similarity", task.similarity);
}

// About the square root of the smallest float32 number: a smaller gradient has a square of 0.
constexpr double least_eps = 1e-20;

// A kernel receives it as float32, where it would be infinite.
void check_float(double value, const std::string& key, const Places& places) {
  if (value > std::numeric_limits<float>::max())
    places.fail(key, fmt::format("{} = {} is more than a float32 can be", key, value));
}

// An update is m / (sqrt(v) + eps), and must be bounded for all gradients.
void check_optim(const OptimSection& optim, const Places& places) {
  check_float(optim.eps, "optim.eps", places);
  check_float(optim.weight_decay, "optim.weight_decay", places);
  if (optim.eps < least_eps)
    places.fail("optim.eps",
                fmt::format("optim.eps = {} is less than {}: the squares of such small gradients are 0 in "
                            "float32, and an update would divide by 0; give it 1e-8",
                            optim.eps, least_eps));
  if (optim.beta2 < optim.beta1 * optim.beta1)
    places.fail("optim.beta2",
                fmt::format("optim.beta2 = {} is less than the square of optim.beta1 = {}, so updates are "
                            "unbounded when gradients become small; raise beta2 or lower beta1",
                            optim.beta2, optim.beta1));
}

// A recipe's GaLore settings must apply to some layer.
void check_galore(const Recipe& recipe, const Places& places) {
  const OptimSection& optim = recipe.optim;
  if (optim.kind != OptimizerKind::galore) {
    if (optim.galore)
      places.fail("optim.galore", fmt::format("[optim.galore] is not used by optim.name = \"{}\"; set it to "
                                              "\"galore\", or remove the section",
                                              name_of(optim.kind)));
    return;
  }
  if (recipe.low_rank || recipe.lte)
    places.fail("optim.name",
                fmt::format("optim.name = \"galore\" projects the gradients of whole matrices, and those of "
                            "[{}] are already small; remove the section, or use \"adamw\"",
                            recipe.lte ? "lte" : "low_rank"));
  if (recipe.dlrm) places.fail("optim.name", "optim.name = \"galore\" is for encoders; use \"adamw\"");
  const TensorizedSection& trains = recipe.tensorized;
  if (trains.enabled && trains.attention && trains.ffn_up && trains.ffn_down && trains.head)
    places.fail("optim.name",
                "optim.name = \"galore\" projects the gradients of dense linear layers, and this model has "
                "none; set tensorized.enabled to false, or use \"adamw\"");
}

// With Muon the rate of cores is for whole matrices, with AdamW for single parameters: one value cannot serve
// both.
void check_muon_rates(const Recipe& recipe, const LearningRates& rates, const std::string& key,
                      const Places& places) {
  const bool trains = recipe.dlrm ? recipe.dlrm->table_rank > 0 : recipe.tensorized.embedding.has_value();
  if (recipe.tensorized.enabled && trains && !rates.embedding)
    places.fail(
        key, fmt::format("{} has one rate for the cores of layers and of the embedding, but optim.name = "
                         "\"muon\" leaves the embedding's cores to AdamW; give both, such as {{cores = 5e-3, "
                         "embedding = 7e-3, gates = 1e-3, other = 1e-3}}",
                         key));
}

void check_micro_batches(const PhaseSection& phase, const std::string& path, std::int64_t max_positions,
                         const Places& places) {
  for (const auto& [key, value] :
       {std::pair{"length", phase.length}, {"tokens_per_micro_batch", phase.tokens_per_micro_batch}})
    if (value == 0) places.fail(path, fmt::format("[{}] lacks {}; it must be given", path, key));
  if (phase.examples_per_micro_batch > 0)
    places.fail(path + ".examples_per_micro_batch",
                fmt::format("{}.examples_per_micro_batch is for a click model; remove it", path));
  if (phase.length > max_positions)
    places.fail(path + ".length",
                fmt::format("{}.length = {} is longer than model.max_positions = {}; lower it", path,
                            phase.length, max_positions));
  if (phase.tokens_per_micro_batch < phase.length)
    places.fail(path + ".tokens_per_micro_batch",
                fmt::format("{0}.tokens_per_micro_batch = {1} is less than {0}.length = {2}, so a long "
                            "sequence would not fit",
                            path, phase.tokens_per_micro_batch, phase.length));
  if (phase.sequences_per_micro_batch > phase.tokens_per_micro_batch)
    places.fail(
        path + ".sequences_per_micro_batch",
        fmt::format("{0}.sequences_per_micro_batch = {1} is more than {0}.tokens_per_micro_batch = {2}", path,
                    phase.sequences_per_micro_batch, phase.tokens_per_micro_batch));
}

void check_length(const PhaseSection& phase, const std::string& path, const Places& places) {
  if (phase.warmup_steps > 0 && phase.warmup_share > 0)
    places.fail(path + ".warmup_share",
                fmt::format("{} has both warmup_steps and warmup_share; give one of them", path));
  if (phase.steps.has_value() == phase.epochs.has_value())
    places.fail(phase.steps ? path + ".epochs" : path,
                fmt::format("{} has {} steps {} epochs; give exactly one of them", path,
                            phase.steps ? "both" : "neither", phase.steps ? "and" : "nor"));
  if (phase.steps && phase.warmup_steps > *phase.steps)
    places.fail(path + ".warmup_steps",
                fmt::format("{0}.warmup_steps = {1} is more than {0}.steps = {2}; lower it, or give a share: "
                            "--set {0}.warmup_share=0.1",
                            path, phase.warmup_steps, *phase.steps));
  // How many steps epochs have is not known yet (PhasePlan).
  if ((phase.steps || phase.warmup_steps == 0) && !phase.warms_up_before_decay(phase.steps.value_or(1)))
    places.fail(
        path + ".decay_share",
        fmt::format("{0}.decay_share = {1} begins its decay before the warm-up ends; lower it, or {0}.{2}",
                    path, phase.decay_share, phase.warmup_share > 0 ? "warmup_share" : "warmup_steps"));
}

// Whether the section differs from its struct's defaults.
template <class S>
bool is_given(const S& section, const std::string& name) {
  const auto text = [&](const S& from) {
    Writer writer;
    for (const auto& key : keys_of<S>())
      if (key.name == name) key.write(from, Path() / name, writer);
    return writer.text();
  };
  return text(section) != text({});
}

void check_adaptation(const PhaseSection& phase, const std::string& path, const Places& places) {
  const std::string section = path + ".adaptation";
  const auto fail = [&](const std::string& key, const std::string& sentence) {
    places.fail(section + "." + key, fmt::format("{}.{} {}", section, key, sentence));
  };
  if (phase.objective == PhaseObjective::fixed) {
    if (phase.adaptation)
      places.fail(section, fmt::format("{} is for a phase that adapts ranks; set {}.objective to "
                                       "\"regularize\" or \"compress\", or remove the section",
                                       section, path));
    return;
  }
  const AdaptationSection adaptation = phase.adaptation.value_or(AdaptationSection{});
  const bool ratio = adaptation.target_ratio.has_value(), size = !adaptation.target_size.empty();
  const bool compresses = phase.objective == PhaseObjective::compress;
  for (const std::string& key : idle_adaptation_keys(phase.objective))
    if (is_given(adaptation, key))
      fail(key, fmt::format(
                    "is only for phases with objective = \"{0}\"; remove it, or set {1}.objective to \"{0}\"",
                    compresses ? "regularize" : "compress", path));
  if (!compresses) return;
  if (ratio == size)
    places.fail(
        ratio ? section + ".target_size" : path + ".objective",
        fmt::format(
            "{} has {} target_ratio {} target_size; a phase that compresses needs exactly one of them",
            section, ratio ? "both" : "neither", ratio ? "and" : "nor"));
  if (size && !parse_size(adaptation.target_size))
    fail("target_size",
         fmt::format("= \"{}\" is not a size; expected a number with a unit, such as \"3.2MB\"",
                     adaptation.target_size));
  if (size && is_given(adaptation, "target_of"))
    fail("target_of", "is the reference of target_ratio; remove it when target_size is given");
  if (adaptation.preset == RankPreset::paper && !adaptation.target_loss)
    fail("preset", "= \"paper\" needs a target_loss; set it below the current loss");
  const AdaptationSection all = with_preset(adaptation, PhaseObjective::compress);
  for (const auto& [key, given] :
       {std::pair{"loss_weight", adaptation.loss_weight}, {"size_weight", adaptation.size_weight}})
    if (given && !all.target_loss) fail(key, "is weighed against the loss; set target_loss too");
  const double urgency = adaptation.urgency.value_or(1);
  if (urgency != 1 && *all.shrink_share == 0)
    fail("urgency", "grows over shrink_share of the phase, which is 0; raise shrink_share, or remove it");
  if (adaptation.shrink_share && *adaptation.shrink_share > 0 && !*all.hold && !*all.smallest_first &&
      *all.urgency == 1)
    fail("shrink_share", "has no effect without hold, smallest_first or an urgency above 1; remove it");
}

// Encoder-only keys in a section that click models have as well.
template <class S>
void refuse_others(const S& section, const std::string& path, const std::set<std::string>& used,
                   const Places& places) {
  for (const auto& key : keys_of<S>())
    if (!used.contains(key.name) && is_given(section, key.name))
      places.fail(path + "." + key.name,
                  fmt::format("{}.{} is not for a click model; remove it", path, key.name));
}

void check_click_micro_batches(const PhaseSection& phase, const std::string& path, const Places& places) {
  for (const char* key : {"length", "tokens_per_micro_batch", "sequences_per_micro_batch", "mask_probability",
                          "final_mask_probability", "layers", "dense"})
    if (is_given(phase, key))
      places.fail(
          path + "." + key,
          fmt::format("{}.{} is for an encoder; use examples_per_micro_batch for a click model", path, key));
  if (phase.examples_per_micro_batch == 0)
    places.fail(path, fmt::format("[{}] lacks examples_per_micro_batch; it must be given", path));
}

// Blocks are added, never taken away, while no ranks are adapted and nothing depends on their number.
void check_blocks(const Recipe& recipe, std::size_t i, const Places& places) {
  const auto phase = static_cast<std::int64_t>(i);
  const std::int64_t blocks = blocks_in_phase(recipe, phase);
  const std::string key = fmt::format("phase.{}.layers", i);
  if (blocks > 1024) places.fail(key, fmt::format("{} = {} is more than 1024; use fewer", key, blocks));
  if (i > 0 && blocks < blocks_in_phase(recipe, phase - 1))
    places.fail(
        recipe.phases[i].layers ? key : fmt::format("phase.{}", i),
        fmt::format("phase.{} has {} layers, fewer than the {} of the phase before; a phase can only add "
                    "some: set {} to as many or more",
                    i, blocks, blocks_in_phase(recipe, phase - 1), key));
  if (!adds_blocks(recipe, phase)) return;
  for (std::size_t before = 0; before < i; ++before)
    if (recipe.phases[before].objective != PhaseObjective::fixed)
      places.fail(
          fmt::format("phase.{}.objective", before),
          fmt::format("phase.{} adds layers, but phase.{}.objective adapts ranks before it; set that to "
                      "\"fixed\", or give both as many layers",
                      i, before));
  const char* const other = has_float8(recipe.precision.compute) ? "8-bit operands"
                            : recipe.lte                         ? "[lte]"
                            : recipe.distillation                ? "[distillation]"
                                                                 : nullptr;
  if (other != nullptr)
    places.fail(key, fmt::format("phase.{} adds layers, which a run with {} cannot; give all phases as many",
                                 i, other));
}

void check_phases(const Recipe& recipe, const Places& places) {
  if (recipe.phases.empty()) places.fail("phase", "the recipe has no [[phase]]; give at least one");
  std::set<std::string> names;
  for (std::size_t i = 0; i < recipe.phases.size(); ++i) {
    const PhaseSection& phase = recipe.phases[i];
    const std::string path = fmt::format("phase.{}", i);
    if (recipe.dlrm)
      check_click_micro_batches(phase, path, places);
    else
      check_micro_batches(phase, path, recipe.model.max_positions, places);
    check_length(phase, path, places);
    if (phase.final_mask_probability && recipe.run.max_hours)
      places.fail(
          path + ".final_mask_probability",
          fmt::format("{}.final_mask_probability is reached in the phase's last step, which run.max_hours "
                      "leaves open; remove one of them",
                      path));
    check_adaptation(phase, path, places);
    if (!recipe.dlrm) check_blocks(recipe, i, places);
    if (phase.dense && phase.objective != PhaseObjective::fixed)
      places.fail(
          path + ".dense",
          fmt::format("{0}.dense leaves linear layers without ranks, but {0}.objective = \"{1}\" adapts "
                      "ranks; remove one of them",
                      path, phase.objective == PhaseObjective::compress ? "compress" : "regularize"));
    if (phase.dense && (has_float8(recipe.precision.compute) || recipe.low_rank || recipe.lte))
      places.fail(
          path + ".dense",
          fmt::format("{}.dense is for tensor trains without 8-bit operands, [low_rank] and [lte]; remove it",
                      path));
    if (!names.insert(phase.name).second)
      places.fail(path + ".name", fmt::format("{}.name is '{}', the name of an earlier phase; choose another",
                                              path, phase.name));
  }
}

void check_dlrm(const Recipe& recipe, const Places& places) {
  refuse_others<TensorizedSection>(recipe.tensorized, "tensorized", {"enabled", "lookup", "plan", "ranks"},
                                   places);
  refuse_others(recipe.data, "data", {"train", "validation", "order"}, places);
  if (has_float8(recipe.precision.compute))
    places.fail("precision.compute", fmt::format("precision.compute = \"{}\" is for encoders; use \"bf16\"",
                                                 name_of(recipe.precision.compute)));
  if (recipe.tensorized.lookup == LookupKind::naive)
    places.fail("tensorized.lookup",
                "tensorized.lookup = \"naive\" is for encoders; use \"unique\" or \"factors\"");
  if (recipe.dlrm->tables.empty() || !recipe.dlrm->dense_features) return;  // the data say more
  try {
    dlrm_config(recipe).validate();
  } catch (const Error& error) {
    places.fail("dlrm", fmt::format("[dlrm]: {}", error.what()));
  }
}

// The messages of the model's checks begin with the key: "tensorized.attention: rank 99 ...".
void check_model(const Recipe& recipe, const Places& places) {
  if (recipe.dlrm) return check_dlrm(recipe, places);
  // Whether the embedding covers a vocabulary known only to the tokenizer is checked in encoder_config().
  const std::int64_t vocabulary = recipe.model.vocabulary > 0 ? recipe.model.vocabulary : 1;
  try {
    const EncoderConfig config = unchecked_encoder_config(recipe, vocabulary);
    check_narrow_shapes(config);
    config.validate();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    places.fail(sentence.substr(0, sentence.find_first_of(": ")), sentence);
  }
}

// Evaluations use merged weights only, and each head has the same number of tokens in a micro-batch.
void check_lte(const Recipe& recipe, const Places& places) {
  const LteSection& lte = *recipe.lte;
  if (recipe.tensorized.enabled)
    places.fail(
        "lte",
        "[lte] is for a model without tensor trains; set tensorized.enabled to false, or remove [lte]");
  if (recipe.low_rank)
    places.fail("lte", "[lte] and [low_rank] are alternatives for the same layers; remove one of them");
  if (recipe.optim.average_decay > 0)
    places.fail(
        "optim.average_decay",
        "optim.average_decay averages weights, but the adapters of [lte] are merged into others as they are "
        "trained; remove one of them");
  check_float(lte.lora_alpha, "lte.lora_alpha", places);
  for (std::size_t i = 0; i < recipe.phases.size(); ++i) {
    const std::string key = fmt::format("phase.{}.tokens_per_micro_batch", i);
    if (const std::int64_t tokens = recipe.phases[i].tokens_per_micro_batch; tokens % lte.num_heads != 0)
      places.fail(key, fmt::format("{} = {} is not a multiple of lte.num_heads = {}; make it one", key,
                                   tokens, lte.num_heads));
  }
  if (recipe.run.evaluation_interval % lte.merge_steps != 0)
    places.fail("run.evaluation_interval",
                fmt::format("run.evaluation_interval = {} is not a multiple of lte.merge_steps = {}, but "
                            "models are evaluated only after a merge",
                            recipe.run.evaluation_interval, lte.merge_steps));
  if (recipe.run.evaluation_epochs > 0)
    places.fail("run.evaluation_epochs",
                "run.evaluation_epochs ends between two merges of [lte]; give run.evaluation_interval "
                "instead");
}

void check_forms(const Recipe& recipe, const Places& places) {
  if (!recipe.dlrm && recipe.data.order != DataOrder::shuffled)
    places.fail("data.order", "data.order is for a click model; remove it");
  if (recipe.lte) check_lte(recipe, places);
  if (recipe.low_rank && recipe.tensorized.enabled)
    places.fail("low_rank",
                "[low_rank] is for a model without tensor trains; set tensorized.enabled to false, or remove "
                "[low_rank]");
}

}  // namespace

void validate(const Recipe& recipe, const Places& places) {
  check_forms(recipe, places);
  check_model(recipe, places);
  check_data(recipe.data, places);
  check_task(recipe.task, places);
  check_phases(recipe, places);
  if (!is_device_name(recipe.run.device))
    places.fail("run.device",
                fmt::format("run.device = \"{}\" is none of {}", recipe.run.device, device_names));
}

void validate_training(const Recipe& recipe, const Places& places) {
  check_optim(recipe.optim, places);
  check_galore(recipe, places);
  for (std::size_t i = 0; i < recipe.phases.size(); ++i) {
    const LearningRates& rates = recipe.phases[i].learning_rate;
    const std::string key = fmt::format("phase.{}.learning_rate", i);
    check_float(rates.largest(), key, places);
    if (recipe.optim.kind == OptimizerKind::muon) check_muon_rates(recipe, rates, key, places);
  }
}

}  // namespace recipe_detail

void validate(const Recipe& recipe) { recipe_detail::validate(recipe, recipe_detail::Places()); }

void require_training_keys(const Recipe& recipe) {
  recipe_detail::validate_training(recipe, recipe_detail::Places());
  const auto require = [](const char* key, const std::string& value) {
    if (value.empty()) throw UsageError(fmt::format("{0} is empty; training needs it: --set {0}=PATH", key));
  };
  if (!recipe.dlrm) require("data.tokenizer", recipe.data.tokenizer);
  require("run.output", recipe.run.output);
}

void require_pretraining_keys(const Recipe& recipe) {
  if (recipe.data.train.empty() && recipe.data.sources.empty())
    throw UsageError(
        "data.train is empty: name shards with --data DIR, or files to make them from with --input PATH (in "
        "a "
        "recipe: data.train, or several [[data.source]])");
  require_training_keys(recipe);
}

void require_click_keys(const Recipe& recipe) {
  if (recipe.data.train.empty())
    throw UsageError(
        "data.train is empty; training needs a folder made by `comera clicks data`: --data FOLDER");
  require_training_keys(recipe);
}

}  // namespace comera
