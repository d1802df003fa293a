#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

namespace comera::cli {

// Called before the work: creates the output file's folder. Error if nothing can be written there, or if the
// name is taken by something other than a file.
void prepare_output(const std::filesystem::path& file);

// UsageError if the name is taken and must not be replaced; it is also protected from files created later.
void check_free(const std::filesystem::path& file, bool overwrite);

// UsageError if the folder for shards is a file, or contains files that must not be replaced. Leftovers of a
// killed build do not count: the next one removes them.
void check_shard_folder(const std::filesystem::path& folder, bool overwrite);

// --output of a command that writes files, and --overwrite.
struct OutputOptions {
  std::filesystem::path path;
  bool overwrite = false;

  // UsageError if the path exists and must not be replaced, or is the input itself; Error if nothing can be
  // written there. Creates the folders above it.
  void check(const std::filesystem::path& input = {}) const;
  // The same for a file in the folder `path`.
  void check_file(const std::filesystem::path& name) const;
};

void add_output_options(CLI::App& command, OutputOptions& options, const std::string& description,
                        bool required = true);

}  // namespace comera::cli
