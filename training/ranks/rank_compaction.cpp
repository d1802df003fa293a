#include "training/ranks/rank_compaction.h"

#include <algorithm>

#include "checkpoints/float8_scales.h"
#include "checkpoints/model_state.h"
#include "model/rank_sizes.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera {

namespace {

constexpr std::string_view parameters_at = "/model/", optimizer_at = "/optimizer/";

// Memory for the optimizer states in a checkpoint: "m" and "v" of "/optimizer/embedding.tokens.core.0/m" and
// so on, each with the shape of its parameter. Empty for a file of weights alone. States of parameters that
// the model no longer has are left out.
class StatesOfFile {
 public:
  // full: the parameters as in the file. none: as if it had no states.
  StatesOfFile(const CheckpointReader& reader, const ParameterStore& full, const ParameterStore& store,
               bool none) {
    if (none) return;
    for (const CheckpointTensor& tensor : reader.tensors()) {
      if (!tensor.path.starts_with(optimizer_at)) continue;
      const std::size_t slash = tensor.path.rfind('/');
      const std::string parameter = tensor.path.substr(optimizer_at.size(), slash - optimizer_at.size());
      const auto whole = full.find(parameter), own = store.find(parameter);
      COMERA_CHECK(whole, "{}: '{}' belongs to no parameter of its model", reader.path().string(),
                   tensor.path);
      if (!own) continue;
      const Shape& expected = full.info(*whole).shape;
      COMERA_CHECK(std::ranges::equal(tensor.shape, expected.sizes()),
                   "{}: '{}' does not have the shape of its parameter, {}", reader.path().string(),
                   tensor.path, expected.text());
      const Shape& shape = store.info(*own).shape;
      buffers_.emplace_back(host_allocator(), shape.elements() * size_of(tensor.dtype),
                            MemoryKind::optimizer);
      states_.push_back({*own, tensor.path.substr(slash + 1), buffers_.back().tensor(shape, tensor.dtype)});
    }
    std::ranges::stable_sort(states_, {}, &ParameterState::parameter);
  }

  const std::vector<ParameterState>& states() const { return states_; }

 private:
  std::vector<Buffer> buffers_;
  std::vector<ParameterState> states_;
};

bool is_of_parameters(const std::string& path) {
  return (path + "/").starts_with(parameters_at) || (path + "/").starts_with(optimizer_at);
}

// Copies everything that does not depend on ranks.
void copy_others(const CheckpointReader& from, CheckpointWriter& to) {
  for (const CheckpointTensor& tensor : from.tensors())
    COMERA_CHECK(is_of_parameters(tensor.path) || tensor.path.starts_with(float8_at) ||
                     tensor.path == tokenizer_in_checkpoint || tensor.path.starts_with(carried_at),
                 "{} has '{}', and this version does not know whether it depends on ranks",
                 from.path().string(), tensor.path);
  for (const std::string& group : from.groups())
    if (!is_of_parameters(group) && !(group + "/").starts_with(float8_at) && group != "/recipe" &&
        !(group + "/").starts_with(carried_at))
      to.attributes(group, from.attributes(group));
  copy_tokenizer(from, to);
  copy_carried(from, to);  // of a head that the model does not have
}

}  // namespace

LayerRanks live_ranks(const ModelTensorTrains& trains, const Trainable& model) {
  LayerRanks ranks = ranks_of(trains);
  for (const auto& [layer, live] : ranks_of(live_entries(model.parameters(), model.ranked_layers())))
    ranks[layer] = live;
  return ranks;
}

void set_ranks(Recipe& recipe, const std::vector<LiveEntries>& live) {
  for (const auto& [layer, ranks] : ranks_of(live)) recipe.tensorized.ranks[layer] = ranks;
}

RankCompaction::RankCompaction(const CheckpointReader& from) : from_(from), recipe_(checkpoint_recipe(from)) {
  const std::unique_ptr<ModelForm> form = form_of(recipe_, from);
  trains_ = form->trains();
  before_ = ranks_of(trains_);
  COMERA_CHECK(!before_.empty(),
               "{} holds a dense model, which has no ranks; give the checkpoint of a tensorized model",
               from.path().string());
  model_ = form->make(host_allocator(), false);
  load_parameters(from, model_->parameters());
  try {
    live_ = live_entries(model_->parameters(), model_->ranked_layers());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", from.path().string(), error.what()));
  }
  after_ = live_ranks(trains_, *model_);
  set_ranks(recipe_, live_);
}

void RankCompaction::write_parameters(const ParameterStore& to) const {
  CompactedParameters(model_->parameters(), {}, model_->ranked_layers(), live_).write(to, {});
}

std::int64_t RankCompaction::write(const std::filesystem::path& output, bool weights_only) const {
  from_.verify();  // the whole file, because copied parts are not checked
  const std::unique_ptr<Trainable> compacted = form_of(recipe_, from_)->make(host_allocator(), false);
  const ParameterStore& store = compacted->parameters();
  const ParameterStore& full = model_->parameters();
  const StatesOfFile kept(from_, full, store, weights_only);
  {
    const StatesOfFile all(from_, full, full, weights_only);
    if (!all.states().empty()) load_optimizer(from_, full, all.states());
    CompactedParameters(full, all.states(), model_->ranked_layers(), live_).write(store, kept.states());
  }
  CheckpointWriter writer(output);
  save_parameters(writer, store);
  save_optimizer(writer, store, kept.states());
  copy_others(from_, writer);
  copy_float8(from_, writer);
  Attributes recipe = from_.attributes("/recipe");
  recipe["toml"] = to_toml(recipe_);
  writer.attributes("/recipe", recipe);
  writer.commit();
  return store.count();
}

void write_weights(const CheckpointReader& from, const std::filesystem::path& output) {
  from.verify();
  const std::unique_ptr<Trainable> model =
      form_of(checkpoint_recipe(from), from)->make(host_allocator(), false);
  load_parameters(from, model->parameters());
  CheckpointWriter writer(output);
  save_parameters(writer, model->parameters());
  copy_others(from, writer);
  copy_float8(from, writer);
  writer.attributes("/recipe", from.attributes("/recipe"));
  writer.commit();
}

}  // namespace comera
