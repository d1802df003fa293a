#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// A way to train a recipe's encoder: the recipe with other linear layers, or by another optimizer.
struct Method {
  std::string name;    // "tensor_trains"
  std::string detail;  // "rank 192, update_proj_gap 200, by galore"
  Recipe recipe;
};

// What the methods that a recipe does not name are given; by the names of their authors' programs.
struct MethodOptions {
  std::vector<std::string> names = {};  // of those wanted, in this order; empty: all
  GaloreOptions galore = {.rank = 0};  // rank 0: a quarter of the hidden size, as its authors' smaller models
};

// "tensor_trains", "dense", "galore", and whatever else there is.
std::vector<std::string> method_names();

// Tensor trains are the recipe's own. The others are of its dense twin: "dense" by the recipe's optimizer,
// "galore" by GaLore. Throws UsageError for an unknown name and for a recipe without tensor trains.
std::vector<Method> methods_of(const Recipe& recipe, const MethodOptions& options);

}  // namespace comera
