#pragma once

#include "model/teacher.h"
#include "recipes/recipe.h"
#include "training/inference/trained_model.h"
#include "training/run/process_agreement.h"

namespace comera {

// The recipe with what its teacher determines filled in: weights, where none is given, and the width of the
// projection. UsageError for a teacher from which this head learns nothing.
Recipe resolve_distillation(const Recipe& recipe);

// UsageError as TrainedTeacher(), before a student is made: for a resolved recipe whose student has the
// tokenizer of the teacher, which is not loaded.
void require_teacher_fits(const Recipe& student);

// The teacher of a recipe, in the memory of the run's processor and of its number format.
class TrainedTeacher {
 public:
  // The recipe is resolved. UsageError if the teacher reads other tokens than the student, fewer positions or
  // types, or answers with other classes.
  TrainedTeacher(const Recipe& student, const data::Tokenizer& tokenizer, const EncoderConfig& config,
                 const Processor& processor);

  Teacher& teacher() { return teacher_; }
  // For the agreement of processes, and for resuming.
  GivenFile file() const;

 private:
  LoadedModel loaded_;
  Teacher teacher_;
};

// Null for a recipe without one.
std::unique_ptr<TrainedTeacher> find_teacher(const Recipe& student, const data::Tokenizer& tokenizer,
                                             const EncoderConfig& config, const Processor& processor);

}  // namespace comera
