#include "training/resume/run_checkpoints.h"

#include <fmt/ranges.h>

#include <vector>

#include "storage/durable_file.h"
#include "storage/folder.h"
#include "training/resume/lost_checkpoints.h"

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
    throw_error(fmt::format("{}; {}; fix that and continue with --resume auto", error.what(), last_text()));
  }
  job_.host().set_advice(last_text() + ": continue with --resume auto");
}

void RunCheckpoints::save_aside(const std::filesystem::path& file, const Write& write) const {
  on_first(job_.host(), [&] {
    CheckpointWriter writer(file);
    write(writer);
    writer.commit();
    return std::string();
  });
}

// Checkpoints never change, so a hard link is as good as a copy, and takes no space.
void RunCheckpoints::keep_best() const {
  on_first(job_.host(), [&] {
    storage::link_file_durably(last_, directory_.best());
    return std::string();
  });
}

std::string RunCheckpoints::restored_best(std::int64_t best) const {
  const std::filesystem::path file = directory_.best(), checkpoint = files_->file_of(best);
  std::vector<std::string> told;
  if (storage::exists(file)) {
    std::string name;
    try {
      const std::int64_t step = CheckpointReader(file).integer("/trainer", "step");
      if (step == best) return "";
      // An earlier one is replaced below, if the better one exists.
      if (step > best || !storage::exists(checkpoint)) {
        name = fmt::format("best-step-{}.h5", step);
        told.push_back(fmt::format(
            "best.h5 belongs to step {} and is not the best model of the resumed run; it is kept as {}", step,
            name));
      }
    } catch (const Error&) {
      name = "best.h5.damaged";
      told.push_back(fmt::format("best.h5 is damaged and is kept as {}", name));
    }
    if (!name.empty()) storage::rename_durably(file, file.parent_path() / name);
  }
  if (best > 0 && storage::exists(checkpoint)) {
    // Also after a stop between saving it and keeping it as the best.
    storage::link_file_durably(checkpoint, file);
    if (!told.empty()) told.push_back(fmt::format("the best model is again that of step {}", best));
  } else if (best > 0) {
    told.push_back(fmt::format("the best model, that of step {}, is missing", best));
  }
  return fmt::format("{}", fmt::join(told, "; "));
}

bool RunCheckpoints::restore_best(std::int64_t best,
                                  const std::function<void(const std::string&)>& log_line) const {
  const std::string told = on_first(job_.host(), [&] { return restored_best(best); });
  if (!told.empty()) log_line(told);
  const auto is_there = [&] { return std::string(storage::exists(directory_.best()) ? "yes" : ""); };
  return !on_first(job_.host(), is_there).empty();
}

void RunCheckpoints::keep_milestone() const {
  on_first(job_.host(), [&] {
    storage::create_directories_durably(directory_.milestones());
    storage::link_file_durably(last_, directory_.milestones() / last_.filename());
    return std::string();
  });
}

void RunCheckpoints::resume(const FoundCheckpoint& found, std::int64_t step,
                            const std::function<void(const std::string&)>& log_line) {
  for (const RefusedCheckpoint& refused : found.refused)
    log_line(fmt::format("{} is kept as {}", refused.path.filename().string(),
                         files_->set_aside(refused.path).filename().string()));
  step_ = step;
  last_ = found.path;
  job_.host().set_advice(last_text() + ": continue with --resume auto");
}

std::string RunCheckpoints::last_text() const {
  std::error_code code;
  if (!any()) return "no checkpoint has been saved yet";
  // Processes other than 0 may not see it at all.
  return files_ == nullptr || std::filesystem::exists(last_, code)
             ? fmt::format("the last good checkpoint is {}", last_.string())
             : fmt::format("the last good checkpoint was {}, which is now missing", last_.string());
}

}  // namespace comera
