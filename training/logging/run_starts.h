#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace comera {

// When, where and by which command a run was started or resumed.
struct RunStart {
  std::string time;  // local: "2026-11-29 23:40"
  std::int64_t step = 0;
  std::string machine;                    // "AMD EPYC 9454, 4 CPUs; bf16"
  std::vector<std::string> command = {};  // this process's command line
};

// Appends a line to starts.jsonl, or begins the file at step 0. device: what computes, after the machine's
// processor. Throws Error.
void note_start(const std::filesystem::path& file, std::int64_t step, const std::string& device);

// What the file has of them; lines that cannot be read are left out, and so is a missing file.
std::vector<RunStart> read_starts(const std::filesystem::path& file);

}  // namespace comera
