#include "training/distillation/trained_teacher.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/backends/processors.h"
#include "recipes/changes.h"
#include "recipes/encoder_config.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera {

namespace {

[[noreturn]] void refuse(const std::string& teacher, const std::string& why) {
  throw UsageError(fmt::format("distillation.teacher = \"{}\" {}", teacher, why));
}

bool has_distributions(HeadKind head) {
  return head == HeadKind::mlm || head == HeadKind::classification || head == HeadKind::regression ||
         head == HeadKind::token_classification;
}

// What a file keeps is one answer for each text, the same in every pass.
void require_keepable(const Recipe& recipe) {
  const DistillationSection& section = *recipe.distillation;
  if (section.cache.empty()) return;
  const HeadKind head = recipe.model.head;
  const bool each_text = head == HeadKind::contrastive && !section.targets;
  if (section.hidden > 0 || section.relations > 0 || (!each_text && !reads_sequences(head)))
    throw UsageError(
        "distillation.cache keeps an answer for each text, and not for its tokens, nor for pairs of texts "
        "that are "
        "compared; remove it, or learn from vectors and similarities without targets, or from the logits of "
        "a task "
        "with whole texts");
  if (section.of_vectors() && reads_sequences(head) && recipe.model.pairs == PairEncoding::separate &&
      recipe.task.text.size() > 1)
    throw UsageError(
        "distillation.cache keeps one vector for each example, but here both texts of a pair have one; "
        "remove it, "
        "or set vectors and similarities to 0");
  for (const PhaseSection& phase : recipe.phases)
    if (phase.length != recipe.phases[0].length)
      throw UsageError(fmt::format(
          "distillation.cache keeps answers to texts of one length, but phases have {} and {}; make "
          "them equal, or remove it",
          recipe.phases[0].length, phase.length));
}

void require_learnable(const Recipe& recipe) {
  const DistillationSection& section = *recipe.distillation;
  const HeadKind head = recipe.model.head;
  if (section.teacher.empty())
    throw UsageError(
        "distillation.teacher is missing; name the model to learn from: --set distillation.teacher=MODEL");
  if (!section.any())
    throw UsageError(fmt::format(
        "[distillation] has no weight above 0; give {}",
        has_distributions(head) ? "distillation.logits, or hidden together with distillation.targets=true"
                                : "distillation.vectors, similarities, hidden or relations"));
  if (section.logits > 0 && !has_distributions(head))
    throw UsageError(
        fmt::format("distillation.logits is not for model.head = \"{}\"; remove it, and learn from vectors, "
                    "similarities, hidden or relations",
                    name_of(head)));
  if (head != HeadKind::contrastive && section.logits == 0 && !section.targets)
    throw UsageError(fmt::format(
        "the head, of the kind \"{}\", would learn nothing and stay random; set distillation.targets "
        "to true{}",
        name_of(head), has_distributions(head) ? ", or distillation.logits above 0" : ""));
  // Their losses are divided by other numbers than those of targets.
  if (recipe.task.class_weights.any())
    throw UsageError(
        "task.class_weights weigh the targets of classes, and [distillation] does not; remove one of them");
  require_keepable(recipe);
  if (section.replaced_words > 0 && (section.targets || reads_tokens(head)))
    throw UsageError(
        fmt::format("distillation.replaced_words is for the teacher's answers to whole texts, not the {}",
                    section.targets ? "targets of the data; set it to 0, or distillation.targets to false"
                                    : "logits of tokens; set it to 0"));
  if (recipe.task.symmetric)
    throw UsageError("task.symmetric counts each pair twice, and [distillation] does not; set it to false");
}

std::int64_t longest_of(const Recipe& recipe) {
  std::int64_t length = 0;
  for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
  return length;
}

// A teacher that need not be in memory.
struct FoundTeacher {
  const CheckpointReader& reader;
  const Recipe& recipe;
  EncoderConfig config;
  std::string tokenizer;  // its hash
};

// Of a model of sentence-transformers, as it was imported; of a head on the sequence's vector, as that reads
// it.
Pooling pooling_of(const CheckpointReader& teacher, const Recipe& recipe, const DistillationConfig& learned) {
  const ModelSection& model = recipe.model;
  if (model.head == HeadKind::contrastive || reads_sequences(model.head)) return model.pooling;
  if (!learned.of_vectors()) return Pooling::mean;  // they are not read
  return vector_pooling(teacher, model, "learn from distillation.hidden or relations");
}

// The student's type, and the scale of its scores.
std::vector<std::string> settings_for(const EncoderConfig& student) {
  const char* compute = student.compute == DType::bfloat16  ? "bf16"
                        : student.compute == DType::float64 ? "fp64"
                                                            : "fp32";
  std::vector<std::string> settings = {fmt::format("precision.compute={}", compute)};
  const std::vector<std::string> scale = score_settings(student);
  settings.insert(settings.end(), scale.begin(), scale.end());
  return settings;
}

void require_same_answers(const Recipe& student, const EncoderConfig& own, const FoundTeacher& teacher,
                          const std::string& path) {
  require_trained_head(teacher.reader, "set distillation.logits to 0, and learn from hidden");
  const EncoderConfig& theirs = teacher.config;
  if (own.head != theirs.head)
    refuse(path,
           fmt::format("has a head of the kind \"{}\", and the student \"{}\": their logits have nothing in "
                       "common; fine-tune the teacher on the task first, or learn from distillation.hidden",
                       name_of(theirs.head), name_of(own.head)));
  if (reads_sequences(own.head) && own.pairs != theirs.pairs)
    refuse(path, "reads pairs of texts in another way than the student; set model.pairs to the teacher's");
  if (own.head != HeadKind::mlm && student.task.labels != teacher.recipe.task.labels)
    refuse(path,
           fmt::format("was trained with the labels {}, and the student has {}; give the table the "
                       "teacher's labels, and task.labels their order",
                       fmt::join(teacher.recipe.task.labels, ", "), fmt::join(student.task.labels, ", ")));
  const bool tokens = reads_tokens(own.head);
  const std::int64_t mine = tokens ? own.token_outputs() : own.sequence_outputs(),
                     its = tokens ? theirs.token_outputs() : theirs.sequence_outputs();
  if (mine != its)
    refuse(path, fmt::format("has {} logits, and the student {}; both need the same", its, mine));
}

void require_fit(const Recipe& student, const std::string& tokenizer, const EncoderConfig& own,
                 const FoundTeacher& teacher, bool on_gpu) {
  const std::string& path = student.distillation->teacher;
  const EncoderConfig& theirs = teacher.config;
  if (teacher.tokenizer != tokenizer)
    refuse(path,
           "has another tokenizer than the student, and both read the same tokens; begin with another model, "
           "or with random weights (--scratch)");
  if (own.types > theirs.types || (own.distillation.logits > 0 && own.types != theirs.types))
    refuse(path, fmt::format("knows {} segment types, and the student has {}; set model.types to {}",
                             theirs.types, own.types, theirs.types));
  const std::int64_t length = longest_of(student);
  if (theirs.positions == Positions::learned && length > theirs.max_positions)
    refuse(path,
           fmt::format("reads {} tokens at most; lower phase.N.length = {}", theirs.max_positions, length));
  const DistillationConfig& learned = own.distillation;
  if (learned.vectors > 0 && learned.hidden > 0 && learned.width > 0 &&
      theirs.vector_width() != theirs.hidden)
    refuse(path, fmt::format("is {} wide, and its vectors have {} numbers, so that the student needs a "
                             "projection for each; set distillation.hidden or vectors to 0",
                             theirs.hidden, theirs.vector_width()));
  if (learned.hidden > 0 && learned.vectors > 0 && learned.width == 0 && own.hidden != theirs.hidden)
    refuse(path,
           fmt::format("is {} wide and the student {}, so that hidden states need a projection, and vectors, "
                       "which have {} numbers in both, none; set distillation.hidden or vectors to 0",
                       theirs.hidden, own.hidden, theirs.vector_width()));
  const auto require_width = [&](double weight, std::int64_t mine, std::int64_t its) {
    const std::int64_t compared = learned.width > 0 ? learned.width : mine;
    if (weight > 0 && compared != its)
      refuse(path, fmt::format("is {} wide, but distillation.width = {}; remove it", its, learned.width));
  };
  require_width(learned.vectors, own.vector_width(), theirs.vector_width());
  require_width(learned.hidden, own.hidden, theirs.hidden);
  if (learned.all_layers && learned.hidden > 0 && own.layers > theirs.layers)
    refuse(path, fmt::format(
                     "has {} layers, fewer than the student's {}, so that not all have one beside them; set "
                     "distillation.all_layers to false",
                     theirs.layers, own.layers));
  if (learned.relations > 0) {
    const std::int64_t heads = learned.relation_heads > 0 ? learned.relation_heads : own.heads;
    constexpr std::int64_t most = 128;  // of attention on a GPU
    if (on_gpu && std::max(theirs.hidden, own.hidden) > most * heads)
      refuse(path, fmt::format("is {} wide, and a GPU relates heads of up to {} numbers; set "
                               "distillation.relation_heads to a divisor of {} and {} from {} on",
                               theirs.hidden, most, theirs.hidden, own.hidden,
                               (std::max(theirs.hidden, own.hidden) + most - 1) / most));
    if (theirs.hidden % heads != 0)
      refuse(path, fmt::format("is {} wide, which {} heads do not divide; set distillation.relation_heads",
                               theirs.hidden, heads));
    if (theirs.tensorized.attention)
      refuse(path,
             "has attention of tensor trains, whose queries, keys and values are not compared; set "
             "distillation.relations to 0, and learn from hidden");
  }
  if (learned.logits > 0) require_same_answers(student, own, teacher, path);
}

}  // namespace

void require_teacher_fits(const Recipe& student) {
  const TrainedModel found = find_trained_model(student.distillation->teacher);
  const Recipe recipe = checkpoint_recipe(*found.reader);
  const std::int64_t vocabulary = found.reader->integer("/data", "vocabulary");
  const EncoderConfig own = encoder_config(student, vocabulary);
  static_cast<void>(pooling_of(*found.reader, recipe, own.distillation));
  const std::string tokenizer = found.reader->text("/data", "tokenizer_hash");
  require_fit(student, tokenizer, own, {*found.reader, recipe, encoder_config(recipe, vocabulary), tokenizer},
              would_be_on_gpu(student.run.device));
}

Recipe resolve_distillation(const Recipe& recipe) {
  Recipe resolved = recipe;
  if (resolved.model.head != HeadKind::contrastive) {  // a layer of vectors that it begins with
    resolved.model.vector_size = 0;
    resolved.model.vector_tanh = false;
  }
  if (!recipe.distillation) return resolved;
  DistillationSection& section = *resolved.distillation;
  require_learnable(resolved);
  if (section.width == 0 && (section.vectors > 0 || section.hidden > 0)) {
    const TrainedModel found = find_trained_model(section.teacher);
    const Recipe teacher = checkpoint_recipe(*found.reader);
    const std::int64_t its = section.vectors > 0 ? teacher.model.vector_width() : teacher.model.hidden;
    const std::int64_t own = section.vectors > 0 ? recipe.model.vector_width() : recipe.model.hidden;
    if (its != own) section.width = its;
  }
  return resolved;
}

TrainedTeacher::TrainedTeacher(const Recipe& student, const data::Tokenizer& tokenizer,
                               const EncoderConfig& config, const Processor& processor)
    : loaded_(student.distillation->teacher, {}, settings_for(config), student.run.device,
              longest_of(student), &processor),
      teacher_(loaded_.model, pooling_of(*loaded_.trained.reader, loaded_.recipe, config.distillation),
               config.distillation, processor, config.layers) {
  require_fit(student, tokenizer.hash(), config,
              {*loaded_.trained.reader, loaded_.recipe, loaded_.model.config(), loaded_.tokenizer.hash()},
              processor.allocator.device().kind == DeviceKind::cuda);
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
