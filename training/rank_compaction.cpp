#include "training/rank_compaction.h"

#include <set>

#include "checkpoints/float8_scales.h"
#include "checkpoints/model_state.h"
#include "model/rank_sizes.h"
#include "training/checkpoint_recipe.h"

namespace comera {

namespace {

constexpr std::string_view parameters_at = "/model/", optimizer_at = "/optimizer/";

// Flat vectors laid out as a model's parameters, as its optimizer's state: the moments.
class FlatStates {
 public:
  FlatStates(const ParameterStore& store, const std::set<std::string>& names, DType dtype) {
    const Tensor& values = store.values();
    for (const std::string& name : names) {
      buffers_.emplace_back(host_allocator(), values.elements() * size_of(dtype), MemoryKind::optimizer);
      states_.emplace_back(name, buffers_.back().tensor({values.elements()}, dtype));
    }
  }

  const std::vector<std::pair<std::string, Tensor>>& named() const { return states_; }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> list;
    for (const auto& [name, tensor] : states_) list.push_back(tensor);
    return list;
  }

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::pair<std::string, Tensor>> states_;
};

// "m" and "v" of "/optimizer/embedding.tokens.core.0/m" and so on: none in a file of weights alone.
std::set<std::string> state_names(const CheckpointReader& reader) {
  std::set<std::string> names;
  for (const CheckpointTensor& tensor : reader.tensors())
    if (tensor.path.starts_with(optimizer_at)) names.insert(tensor.path.substr(tensor.path.rfind('/') + 1));
  return names;
}

DType state_type(const CheckpointReader& reader, DType otherwise) {
  for (const CheckpointTensor& tensor : reader.tensors())
    if (tensor.path.starts_with(optimizer_at)) return tensor.dtype;
  return otherwise;
}

bool is_of_parameters(const std::string& path) {
  return (path + "/").starts_with(parameters_at) || (path + "/").starts_with(optimizer_at);
}

// All that does not depend on ranks.
void copy_others(const CheckpointReader& from, CheckpointWriter& to) {
  for (const CheckpointTensor& tensor : from.tensors())
    COMERA_CHECK(is_of_parameters(tensor.path) || tensor.path.starts_with(float8_at),
                 "{} has '{}', of which this version does not know whether it depends on ranks",
                 from.path().string(), tensor.path);
  for (const std::string& group : from.groups())
    if (!is_of_parameters(group) && !(group + "/").starts_with(float8_at) && group != "/recipe")
      to.attributes(group, from.attributes(group));
}

}  // namespace

LayerRanks live_ranks(const Model& model) {
  LayerRanks ranks = ranks_of(model.config());
  for (const auto& [layer, live] : ranks_of(live_entries(model.parameters(), model.ranked_layers())))
    ranks[layer] = live;
  return ranks;
}

void set_ranks(Recipe& recipe, const std::vector<LiveEntries>& live) {
  for (const auto& [layer, ranks] : ranks_of(live)) recipe.tensorized.ranks[layer] = ranks;
}

RankCompaction::RankCompaction(const CheckpointReader& from)
    : from_(from), vocabulary_(from.integer("/data", "vocabulary")), recipe_(checkpoint_recipe(from)) {
  const EncoderConfig config = encoder_config(recipe_, vocabulary_);
  before_ = ranks_of(config);
  COMERA_CHECK(!before_.empty(),
               "{} holds a dense model, which has no ranks; give the checkpoint of a model of tensor trains",
               from.path().string());
  model_ = std::make_unique<Model>(config, host_allocator(), false);
  load_parameters(from, model_->parameters());
  try {
    live_ = live_entries(model_->parameters(), model_->ranked_layers());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", from.path().string(), error.what()));
  }
  after_ = live_ranks(*model_);
  set_ranks(recipe_, live_);
}

void RankCompaction::write_parameters(const ParameterStore& to) const {
  CompactedParameters(model_->parameters(), {}, model_->ranked_layers(), live_).write(to, {});
}

std::int64_t RankCompaction::write(const std::filesystem::path& output) const {
  from_.verify();  // all of it: what is copied is not looked at
  const std::set<std::string> states = state_names(from_);
  const DType dtype = state_type(from_, model_->parameters().dtype());
  const Model compacted(encoder_config(recipe_, vocabulary_), host_allocator(), false);
  const ParameterStore& store = compacted.parameters();
  const FlatStates kept(store, states, dtype);
  {
    const FlatStates all(model_->parameters(), states, dtype);
    if (!states.empty()) load_optimizer(from_, model_->parameters(), all.named());
    CompactedParameters(model_->parameters(), all.tensors(), model_->ranked_layers(), live_)
        .write(store, kept.tensors());
  }
  CheckpointWriter writer(output);
  save_parameters(writer, store);
  save_optimizer(writer, store, kept.named());
  copy_others(from_, writer);
  copy_float8(from_, writer);
  Attributes recipe = from_.attributes("/recipe");
  recipe["toml"] = to_toml(recipe_);
  writer.attributes("/recipe", recipe);
  writer.commit();
  return store.count();
}

}  // namespace comera
