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
  std::size_t context = 0;           // in SquadFile::contexts
  std::vector<SquadAnswer> answers;  // none: the context has no answer
};

struct SquadFile {
  std::vector<std::string> contexts;
  std::vector<SquadQuestion> questions;
  bool impossible = false;            // some say is_impossible: true, as in version 2.0
  std::int64_t unanswerable() const;  // questions without an answer
};

// Questions about texts in SQuAD's JSON, plain or compressed: version 1.1 (Rajpurkar et al., 2016), or 2.0
// (Rajpurkar et al., 2018), whose questions may have no answer.
//   answers: each question must have a list of them, which may be empty. Without, answers are ignored.
// Error in one sentence, with the place in the file, for what is not of that kind.
SquadFile read_squad(const std::filesystem::path& file, bool answers);

// Whether a file is plainly of this kind, by its name (.json) and its beginning. Errors: LineReader's.
bool is_squad_file(const std::filesystem::path& file);

}  // namespace comera::data
