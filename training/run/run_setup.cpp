#include "training/run/run_setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "distributed/nccl_communicator.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "recipes/encoder_config.h"
#include "recipes/phase_recipe.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/distillation/kept_answers.h"
#include "training/distillation/trained_teacher.h"
#include "training/inference/trained_model.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/resume/lost_checkpoints.h"
#include "training/run/phase.h"
#include "training/run/process_agreement.h"
#include "training/tasks/click_task.h"
#include "training/tasks/make_encoder_task.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

using Log = std::unique_ptr<std::FILE, RunSetup::CloseFile>;

Communicator::Patience patience_of(const DistributedSection& section) {
  return {.silent_seconds = section.silence_seconds, .stalled_seconds = section.stall_seconds};
}

// The command-line options that determine the order of a run's steps and collective operations.
std::string words_of(const TrainingOptions& options) {
  const char* resume = options.mode == RunMode::resume      ? "always"
                       : options.mode == RunMode::automatic ? "auto"
                                                            : "never";
  return fmt::format("{} --resume {}{}{}", options.finetune ? "finetune" : "pretrain", resume,
                     options.resume == ResumeMode::newest_valid ? " --use-older-checkpoint" : "",
                     options.stop_after > 0 ? fmt::format(" --stop-after {}", options.stop_after) : "");
}

const std::string& checked_output(const Recipe& recipe) {
  if (recipe.run.output.empty())
    throw UsageError(
        "run.output (the folder for checkpoints and metrics) is missing; give --output FOLDER, or set it in "
        "the recipe");
  return recipe.run.output;
}

const std::string& checked_tokenizer(const Recipe& recipe) {
  if (recipe.data.tokenizer.empty())
    throw UsageError(
        !recipe.task.name.empty()
            ? "data.tokenizer is missing; give it with --set data.tokenizer=FILE or in the recipe, or use an "
              "encoder's with --from RUN"
            : "data.tokenizer is missing; give it with --tokenizer FILE or in the recipe, or the files to "
              "train on with --input FOLDER");
  return recipe.data.tokenizer;
}

// Each process needs at least one micro-batch of each step.
void require_micro_batches(const Recipe& recipe, const Communicator& host) {
  for (std::size_t phase = 0; phase < recipe.phases.size(); ++phase)
    if (const std::int64_t micro_batches = recipe.phases[phase].micro_batches_per_step;
        micro_batches < host.world_size())
      throw UsageError(
          fmt::format("phase.{0}.micro_batches_per_step = {1}, but the job has {2} processes, which share "
                      "the micro-batches of a step: set it to {2} or a multiple (and lower "
                      "{3}_per_micro_batch to keep the {3} per step)",
                      phase, micro_batches, host.world_size(), recipe.dlrm ? "examples" : "tokens"));
}

// Process 0 holds the lock.
std::unique_ptr<RunDirectory> open_directory(Communicator& host, const std::filesystem::path& path,
                                             RunMode mode) {
  std::unique_ptr<RunDirectory> directory;
  const std::string resumes = on_first(host, [&] {
    directory = std::make_unique<RunDirectory>(path, mode);
    return std::string(directory->resumes() ? "yes" : "");
  });
  if (!directory) directory = std::make_unique<RunDirectory>(path, !resumes.empty());
  return directory;
}

// Process 0 logs to the terminal, the others to a file each.
Log open_log(Communicator& host, RunDirectory& directory) {
  on_first(host, [&] {
    if (!host.alone()) directory.make_process_logs();
    return std::string();
  });
  if (host.first()) return nullptr;
  const std::filesystem::path file = directory.process_logs() / fmt::format("process-{}.log", host.process());
  Log log;
  try {
    log.reset(fdopen(storage::FileDescriptor::open_own(file).release(), "a"));
  } catch (const Error& error) {
    throw_error(
        fmt::format("{}; can all processes see the folder {}?", error.what(), directory.path().string()));
  }
  COMERA_CHECK(log != nullptr, "{}: could not be opened as a log", file.string());
  std::setvbuf(log.get(), nullptr, _IOLBF, 0);
  return log;
}

std::optional<FoundCheckpoint> find_checkpoint(Communicator& host, RunDirectory& directory,
                                               const TrainingOptions& options) {
  if (!directory.resumes()) return std::nullopt;
  std::optional<FoundCheckpoint> found;
  const std::string path = on_first(host, [&] {
    found = find_latest(directory.checkpoints(), options.resume);
    const std::string folder = directory.checkpoints().string();
    if (const std::string why = found ? "" : why_checkpoints_are_missed(directory); !why.empty())
      throw Error(fmt::format(
          "{} holds no checkpoint, but {}: mount or restore it, or start another run with another --output",
          folder, why));
    if (!found && options.mode == RunMode::resume)
      throw UsageError(fmt::format(
          "{} holds no checkpoint to resume from; start the run again with --resume auto", folder));
    if (!found) {
      directory.begin_anew();
      log_to(options.output, "{} holds no checkpoint yet: the run starts from the beginning\n", folder);
    }
    if (found) sign_saved_checkpoints(directory);
    if (found) say_not_used(*found, options.output);
    return found ? found->path.string() : std::string();
  });
  if (!path.empty() && !found) found = FoundCheckpoint{.path = path, .step = 0, .refused = {}};
  return found;
}

// The checkpoint with the run's initial parameters; empty: random ones.
std::filesystem::path first_checkpoint(const Recipe& recipe, const std::optional<FoundCheckpoint>& found) {
  if (found) return found->path;
  if (recipe.run.initial_checkpoint.empty()) return {};
  return find_trained_model(recipe.run.initial_checkpoint).checkpoint;
}

// The recipe of the model that the run begins or continues with: that of its phase, with its layers' ranks in
// that checkpoint. A resumed run keeps its number format; what nobody has chosen is float32.
Recipe of_model(Recipe recipe, const std::optional<FoundCheckpoint>& found) {
  if (Compute& compute = recipe.precision.compute; compute == Compute::automatic)
    compute = found && found->step > 0 ? checkpoint_recipe(CheckpointReader(found->path)).precision.compute
                                       : Compute::fp32;
  if (!found && !recipe.phases.empty()) check_ranks_of_blocks(recipe);
  const std::filesystem::path file = first_checkpoint(recipe, found);
  if (file.empty()) return recipe_in_phase(std::move(recipe), 0);
  const CheckpointReader reader(file);
  recipe = recipe_in_phase(std::move(recipe), found ? reader.integer("/trainer", "phase") : 0);
  take_ranks(recipe, reader, found ? RanksOf::resumed : RanksOf::begun_with);
  return recipe;
}

// The run's initial checkpoint, if any, must have been trained with the tokenizer: the model depends on both,
// and the recipe is not at fault if they do not fit.
data::Tokenizer tokenizer_of(Communicator& host, const Recipe& recipe,
                             const std::optional<FoundCheckpoint>& found) {
  const std::string& file = checked_tokenizer(recipe);
  const std::filesystem::path first = first_checkpoint(recipe, found);
  data::Tokenizer tokenizer =
      first.empty() ? load_tokenizer(file) : load_tokenizer_of(CheckpointReader(first), file);
  require_same_files(host, {{"data.tokenizer", file, tokenizer.hash()}});
  return tokenizer;
}

void require_same_start(Communicator& host, const Recipe& recipe,
                        const std::optional<FoundCheckpoint>& found) {
  const std::filesystem::path first = first_checkpoint(recipe, found);
  if (first.empty()) return;
  const CheckpointReader start(first);
  require_same_files(
      host, {{found ? "run.output" : "run.initial_checkpoint", start.path().string(), start.fingerprint()}});
}

// Each process of a machine has its own GPU: the one with its number, or the only one it sees.
std::string own_device(const std::string& device, Communicator& host) {
  if (host.alone() || device == "cpu") return device;
  const int gpus = cuda_device_count();
  if (device == "auto" && gpus > 0 && !why_cuda_device_is_unfit(0).empty()) return device;  // takes the CPU
  const std::vector<std::string> only = host.gather(gpus == 1 ? cuda_device_address(0) : "");
  if (gpus == 1 && std::ranges::count(only, only[host.process()]) == 1)
    return device == "auto" ? "cuda:0" : device;
  if (host.local_processes() == 1) return device;
  if (device == "auto" && gpus == 0) return device;
  if (device != "auto" && device != "cuda")
    throw UsageError(
        fmt::format("run.device = \"{}\" is one GPU, but {} processes of this job run on this machine: set "
                    "it to \"cuda\", and each process takes one",
                    device, host.local_processes()));
  if (gpus > 0 && host.local_processes() > gpus)
    throw UsageError(fmt::format(
        "{} processes of this job run on this machine, which has {} GPUs: start as many processes as "
        "there are GPUs, or "
        "train on the CPUs with --device cpu",
        host.local_processes(), gpus));
  return gpus > 0 ? fmt::format("cuda:{}", host.local_process()) : device;
}

Processor processor_for(const Recipe& recipe, const TrainingOptions& options, Communicator& host) {
  Processor processor = options.processor != nullptr
                            ? *options.processor
                            : find_processor(own_device(recipe.run.device, host),
                                             recipe.precision.activations(), recipe.precision.operands());
  processor.graphs = recipe.run.graphs;
  return processor;
}

std::unique_ptr<Communicator> join_devices(Communicator& host, const Recipe& recipe,
                                           const TrainingOptions& options, const Processor& processor) {
  const DistributedSection& section = recipe.distributed;
  const Device device = processor.allocator.device();
  const bool gpu = device.kind == DeviceKind::cuda;
  require_same_processor(host, std::string(processor.backend.name()),
                         computes_with(processor, recipe.precision.activations()));
  if (section.backend == DistributedBackend::nccl && !gpu)
    throw UsageError(
        "distributed.backend = \"nccl\" needs GPUs, but this run is on the CPU; set it to \"mpi\"");
  if (section.backend == DistributedBackend::mpi && gpu && !host.alone())
    throw UsageError(
        "distributed.backend = \"mpi\" needs the CPU, but this run is on a GPU; set it to \"nccl\"");
  if (section.backend != DistributedBackend::nccl && (!gpu || host.alone())) return nullptr;
  return options.start_nccl(host, device, patience_of(section));
}

// Where the shape of the head's first layer was fitted to another head (resolve_task).
std::string note_of_head(const Recipe& given, const Recipe& used) {
  const std::optional<TTShape>&before = given.tensorized.head, &now = used.tensorized.head;
  if (!given.tensorized.enabled || !before || !now || before == now) return "";
  return fmt::format("tensorized.head: {} is the shape before a decoder of {} columns; the pooler has {}",
                     before->text(), given.model.table_width(), now->text());
}

// Makes paths absolute, since the run may be resumed from another folder. Machines of a job may have
// different roots.
void root_data_paths(Recipe& recipe) {
  const auto root = [](std::string& path) {
    if (!path.empty()) path = storage::from_root(path).lexically_normal().string();
  };
  for (std::string* path :
       {&recipe.data.train, &recipe.data.validation, &recipe.data.tokenizer, &recipe.task.folder})
    root(*path);
  for (DataSource& source : recipe.data.sources) root(source.folder);
  if (recipe.distillation) {
    root(recipe.distillation->teacher);
    root(recipe.distillation->cache);
  }
  for (auto* files : {&recipe.task.train, &recipe.task.validation})
    for (std::string& file : *files) root(file);
}

// Where answers to training texts are kept, there is no teacher yet.
void compare_with_teacher(EncoderTask& student, const StudentOf& of, const std::function<bool()>& stop,
                          Communicator& processes) {
  if (student.teacher() != nullptr)
    return student.compare_with(*student.teacher(), of.processor, stop, processes);
  TrainedTeacher loaded(of.recipe, of.tokenizer, of.config, of.processor);
  student.compare_with(loaded.teacher(), of.processor, stop, processes);
}

}  // namespace

void RunSetup::log_line(std::string_view line) const { log_to(options.output, "{}\n", line); }

const EncoderForm& RunSetup::set_encoder() {
  tokenizer = tokenizer_of(*host, recipe, found);
  const std::int64_t vocabulary = tokenizer->vocabulary();
  auto encoder = std::make_unique<EncoderForm>(encoder_config(recipe, vocabulary), vocabulary);
  const EncoderForm& made = *encoder;
  form = std::move(encoder);
  return made;
}

// The data determine the model; from now on the recipe contains it.
void RunSetup::set_click_model() {
  require_click_keys(recipe);
  auto clicks = std::make_unique<ClickTask>(recipe.data);
  if (const std::filesystem::path first = first_checkpoint(recipe, found); !first.empty())
    clicks->require_same_encoding(CheckpointReader(first));
  const DlrmConfig config = dlrm_config(recipe, clicks->info().dense_features, clicks->info().heights);
  recipe.dlrm->dense_features = config.dense_features;
  recipe.dlrm->tables.clear();
  for (const DlrmConfig::Table& table : config.tables) recipe.dlrm->tables.push_back(table.rows);
  auto click_form = std::make_unique<DlrmForm>(config);
  clicks->set_form(*click_form);
  form = std::move(click_form);
  task = std::move(clicks);
}

RunSetup::RunSetup(const Recipe& of_user, const TrainingOptions& given_options)
    : options(given_options), given(of_user) {
  if (given.run.use_older_checkpoint) options.resume = ResumeMode::newest_valid;
  // 1. All processes were started for the same run.
  host = options.communicator != nullptr ? options.communicator : &one_process();
  host->set_patience(patience_of(given.distributed));
  require_same_recipe(*host, given);
  require_same_command(*host, words_of(options));
  require_micro_batches(given, *host);
  // 2. The run's directory, which process 0 locks and where the others have their logs.
  directory = open_directory(*host, checked_output(given), options.mode);
  log = open_log(*host, *directory);
  if (log) options.output = log.get();
  // 3. The checkpoint to resume from, as found by process 0.
  found = find_checkpoint(*host, *directory, options);
  Recipe begun = given;
  if (options.finetune && found) take_score_scale(begun, CheckpointReader(found->path));
  recipe = of_model(options.finetune ? resolve_task(begun) : resolve_distillation(begun), found);
  // 4. That checkpoint and the tokenizer: the same bytes everywhere.
  require_same_start(*host, recipe, found);
  const EncoderForm* encoder = recipe.dlrm ? nullptr : &set_encoder();
  // A run that is resumed by its own recipe was not written by its user now.
  if (const std::string note = options.finetune ? note_of_head(given, recipe) : ""; !note.empty())
    log_line(note);
  if (const auto note = note_of_old_names(given); note && options.mode != RunMode::resume) log_line(*note);
  for (const std::string& sentence : keys_without_effect(recipe)) log_line(sentence);
  if (given.model.vector_size > 0 && recipe.model.vector_size == 0)
    log_line(fmt::format(
        "the dense layer of {} behind the vectors (model.vector_size) is left out: only a head of "
        "vectors (model.head = \"contrastive\") has one",
        given.model.vector_size));
  // 5. A device for each process, and what sums between them.
  processor.emplace(processor_for(recipe, options, *host));
  nccl = join_devices(*host, recipe, options, *processor);
  // 6. The data: the same files everywhere.
  std::optional<GivenFile> kept;
  EncoderTask* comparing = nullptr;
  if (encoder == nullptr) {
    set_click_model();
  } else {
    auto of_encoder = make_encoder_task(recipe, options.finetune, *tokenizer, encoder->config(),
                                        [this](const std::string& line) { log_line(line); });
    of_encoder->set_form(*encoder);
    if (recipe.distillation && !recipe.distillation->cache.empty()) {
      auto answers = find_answers(
          {recipe, *tokenizer, encoder->config(), *processor, *of_encoder},
          [this](const std::string& line) { log_line(line); }, options.stop_requested, *host);
      teacher = answers->teacher();
      kept = answers->file();
      of_encoder->set_answers(std::move(answers));
    } else if (auto of_recipe = find_teacher(recipe, *tokenizer, encoder->config(), *processor)) {
      teacher = of_recipe->file();
      of_encoder->set_teacher(std::move(of_recipe));
    }
    if (of_encoder->compares_with_teacher()) comparing = of_encoder.get();
    task = std::move(of_encoder);
  }
  if (recipe.run.patience > 0 && recipe.model.head == HeadKind::replaced_tokens && !recipe.dlrm)
    throw UsageError(
        "run.patience counts evaluations without a better model, but losses of replaced tokens do not rank "
        "models, since a better generator makes them harder to find; remove it");
  if (recipe.run.patience > 0 && !task->keeps_best())
    throw UsageError(
        "run.patience counts evaluations without a better model, but this run has nothing to evaluate on; "
        "give "
        "held-out data, or remove it");
  std::vector<GivenFile> files = task->inputs();
  if (teacher) files.push_back(*teacher);
  if (kept) files.push_back(*kept);
  require_same_files(*host, files);
  if (comparing != nullptr)
    compare_with_teacher(*comparing, {recipe, *tokenizer, encoder->config(), *processor, *comparing},
                         options.stop_requested, *host);
  root_data_paths(recipe);
  prepare_threads(static_cast<int>(recipe.run.threads > 0 ? recipe.run.threads : host->own_cpus()));
}

}  // namespace comera
