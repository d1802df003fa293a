#pragma once

#include <string>

#include "optim/optimizer.h"
#include "recipes/recipe.h"

// The kinds of parameters that have learning rates of their own, by the names that a recipe gives them.
namespace comera {

struct RateKind {
  const char* name;
  RateGroup group;
};
inline constexpr RateKind rate_kinds[] = {{"cores", RateGroup::core},
                                          {"embedding", RateGroup::embedding},
                                          {"gates", RateGroup::gate},
                                          {"other", RateGroup::dense}};

// Null if there is none of that name.
const RateKind* rate_kind(const std::string& name);

// The rate of a kind, 0 if there is none of its own; without a kind, that of all together: the first that is
// not 0.
double rate_of(const LearningRates& rates, const RateKind& kind);
double rate_of(const LearningRates& rates, const RateKind* kind);
// With that of one kind, or without one all of them, times a factor.
LearningRates scaled(LearningRates rates, const RateKind* kind, double factor);

}  // namespace comera
