#include "training/tasks/click_model.h"

#include <fmt/format.h>

#include "checkpoints/model_state.h"
#include "data/clicks/click_shards.h"
#include "kernels/backends/processors.h"
#include "storage/folder.h"

namespace comera {

namespace {

Recipe of_click_model(Recipe recipe, const std::filesystem::path& checkpoint) {
  if (!recipe.dlrm)
    throw UsageError(
        fmt::format("{}: holds an encoder; use comera eval, predict or embed", checkpoint.string()));
  return recipe;
}

// The encoding file in a run's folder.
std::filesystem::path encoding_beside(const std::filesystem::path& checkpoint) {
  const std::filesystem::path folder = storage::from_root(checkpoint).parent_path();
  for (const std::filesystem::path& place : {folder, folder.parent_path()})
    if (storage::exists(place / data::click_encoding_file)) return place / data::click_encoding_file;
  throw UsageError(
      fmt::format("{}: its run's folder has no {}; give the encoding of its training data: --encoding FILE",
                  checkpoint.string(), data::click_encoding_file));
}

}  // namespace

LoadedClickModel::LoadedClickModel(const std::filesystem::path& path, const std::string& device)
    : trained(find_trained_model(path)),
      recipe(of_click_model(parse_stored_recipe(trained.recipe, trained.checkpoint.string()),
                            trained.checkpoint)),
      processor(find_processor(device, recipe.precision.activations(), recipe.precision.operands())),
      model(dlrm_config(recipe), processor.allocator, false) {
  const CheckpointReader& reader = *trained.reader;
  encoding = reader.text("/data", "encoding");
  load_parameters(reader, model.parameters());
}

data::ClickLoaderOptions LoadedClickModel::micro_batches(std::int64_t examples) const {
  return {.capacity = ClickCapacity::single(examples, model.config().dense_features, rows_of(model.config())),
          .right_rows = model.right_rows()};
}

void LoadedClickModel::require_same_encoding(const std::string& fingerprint, const std::string& of) const {
  COMERA_CHECK(fingerprint == encoding,
               "{} has another encoding than the training data of {}: make it with that encoding (comera "
               "clicks data --encoding FILE; a run's folder has it as encoding.h5)",
               of, trained.checkpoint.string());
}

data::ClickEncoding LoadedClickModel::load_encoding(const std::filesystem::path& given) const {
  if (encoding.starts_with("synthetic"))
    throw UsageError(fmt::format("{}: was trained on synthetic clicks, whose ids match no log",
                                 trained.checkpoint.string()));
  const std::filesystem::path file = given.empty() ? encoding_beside(trained.checkpoint) : given;
  data::ClickEncoding found = data::ClickEncoding::load(file);
  COMERA_CHECK(found.fingerprint() == encoding,
               "{}: is not the encoding of {}'s training data; give encoding.h5 from the folder of its "
               "shards: --encoding FILE",
               file.string(), trained.checkpoint.string());
  return found;
}

}  // namespace comera
