#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

namespace comera::cli {

// Before the work, not after it: makes the folder that the file is to be in. Error if nothing can be written
// there, or if what has the name is no file.
void prepare_output(const std::filesystem::path& file);

// UsageError if anything has the name and is not to be replaced; what comes to have it later is not, either.
void check_free(const std::filesystem::path& file, bool overwrite);

// UsageError if the folder for shards is a file, or holds files that are not to be replaced. What a build
// that was killed has left does not count: the next one removes it.
void check_shard_folder(const std::filesystem::path& folder, bool overwrite);

// --output of a command that writes files, and --overwrite.
struct OutputOptions {
  std::filesystem::path path;
  bool overwrite = false;

  // UsageError if the path exists and is not to be replaced, or is the input itself; Error if nothing can be
  // written there. Makes the folders above it.
  void check(const std::filesystem::path& input = {}) const;
  // The same of a file in the folder that the path is.
  void check_file(const std::filesystem::path& name) const;
};

void add_output_options(CLI::App& command, OutputOptions& options, const std::string& description,
                        bool required = true);

}  // namespace comera::cli
