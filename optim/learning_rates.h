#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/core/tensors/parameter.h"
#include "kernels/shared/step_values.h"
#include "optim/optimizer_options.h"

// The learning rate of every parameter. The way of one: a recipe's phase (Codec<LearningRates>) → times the
// schedule's factor (Schedule::factor, TrainingRun::step) → StepRates → StepEngine::apply() writes
// StepInputs::learning_rate on the device → the optimizer's kernels index it by ParameterSegment::group,
// which segment_of() takes from group_of().
namespace comera {

// The rates at the end of a phase's warm-up; a schedule multiplies all of them by one factor.
struct LearningRates {
  double cores = 0;                      // of tensor trains, and of all matrices that Muon updates
  double gates = 0;                      // of tensor trains' ranks
  double other = 0;                      // biases, norms, dense layers
  std::optional<double> embedding = {};  // not given: cores' for a tensor-train matrix, other's for a table

  // One rate for all.
  static LearningRates all(double rate) { return {.cores = rate, .gates = rate, .other = rate}; }

  // f(name, rate) for each that is given.
  template <class F>
  void for_each(const F& f) const {
    f("cores", cores);
    if (embedding) f("embedding", *embedding);
    f("gates", gates);
    f("other", other);
  }
  double largest() const;
  // "cores 0.005, gates 0.001, other 0.001", or as TOML "cores = 0.005, ..."; with two digits.
  std::string text(const char* is = " ") const;
  friend bool operator==(const LearningRates&, const LearningRates&) = default;
};

// What a parameter's rate is called; the place of that rate in StepInputs::learning_rate.
enum class RateGroup : std::uint8_t { core, gate, other, embedding, dense_table };
// Error if the parameter is not trained.
RateGroup group_of(const ParameterInfo& parameter, const OptimizerOptions& options);

// The rates of one step, one for each group.
class StepRates {
 public:
  // The highest ones times the schedule's factor.
  explicit StepRates(const LearningRates& highest, double factor = 1);

  double of(RateGroup group) const { return rates_[static_cast<std::size_t>(group)]; }
  void set(RateGroup group, double rate) { rates_[static_cast<std::size_t>(group)] = rate; }
  void write_to(StepInputs& inputs) const;

 private:
  std::array<double, max_parameter_groups> rates_;
};

// The kinds of parameters that can have rates of their own, by the names that a recipe gives them.
struct RateKind {
  const char* name;
  RateGroup group;
};
inline constexpr RateKind rate_kinds[] = {{"cores", RateGroup::core},
                                          {"embedding", RateGroup::embedding},
                                          {"gates", RateGroup::gate},
                                          {"other", RateGroup::other}};

// Null if no kind has that name.
const RateKind* rate_kind(const std::string& name);

// The rate of a kind, 0 if it has no separate one; without a kind, the common rate: the first that is not 0.
double rate_of(const LearningRates& rates, const RateKind& kind);
double rate_of(const LearningRates& rates, const RateKind* kind);
// The rates with that of one kind, or of all kinds without one, multiplied by a factor.
LearningRates scaled(LearningRates rates, const RateKind* kind, double factor);

}  // namespace comera
