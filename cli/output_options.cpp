#include "cli/output_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/core/check.h"

namespace comera::cli {

namespace {

void refuse_existing(const std::filesystem::path& path, bool overwrite) {
  std::error_code code;
  if (!overwrite && std::filesystem::exists(path, code))
    throw UsageError(fmt::format("{}: exists already; give --overwrite to replace it", path.string()));
}

}  // namespace

void OutputOptions::check(const std::filesystem::path& input) const {
  std::error_code code;
  if (!input.empty() && std::filesystem::equivalent(input, path, code))
    throw UsageError(fmt::format("--output {} is the input; give another name", path.string()));
  refuse_existing(path, overwrite);
  // Before the work, not after it.
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::filesystem::create_directories(folder, code);
  if (code || access(folder.c_str(), W_OK) != 0)
    throw Error(fmt::format("{}: cannot be written to: {}", folder.string(),
                            code ? code.message() : std::strerror(errno)));
}

void OutputOptions::check_file(const std::filesystem::path& name) const {
  refuse_existing(path / name, overwrite);
}

void add_output_options(CLI::App& command, OutputOptions& options, const std::string& description) {
  command.add_option("--output", options.path, description)->required();
  command.add_flag("--overwrite", options.overwrite, "Replace the output if it exists");
}

}  // namespace comera::cli
