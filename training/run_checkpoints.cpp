#include "training/run_checkpoints.h"

#include <fmt/format.h>

#include "storage/durable_file.h"
#include "training/lost_checkpoints.h"

namespace comera {

RunCheckpoints::RunCheckpoints(const RunDirectory& directory, Job& job, std::int64_t keep, double minutes)
    : directory_(directory), job_(job), minutes_(minutes) {
  if (job.first()) files_ = std::make_unique<CheckpointDirectory>(directory.checkpoints(), keep);
}

bool RunCheckpoints::due() const {
  return minutes_ > 0 &&
         std::chrono::steady_clock::now() - saved_at_ >= std::chrono::duration<double>(60 * minutes_);
}

void RunCheckpoints::save(std::int64_t step, const ParameterStore& model, const Write& write) {
  try {
    job_.require_same_model(step, model);
    last_ = on_first(job_.host(), [&] { return files_->save(step, write).string(); });
    step_ = step;
    saved_at_ = std::chrono::steady_clock::now();
    on_first(job_.host(), [&] {
      sign_saved_checkpoints(directory_);
      return std::string();
    });
  } catch (const Error& error) {
    throw_error(fmt::format("{}; {}; mend that and go on with --resume auto", error.what(), last_text()));
  }
  job_.host().set_advice(last_text() + ": go on with --resume auto");
}

void RunCheckpoints::save_aside(const std::filesystem::path& file, const Write& write) const {
  on_first(job_.host(), [&] {
    CheckpointWriter writer(file);
    write(writer);
    writer.commit();
    return std::string();
  });
}

// Checkpoints never change, so that another name for the same file is as good as a copy, and takes no room.
void RunCheckpoints::keep_best() const {
  on_first(job_.host(), [&] {
    storage::link_file_durably(last_, directory_.best());
    return std::string();
  });
}

void RunCheckpoints::keep_milestone() const {
  on_first(job_.host(), [&] {
    storage::create_directories_durably(directory_.milestones());
    storage::link_file_durably(last_, directory_.milestones() / last_.filename());
    return std::string();
  });
}

void RunCheckpoints::resume(const FoundCheckpoint& found, std::int64_t step,
                            const std::function<void(const std::string&)>& say) {
  for (const RefusedCheckpoint& refused : found.refused)
    say(fmt::format("{} is kept as {}", refused.path.filename().string(),
                    files_->set_aside(refused.path).filename().string()));
  step_ = step;
  last_ = found.path;
  job_.host().set_advice(last_text() + ": go on with --resume auto");
}

std::string RunCheckpoints::last_text() const {
  return any() ? fmt::format("the last good checkpoint is {}", last_.string())
               : "no checkpoint has been saved yet";
}

}  // namespace comera
