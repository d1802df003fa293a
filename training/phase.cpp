#include "training/phase.h"

#include <algorithm>

#include "storage/hash.h"

namespace comera {

void require_masked_language_head(const EncoderConfig& config) {
  if (config.head != HeadKind::mlm)
    throw UsageError(
        fmt::format("model.head = \"{}\" cannot be pretrained; set model.head to \"mlm\", or use "
                    "`comera finetune`",
                    config.head == HeadKind::regression ? "regression" : "classification"));
}

void refuse_mask_probability(const std::vector<PhaseSection>& phases, const std::string& why) {
  for (std::size_t phase = 0; phase < phases.size(); ++phase)
    if (phases[phase].mask_probability)
      throw UsageError(fmt::format("phase.{}.mask_probability {}; leave it out", phase, why));
}

StepRates step_rates(const LearningRates& highest, double factor) {
  StepRates rates{};
  const auto rate_of = [&](RateGroup group) -> double& { return rates[static_cast<int>(group)]; };
  rate_of(RateGroup::core) = highest.cores * factor;
  rate_of(RateGroup::gate) = highest.gates * factor;
  rate_of(RateGroup::dense) = highest.rest * factor;
  rate_of(RateGroup::embedding) = highest.embedding.value_or(highest.cores) * factor;
  return rates;
}

Schedule schedule_of(const PhaseSection& phase, std::int64_t steps) {
  return {.kind = phase.schedule,
          .steps = steps,
          .warmup_steps = phase.warmup_steps,
          .power = phase.power,
          .final_ratio = phase.final_ratio};
}

data::LoaderOptions loader_options(const Recipe& recipe, std::int64_t phase, const TrainingTask& task,
                                   const Model& model) {
  const PhaseSection& section = recipe.phases[phase];
  data::LoaderOptions options;
  options.masking = task.masking();
  // There is room for the targets of training, and for those of evaluation where there is one.
  const double evaluated = task.evaluates() ? options.masking.probability : 0;
  options.masking.probability = section.mask_probability.value_or(options.masking.probability);
  const double share = std::max(options.masking.probability, evaluated);
  // Targets that come in words vary more in number.
  options.capacity = data::capacity_for(section.tokens_per_pack, section.length, share,
                                        model.config().vocabulary, options.masking.words ? 4 : 1);
  if (section.sequences_per_pack > 0) options.capacity.sequences = section.sequences_per_pack;
  // Each phase has an order of its own, which no other seed's phase shares.
  options.seed =
      static_cast<std::int64_t>(storage::mix64(storage::mix64(static_cast<std::uint64_t>(recipe.run.seed)) +
                                               static_cast<std::uint64_t>(phase)) >>
                                1);
  options.packs_per_step = section.packs_per_step;
  options.right_modulus = model.token_embedding().right_rows();
  return options;
}

}  // namespace comera
