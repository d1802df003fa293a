#include <fmt/ranges.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>

#include "cli/commands/commands.h"
#include "cli/run_training.h"
#include "cli/training/calibration.h"
#include "cli/training/finetune_plan.h"
#include "cli/training/finetune_seeds.h"
#include "cli/training/finetune_task.h"
#include "cli/training/student.h"
#include "data/annotations/annotated_examples.h"
#include "data/tables/examples.h"
#include "kernels/core/console.h"
#include "recipes/changes.h"
#include "reports/number_text.h"
#include "storage/folder.h"
#include "storage/folder_lock.h"
#include "training/distillation/trained_teacher.h"
#include "training/inference/trained_model.h"
#include "training/logging/progress.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/tasks/seed_results.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

struct DistillOptions : FinetuneOptions {
  StudentOptions student;
  bool cache = false, dry_run = false;
  std::vector<std::int64_t> seeds;
};

// A student of vectors, unless the teacher has been tuned for another task.
bool learns_vectors(const Recipe& teacher) {
  return is_pretraining(teacher.model.head) || teacher.model.head == HeadKind::contrastive;
}

// What the recipe that is taken where none is named lacks for this teacher; weaker than --set. Of logits
// alone a student that has lost most of its layers' weights learns little; one with the teacher's shapes
// learns from its tokens too, or, where answers are kept, from its vectors.
std::vector<std::string> usual_settings(const Recipe& teacher, const DistillOptions& options) {
  const ModelSection& model = teacher.model;
  std::vector<std::string> settings = {fmt::format("phase.0.length={}", usual_length(model))};
  if (learns_vectors(teacher)) return settings;
  settings.insert(settings.end(), {"distillation.logits=1", "model.dropout=0", "model.attention_dropout=0"});
  if (!options.training.from.empty()) return settings;
  if (!options.cache)
    settings.insert(settings.end(), {"distillation.hidden=1", "distillation.relations=1"});
  else if (reads_sequences(model.head) && model.pairs == PairEncoding::joint)
    settings.emplace_back("distillation.vectors=1");
  return settings;
}

// How a run that this command continues is evaluated and what it reads, whatever a later version of this
// program would choose.
std::vector<std::string> begun_choices(const DistillOptions& options) {
  const std::filesystem::path folder = options.training.output;
  std::filesystem::path run = folder;
  if (!options.seeds.empty()) {
    const std::vector<std::int64_t> seeds = seeds_of(options.seeds);
    const auto begun = std::ranges::find_if(seeds, [&](std::int64_t seed) {
      return storage::exists(folder / fmt::format("seed-{}", seed) / "recipe.toml");
    });
    if (begun == seeds.end()) return {};
    run /= fmt::format("seed-{}", *begun);
  }
  if (folder.empty() || !storage::exists(run / "recipe.toml")) return {};
  const Recipe begun = load_recipe(run / "recipe.toml");
  const TaskSection& task = begun.task;
  std::vector<std::string> settings;
  if (task.metric) settings.push_back(fmt::format("task.metric=\"{}\"", data::name_of(*task.metric)));
  if (options.table.validation.empty()) settings.push_back(fmt::format("task.held_out={}", task.held_out));
  if (begun.phases.size() == 1 && begun.phases[0].epochs)
    settings.push_back(fmt::format("phase.0.epochs={}", *begun.phases[0].epochs));
  if (begun.distillation)
    settings.push_back(fmt::format("distillation.replaced_words={}", begun.distillation->replaced_words));
  return settings;
}

// Before anything is made.
void check_options(const DistillOptions& options) {
  const TrainingCommandOptions& training = options.training;
  if (!options.table.given())
    throw UsageError("there is nothing to learn from: give texts, a table or a text file, with --input FILE");
  storage::refuse_missing(options.table.input, "file");
  refuse_keys(training.recipe.overrides, {"distillation.teacher"}, "TEACHER names it; omit it");
  if (!training.from.empty() && (options.student.parameters > 0 || !options.student.shapes.empty()))
    throw UsageError("--parameters and --shapes make the student from the teacher; omit them, or --from");
  if (options.cache && training.output.empty())
    throw UsageError("--cache keeps the answers in the run's folder; name it with --output DIR");
  if (training.resume == "never" && options.seeds.empty() &&
      storage::exists(std::filesystem::path(training.output) / "checkpoints"))
    throw UsageError(fmt::format(
        "{}: already holds a run; choose another --output, or continue the run with --resume auto",
        training.output));
}

// The texts that a student is begun by: their columns, and what tells other contents apart. Empty if it is
// begun by the teacher's matrices alone.
std::string texts_of(const TaskSection& task) {
  if (data::is_annotation(task.kind)) return "";
  return fmt::format("{} ({})", fmt::join(task.text, ", "),
                     fingerprint_of_files({task.train.begin(), task.train.end()}));
}

// The classes of a teacher, in its order, for a task that names none: a table has them in the order of the
// alphabet. UsageError if the table has others, or, where the task names its classes, none of those.
std::vector<std::string> classes_of(const Recipe& teacher, const data::Task& task,
                                    const DistillOptions& options) {
  if (task.kind != data::TaskKind::classification) return {};
  if (!task.labels.empty()) {
    if (!data::holds_labels_of(task))
      throw UsageError(
          fmt::format("{} has none of the labels {}; give a table with these, or correct task.labels",
                      options.table.input, fmt::join(task.labels, ", ")));
    return {};
  }
  const std::vector<std::string>& classes = teacher.task.labels;
  if (teacher.model.head != HeadKind::classification || classes.empty()) return {};
  std::vector<std::string> others;
  for (const std::string& label : data::find_labels(task, task.train))
    if (std::ranges::find(classes, label) == classes.end()) others.push_back(label);
  if (!others.empty())
    throw UsageError(fmt::format(
        "{} was trained with the labels {}, and {} also has {}; give a table with the teacher's labels",
        options.student.teacher, fmt::join(classes, ", "), options.table.input, fmt::join(others, ", ")));
  return classes;
}

// The recipe where none is named, and what the teacher and its kept answers set in it.
void take_teacher(TrainingCommandOptions& training, const std::filesystem::path& checkpoint,
                  const Recipe& teacher, const DistillOptions& options) {
  std::vector<std::string> settings = {override_of("distillation.teacher", checkpoint.string())};
  if (options.cache)
    settings.push_back(
        override_of("distillation.cache", (storage::from_root(training.output) / "answers.h5").string()));
  if (training.recipe.file.empty()) {
    training.recipe.file = learns_vectors(teacher) ? "distill" : "table";
    for (const std::string& setting : usual_settings(teacher, options)) settings.push_back(setting);
  }
  if (learns_vectors(teacher) && (training.resume != "never" || !options.seeds.empty()))
    for (const std::string& setting : begun_choices(options)) settings.push_back(setting);
  training.recipe.overrides.insert(training.recipe.overrides.begin(), settings.begin(), settings.end());
}

// A teacher that was imported says how much it has read.
void note_length(const Recipe& recipe, const Recipe& teacher) {
  const auto longest = [](const Recipe& of) {
    return std::ranges::max(of.phases, {}, &PhaseSection::length).length;
  };
  if (longest(recipe) > longest(teacher))
    log_info(
        "note: texts are read to {} tokens, the teacher to {}; of longer ones its answers may be worse, and "
        "--set phase.0.length={} takes less time\n",
        longest(recipe), longest(teacher), longest(teacher));
}

// The options of the fine-tuning that this is: the student's weights, the recipe, and the teacher.
FinetuneOptions with_student(const DistillOptions& options, Communicator& communicator) {
  check_options(options);
  FinetuneOptions own = options;
  TrainingCommandOptions& training = own.training;
  const std::filesystem::path checkpoint = teacher_checkpoint(options.student, training.output, communicator);
  const Recipe teacher = parse_stored_recipe(find_trained_model(checkpoint).recipe, checkpoint.string(), {});
  take_teacher(training, checkpoint, teacher, options);
  const bool makes_student = training.from.empty();
  if (!makes_student && teacher.model.head != HeadKind::classification) return own;
  // The decomposition takes a while: what does not fit the teacher is refused before, by the student that is
  // there, or one that is the teacher itself.
  FinetuneOptions trial = own;
  // A run that has not begun yet may still get other lengths.
  const bool is_begun = makes_student && storage::exists(student_file(training.output)) &&
                        storage::exists(std::filesystem::path(training.output) / "checkpoints");
  if (makes_student) trial.training.from = (is_begun ? student_file(training.output) : checkpoint).string();
  if (makes_student && !is_begun) trial.training.resume = "never";
  Recipe recipe = finetune_task(trial).recipe;
  if (const std::vector<std::string> classes = classes_of(teacher, task_of(recipe.task), options);
      !classes.empty()) {
    recipe.task.labels = classes;
    training.recipe.overrides.insert(training.recipe.overrides.begin(), override_of("task.labels", classes));
  }
  if (communicator.first()) note_length(recipe, teacher);
  if (makes_student) {
    if (!is_begun) require_teacher_fits(resolve_task(recipe));
    StudentTexts texts{.measure = [&]() -> std::optional<Activations> {
                         if (data::is_annotation(recipe.task.kind)) return std::nullopt;
                         return calibrate(checkpoint, task_of(recipe.task));
                       },
                       .name = [&] { return texts_of(recipe.task); }};
    for (const PhaseSection& phase : recipe.phases) texts.length = std::max(texts.length, phase.length);
    const bool given = sets_key(training.recipe.overrides, "model.max_positions");
    if (given) texts.length = std::max(texts.length, recipe.model.max_positions);
    training.from = student_like(checkpoint, options.student, training.output, texts, communicator).string();
    const ModelSection student = checkpoint_recipe(CheckpointReader(training.from)).model;
    if (!given && student.positions == Positions::learned)  // a recipe may have those of the teacher
      training.recipe.overrides.insert(training.recipe.overrides.begin(),
                                       fmt::format("model.max_positions={}", student.max_positions));
  }
  return own;
}

// Without scores nothing says how good the vectors are.
void note_evaluation(const Recipe& recipe) {
  const TaskSection& task = recipe.task;
  if (task.kind == data::TaskKind::contrastive && task.similarity.empty() && task.validation.empty() &&
      task.held_out == 0)
    log_info(
        "note: nothing tells how good the vectors are; name a table of two texts and a score with --set "
        "task.similarity=FILE, or texts with --validation FILE\n");
}

// A folder for what a dry run makes, removed at its end. One that a signal has ended leaves its folder, but
// no lock on it: the next dry run removes that.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const std::filesystem::path all = std::filesystem::temp_directory_path();
    remove_abandoned(all);
    std::string name = (all / (std::string(prefix) + "XXXXXX")).string();
    COMERA_CHECK(mkdtemp(name.data()) != nullptr, "{}: cannot be made: {}", name,
                 std::generic_category().message(errno));
    path_ = name;
    lock_.emplace(path_, "planning");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  static constexpr std::string_view prefix = "comera-dry-run-";

  static void remove_abandoned(const std::filesystem::path& all) {
    std::error_code ignored;
    for (const std::filesystem::path& entry : storage::entries_of(all, ignored)) {
      if (!entry.filename().string().starts_with(prefix) || std::filesystem::is_symlink(entry, ignored))
        continue;
      try {
        const storage::FolderLock lock(entry, "planning");
        std::filesystem::remove_all(entry, ignored);
      } catch (const Error&) {
        // In use, or another user's.
      }
    }
  }

  std::filesystem::path path_;
  std::optional<storage::FolderLock> lock_;
};

// What an earlier call of this command has made in the run's folder: the teacher, and the student of a run
// that has begun. Another one may still get another size.
void link_earlier_files(const std::string& run, const std::filesystem::path& to) {
  if (run.empty()) return;
  const std::filesystem::path folder = storage::from_root(run);
  std::vector<std::string> names = {"teacher.h5"};
  if (storage::exists(folder / "checkpoints")) names.emplace_back("student.h5");
  for (const std::string& name : names)
    if (storage::exists(folder / name)) std::filesystem::create_symlink(folder / name, to / name);
}

// The student is made, since its size is part of the answer.
void dry_run(DistillOptions options, Communicator& communicator) {
  if (!communicator.alone()) throw UsageError("--dry-run runs in one process; start it without mpirun");
  check_options(options);
  const TemporaryFolder folder;
  const std::string output = options.training.output;
  link_earlier_files(output, folder.path());
  if (options.training.resume != "never") {
    const std::vector<std::string> begun = begun_choices(options);
    std::vector<std::string>& overrides = options.training.recipe.overrides;
    overrides.insert(overrides.begin(), begun.begin(), begun.end());
  }
  options.training.output = folder.path().string();
  options.training.resume = "never";
  const auto begin = std::chrono::steady_clock::now();
  FinetuneOptions own = with_student(options, communicator);
  own.training.output = output;
  const std::filesystem::path student = folder.path() / "student.h5";
  if (storage::exists(student) && !std::filesystem::is_symlink(student)) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    print_out("making it        {}, with up to {} MiB of memory, before the first step\n",
              duration_text(taken.count()), grouped(used.ru_maxrss / 1024));
    flush_output();
  }
  own.writes = false;
  plan_finetuning(own, communicator);
}

void distill(const DistillOptions& options, Communicator& communicator, StopSignals& signals) {
  if (options.dry_run) return dry_run(options, communicator);
  const FinetuneOptions own = with_student(options, communicator);
  if (!options.seeds.empty()) return finetune_seeds(own, seeds_of(options.seeds), communicator, signals);
  const FinetuneTask task = finetune_task(own);
  if (communicator.first() && !task.description.empty()) {
    print_out("{}\n", task.description);
    flush_output();
  }
  if (communicator.first()) note_evaluation(task.recipe);
  TrainingOptions training = training_options(own.training, communicator, signals);
  training.finetune = true;
  run_training(task.recipe, training, signals);
}

}  // namespace

void add_distill_command(CLI::App& program) {
  auto options = std::make_shared<DistillOptions>();
  CLI::App* command = program.add_subcommand("distill", "Train a small student on the answers of a teacher");
  command
      ->add_option("teacher", options->student.teacher,
                   "The model to learn from: a checkpoint, a run's folder, or a folder of Hugging Face's "
                   "transformers or sentence-transformers")
      ->required()
      ->type_name("TEACHER");
  add_training_options(*command, options->training)
      ->required(false)
      ->description("A TOML file, or the name of a built-in recipe (default: by the teacher's head)");
  add_student_options(*command, options->student);
  command->add_flag(
      "--scratch", options->training.scratch,
      "Take only the student's shapes and tokenizer from --from or the teacher, and begin with random "
      "weights");
  command->add_flag(
      "--cache", options->cache,
      "Keep the teacher's answers to all texts in OUTPUT/answers.h5, and learn from these instead of "
      "asking it in every pass");
  add_table_options(*command, options->table);
  CLI::Option* dry = command->add_flag(
      "--dry-run", options->dry_run,
      "Only make the student, for a while, and show what would be learned, memory and time, measured here");
  command
      ->add_option(
          "--seeds", options->seeds,
          "Train with this many seeds, or with these, in OUTPUT/seed-N; repeat the command to continue")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(dry)
      ->type_name("N or N,...");
  command->footer(
      "Examples:\n"
      "  comera distill all-MiniLM-L6-v2 --input sentences.tsv --output runs/student\n"
      "  comera distill runs/tuned --input train.tsv --validation dev.tsv \\\n"
      "    --parameters 2000000 --output runs/student\n"
      "The student begins with the teacher's weights as tensor trains, unless --from names another model. "
      "TEACHER is "
      "a folder or file on this machine "
      "(docs/guide/distillation.md).");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { distill(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
