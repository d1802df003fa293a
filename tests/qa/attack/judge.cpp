#include "tests/qa/attack/judge.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "storage/hdf5.h"
#include "tests/qa/attack/samples/files.h"

namespace comera::attack {

namespace {

constexpr std::string_view error_start = "comera: error: ";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string shortened(const std::string& text) {
  std::string line = text.substr(0, 300);
  std::ranges::replace(line, '\n', '|');
  return line;
}

bool has_control_characters(const std::string& line) {
  return std::ranges::any_of(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool is_loaders(const Ending& ending) {
  return (ending.code == 127 || ending.code == 1) &&
         (ending.err.find("while loading shared libraries") != ending.err.npos ||
          ending.err.find("cannot allocate memory in static TLS") != ending.err.npos);
}

std::string fault_in_refusal(const Ending& ending, const Allowed& allowed) {
  std::vector<std::string> lines = lines_of(ending.err), errors;
  std::erase(lines, "");
  for (const std::string& line : lines)
    if (line.find(error_start) != line.npos) errors.push_back(line);
  if (errors.empty())
    return fmt::format("exit code {} without a sentence: {}", ending.code, shortened(ending.err));
  if (errors.size() > 1) return "more than one sentence: " + shortened(errors[0] + "\n" + errors[1]);
  const std::string& sentence = errors[0];
  if (!sentence.starts_with(error_start))
    return "the sentence does not begin its line: " + shortened(sentence);
  if (lines.back() != sentence)
    return "something follows the sentence: " + shortened(sentence + "\n" + lines.back());
  if (sentence.find("unexpected:") != sentence.npos) return "unexpected: " + shortened(sentence);
  if (has_control_characters(sentence)) return "control characters in the sentence: " + shortened(sentence);
  const auto named = [&](const std::string& name) { return sentence.find(name) != sentence.npos; };
  if (!allowed.names.empty() && std::ranges::none_of(allowed.names, named))
    return fmt::format("the sentence names none of {}: {}", fmt::join(allowed.names, ", "),
                       shortened(sentence));
  return "";
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string nonfinite_vectors(const fs::path& file) {
  const storage::hdf5::File vectors = storage::hdf5::File::open(file);
  if (!vectors.exists("vectors")) return "";
  for (const float value : vectors.read<float>("vectors"))
    if (!std::isfinite(value)) return fmt::format("{} in vectors", value);
  return "";
}

}  // namespace

std::string sentence_of(const std::string& err) {
  for (const std::string& line : lines_of(err))
    if (line.starts_with(error_start)) return line;
  return "";
}

std::string fault_in(const Ending& ending, const Allowed& allowed) {
  if (ending.late) return fmt::format("it did not end within {:.0f} s", ending.seconds);
  if (allowed.loader && is_loaders(ending)) return "";
  if (ending.signal != 0)
    return fmt::format("ended by signal {} ({}): {}", ending.signal, strsignal(ending.signal),
                       shortened(ending.err));
  if (ending.code == 0) {
    if (!allowed.success) return "accepted, exit code 0: " + shortened(ending.err);
    const std::string sentence = sentence_of(ending.err);
    return sentence.empty() ? "" : "exit code 0 with an error: " + shortened(sentence);
  }
  if (ending.code != 1 && ending.code != 2)
    return fmt::format("exit code {}: {}", ending.code, shortened(ending.err));
  if (!allowed.refusal) return fmt::format("refused: {}", shortened(ending.err));
  return allowed.unheard ? "" : fault_in_refusal(ending, allowed);
}

std::string nonfinite_in(std::string_view text) {
  for (const std::string_view word : {"nan", "inf", "null"})
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      const bool whole = (end == text.size() || !is_word(text[end])) && (at == 0 || !is_word(text[at - 1]));
      // Not within a name, a path or a text of JSON.
      const bool is_value = at == 0 || std::string_view(":,[\t \n-(=").find(text[at - 1]) != text.npos;
      if (!whole || !is_value) continue;
      std::string around(text.substr(at < 60 ? 0 : at - 60, 60 + word.size()));
      std::ranges::replace(around, '\n', '|');
      return around;
    }
  return "";
}

std::string nonfinite_result(const fs::path& file) {
  std::error_code code;
  if (!fs::exists(file, code)) return "";
  const std::string found =
      file.extension() == ".h5" ? nonfinite_vectors(file) : nonfinite_in(read_text(file));
  return found.empty() ? "" : fmt::format("{} holds what is not finite: {}", file.filename().string(), found);
}

}  // namespace comera::attack
