#include "exchange/transformers/transformers_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "exchange/transformers/weight_names.h"
#include "kernels/core/check.h"
#include "model/layers/positions.h"
#include "tensorized/decomposition/densify.h"

namespace comera::exchange {

namespace {

constexpr const char* turns_of_roformer = "roformer.encoder.embed_positions.weight";

// The gate after a core, by name.
std::optional<ParameterId> gate_behind(const ParameterStore& store, const std::string& core) {
  std::string gate = core;
  return store.find(gate.replace(gate.rfind(".core."), 6, ".gate."));
}

// RoFormer keeps the sines and then the cosines of its angles among its weights.
std::vector<double> sines_first(const EncoderConfig& config) {
  const std::int64_t size = config.hidden / config.heads;
  std::vector<double> turns = rotary_turns(0, config.max_positions, size, config.rotary_theta);
  for (auto row = turns.begin(); row != turns.end(); row += size)
    std::rotate(row, row + size / 2, row + size);
  return turns;
}

// Has a folder of its own (sentence_modules.h).
bool is_behind_pooling(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.')) == VectorLayer::name;
}

}  // namespace

std::vector<double> exported_values(const ParameterStore& store, ParameterId id) {
  const ParameterInfo& info = store.info(id);
  if (info.role != ParameterRole::core) return read_tensor(store.value(id), store.allocator());
  const auto gate = gate_behind(store, info.name);
  return cores_with_gates(store, {id}, gate ? std::vector{*gate} : std::vector<ParameterId>())[0];
}

bool has_pooler(Form form) {
  return form == Form::bert || form == Form::megatron_bert || form == Form::albert;
}

void write_weights(const std::filesystem::path& folder, const Model& model, Form form,
                   const std::vector<CarriedParameter>& carried) {
  const ParameterStore& store = model.parameters();
  const EncoderConfig& config = model.config();
  std::vector<TensorToWrite> tensors;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    if (info.role == ParameterRole::gate || is_behind_pooling(info.name)) continue;
    const TensorPlace place = place_of(info.name, form);
    tensors.push_back({place.theirs, shape_of_theirs(info.shape, place), [&store, id, place, &config] {
                         return to_theirs(exported_values(store, id), store.info(id).shape, place,
                                          config.heads);
                       }});
  }
  for (const CarriedParameter& parameter : carried) {
    const TensorPlace place = place_of(parameter.name, form);
    tensors.push_back({place.theirs, shape_of_theirs(parameter.shape, place), [&parameter, place, &config] {
                         return to_theirs(parameter.values, parameter.shape, place, config.heads);
                       }});
  }
  if (form == Form::roformer)
    tensors.push_back({turns_of_roformer, {config.max_positions, config.hidden / config.heads}, [&config] {
                         return sines_first(config);
                       }});
  write_safetensors(folder / "model.safetensors", tensors);
}

namespace {

// Weights that are derived from the others.
bool follows_from_others(const std::string& name) {
  constexpr const char* ends[] = {".position_ids", "embeddings.token_type_ids", ".embed_positions.weight"};
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

// Weights of heads that this model does not have.
bool is_of_another_head(const std::string& name) {
  constexpr const char* heads[] = {"cls.",
                                   "lm_head.",
                                   "classifier",
                                   "qa_outputs.",
                                   "pooler.",
                                   "head.",
                                   "predictions.",
                                   "generator_predictions.",
                                   "generator_lm_head.",
                                   "sop_classifier.",
                                   "discriminator_predictions.",
                                   "vocab_transform.",
                                   "vocab_layer_norm.",
                                   "vocab_projector.",
                                   "pre_classifier."};
  std::string_view rest = name;
  for (const std::string_view base :
       {"bert.", "roberta.", "roformer.", "electra.", "albert.", "distilbert.", "comera."})
    if (rest.starts_with(base)) rest.remove_prefix(base.size());
  return std::ranges::any_of(heads, [&](const char* head) { return rest.starts_with(head); });
}

// Reads parameters of one folder by the names used there.
class WeightReader {
 public:
  WeightReader(const SafetensorsReader& reader, const TransformersConfig& config)
      : reader_(reader), config_(config) {}

  TensorPlace place_of(const std::string& parameter) const {
    TensorPlace place = exchange::place_of(parameter, config_.form);
    if (config_.inputs_first) place.transposed = false;
    return place;
  }

  // The values in our layout; nothing if the folder does not have the parameter.
  std::optional<std::vector<double>> read(const std::string& parameter, const Shape& shape) {
    const TensorPlace place = place_of(parameter);
    const std::vector<std::string> names = names_in_folder(place);
    if (names.empty()) return std::nullopt;
    reader_.require_shape(names[0], shape_of_theirs(shape, place));
    used_.insert(names.begin(), names.end());
    return to_ours(reader_.read(names[0]), shape, place, config_.model.heads);
  }

  bool used(const std::string& name) const { return used_.contains(name); }

 private:
  // Decoders other than the embedding are not supported; if the folder has one, both must exist and be equal.
  void require_tie(const TensorPlace& place, const WeightNames& names) const {
    const bool has_head =
        !present(reader_, names_of(place_of("head.transform.weight"), config_.form).own).empty();
    COMERA_CHECK(config_.tied || !has_head || !present(reader_, names.tied).empty(),
                 "{}: tie_word_embeddings = false cannot be imported; only true can",
                 (reader_.folder() / "config.json").string());
    std::vector<std::string> all = present(reader_, names.own);
    for (const std::string& name : present(reader_, names.tied)) all.push_back(name);
    require_equal(reader_, all,
                  fmt::format("the encoder here has one tensor for both ({}, config.json says "
                              "tie_word_embeddings = {})",
                              place.ours, config_.tied));
  }

  std::vector<std::string> names_in_folder(const TensorPlace& place) const {
    const WeightNames names = names_of(place, config_.form);
    std::vector<std::string> found = present(reader_, names.own);
    require_equal(reader_, found, "they are two names of one tensor");
    if (names.tied.empty()) return found;
    if (config_.model.head == HeadKind::mlm) {
      require_tie(place, names);
      for (const std::string& name : present(reader_, names.tied)) found.push_back(name);
    } else if (found.empty()) {
      found = present(reader_, names.tied);
    }
    return found;
  }

  const SafetensorsReader& reader_;
  const TransformersConfig& config_;
  std::set<std::string> used_;
};

constexpr const char* pooler[] = {"head.pooler.weight", "head.pooler.bias"};

// The pooler of an encoder without a head, or with one for masked language or vectors: the initial pooler of
// transformers' classifiers for the same model.
void read_pooler(WeightReader& weights, const TransformersConfig& config, ReadWeights& read) {
  const HeadKind head = config.model.head;
  if ((head != HeadKind::mlm && head != HeadKind::contrastive) || !has_pooler(config.form)) return;
  const std::int64_t width = config.model.hidden;
  for (const char* name : pooler) {
    const Shape shape = std::string_view(name).ends_with(".bias") ? Shape{width} : Shape{width, width};
    if (auto values = weights.read(name, shape)) read.pooler.push_back({name, shape, std::move(*values)});
  }
  if (read.pooler.size() < 2) read.pooler.clear();
}

// The angles of a RoFormer are derived from its configuration; its files contain their sines, possibly
// rounded.
void check_turns(const SafetensorsReader& reader, const EncoderConfig& config, ReadWeights& read) {
  constexpr double same = 1e-5, rounded = 4e-3;  // a sine in bfloat16 errs by up to 2^-9
  TensorPlace place{.ours = "rotary positions", .theirs = turns_of_roformer};
  const std::vector<std::string> names = present(reader, names_of(place, Form::roformer).own);
  if (names.empty()) return;
  const std::vector<double> own = sines_first(config), found = reader.read(names[0]);
  reader.require_shape(names[0], {config.max_positions, config.hidden / config.heads});
  double difference = 0;
  for (std::size_t i = 0; i < own.size(); ++i) difference = std::max(difference, std::abs(own[i] - found[i]));
  COMERA_CHECK(
      difference <= rounded,
      "{}: {} differs by up to {:.3g} from the sines and cosines of rotary_theta = {}, which are all "
      "that can be imported",
      reader.file_of(names[0]).string(), names[0], difference, config.rotary_theta);
  if (difference > same)
    read.note = fmt::format(
        "{}: {} is rounded by up to {:.2g}; here sines and cosines are exact, so outputs differ slightly "
        "from transformers'",
        reader.file_of(names[0]).string(), names[0], difference);
}

}  // namespace

ReadWeights read_weights(const SafetensorsReader& reader, const TransformersConfig& config,
                         const Model& model) {
  const ParameterStore& store = model.parameters();
  ReadWeights read;
  WeightReader weights(reader, config);
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    if (is_behind_pooling(info.name)) continue;
    const auto write = [&](const std::vector<double>& values) {
      write_tensor(store.value(id), values, store.allocator());
    };
    if (info.role == ParameterRole::gate) {
      write(std::vector<double>(static_cast<std::size_t>(info.shape.elements()), 1));
      continue;
    }
    if (info.name == "embedding.types" && !has_types(config.form)) {
      write(std::vector<double>(static_cast<std::size_t>(info.shape.elements())));
      continue;
    }
    if (const auto values = weights.read(info.name, info.shape)) {
      write(*values);
      continue;
    }
    COMERA_CHECK(info.name.starts_with("head."), "{}: its weights have no {}", reader.folder().string(),
                 weights.place_of(info.name).theirs);
    read.fresh.push_back(info.name);
  }
  read_pooler(weights, config, read);
  if (config.form == Form::roformer) check_turns(reader, config.model, read);
  for (const std::string& name : reader.names()) {
    if (weights.used(name) || follows_from_others(name)) continue;
    COMERA_CHECK(is_of_another_head(name), "{}: has weights that comera's encoder does not have: {}",
                 reader.file_of(name).string(), name);
    read.left_out.push_back(name);
  }
  return read;
}

}  // namespace comera::exchange
