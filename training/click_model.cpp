#include "training/click_model.h"

#include <fmt/format.h>

#include "checkpoints/model_state.h"
#include "kernels/backends/processors.h"

namespace comera {

LoadedClickModel::LoadedClickModel(const std::filesystem::path& path,
                                   const std::vector<std::string>& overrides, const std::string& device)
    : trained(find_trained_model(path)),
      recipe(parse_stored_recipe(trained.recipe, trained.checkpoint.string(), overrides)),
      processor(find_processor(device, recipe.precision.activations(), recipe.precision.operands())),
      model(dlrm_config(recipe), processor.allocator, false) {
  const CheckpointReader reader(trained.checkpoint);
  encoding = reader.text("/data", "encoding");
  load_parameters(reader, model.parameters());
}

data::ClickLoaderOptions LoadedClickModel::packs(std::int64_t examples) const {
  std::vector<std::int64_t> rows;
  for (const DlrmConfig::Table& table : model.config().tables) rows.push_back(table.rows);
  return {.capacity = ClickCapacity::single(examples, model.config().numbers, rows),
          .right_rows = model.right_rows()};
}

void LoadedClickModel::require_same_encoding(const std::string& fingerprint, const std::string& of) const {
  COMERA_CHECK(
      fingerprint == encoding,
      "{} was encoded otherwise than what {} was trained on: make it with that encoding (comera clicks "
      "data --encoding FILE; a run's folder has it as encoding.h5)",
      of, trained.checkpoint.string());
}

}  // namespace comera
