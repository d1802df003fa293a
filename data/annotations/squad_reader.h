#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace comera::data {

struct SquadAnswer {
  std::string text;
  std::int64_t begin = 0;  // byte of the context
};

struct SquadQuestion {
  std::string id, question;
  std::size_t context = 0;  // in SquadFile::contexts
  std::vector<SquadAnswer> answers;
};

struct SquadFile {
  std::vector<std::string> contexts;
  std::vector<SquadQuestion> questions;
};

// Questions about texts in SQuAD's JSON, version 1.1 (Rajpurkar et al., 2016), plain or compressed.
//   answers: each question must have one. Without, answers are ignored.
// Error in one sentence, with the place in the file, for what is not of that kind, and for a question without
// an answer, as SQuAD 2.0 has them.
SquadFile read_squad(const std::filesystem::path& file, bool answers);

// Whether a file is plainly of this kind, by its name (.json) and its beginning. Errors: LineReader's.
bool is_squad_file(const std::filesystem::path& file);

}  // namespace comera::data
