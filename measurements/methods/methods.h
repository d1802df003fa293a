#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace comera {

// A method for training a recipe's encoder: the recipe with other linear layers, or another optimizer.
struct Method {
  std::string name;    // "tensor_trains"
  std::string detail;  // "rank 192, update_proj_gap 200, by galore"
  Recipe recipe;
};

// Options of the methods that a recipe does not define, with the names of the authors' programs.
struct MethodOptions {
  // The requested methods, in this order; empty: all, except those without 8-bit products if the recipe has
  // such products.
  std::vector<std::string> names = {};
  // A rank of 0 becomes a quarter of the hidden size, as in the smaller models of GaLore's authors.
  GaloreOptions galore = {.rank = 0};
  std::int64_t low_rank = 0;
  LteSection lte = {{.lora_r = 32, .lora_alpha = 4096, .num_heads = 32}, 10};
  std::map<std::string, double> rates = {};  // a method's learning rate for all its parameters
};

// "tensor_trains", "dense", "galore", "low_rank", "lte".
std::vector<std::string> method_names();

// Tensor trains are the recipe's. The others use its dense baseline: "dense" with the recipe's optimizer,
// "galore" with GaLore, "low_rank" as products of two factors with the recipe's optimizer, "lte" with LTE and
// AdamW. Throws UsageError for an unknown name and for a recipe without tensor trains.
std::vector<Method> methods_of(const Recipe& recipe, const MethodOptions& options);

}  // namespace comera
