#pragma once

#include <string>

#include "optim/optimizer.h"
#include "recipes/recipe.h"

// The kinds of parameters with separate learning rates, by their recipe keys.
namespace comera {

struct RateKind {
  const char* name;
  RateGroup group;
};
inline constexpr RateKind rate_kinds[] = {{"cores", RateGroup::core},
                                          {"embedding", RateGroup::embedding},
                                          {"gates", RateGroup::gate},
                                          {"other", RateGroup::dense}};

// Null if no kind has that name.
const RateKind* rate_kind(const std::string& name);

// The rate of a kind, 0 if it has no separate one; without a kind, the common rate: the first that is not 0.
double rate_of(const LearningRates& rates, const RateKind& kind);
double rate_of(const LearningRates& rates, const RateKind* kind);
// The rates with that of one kind, or of all kinds without one, multiplied by a factor.
LearningRates scaled(LearningRates rates, const RateKind* kind, double factor);

}  // namespace comera
