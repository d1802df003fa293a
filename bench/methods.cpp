#include "bench/methods.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "kernels/core/check.h"

namespace comera {

namespace {

struct Kind {
  const char* name;
  std::function<Method(const Recipe&, const MethodOptions&)> make;
};

Recipe dense_twin(Recipe recipe) {
  recipe.tensorized.enabled = false;
  return recipe;
}

Method tensor_trains(const Recipe& recipe, const MethodOptions&) { return {"", "the recipe's", recipe}; }

Method dense(const Recipe& recipe, const MethodOptions&) {
  return {"", "the dense twin", dense_twin(recipe)};
}

Method galore(const Recipe& recipe, const MethodOptions& options) {
  Method method{"", "", dense_twin(recipe)};
  GaloreOptions galore = options.galore;
  if (galore.rank == 0) galore.rank = std::max<std::int64_t>(recipe.model.hidden / 4, 1);
  method.recipe.optim.name = OptimizerKind::galore;
  method.recipe.optim.galore = galore;
  method.detail = fmt::format("rank {}, update_proj_gap {}, proj_type {}", galore.rank,
                              galore.update_proj_gap, name_of(galore.proj_type));
  return method;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {
      {"tensor_trains", tensor_trains}, {"dense", dense}, {"galore", galore}};
  return list;
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.emplace_back(kind.name);
  return names;
}

std::vector<Method> methods_of(const Recipe& recipe, const MethodOptions& options) {
  if (!recipe.tensorized.enabled)
    throw UsageError(
        "the methods are compared on a recipe with tensor trains; leave tensorized.enabled at true");
  std::vector<Method> methods;
  for (const std::string& name : options.names.empty() ? method_names() : options.names) {
    const auto kind = std::ranges::find(kinds(), name, &Kind::name);
    if (kind == kinds().end())
      throw UsageError(fmt::format("'{}' is no method; there are {}", name, fmt::join(method_names(), ", ")));
    Method method = kind->make(recipe, options);
    method.name = name;
    validate(method.recipe);
    method.detail += fmt::format(", by {}", name_of(method.recipe.optim.name));
    methods.push_back(std::move(method));
  }
  return methods;
}

}  // namespace comera
