#include "cli/checkpoint_subject.h"

#include <fmt/format.h>

#include "checkpoints/checkpoint_directory.h"
#include "kernels/core/console.h"

namespace comera::cli {

std::filesystem::path checkpoint_subject(const std::filesystem::path& subject, const std::string& instead) {
  std::error_code none;
  if (!std::filesystem::is_directory(subject, none)) return subject;
  const auto found = find_latest(subject / "checkpoints", ResumeMode::newest_to_read);
  if (!found)
    throw UsageError(fmt::format("{} is a folder without checkpoints; give {} or a run's folder",
                                 subject.string(), instead));
  if (!found->missing.empty())
    log_info("note: {} was saved but is missing; {} is used\n", found->missing.string(),
             found->path.filename().string());
  return found->path;
}

}  // namespace comera::cli
