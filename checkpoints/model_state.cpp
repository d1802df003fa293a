#include "checkpoints/model_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/core/tensors/finite.h"
#include "tensorized/linear/lte_linear.h"

namespace comera {

namespace {

std::string path_of(const ParameterInfo& info) { return "/model/" + info.name; }

std::string path_of(const ParameterStore& store, const ParameterState& state) {
  return fmt::format("/optimizer/{}/{}", store.info(state.parameter).name, state.name);
}

void save(CheckpointWriter& writer, const std::string& path, const ParameterStore& store,
          const Tensor& tensor, const Attributes& attributes = {}) {
  writer.tensor(path, HostCopy(store.allocator(), tensor).read().tensor(), attributes);
}

void load(const CheckpointReader& reader, const std::string& path, const ParameterStore& store,
          const Tensor& tensor) {
  HostCopy copy(store.allocator(), tensor);
  reader.read(path, copy.tensor());
  COMERA_CHECK(
      all_finite(copy.tensor()),
      "{}: '{}' holds values that are not finite and cannot be used; use an older checkpoint of its run",
      reader.path().string(), path);
  copy.write();
}

}  // namespace

void save_parameters(CheckpointWriter& writer, const ParameterStore& store) {
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    Attributes attributes{{"role", std::string(name_of(info.role))}};
    if (info.role == ParameterRole::core) {
      attributes["ranks"] = std::vector{info.shape[0], info.shape[-1]};
      std::vector<std::int64_t> modes;  // one of a linear's core; row and column mode of an embedding's
      for (int axis = 1; axis + 1 < info.shape.dims(); ++axis) modes.push_back(info.shape[axis]);
      attributes["modes"] = modes;
    } else if (info.role == ParameterRole::gate) {
      attributes["ranks"] = std::vector{info.shape[0]};
    }
    save(writer, path_of(info), store, store.value(id), attributes);
  }
}

namespace {

// Or of the generator beside it: what only the task of its run needs.
bool is_of_head(std::string_view parameter) {
  return parameter.starts_with("head.") || parameter.starts_with("generator.");
}

// What a student learns with its teacher alone: no other model has it.
bool is_of_lesson(std::string_view parameter) { return parameter.starts_with("distillation."); }

bool is_adapter(const ParameterStore& store, ParameterId id) {
  return LteLinear::is_adapter(store.info(id).name);
}

// The parameters that a checkpoint supplies for a store: all of them or, for a new run, all except those of a
// head, of a lesson, and adapters that the file does not have in the same shape. Error in one sentence for
// any other difference.
std::vector<ParameterId> matching(const CheckpointReader& reader, const ParameterStore& store, bool new_run) {
  const std::string file = reader.path().string();
  const std::string_view other = new_run ? "holds another model" : "is a checkpoint of another model";
  const std::string_view advice =
      new_run ? "take [model] and [tensorized] from the recipe of its run" : "use the recipe of that run";
  std::vector<ParameterId> found;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    const bool there = reader.has_tensor(path_of(info));
    const bool same = there && std::ranges::equal(reader.tensor(path_of(info)).shape, info.shape.sizes());
    // New adapters add nothing to the weights beside them.
    if (new_run && !same && (is_of_head(info.name) || is_of_lesson(info.name) || is_adapter(store, id)))
      continue;
    COMERA_CHECK(there, "{} {}: it has no {}; {}", file, other, info.name, advice);
    const CheckpointTensor& saved = reader.tensor(path_of(info));
    COMERA_CHECK(same, "{} {}: its {} is ({}), the recipe's is {}; {}", file, other, info.name,
                 fmt::join(saved.shape, ", "), info.shape.text(), advice);
    COMERA_CHECK(saved.dtype == store.dtype(), "{} holds {} values, but the recipe computes in {}", file,
                 name_of(saved.dtype), name_of(store.dtype()));
    found.push_back(id);
  }
  for (const CheckpointTensor& saved : reader.tensors()) {
    if (!saved.path.starts_with("/model/")) continue;
    const std::string name = saved.path.substr(7);
    // A merged model's weights are used like those of any dense model.
    if (new_run && LteLinear::is_adapter(name)) continue;
    COMERA_CHECK((new_run && is_of_head(name)) || is_of_lesson(name) || store.find(name),
                 "{} {}: the recipe's has no {}; {}", file, other, name, advice);
  }
  return found;
}

void read(const CheckpointReader& reader, const ParameterStore& store, const std::vector<ParameterId>& ids) {
  for (const ParameterId id : ids) load(reader, path_of(store.info(id)), store, store.value(id));
}

}  // namespace

void require_merged_adapters(const CheckpointReader& reader, std::string_view otherwise) {
  const auto values = [&](const std::string& path) {
    return reader.tensor(path).dtype == DType::float64 ? reader.read_values<double>(path) : [&] {
      const std::vector<float> single = reader.read_values<float>(path);
      return std::vector<double>(single.begin(), single.end());
    }();
  };
  for (const CheckpointTensor& tensor : reader.tensors()) {
    const std::size_t at = tensor.path.rfind(".lora_");
    if (at == std::string::npos || !tensor.path.starts_with("/model/")) continue;
    const std::string merged = tensor.path.substr(0, at) + ".merged_" + tensor.path.substr(at + 6);
    COMERA_CHECK(reader.has_tensor(merged) && values(tensor.path) == values(merged),
                 "{} was saved between two merges of [lte], so {} what its adapters have learned since; use "
                 "a checkpoint of a step that is a multiple of lte.merge_steps",
                 reader.path().string(), otherwise);
  }
}

void check_parameters(const CheckpointReader& reader, const ParameterStore& store) {
  matching(reader, store, false);
}

void load_parameters(const CheckpointReader& reader, const ParameterStore& store) {
  read(reader, store, matching(reader, store, false));
}

namespace {

// Whether a checkpoint carries a parameter in the model's form.
bool carries(const CheckpointReader& reader, const ParameterStore& store, const ParameterInfo& info) {
  const std::string path = std::string(carried_at) + info.name;
  if (!reader.has_tensor(path)) return false;
  const CheckpointTensor& saved = reader.tensor(path);
  return std::ranges::equal(saved.shape, info.shape.sizes()) && saved.dtype == store.dtype();
}

}  // namespace

void save_carried(CheckpointWriter& writer, const std::string& parameter, const Tensor& values) {
  writer.tensor(std::string(carried_at) + parameter, values);
}

std::vector<CarriedParameter> carried_parameters(const CheckpointReader& reader) {
  std::vector<CarriedParameter> found;
  for (const CheckpointTensor& saved : reader.tensors()) {
    if (!saved.path.starts_with(carried_at)) continue;
    const std::vector<float> values = reader.read_values<float>(saved.path);
    found.push_back(
        {.name = saved.path.substr(carried_at.size()),
         .shape = saved.shape.size() == 1 ? Shape{saved.shape[0]} : Shape{saved.shape[0], saved.shape[1]},
         .values = {values.begin(), values.end()}});
  }
  return found;
}

void copy_carried(const CheckpointReader& from, CheckpointWriter& to) {
  for (const CarriedParameter& parameter : carried_parameters(from)) {
    std::vector<float> values(parameter.values.begin(), parameter.values.end());
    save_carried(to, parameter.name, Tensor(values.data(), parameter.shape, DType::float32));
  }
}

InitialParameters load_initial_parameters(const CheckpointReader& reader, const ParameterStore& store,
                                          bool take_carried) {
  const std::vector<ParameterId> loaded = matching(reader, store, true);
  if (std::ranges::none_of(loaded, [&](ParameterId id) { return is_adapter(store, id); }))
    require_merged_adapters(reader, "a model without them would lose");
  read(reader, store, loaded);
  InitialParameters result;
  result.loaded = static_cast<std::int64_t>(loaded.size());
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    if (std::ranges::binary_search(loaded, id) || is_adapter(store, id)) continue;
    if (take_carried && carries(reader, store, info)) {
      load(reader, std::string(carried_at) + info.name, store, store.value(id));
      ++result.loaded;
    } else {
      result.fresh.push_back(info.name);
    }
  }
  return result;
}

std::vector<std::string> nonfinite_tensors(const CheckpointReader& reader) {
  std::vector<std::string> found;
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (!tensor.path.starts_with("/model/") && !tensor.path.starts_with("/optimizer/")) continue;
    const bool finite = tensor.dtype == DType::float64   ? all_finite(reader.read_values<double>(tensor.path))
                        : tensor.dtype == DType::float32 ? all_finite(reader.read_values<float>(tensor.path))
                                                         : true;
    if (!finite) found.push_back(tensor.path);
  }
  return found;
}

void save_optimizer(CheckpointWriter& writer, const ParameterStore& store,
                    const std::vector<ParameterState>& states) {
  for (const ParameterState& state : states) save(writer, path_of(store, state), store, state.values);
}

void load_optimizer(const CheckpointReader& reader, const ParameterStore& store,
                    const std::vector<ParameterState>& states) {
  const auto is_state = [](const CheckpointTensor& tensor) { return tensor.path.starts_with("/optimizer/"); };
  COMERA_CHECK(std::ranges::any_of(reader.tensors(), is_state),
               "{} has weights but no optimizer state, so no run can resume from it; start a new run with "
               "its weights (--from)",
               reader.path().string());
  const auto is_there = [&](const ParameterState& state) {
    const std::string path = path_of(store, state);
    return std::ranges::any_of(reader.tensors(),
                               [&](const CheckpointTensor& tensor) { return tensor.path == path; });
  };
  for (const ParameterState& state : states)
    if (!state.optional || is_there(state)) load(reader, path_of(store, state), store, state.values);
}

}  // namespace comera
