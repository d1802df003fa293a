#include "training/run/phase.h"

#include <cmath>

#include "storage/hash.h"

namespace comera {

void require_masked_language_head(const EncoderConfig& config) {
  if (!is_pretraining(config.head))
    throw UsageError(fmt::format(
        "model.head = \"{}\" cannot be pretrained; set model.head to \"mlm\" or \"replaced_tokens\", or use "
        "`comera finetune`",
        name_of(config.head)));
}

std::string given_mask_probability(const std::vector<PhaseSection>& phases) {
  for (std::size_t phase = 0; phase < phases.size(); ++phase)
    for (const auto& [key, given] : {std::pair{"mask_probability", phases[phase].mask_probability},
                                     {"final_mask_probability", phases[phase].final_mask_probability}})
      if (given) return fmt::format("phase.{}.{}", phase, key);
  return {};
}

std::int64_t warmup_steps_of(const PhaseSection& phase, std::int64_t steps) {
  if (phase.warmup_share == 0) return phase.warmup_steps;
  return std::llround(phase.warmup_share * static_cast<double>(steps));
}

Schedule schedule_of(const PhaseSection& phase, std::int64_t steps) {
  return {.kind = phase.schedule,
          .steps = steps,
          .warmup_steps = warmup_steps_of(phase, steps),
          .power = phase.power,
          .decay_share = phase.decay_share,
          .final_ratio = phase.final_ratio};
}

std::int64_t order_seed(std::int64_t seed, std::int64_t phase) {
  const std::uint64_t of_run = storage::mix64(static_cast<std::uint64_t>(seed));
  return static_cast<std::int64_t>(storage::mix64(of_run + static_cast<std::uint64_t>(phase)) >> 1);
}

}  // namespace comera
