// What a training run does about the other ranks of its job.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "distributed/nccl_communicator.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/hash.h"
#include "training/lost_checkpoints.h"
#include "training/rank_agreement.h"
#include "training/training_run.h"

namespace comera {

namespace {

Communicator::Patience patience_of(const DistributedSection& section) {
  return {.silent_seconds = section.silence_seconds, .stalled_seconds = section.stall_seconds};
}

// What decides about the order of a run's steps and collective operations, as on the command line.
std::string words_of(const TrainingOptions& options) {
  const char* resume = options.mode == RunMode::resume      ? "always"
                       : options.mode == RunMode::automatic ? "auto"
                                                            : "never";
  return fmt::format("{} --resume {}{}{}", options.finetune ? "finetune" : "pretrain", resume,
                     options.resume == ResumeMode::newest_valid ? " --use-older-checkpoint" : "",
                     options.stop_after > 0 ? fmt::format(" --stop-after {}", options.stop_after) : "");
}

}  // namespace

// Before anything whose order depends on it: all ranks are to do the same, and each needs a pack of each
// step.
Communicator* TrainingRun::begin_job(const Recipe& recipe) const {
  Communicator* host = options_.communicator != nullptr ? options_.communicator : &one_process();
  host->set_patience(patience_of(recipe.distributed));
  require_same_recipe(*host, recipe);
  require_same_command(*host, words_of(options_));
  for (std::size_t phase = 0; phase < recipe.phases.size(); ++phase)
    if (const std::int64_t packs = recipe.phases[phase].packs_per_step; packs < host->ranks())
      throw UsageError(fmt::format(
          "phase.{0}.packs_per_step = {1}, but the job has {2} ranks, which share the packs of a step: "
          "give it {2} or a multiple (and fewer tokens_per_pack for as many tokens in a step)",
          phase, packs, host->ranks()));
  return host;
}

// The first rank holds the lock.
std::unique_ptr<RunDirectory> TrainingRun::open_directory(const std::filesystem::path& path) const {
  std::unique_ptr<RunDirectory> directory;
  const std::string resumes = on_first(*host_, [&] {
    directory = std::make_unique<RunDirectory>(path, options_.mode);
    return std::string(directory->resumes() ? "yes" : "");
  });
  if (!directory) directory = std::make_unique<RunDirectory>(path, !resumes.empty());
  return directory;
}

// The first rank speaks to people, the others to a file each.
std::unique_ptr<std::FILE, CloseFile> TrainingRun::open_log() {
  on_first(*host_, [&] {
    if (!host_->alone()) directory_->make_rank_logs();
    return std::string();
  });
  if (host_->first()) return nullptr;
  const std::filesystem::path file = directory_->rank_logs() / fmt::format("rank-{}.log", host_->rank());
  std::unique_ptr<std::FILE, CloseFile> log;
  try {
    log.reset(fdopen(storage::FileDescriptor::open_own(file).release(), "a"));
  } catch (const Error& error) {
    throw_error(
        fmt::format("{}; is {} a folder that all ranks see?", error.what(), directory_->path().string()));
  }
  COMERA_CHECK(log != nullptr, "{}: could not be opened as a log", file.string());
  std::setvbuf(log.get(), nullptr, _IOLBF, 0);
  options_.output = log.get();
  return log;
}

std::optional<FoundCheckpoint> TrainingRun::find_checkpoint() const {
  if (!directory_->resumes()) return std::nullopt;
  std::optional<FoundCheckpoint> found;
  const std::string path = on_first(*host_, [&] {
    found = find_latest(directory_->checkpoints(), options_.resume);
    const std::string folder = directory_->checkpoints().string();
    if (const std::string why = found ? "" : why_checkpoints_are_missed(*directory_); !why.empty())
      throw Error(fmt::format(
          "{} holds no checkpoint, but {}: mount or restore it, or begin another run with another "
          "--output",
          folder, why));
    if (!found && options_.mode == RunMode::resume)
      throw UsageError(
          fmt::format("{} holds no checkpoint to resume from; --resume auto begins the run anew", folder));
    if (!found) {
      directory_->begin_anew();
      say_to(options_.output, "{} holds no checkpoint yet: the run begins anew\n", folder);
    }
    if (found) sign_saved_checkpoints(*directory_);
    return found ? found->path.string() : std::string();
  });
  if (!path.empty() && !found) found = FoundCheckpoint{.path = path, .step = 0, .refused = {}};
  return found;
}

std::unique_ptr<Communicator> TrainingRun::join_devices() const {
  const DistributedSection& section = recipe_.distributed;
  const Device device = processor_.allocator.device();
  const bool gpu = device.kind == DeviceKind::cuda;
  require_same_processor(*host_, std::string(processor_.backend.name()),
                         computes_with(processor_, recipe_.precision.activations()));
  if (section.backend == DistributedBackend::nccl && !gpu)
    throw UsageError(
        "distributed.backend = \"nccl\" sums the memory of GPUs, but this run is on the CPU; give \"mpi\"");
  if (section.backend == DistributedBackend::mpi && gpu && !host_->alone())
    throw UsageError(
        "distributed.backend = \"mpi\" sums the memory of CPUs, but this run is on a GPU; give \"nccl\"");
  if (section.backend != DistributedBackend::nccl && (!gpu || host_->alone())) return nullptr;
  return start_nccl(*host_, device, patience_of(section));
}

void TrainingRun::say_place() const {
  if (host_->alone()) return;
  say_to(options_.output, "{} ranks, {}; this is rank {} with {}, {} threads\n", host_->ranks(),
         communicator_->name(), host_->rank(), processor_.backend.name(), thread_count());
  const std::int64_t here = sysconf(_SC_NPROCESSORS_ONLN);
  if (recipe_.run.threads == 0 && 2 * host_->own_cpus() * host_->local_ranks() <= here)
    say_to(options_.output,
           "its machine has {} CPUs and {} ranks: mpirun --bind-to none, or --map-by slot:PE=N, gives "
           "each more\n",
           here, host_->local_ranks());
}

// All ranks make the same steps from the same sums. What made one differ (a broken memory, another library)
// must not go into a checkpoint.
void TrainingRun::check_same_model() {
  if (host_->alone()) return;
  const ParameterStore& store = engine_->model().parameters();
  std::vector<std::byte> bytes(store.values().bytes());
  Allocator& allocator = store.allocator();
  allocator.download(bytes.data(), store.values().raw(), bytes.size(), allocator.stream());
  allocator.synchronize(allocator.stream());
  const std::string_view model(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  require_same_model(*host_, state_.step, storage::hash128(model).hex());
}

// What the ranks tell each other in every step.
void TrainingRun::share_step(double& targets, std::int64_t& tokens) {
  const bool stop = options_.stop_requested && options_.stop_requested();
  const bool save = host_->first() && checkpoint_is_due();  // by one clock
  std::vector<double> all = {targets, static_cast<double>(tokens), stop ? 1. : 0., save ? 1. : 0.};
  const std::size_t first = all.size();
  all.resize(first + host_->ranks());
  all[first + host_->rank()] = engine_->waited_ms();
  host_->sum(all);
  targets = all[0];
  tokens = static_cast<std::int64_t>(all[1]);
  stop_agreed_ |= all[2] > 0;
  save_agreed_ = all[3] > 0;
  // Who comes last waits for nothing but the sums.
  const std::span<const double> waited = std::span(all).subspan(first);
  const double sums = *std::ranges::min_element(waited);
  const double mean = std::reduce(waited.begin(), waited.end()) / static_cast<double>(waited.size());
  waiting_.sums_ms += sums;
  waiting_.ranks_ms += mean - sums;
  ++waiting_.steps;
}

// A GPU waits by itself, unseen by the host.
void TrainingRun::add_waiting(JsonObject& line) {
  if (waiting_.steps > 0 && processor_.allocator.device().kind == DeviceKind::cpu) {
    const auto steps = static_cast<double>(waiting_.steps);
    JsonObject waiting;
    waiting.add("sums", waiting_.sums_ms / steps).add("ranks", waiting_.ranks_ms / steps);
    line.add("waiting_ms", waiting);
  }
  waiting_ = {};
}

void TrainingRun::write_metrics(std::int64_t step, const JsonObject& line) {
  state_.logged.add(step);
  if (metrics_) metrics_->write(step, line);
}

// Ranks agree on it during a step.
bool TrainingRun::stop_wanted() const {
  return host_->alone() ? options_.stop_requested && options_.stop_requested() : stop_agreed_;
}

}  // namespace comera
