#include "cli/training/student.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/options/number_checks.h"
#include "cli/options/recipe_options.h"
#include "exchange/import_model.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/ranks/dense_compaction.h"
#include "training/run/process_agreement.h"

namespace comera::cli {

namespace {

constexpr std::int64_t usual_share = 8;  // of the teacher's parameters: one of so many

// `make` writes a file that one process makes for all, unless it is there.
template <class Make>
std::filesystem::path made_once(const std::filesystem::path& file, Communicator& communicator,
                                const Make& make) {
  on_first(communicator, [&] {
    if (storage::exists(file)) return std::string();
    storage::create_directories_durably(file.parent_path());
    make();
    return std::string();
  });
  return file;
}

std::filesystem::path folder_of(const std::filesystem::path& run) {
  if (run.empty()) throw UsageError("there is no folder for the run: name it with --output DIR");
  return storage::from_root(run).lexically_normal();
}

std::int64_t parameters_of(const CheckpointReader& reader) {
  std::int64_t count = 0;
  for (const CheckpointTensor& tensor : reader.tensors())
    if (tensor.path.starts_with("/model/")) {
      std::int64_t elements = 1;
      for (const std::int64_t size : tensor.shape) elements *= size;
      count += elements;
    }
  return count;
}

}  // namespace

void add_student_options(CLI::App& command, StudentOptions& options) {
  command
      .add_option(
          "--shapes", options.shapes,
          "Take the modes of the student's tensor trains from this recipe; they are fitted to the teacher's "
          "widths")
      ->capture_default_str()
      ->type_name("RECIPE");
  command
      .add_option("--parameters", options.parameters,
                  "Parameters of the student, at most (default: an eighth of the teacher's)")
      ->check(positive_number);
}

std::filesystem::path teacher_checkpoint(const StudentOptions& options, const std::filesystem::path& run,
                                         Communicator& communicator) {
  const std::filesystem::path given = options.teacher;
  if (!storage::exists(given / "config.json"))
    return storage::from_root(find_trained_model(given).checkpoint).lexically_normal();
  const std::filesystem::path file = folder_of(run) / "teacher.h5";
  return made_once(file, communicator, [&] {
    const exchange::Imported imported = exchange::import_model(given, {}, file);
    for (const std::string& note : imported.notes) log_info("{}\n", note);
    print_out("teacher          {}, {} layers of {}, imported to {}\n", exchange::name_of(imported.form),
              imported.config.layers, imported.config.hidden, file.string());
    flush_output();
  });
}

std::filesystem::path student_like(const std::filesystem::path& teacher, const StudentOptions& options,
                                   const std::filesystem::path& run, Communicator& communicator) {
  const std::filesystem::path file = folder_of(run) / "student.h5";
  return made_once(file, communicator, [&] {
    const CheckpointReader dense(teacher);
    const Recipe recipe = dense_compaction_recipe(dense, find_recipe(options.shapes), {});
    const std::int64_t most =
        options.parameters > 0 ? options.parameters : parameters_of(dense) / usual_share;
    const Ticker ticker("TT-SVD of the teacher");
    const DenseCompaction done = compact_dense_to_size(dense, recipe, {}, most, file);
    print_out(
        "student          {} parameters of the teacher's {}, {:.1f} times fewer, by TT-SVD with an error of "
        "{:.3f} in every layer\n",
        grouped(done.after), grouped(done.before),
        static_cast<double>(done.before) / static_cast<double>(done.after), done.error);
    flush_output();
  });
}

}  // namespace comera::cli
