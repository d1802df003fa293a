#include "training/distillation/trained_teacher.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "recipes/encoder_config.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera {

namespace {

constexpr double usual_weight = 1;

[[noreturn]] void refuse(const std::string& teacher, const std::string& why) {
  throw UsageError(fmt::format("distillation.teacher = \"{}\" {}", teacher, why));
}

bool has_distributions(HeadKind head) {
  return head == HeadKind::mlm || head == HeadKind::classification || head == HeadKind::regression ||
         head == HeadKind::token_classification;
}

void require_learnable(const Recipe& recipe) {
  const DistillationSection& section = *recipe.distillation;
  const HeadKind head = recipe.model.head;
  if (section.logits > 0 && !has_distributions(head))
    throw UsageError(
        fmt::format("distillation.logits is not for model.head = \"{}\"; remove it, and learn from vectors, "
                    "similarities or hidden",
                    name_of(head)));
  if (head == HeadKind::contrastive && section.targets && recipe.task.text.size() < 2 &&
      section.similarities + section.vectors + section.hidden == 0)
    throw UsageError("[distillation] has no weight; give distillation.vectors or similarities");
}

std::int64_t longest_of(const Recipe& recipe) {
  std::int64_t length = 0;
  for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
  return length;
}

Pooling pooling_of(const Recipe& teacher) {
  return teacher.model.head == HeadKind::contrastive ? teacher.model.pooling : Pooling::mean;
}

std::vector<std::string> settings_for(DType activations) {
  const char* compute = activations == DType::bfloat16  ? "bf16"
                        : activations == DType::float64 ? "fp64"
                                                        : "fp32";
  return {fmt::format("precision.compute={}", compute)};
}

void require_same_answers(const Recipe& student, const EncoderConfig& own, const LoadedModel& teacher,
                          const std::string& path) {
  const EncoderConfig& theirs = teacher.model.config();
  if (own.head != theirs.head)
    refuse(path,
           fmt::format("has a head of the kind \"{}\", and the student \"{}\": their logits have nothing in "
                       "common; fine-tune the teacher on the task first, or learn from distillation.hidden",
                       name_of(theirs.head), name_of(own.head)));
  const bool tokens = reads_tokens(own.head);
  const std::int64_t mine = tokens ? own.token_outputs() : own.sequence_outputs(),
                     its = tokens ? theirs.token_outputs() : theirs.sequence_outputs();
  if (mine != its)
    refuse(path, fmt::format("has {} logits, and the student {}; both need the same", its, mine));
  if (own.head != HeadKind::mlm && student.task.labels != teacher.recipe.task.labels)
    refuse(path,
           fmt::format("was trained with the labels {}, and the student has {}; set task.labels to those of "
                       "the teacher, in their order",
                       fmt::join(teacher.recipe.task.labels, ", "), fmt::join(student.task.labels, ", ")));
}

void require_fit(const Recipe& student, const data::Tokenizer& tokenizer, const EncoderConfig& own,
                 const LoadedModel& teacher) {
  const std::string& path = student.distillation->teacher;
  const EncoderConfig& theirs = teacher.model.config();
  if (teacher.tokenizer.hash() != tokenizer.hash())
    refuse(
        path,
        "has another tokenizer than the student, and both read the same tokens; begin the student with the "
        "teacher's: data.tokenizer = the teacher's checkpoint or tokenizer.model");
  if (own.types > theirs.types)
    refuse(path, fmt::format("knows {} segment types, and the student has {}; set model.types to {}",
                             theirs.types, own.types, theirs.types));
  const std::int64_t length = longest_of(student);
  if (theirs.positions == Positions::learned && length > theirs.max_positions)
    refuse(path,
           fmt::format("reads {} tokens at most; lower phase.N.length = {}", theirs.max_positions, length));
  const DistillationConfig& learned = own.distillation;
  const std::int64_t compared = learned.width > 0 ? learned.width : own.hidden;
  if ((learned.vectors > 0 || learned.hidden > 0) && compared != theirs.hidden)
    refuse(path,
           fmt::format("is {} wide, but distillation.width = {}; remove it", theirs.hidden, learned.width));
  if (learned.logits > 0) require_same_answers(student, own, teacher, path);
}

}  // namespace

Recipe resolve_distillation(const Recipe& recipe) {
  if (!recipe.distillation) return recipe;
  Recipe resolved = recipe;
  DistillationSection& section = *resolved.distillation;
  if (section.teacher.empty())
    throw UsageError(
        "distillation.teacher is missing; name the model to learn from: --set distillation.teacher=MODEL");
  if (!section.any()) {
    if (has_distributions(recipe.model.head))
      section.logits = usual_weight;
    else if (recipe.model.head == HeadKind::contrastive)
      section.vectors = section.similarities = usual_weight;
    else
      section.hidden = usual_weight;
  }
  require_learnable(resolved);
  if (section.width == 0 && (section.vectors > 0 || section.hidden > 0)) {
    const TrainedModel found = find_trained_model(section.teacher);
    const Recipe teacher = checkpoint_recipe(*found.reader);
    if (teacher.model.hidden != recipe.model.hidden) section.width = teacher.model.hidden;
  }
  return resolved;
}

TrainedTeacher::TrainedTeacher(const Recipe& student, const data::Tokenizer& tokenizer,
                               const EncoderConfig& config, const Processor& processor)
    : loaded_(student.distillation->teacher, {}, settings_for(config.compute), student.run.device,
              longest_of(student), &processor),
      teacher_(loaded_.model, pooling_of(loaded_.recipe), config.distillation, processor) {
  require_fit(student, tokenizer, config, loaded_);
}

GivenFile TrainedTeacher::file() const {
  const CheckpointReader& reader = *loaded_.trained.reader;
  return {"distillation.teacher", reader.path().string(), reader.fingerprint()};
}

std::unique_ptr<TrainedTeacher> find_teacher(const Recipe& student, const data::Tokenizer& tokenizer,
                                             const EncoderConfig& config, const Processor& processor) {
  if (!student.distillation) return nullptr;
  return std::make_unique<TrainedTeacher>(student, tokenizer, config, processor);
}

}  // namespace comera
