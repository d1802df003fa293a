#include "checkpoints/model_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace comera {

namespace {

std::vector<std::int64_t> dims(const Shape& shape) {
  std::vector<std::int64_t> list;
  for (int axis = 0; axis < shape.rank(); ++axis) list.push_back(shape[axis]);
  return list;
}

std::string path_of(const ParameterInfo& info) { return "/model/" + info.name; }

Tensor part(const ParameterStore& store, const Tensor& flat, ParameterId id) {
  return flat.slice(store.offset(id), store.info(id).shape);
}

}  // namespace

void save_parameters(CheckpointWriter& writer, const ParameterStore& store) {
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    Attributes attributes{{"role", std::string(name_of(info.role))}};
    if (info.role == ParameterRole::core) {
      attributes["ranks"] = std::vector{info.shape[0], info.shape[-1]};
      std::vector<std::int64_t> modes;  // one of a linear's core; row and column mode of an embedding's
      for (int axis = 1; axis + 1 < info.shape.rank(); ++axis) modes.push_back(info.shape[axis]);
      attributes["modes"] = modes;
    } else if (info.role == ParameterRole::gate) {
      attributes["ranks"] = std::vector{info.shape[0]};
    }
    writer.tensor(path_of(info), store.value(id), attributes);
  }
}

void load_parameters(const CheckpointReader& reader, const ParameterStore& store) {
  const std::string file = reader.path().string();
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    COMERA_CHECK(reader.has_tensor(path_of(info)),
                 "{} is a checkpoint of another model: it has no {}; use the recipe that it was made with",
                 file, info.name);
    const CheckpointTensor& saved = reader.tensor(path_of(info));
    COMERA_CHECK(
        saved.shape == dims(info.shape),
        "{} is a checkpoint of another model: its {} is ({}), the recipe's is {}; use the recipe that it was "
        "made with",
        file, info.name, fmt::join(saved.shape, ", "), info.shape.text());
    COMERA_CHECK(saved.dtype == store.dtype(), "{} holds {} numbers, but the recipe computes in {}", file,
                 name_of(saved.dtype), name_of(store.dtype()));
  }
  for (const CheckpointTensor& saved : reader.tensors())
    COMERA_CHECK(
        !saved.path.starts_with("/model/") || store.find(saved.path.substr(7)),
        "{} is a checkpoint of another model: the recipe's has no {}; use the recipe that it was made with",
        file, saved.path.substr(7));
  for (ParameterId id = 0; id < store.size(); ++id) reader.read(path_of(store.info(id)), store.value(id));
}

InitialParameters load_initial_parameters(const CheckpointReader& reader, const ParameterStore& store) {
  const std::string file = reader.path().string();
  InitialParameters result;
  std::vector<ParameterId> wanted;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    const bool of_head = info.name.starts_with("head.");
    const bool there = reader.has_tensor(path_of(info));
    const bool same = there && reader.tensor(path_of(info)).shape == dims(info.shape);
    if (of_head && !same) {
      result.fresh.push_back(info.name);
      continue;
    }
    COMERA_CHECK(there,
                 "{} holds another encoder: it has no {}; take [model] and [tensorized] from its recipe",
                 file, info.name);
    const CheckpointTensor& saved = reader.tensor(path_of(info));
    COMERA_CHECK(
        same,
        "{} holds another encoder: its {} is ({}), the recipe's is {}; take [model] and [tensorized] "
        "from its recipe",
        file, info.name, fmt::join(saved.shape, ", "), info.shape.text());
    COMERA_CHECK(saved.dtype == store.dtype(), "{} holds {} numbers, but the recipe computes in {}", file,
                 name_of(saved.dtype), name_of(store.dtype()));
    wanted.push_back(id);
  }
  for (const CheckpointTensor& saved : reader.tensors())
    COMERA_CHECK(!saved.path.starts_with("/model/") || saved.path.starts_with("/model/head.") ||
                     store.find(saved.path.substr(7)),
                 "{} holds another encoder: the recipe's has no {}; take [model] and [tensorized] from its "
                 "recipe",
                 file, saved.path.substr(7));
  for (const ParameterId id : wanted) reader.read(path_of(store.info(id)), store.value(id));
  result.loaded = static_cast<std::int64_t>(wanted.size());
  return result;
}

void save_optimizer(CheckpointWriter& writer, const ParameterStore& store,
                    const std::vector<std::pair<std::string, Tensor>>& state) {
  for (ParameterId id = 0; id < store.size(); ++id)
    for (const auto& [name, flat] : state)
      writer.tensor(fmt::format("/optimizer/{}/{}", store.info(id).name, name), part(store, flat, id));
}

void load_optimizer(const CheckpointReader& reader, const ParameterStore& store,
                    const std::vector<std::pair<std::string, Tensor>>& state) {
  for (ParameterId id = 0; id < store.size(); ++id)
    for (const auto& [name, flat] : state)
      reader.read(fmt::format("/optimizer/{}/{}", store.info(id).name, name), part(store, flat, id));
}

}  // namespace comera
