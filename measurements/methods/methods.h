#pragma once

#include <map>
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
  // Of those wanted, in this order; empty: all, but those without 8-bit products where the recipe has such.
  std::vector<std::string> names = {};
  // Ranks of 0 become a quarter of the hidden size, that of GaLore's authors' smaller models.
  GaloreOptions galore = {.rank = 0};
  std::int64_t low_rank = 0;
  LteSection lte = {{.lora_r = 32, .lora_alpha = 4096, .num_heads = 32}, 10};
  std::map<std::string, double> rates = {};  // a method's learning rate, of all its parameters
};

// "tensor_trains", "dense", "galore", "low_rank", "lte".
std::vector<std::string> method_names();

// Tensor trains are the recipe's own. The others are of its dense baseline: "dense" by the recipe's
// optimizer, "galore" by GaLore, "low_rank" as products of two factors by the recipe's optimizer, "lte" by
// LTE and AdamW. Throws UsageError for an unknown name and for a recipe without tensor trains.
std::vector<Method> methods_of(const Recipe& recipe, const MethodOptions& options);

}  // namespace comera
