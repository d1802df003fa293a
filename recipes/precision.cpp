#include <fmt/format.h>

#include "recipes/recipe.h"

namespace comera {

DType PrecisionSection::activations() const {
  switch (compute) {
    case Compute::bf16:
    case Compute::fp8:
      return DType::bfloat16;
    case Compute::fp64:
      return DType::float64;
    default:
      return DType::float32;
  }
}

OperandKind PrecisionSection::operands() const {
  if (compute == Compute::tf32) return OperandKind::tf32;
  return has_float8(compute) ? OperandKind::float8 : OperandKind::as_they_are;
}

std::optional<Float8Config> PrecisionSection::float8() const {
  if (!has_float8(compute)) return std::nullopt;
  return Float8Config{
      .scaling = fp8_recipe, .format = fp8_format, .amax_history_len = amax_history_len, .margin = margin};
}

std::vector<std::string> keys_without_effect(const Recipe& recipe) {
  const PrecisionSection& given = recipe.precision;
  const PrecisionSection usual;
  std::vector<std::string> sentences;
  const auto check = [&](bool changed, const char* key, const std::string& why) {
    if (changed) sentences.push_back(fmt::format("precision.{} changes nothing: {}", key, why));
  };
  if (!has_float8(given.compute)) {
    const std::string why =
        fmt::format("precision.compute = \"{}\" has no 8-bit operands", name_of(given.compute));
    check(given.fp8_recipe != usual.fp8_recipe, "fp8_recipe", why);
    check(given.fp8_format != usual.fp8_format, "fp8_format", why);
    check(given.margin != usual.margin, "margin", why);
    check(given.amax_history_len != usual.amax_history_len, "amax_history_len", why);
  } else if (given.fp8_recipe != Float8Config::Scaling::delayed) {
    check(given.amax_history_len != usual.amax_history_len, "amax_history_len",
          "only precision.fp8_recipe = \"delayed\" uses earlier steps");
  }
  for (std::size_t phase = 0; phase < recipe.phases.size() && !recipe.tensorized.enabled; ++phase)
    if (recipe.phases[phase].objective != PhaseObjective::fixed)
      sentences.push_back(fmt::format(
          "phase.{}.objective has no effect: with tensorized.enabled = false there are no ranks to adapt",
          phase));
  if (recipe.generator && recipe.model.head != HeadKind::replaced_tokens)
    sentences.emplace_back("[generator] has no effect: it is for model.head = \"replaced_tokens\"");
  if (const auto& distillation = recipe.distillation;
      distillation && distillation->logits == 0 &&
      distillation->temperature != DistillationSection().temperature)
    sentences.emplace_back("distillation.temperature changes nothing: distillation.logits is 0");
  if (recipe.distillation && recipe.distillation->all_layers && recipe.distillation->hidden == 0)
    sentences.emplace_back("distillation.all_layers changes nothing: distillation.hidden is 0");
  if (recipe.distillation && recipe.distillation->relations == 0 && recipe.distillation->relation_heads > 0)
    sentences.emplace_back("distillation.relation_heads changes nothing: distillation.relations is 0");
  for (std::size_t phase = 0; phase < recipe.phases.size(); ++phase)
    if (const PhaseSection& section = recipe.phases[phase];
        section.decay_share != PhaseSection().decay_share &&
        section.schedule != ScheduleKind::warmup_stable_decay)
      sentences.push_back(fmt::format(
          "phase.{0}.decay_share changes nothing: only phase.{0}.schedule = \"warmup_stable_decay\" uses it",
          phase));
  return sentences;
}

}  // namespace comera
