#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "distributed/communicator.h"
#include "training/ranks/activations.h"

namespace CLI {
class App;
}

namespace comera::cli {

// A teacher, and a student that begins with its weights as tensor trains.
struct StudentOptions {
  std::string teacher;  // checkpoint, run's folder, or folder of transformers
  std::string shapes;   // recipe whose tensor-train modes are fitted to the teacher's; empty: two factors
  std::int64_t parameters = 0;  // 0: an eighth of the teacher's
};

// --shapes and --parameters.
void add_student_options(CLI::App& command, StudentOptions& options);

// The teacher's checkpoint: a folder of transformers is first imported, to teacher.h5 in the run's folder.
// UsageError if that file was imported from another folder.
std::filesystem::path teacher_checkpoint(const StudentOptions& options, const std::filesystem::path& run,
                                         Communicator& communicator);
// Where student_like() makes the student. UsageError without a folder.
std::filesystem::path student_file(const std::filesystem::path& run);
// What the student will read.
struct StudentTexts {
  // What the teacher's layers say about them, if that is to begin the student.
  std::function<std::optional<Activations>()> measure;
  std::function<std::string()> name;  // tells other contents apart; asked on one process
  std::int64_t length = 0;            // positions that it needs, in tokens
};

// The student's first checkpoint: without the teacher's masked-language head, which no task uses, and with as
// many learned positions as the longer of both reads, or model.max_positions. UsageError if that file is of
// another teacher, size, other shapes or texts.
std::filesystem::path student_like(const std::filesystem::path& teacher, const StudentOptions& options,
                                   const std::filesystem::path& run, const StudentTexts& texts,
                                   Communicator& communicator);

}  // namespace comera::cli
