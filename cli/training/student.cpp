#include "cli/training/student.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/options/number_checks.h"
#include "cli/options/recipe_options.h"
#include "exchange/import_model.h"
#include "kernels/core/console.h"
#include "recipes/fit_shapes.h"
#include "reports/number_text.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/new_folders.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/ranks/dense_compaction.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/run/process_agreement.h"

namespace comera::cli {

namespace {

constexpr std::int64_t usual_share = 8;  // the teacher's parameters over the student's

// A file that one process makes for all. Where it is already, check(its reader) says whether it is the one
// asked for.
template <class Make, class Check>
std::filesystem::path made_once(const std::filesystem::path& file, Communicator& communicator,
                                const Make& make, const Check& check) {
  on_first(communicator, [&] {
    if (storage::exists(file)) {
      check(CheckpointReader(file));
    } else {
      const storage::NewFolders made(file.parent_path());
      make();
    }
    return std::string();
  });
  return file;
}

std::filesystem::path folder_of(const std::filesystem::path& run) {
  if (run.empty()) throw UsageError("there is no folder for the run: name it with --output DIR");
  return storage::from_root(run).lexically_normal();
}

// A dry run has links to the files of its run.
std::string own_path(const std::filesystem::path& file) {
  return (std::filesystem::is_symlink(file) ? std::filesystem::canonical(file) : file).string();
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw UsageError(fmt::format("{}: {}; choose another --output, or remove the file", own_path(file), what));
}

std::string text_or_nothing(const CheckpointReader& reader, const char* group, const char* name) {
  return reader.attributes(group).contains(name) ? reader.text(group, name) : std::string();
}

// Without the states of an optimizer, and without a generator.
std::int64_t parameters_of(const CheckpointReader& reader) {
  std::int64_t count = 0;
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (!tensor.path.starts_with("/model/") || is_of_generator(tensor.path.substr(7))) continue;
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= size;
    count += elements;
  }
  return count;
}

// What a student of a task does not need of its teacher.
void leave_out_unused(Recipe& recipe, const CheckpointReader& teacher, std::int64_t length) {
  ModelSection& model = recipe.model;
  if (model.positions == Positions::learned) {
    for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
    model.max_positions = std::min(model.max_positions, length);
  }
  const bool of_vectors = model.head == HeadKind::contrastive;
  if (!is_pretraining(model.head) && !of_vectors) return;
  if (!of_vectors)
    model.pooling = imports_vectors(teacher) ? vector_pooling(teacher, model, {}) : Pooling::mean;
  if (!of_vectors) model.vector_size = 0;  // of an earlier model that this one began with
  model.head = HeadKind::contrastive;
  recipe.generator.reset();
  recipe.task.name = "student";
  recipe.task.kind = data::TaskKind::contrastive;
  recipe.phases[0].name = "student";  // it reads each text by itself, whatever an imported teacher has read
  std::vector<std::string> notes;
  fit_head(recipe.tensorized, model, notes);  // for a head of another task
}

}  // namespace

void add_student_options(CLI::App& command, StudentOptions& options) {
  command
      .add_option(
          "--shapes", options.shapes,
          "Take the modes of the student's tensor trains from this recipe; they are fitted to the teacher's "
          "widths (default: trains of two cores, the factors of a matrix)")
      ->type_name("RECIPE");
  command
      .add_option("--parameters", options.parameters,
                  "Parameters of the student, at most (default: an eighth of the teacher's)")
      ->check(positive_number);
}

std::filesystem::path teacher_checkpoint(const StudentOptions& options, const std::filesystem::path& run,
                                         Communicator& communicator) {
  const std::filesystem::path given = storage::from_root(options.teacher).lexically_normal();
  if (!storage::exists(given))
    throw UsageError(fmt::format(
        "{}: there is no such teacher; give a checkpoint, a run's folder, or the folder of a model of "
        "transformers that has been downloaded",
        options.teacher));
  if (!storage::exists(given / "config.json"))
    return storage::from_root(find_trained_model(given).checkpoint).lexically_normal();
  const std::filesystem::path file = folder_of(run) / "teacher.h5";
  return made_once(
      file, communicator,
      [&] {
        const exchange::Imported imported = exchange::import_model(given, {}, file);
        print_out("teacher          {}, {} layers of {}, imported to {}\n", exchange::name_of(imported.form),
                  imported.config.layers, imported.config.hidden, file.string());
        flush_output();
      },
      [&](const CheckpointReader& reader) {
        if (const std::string from = text_or_nothing(reader, "/import", "folder"); from != given.string())
          refuse(file, fmt::format("was imported from {}, not from {}", from, given.string()));
        print_out("teacher          {}, which was imported before\n", own_path(file));
        flush_output();
      });
}

std::filesystem::path student_file(const std::filesystem::path& run) { return folder_of(run) / "student.h5"; }

std::filesystem::path student_like(const std::filesystem::path& teacher, const StudentOptions& options,
                                   const std::filesystem::path& run, const StudentTexts& texts,
                                   Communicator& communicator) {
  const std::filesystem::path file = student_file(run);
  const CheckpointReader dense(teacher);
  if (checkpoint_recipe(dense).tensorized.enabled)
    throw UsageError(fmt::format(
        "{}: is a model of tensor trains, of which no smaller student is made; name the student's first "
        "weights with --from MODEL",
        teacher.string()));
  const auto request_by = [&](const std::string& inputs) {
    return fmt::format("shapes of {}, {}", options.shapes.empty() ? "two factors" : options.shapes,
                       inputs.empty() ? "matrices" : "activations over " + inputs);
  };
  if (const std::int64_t all = parameters_of(dense); options.parameters >= all)
    throw UsageError(
        fmt::format("--parameters {}: the teacher has {}; give a smaller number, or --from MODEL",
                    options.parameters, grouped(all)));
  const std::int64_t most = options.parameters > 0 ? options.parameters : parameters_of(dense) / usual_share;
  return made_once(
      file, communicator,
      [&] {
        Recipe recipe = dense_compaction_recipe(
            dense, options.shapes.empty() ? std::filesystem::path() : find_recipe(options.shapes), {});
        leave_out_unused(recipe, dense, texts.length);
        if (const std::int64_t least = least_parameters(dense, recipe); least > most)
          throw UsageError(fmt::format(
              "{} parameters{} are too few: a student of this teacher has at least {}, with ranks of 1; give "
              "more with --parameters",
              grouped(most), options.parameters > 0 ? "" : ", an eighth of the teacher's,", grouped(least)));
        const std::optional<Activations> measured = texts.measure();
        const Ticker ticker("TT-SVD of the teacher");
        const DenseCompaction done = compact_dense_to_size(dense, recipe,
                                                           {.parameters = most,
                                                            .request = request_by(texts.name()),
                                                            .activations = measured ? &*measured : nullptr},
                                                           file);
        print_out(
            "student          {} parameters, {:.1f} times fewer than the teacher's {}, by TT-SVD with an "
            "error of {:.2f} in {}\n",
            grouped(done.after), static_cast<double>(done.before) / static_cast<double>(done.after),
            grouped(done.before), done.error,
            measured ? fmt::format("what each layer says, over {} tokens", grouped(measured->tokens))
                     : "every matrix");
        flush_output();
      },
      [&](const CheckpointReader& reader) {
        if (text_or_nothing(reader, "/compaction", "fingerprint") != dense.fingerprint())
          refuse(file, "is a student of another teacher");
        if (reader.integer("/compaction", "parameters") != most)
          refuse(file, fmt::format("was made for {} parameters, not for {}",
                                   grouped(reader.integer("/compaction", "parameters")), grouped(most)));
        if (const ModelSection model = checkpoint_recipe(reader).model;
            model.positions == Positions::learned && model.max_positions < texts.length)
          refuse(file, fmt::format("has {} positions, and the phases read {} tokens", model.max_positions,
                                   texts.length));
        // Earlier versions wrote the path of the texts alone, which says nothing about what they were.
        const std::string made = text_or_nothing(reader, "/compaction", "request"),
                          request = request_by(texts.name());
        if (made != request && !made.starts_with(request_by("/")))
          refuse(file, made.substr(0, made.rfind('(')) == request.substr(0, request.rfind('('))
                           ? std::string("was begun by other texts than --input holds now")
                           : fmt::format("was made by {}, not by {}",
                                         made.empty() ? "an earlier version" : made, request));
      });
}

}  // namespace comera::cli
