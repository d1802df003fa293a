#include "training/tasks/make_encoder_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "training/run/phase.h"
#include "training/tasks/annotated_task.h"
#include "training/tasks/masked_language_task.h"
#include "training/tasks/sequence_task.h"
#include "training/vectors/contrastive_task.h"

namespace comera {

namespace {

// Texts are divided into sequences once.
void require_one_length(const std::vector<PhaseSection>& phases) {
  for (std::size_t i = 1; i < phases.size(); ++i)
    if (phases[i].length != phases[0].length)
      throw UsageError(
          fmt::format("phase.{}.length = {} differs from phase.0.length = {}: texts with answers within them "
                      "are divided into sequences once; give all phases one length",
                      i, phases[i].length, phases[0].length));
}

std::unique_ptr<EncoderTask> make_task(const Recipe& recipe, bool finetune, const data::Tokenizer& tokenizer,
                                       const EncoderConfig& config,
                                       const std::function<void(const std::string&)>& log) {
  const std::string masks = given_mask_probability(recipe.phases);
  if (!finetune) {
    require_pretraining_keys(recipe);
    require_masked_language_head(config);
    auto task = std::make_unique<MaskedLanguageTask>(recipe.data, tokenizer, config);
    if (!masks.empty() && !task->draws_masks())
      log(fmt::format("note: {} has no effect, since {} has its own targets", masks, task->source()));
    return task;
  }
  require_training_keys(recipe);
  if (!masks.empty()) log(fmt::format("note: {} is for pretraining and has no effect here", masks));
  if (recipe.run.evaluation_batches > 0)
    throw UsageError(
        fmt::format("run.evaluation_batches = {} is for pretraining; fine-tuning scores validation files "
                    "completely: remove it",
                    recipe.run.evaluation_batches));
  if (recipe.task.kind == data::TaskKind::contrastive) {
    auto task = std::make_unique<ContrastiveTask>(recipe, tokenizer, config);
    for (const std::string& line : task->reports()) log(line);
    return task;
  }
  std::int64_t length = 0;
  for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
  if (data::is_annotation(recipe.task.kind)) require_one_length(recipe.phases);
  const auto with_reports = [&](auto task) -> std::unique_ptr<EncoderTask> {
    for (const std::string& line : task->reports()) log(line);
    return task;
  };
  if (data::is_annotation(recipe.task.kind))
    return with_reports(std::make_unique<AnnotatedTask>(recipe.task, tokenizer, config, length));
  return with_reports(std::make_unique<SequenceTask>(recipe.task, tokenizer, config, length));
}

}  // namespace

std::unique_ptr<EncoderTask> make_encoder_task(const Recipe& recipe, bool finetune,
                                               const data::Tokenizer& tokenizer, const EncoderConfig& config,
                                               const std::function<void(const std::string&)>& log) {
  auto task = make_task(recipe, finetune, tokenizer, config, log);
  if (const double share = recipe.distillation ? recipe.distillation->replaced_words : 0; share > 0)
    log(task->replace_words(share, recipe.phases[0].length));
  return task;
}

}  // namespace comera
