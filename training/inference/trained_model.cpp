#include "training/inference/trained_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoints/checkpoint_directory.h"
#include "checkpoints/float8_scales.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "recipes/encoder_config.h"
#include "storage/folder.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera {

namespace {

std::filesystem::path checked_tokenizer(const TrainedModel& trained, const std::filesystem::path& given) {
  if (!given.empty()) return given;
  if (trained.tokenizer.empty())
    throw UsageError(
        fmt::format("{}: carries no tokenizer (an earlier version wrote it), and its run's folder has no "
                    "tokenizer.model; give its tokenizer with --tokenizer FILE",
                    trained.checkpoint.string()));
  return trained.tokenizer;
}

// Before anything is allocated by its size.
data::Tokenizer tokenizer_of(const TrainedModel& trained, const std::filesystem::path& given) {
  const std::filesystem::path file = checked_tokenizer(trained, given);
  return load_tokenizer_of(*trained.reader, file);
}

// A GPU without 8-bit tensor cores evaluates a model trained in 8 bits in the type of everything else, unless
// overridden.
Recipe for_device(Recipe recipe, const std::vector<std::string>& overrides, const std::string& device) {
  const auto is_told = [](const std::string& setting) { return setting.starts_with("precision.compute"); };
  PrecisionSection& precision = recipe.precision;
  if (has_float8(precision.compute) && std::ranges::none_of(overrides, is_told) &&
      !multiplies(find_processor(device, precision.activations()), precision.operands()))
    precision.compute = precision.compute == Compute::fp8 ? Compute::bf16 : Compute::fp32;
  return recipe;
}

// Of an encoder, without what only training uses.
Recipe of_encoder(Recipe recipe, const std::filesystem::path& checkpoint) {
  recipe.distillation.reset();
  if (recipe.dlrm)
    throw UsageError(
        fmt::format("{}: holds a click model; use comera clicks train, eval or predict, or comera inspect",
                    checkpoint.string()));
  return recipe;
}

// Positions that are not learned are unlimited.
Recipe for_length(Recipe recipe, std::int64_t length) {
  ModelSection& model = recipe.model;
  if (model.positions != Positions::learned) model.max_positions = std::max(model.max_positions, length);
  return recipe;
}

}  // namespace

namespace {

// Null if it is not there, or no longer when it is opened. A run that replaces it meanwhile may take it away
// and put another in its place between two looks.
std::shared_ptr<const CheckpointReader> open_if_there(const std::filesystem::path& path) {
  constexpr int most_tries = 20;
  std::error_code code;
  for (int tries = 1; std::filesystem::exists(path, code); ++tries) {
    try {
      return std::make_shared<const CheckpointReader>(path);
    } catch (const Error&) {
      if (tries == most_tries) throw;
    }
  }
  return nullptr;
}

}  // namespace

namespace {

// A folder without a checkpoint. It may hold runs: of --seeds, of `comera glue`, of the quickstart.
[[noreturn]] void refuse_folder(const std::filesystem::path& path) {
  std::error_code code;
  std::vector<std::string> runs;
  for (const std::filesystem::path& folder : {path, path / "runs"})
    for (const std::filesystem::path& run : storage::entries_of(folder, code))
      for (const std::filesystem::path& entry : {run, run / "run"})  // the quickstart's are DATE/run
        if (storage::exists(entry / "checkpoints") || storage::exists(entry / "best.h5"))
          runs.push_back(entry.lexically_relative(path).string());
  std::ranges::sort(runs);
  if (runs.empty())
    throw UsageError(
        fmt::format("{}: holds no checkpoint; give a run's folder or a checkpoint", path.string()));
  throw UsageError(fmt::format("{}: holds runs; name one: {}", path.string(), fmt::join(runs, ", ")));
}

}  // namespace

TrainedModel find_trained_model(const std::filesystem::path& path) {
  TrainedModel trained;
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    trained.reader = open_if_there(path / "best.h5");
    // A run may delete what was its newest checkpoint a moment ago; it does not save that quickly for ever.
    for (int tries = 0; !trained.reader; ++tries) {
      COMERA_CHECK(tries < 1000, "{}: its checkpoints are deleted before they can be read; try again",
                   path.string());
      const bool is_run = std::filesystem::is_directory(path / "checkpoints", code);
      const auto found = find_latest(is_run ? path / "checkpoints" : path, ResumeMode::newest_to_read);
      if (!found && std::filesystem::exists(path / "config.json", code))
        throw UsageError(
            fmt::format("{0}: is a folder of Hugging Face's transformers; import it first: comera import {0} "
                        "--output MODEL.h5, and give that file",
                        path.string()));
      if (!found) refuse_folder(path);
      trained.reader = open_if_there(found->path);
      if (trained.reader && !found->missing.empty())
        log_info("note: {} was saved but is missing; {} is used\n", found->missing.string(),
                 found->path.filename().string());
    }
  } else {
    trained.reader = open_if_there(path);
    if (!trained.reader)
      throw UsageError(fmt::format("{}: no such checkpoint or run's folder", path.string()));
  }
  const CheckpointReader& reader = *trained.reader;
  trained.checkpoint = reader.path();
  trained.recipe = reader.text("/recipe", "toml");
  if (has_tokenizer(reader)) trained.tokenizer = trained.checkpoint;
  const std::filesystem::path folder = storage::from_root(trained.checkpoint).parent_path();
  for (const std::filesystem::path& place : {folder, folder.parent_path()})
    if (trained.tokenizer.empty() && std::filesystem::exists(place / "tokenizer.model", code))
      trained.tokenizer = place / "tokenizer.model";
  return trained;
}

namespace {

// A checkpoint may be from between two merges: the complete model is evaluated.
void merge(const Model& model, const Processor& processor) {
  Arena measuring = Arena::measuring(processor.allocator.device());
  const Stream stream = processor.allocator.stream();
  model.consolidate({processor.backend, measuring, stream});
  Arena arena(processor.allocator, measuring.peak());
  model.consolidate({processor.backend, arena, stream});
  processor.allocator.synchronize(stream);
}

}  // namespace

LoadedModel::LoadedModel(const std::filesystem::path& path, const std::filesystem::path& given,
                         const std::vector<std::string>& overrides, const std::string& device,
                         std::int64_t length, const Processor* on)
    : trained(find_trained_model(path)),
      recipe(for_length(
          for_device(of_encoder(parse_stored_recipe(trained.recipe, trained.checkpoint.string(), overrides),
                                trained.checkpoint),
                     overrides, device),
          length)),
      tokenizer(tokenizer_of(trained, given)),
      processor(on != nullptr
                    ? *on
                    : find_processor(device, recipe.precision.activations(), recipe.precision.operands())),
      model(encoder_config(recipe, tokenizer.vocabulary()), processor.allocator, false) {
  const CheckpointReader& reader = *trained.reader;
  load_parameters(reader, model.parameters());
  // Settings of the scale of scores change the weights, not the scores.
  if (recipe.model.head == HeadKind::regression)
    rescale_scores(model.parameters(), checkpoint_recipe(reader).model, recipe.model);
  if (model.float8() != nullptr) load_float8(reader, *model.float8());
  if (recipe.lte) merge(model, processor);
}

namespace {

std::string import_text(const CheckpointReader& checkpoint, const char* name) {
  return checkpoint.attributes("/import").contains(name) ? checkpoint.text("/import", name) : "";
}

}  // namespace

bool has_random_head(const CheckpointReader& checkpoint) {
  return !import_text(checkpoint, "random_parameters").empty();
}

bool has_random_head(const CheckpointReader& checkpoint, const ParameterStore& model) {
  std::string names = import_text(checkpoint, "random_parameters") + ", ";
  for (std::size_t end; (end = names.find(", ")) != std::string::npos; names.erase(0, end + 2)) {
    const std::string layer = names.substr(0, std::min(end, names.rfind('.', end)));
    for (ParameterId id = 0; id < model.size() && !layer.empty(); ++id)
      if (model.info(id).name.starts_with(layer)) return true;
  }
  return false;
}

void require_trained_head(const CheckpointReader& checkpoint, const std::string& advice) {
  if (const std::string random = import_text(checkpoint, "random_parameters"); !random.empty())
    throw UsageError(
        fmt::format("{}: its head is random, since the folder that it was imported from has no {}; {}",
                    checkpoint.path().string(), random.substr(0, random.find(',')), advice));
}

InitialParameters initialise_from(const CheckpointReader& reader, const Recipe& recipe,
                                  const ParameterStore& store) {
  InitialParameters initial = load_initial_parameters(reader, store, takes_carried_head(recipe));
  const ModelSection before = checkpoint_recipe(reader).model;
  if (before.head != HeadKind::regression || recipe.model.head != HeadKind::regression) return initial;
  const auto is_fresh = [&](const char* name) { return std::ranges::count(initial.fresh, name) > 0; };
  const char *const weight = "head.classifier.weight", *const bias = "head.classifier.bias";
  if (!is_fresh(weight) && !has_random_head(reader, store))
    rescale_scores(store, before, recipe.model);
  else if (!is_fresh(bias))  // it belongs to another weight
    write_tensor(store.value(*store.find(bias)), {0}, store.allocator());
  return initial;
}

bool imports_vectors(const CheckpointReader& checkpoint) {
  const std::string pooling = import_text(checkpoint, "pooling");
  return pooling == "mean" || pooling == "first";
}

Pooling vector_pooling(const CheckpointReader& checkpoint, const ModelSection& model,
                       const std::string& advice) {
  if (model.head == HeadKind::contrastive) return model.pooling;
  const std::string imported = import_text(checkpoint, "pooling");
  if (imported.empty() || imported == "mean" || imported == "first")
    return imported == "first" ? Pooling::first : Pooling::mean;
  throw UsageError(fmt::format("{} makes its vectors by {}, which is not available here; {}",
                               checkpoint.path().string(), imported, advice));
}

Pooling vector_pooling(const LoadedModel& loaded, const std::string& advice) {
  return vector_pooling(*loaded.trained.reader, loaded.recipe.model, advice);
}

Pooling chosen_pooling(const LoadedModel& loaded, const std::string& choice, const std::string& advice) {
  if (choice.empty()) return vector_pooling(loaded, advice);
  const Pooling chosen = choice == "mean" ? Pooling::mean : Pooling::first;
  const EncoderConfig& config = loaded.model.config();
  if (config.has_vector_layer() && chosen != config.pooling)
    throw UsageError(fmt::format(
        "{}: its vectors pass a layer that was trained behind the pooling \"{}\"; leave the choice out",
        loaded.trained.checkpoint.string(), config.pooling == Pooling::mean ? "mean" : "first"));
  return chosen;
}

}  // namespace comera
