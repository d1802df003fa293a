#include "cli/options/output_options.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernels/core/check.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/free_name.h"

namespace comera::cli {

namespace {

// In a folder such as /tmp only the owner of a file may rename another to its name.
bool belongs_to_another(const std::filesystem::path& file, const std::filesystem::path& folder) {
  struct stat own {
  }, above{};
  const uid_t user = geteuid();
  return user != 0 && lstat(file.c_str(), &own) == 0 && stat(folder.c_str(), &above) == 0 &&
         (above.st_mode & S_ISVTX) != 0 && own.st_uid != user && above.st_uid != user;
}

}  // namespace

void prepare_output(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  storage::create_directories_durably(folder);
  const storage::DurableFile possible(file);
  if (access(folder.c_str(), W_OK) != 0)
    throw Error(fmt::format("{}: cannot be written to: {}", folder.string(), std::strerror(errno)));
  if (belongs_to_another(file, folder))
    throw Error(fmt::format(
        "{}: belongs to another user, and only they may replace it in this folder; give another name",
        file.string()));
}

void check_free(const std::filesystem::path& file, bool overwrite) {
  if (overwrite) return;
  storage::never_replace(file);
  if (storage::is_taken(file))
    throw UsageError(fmt::format("{}: already exists; give --overwrite to replace it", file.string()));
}

void check_shard_folder(const std::filesystem::path& folder, bool overwrite) {
  std::error_code code;
  if (std::filesystem::exists(folder, code) && !std::filesystem::is_directory(folder, code))
    throw UsageError(fmt::format("--output {} is a file; name a folder for the shards", folder.string()));
  const auto was_killed = [](const std::filesystem::path& entry) {
    return entry.extension() == ".partial" || entry.extension() == ".comera-tmp";
  };
  if (!overwrite && !std::ranges::all_of(storage::entries_of(folder, code), was_killed))
    throw UsageError(fmt::format(
        "{}: exists and is not an empty folder; give --overwrite to replace its shards", folder.string()));
}

void OutputOptions::check(const std::filesystem::path& input) const {
  std::error_code code;
  if (!input.empty() && std::filesystem::equivalent(input, path, code))
    throw UsageError(fmt::format("--output {} is the input; give another name", path.string()));
  check_free(path, overwrite);
  prepare_output(path);
}

void OutputOptions::check_file(const std::filesystem::path& name) const {
  check_free(path / name, overwrite);
}

void add_output_options(CLI::App& command, OutputOptions& options, const std::string& description,
                        bool required) {
  CLI::Option* output =
      command.add_option("--output", options.path, description)->required(required)->type_name("FILE");
  CLI::Option* overwrite = command.add_flag("--overwrite", options.overwrite, "Replace an existing output");
  if (!required) overwrite->needs(output);
}

}  // namespace comera::cli
