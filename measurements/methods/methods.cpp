#include "measurements/methods/methods.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kernels/core/check.h"

namespace comera {

namespace {

struct Kind {
  const char* name;
  Method (*make)(const Recipe&, const MethodOptions&);
};

Recipe dense_baseline(Recipe recipe) {
  recipe.tensorized.enabled = false;
  return recipe;
}

std::int64_t quarter_of_hidden(const Recipe& recipe) {
  return std::max<std::int64_t>(recipe.model.hidden / 4, 1);
}

Method tensor_trains(const Recipe& recipe, const MethodOptions&) { return {"", "the recipe's", recipe}; }

Method dense(const Recipe& recipe, const MethodOptions&) {
  return {"", "the dense baseline", dense_baseline(recipe)};
}

Method galore(const Recipe& recipe, const MethodOptions& options) {
  Method method{"", "", dense_baseline(recipe)};
  GaloreOptions galore = options.galore;
  if (galore.rank == 0) galore.rank = quarter_of_hidden(recipe);
  method.recipe.optim.kind = OptimizerKind::galore;
  method.recipe.optim.galore = galore;
  method.detail = fmt::format("rank {}, update_proj_gap {}, proj_type {}", galore.rank,
                              galore.update_proj_gap, name_of(galore.proj_type));
  return method;
}

Method low_rank(const Recipe& recipe, const MethodOptions& options) {
  Method method{"", "", dense_baseline(recipe)};
  const std::int64_t rank = options.low_rank > 0
                                ? options.low_rank
                                : std::min(quarter_of_hidden(recipe), recipe.model.table_width());
  method.recipe.low_rank = LowRankSection{.rank = rank};
  method.detail = fmt::format("rank {}", rank);
  return method;
}

// A micro-batch is divided among the heads, and evaluations coincide with merges.
Method lte(const Recipe& recipe, const MethodOptions& options) {
  Method method{"", "", dense_baseline(recipe)};
  LteSection lte = options.lte;
  lte.lora_r = std::min({lte.lora_r, recipe.model.hidden, recipe.model.ffn});
  for (const PhaseSection& phase : recipe.phases)
    lte.num_heads = std::gcd(lte.num_heads, phase.tokens_per_micro_batch);
  if (const std::int64_t interval = recipe.run.evaluation_interval; interval > 0)
    lte.merge_steps = std::gcd(lte.merge_steps, interval);
  method.recipe.run.evaluation_epochs = 0;
  method.recipe.optim.kind = OptimizerKind::adamw;
  method.recipe.optim.galore.reset();
  method.recipe.lte = lte;
  method.detail = fmt::format("lora_r {}, lora_alpha {}, num_heads {}, merge_steps {}", lte.lora_r,
                              lte.lora_alpha, lte.num_heads, lte.merge_steps);
  return method;
}

bool takes_float8(const Kind& kind) { return kind.make != low_rank && kind.make != lte; }

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {{"tensor_trains", tensor_trains},
                                         {"dense", dense},
                                         {"galore", galore},
                                         {"low_rank", low_rank},
                                         {"lte", lte}};
  return list;
}

// All methods that the recipe's precision allows.
std::vector<std::string> names_for(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds())
    if (!has_float8(recipe.precision.compute) || takes_float8(kind)) names.emplace_back(kind.name);
  return names;
}

}  // namespace

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.emplace_back(kind.name);
  return names;
}

std::vector<Method> methods_of(const Recipe& recipe, const MethodOptions& options) {
  if (!recipe.tensorized.enabled)
    throw UsageError("bench methods needs a recipe with tensor trains; leave tensorized.enabled at true");
  std::vector<Method> methods;
  for (const std::string& name : options.names.empty() ? names_for(recipe) : options.names) {
    const auto kind = std::ranges::find(kinds(), name, &Kind::name);
    if (kind == kinds().end())
      throw UsageError(
          fmt::format("'{}' is not a method; choose from {}", name, fmt::join(method_names(), ", ")));
    Method method = kind->make(recipe, options);
    method.name = name;
    if (const auto rate = options.rates.find(name); rate != options.rates.end())
      for (PhaseSection& phase : method.recipe.phases)
        phase.learning_rate = {
            .cores = rate->second, .gates = rate->second, .other = rate->second, .embedding = rate->second};
    validate(method.recipe);
    method.detail += fmt::format(", by {}", name_of(method.recipe.optim.kind));
    methods.push_back(std::move(method));
  }
  return methods;
}

}  // namespace comera
