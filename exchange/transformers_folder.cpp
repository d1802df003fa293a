#include "exchange/transformers_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "kernels/core/check.h"
#include "model/positions.h"
#include "tensorized/densify.h"

namespace comera::exchange {

namespace {

constexpr const char* turns_of_roformer = "roformer.encoder.embed_positions.weight";

// The gate that stands behind a core, by their names.
std::optional<ParameterId> gate_behind(const ParameterStore& store, const std::string& core) {
  std::string gate = core;
  return store.find(gate.replace(gate.rfind(".core."), 6, ".gate."));
}

std::vector<double> exported_values(const ParameterStore& store, ParameterId id) {
  const ParameterInfo& info = store.info(id);
  if (info.role != ParameterRole::core) return read_tensor(store.value(id), store.allocator());
  const auto gate = gate_behind(store, info.name);
  return cores_with_gates(store, {id}, gate ? std::vector{*gate} : std::vector<ParameterId>())[0];
}

// RoFormer keeps the sines and then the cosines of its angles among its weights.
std::vector<double> sines_first(const EncoderConfig& config) {
  const std::int64_t size = config.hidden / config.heads;
  std::vector<double> turns = rotary_turns(0, config.max_positions, size, config.rotary_theta);
  for (auto row = turns.begin(); row != turns.end(); row += size)
    std::rotate(row, row + size / 2, row + size);
  return turns;
}

}  // namespace

void write_weights(const std::filesystem::path& folder, const Model& model, Form form) {
  const ParameterStore& store = model.parameters();
  const EncoderConfig& config = model.config();
  std::vector<TensorToWrite> tensors;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    if (info.role == ParameterRole::gate) continue;
    const TensorPlace place = place_of(info.name, form);
    tensors.push_back({place.theirs, shape_of_theirs(info.shape, place), [&store, id, place, &config] {
                         return to_theirs(exported_values(store, id), store.info(id).shape, place,
                                          config.heads);
                       }});
  }
  if (form == Form::roformer)
    tensors.push_back({turns_of_roformer, {config.max_positions, config.hidden / config.heads}, [&config] {
                         return sines_first(config);
                       }});
  write_safetensors(folder / "model.safetensors", tensors);
}

namespace {

// The names under which models of one architecture were saved: with a head or without, and with the names
// that norms had in old files.
std::optional<std::string> find_name(const SafetensorsReader& reader, const std::string& name) {
  const auto without_base = name.substr(name.find('.') + 1);
  for (std::string found : {name, without_base}) {
    if (reader.has(found)) return found;
    if (const std::size_t norm = found.rfind("LayerNorm."); norm != std::string::npos) {
      found = found.substr(0, norm + 10) + (found.ends_with(".weight") ? "gamma" : "beta");
      if (reader.has(found)) return found;
    }
  }
  return std::nullopt;
}

// Weights of heads that this model does not have, and what follows from the rest.
bool is_left_out(const std::string& name) {
  constexpr const char* heads[] = {"cls.", "lm_head.", "classifier", "pooler.", "head."};
  constexpr const char* ends[] = {".position_ids", "embeddings.token_type_ids", ".embed_positions.weight"};
  std::string_view rest = name;
  for (const std::string_view base : {"bert.", "roberta.", "roformer.", "comera."})
    if (rest.starts_with(base)) rest.remove_prefix(base.size());
  return std::ranges::any_of(heads, [&](const char* head) { return rest.starts_with(head); }) ||
         std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

void require_shape(const SafetensorsReader& reader, const std::string& name,
                   const std::vector<std::int64_t>& expected) {
  const std::vector<std::int64_t>& shape = reader.shape(name);
  COMERA_CHECK(shape == expected, "{}: {} is ({}), but config.json makes it ({})", reader.folder().string(),
               name, fmt::join(shape, ", "), fmt::join(expected, ", "));
}

}  // namespace

std::vector<std::string> read_weights(const SafetensorsReader& reader, Form form, const Model& model) {
  const ParameterStore& store = model.parameters();
  std::vector<std::string> fresh;
  std::set<std::string> used;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    const auto write = [&](const std::vector<double>& values) {
      write_tensor(store.value(id), values, store.allocator());
    };
    if (info.role == ParameterRole::gate) {
      write(std::vector<double>(static_cast<std::size_t>(info.shape.elements()), 1));
      continue;
    }
    const TensorPlace place = place_of(info.name, form);
    const auto name = find_name(reader, place.theirs);
    if (!name) {
      COMERA_CHECK(info.name.starts_with("head."), "{}: its weights have no {}", reader.folder().string(),
                   place.theirs);
      fresh.push_back(info.name);
      continue;
    }
    require_shape(reader, *name, shape_of_theirs(info.shape, place));
    write(to_ours(reader.read(*name), info.shape, place, model.config().heads));
    used.insert(*name);
  }
  for (const std::string& name : reader.names())
    COMERA_CHECK(used.contains(name) || is_left_out(name),
                 "{}: it has weights that the encoder here has no place for: {}", reader.folder().string(),
                 name);
  return fresh;
}

}  // namespace comera::exchange
