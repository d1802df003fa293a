#include "training/run/process_agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "recipes/changes.h"
#include "storage/hash.h"

namespace comera {

namespace {

// The first process whose text differs from that of process 0, and all texts.
struct Difference {
  std::size_t process = 0;
  std::vector<std::string> all;
  const std::string& first() const { return all[0]; }
  const std::string& theirs() const { return all[process]; }
};

std::optional<Difference> find_difference(Communicator& processes, const std::string& own) {
  if (processes.alone()) return std::nullopt;
  Difference found{.process = 1, .all = processes.gather(own)};
  while (found.process < found.all.size() && found.theirs() == found.first()) ++found.process;
  return found.process < found.all.size() ? std::optional(found) : std::nullopt;
}

// ": it has phase.0.steps = 20 instead of 10", for recipes that differ.
std::string first_change(const std::string& ours, const std::string& theirs) {
  const auto read = [](const std::string& text) { return parse_stored_recipe(text, "a process's recipe"); };
  const std::vector<RecipeChange> changes = recipe_changes(read(ours), read(theirs));
  if (changes.empty()) return "";
  const RecipeChange& first = changes.front();
  if (first.from.empty())
    return fmt::format(": it has {} = {}, which process 0 does not have", first.key, first.to);
  if (first.to.empty()) return fmt::format(": it does not have {} = {}", first.key, first.from);
  return fmt::format(": it has {} = {} instead of {}", first.key, first.to, first.from);
}

// A list of files as one text, and back. No path has a zero byte.
constexpr char end_of_part = '\0';

std::string to_text(const std::vector<GivenFile>& files) {
  std::string text;
  for (const GivenFile& file : files)
    for (const std::string* part : {&file.key, &file.path, &file.content}) text += *part + end_of_part;
  return text;
}

using FileName = std::pair<std::string, std::string>;  // key and path

std::map<FileName, std::string> parse_files(const std::string& text) {
  std::map<FileName, std::string> contents;
  for (std::size_t at = 0; at < text.size();) {
    const auto next = [&] {
      const std::size_t end = text.find(end_of_part, at);
      std::string part = text.substr(at, end - at);
      at = end + 1;
      return part;
    };
    FileName name;
    name.first = next();
    name.second = next();
    contents[name] = next();
  }
  return contents;
}

// How process `process` differs: "process 1 has no shards/train-00001.h5 (data.train)".
std::string first_other_file(std::size_t process, const std::string& first, const std::string& theirs) {
  const auto expected = parse_files(first), found = parse_files(theirs);
  for (const auto& [name, content] : expected) {
    const auto same = found.find(name);
    if (same == found.end())
      return fmt::format("process {} has no {} ({}), which process 0 has", process, name.second, name.first);
    if (same->second != content)
      return fmt::format("process {} has other contents in {} ({}) than process 0", process, name.second,
                         name.first);
  }
  for (const auto& [name, content] : found)
    if (!expected.contains(name))
      return fmt::format("process {} has {} ({}), which process 0 does not have", process, name.second,
                         name.first);
  return fmt::format("process {} lists the files in another order than process 0", process);
}

}  // namespace

void require_same_recipe(Communicator& processes, const Recipe& recipe) {
  if (const auto other = find_difference(processes, to_toml(recipe)))
    throw UsageError(fmt::format(
        "process {} was started with another recipe than process 0; give all processes the same{}",
        other->process, first_change(other->first(), other->theirs())));
}

void require_same_command(Communicator& processes, const std::string& words) {
  if (const auto other = find_difference(processes, words))
    throw UsageError(
        fmt::format("process {} was started with '{}', but process 0 with '{}'; give all processes the same",
                    other->process, other->theirs(), other->first()));
}

void require_same_processor(Communicator& processes, const std::string& backend,
                            const std::string& instruction_set) {
  // A process that falls back to the CPU because its GPU's driver is broken must not keep the others waiting.
  if (const auto other = find_difference(processes, backend))
    throw UsageError(fmt::format(
        "process {} would train on {}, process 0 on {}; give every process a GPU, or --device cpu",
        other->process, other->theirs(), other->first()));
  // Sums over more lanes differ in the last bits, and norms and clipping would pass this on to the models.
  if (const auto other = find_difference(processes, instruction_set)) {
    const bool any_v3 = std::ranges::find(other->all, "v3") != other->all.end();
    throw UsageError(fmt::format(
        "process {} would compute with {}, process 0 with {}, and their models would drift apart; start all "
        "with COMERA_ISA={} in the environment",
        other->process, other->theirs(), other->first(), any_v3 ? "v3" : "v4"));
  }
}

std::string fingerprint_of_all(const std::vector<std::string>& contents) {
  if (contents.size() < 2) return contents.empty() ? "" : contents.front();
  return storage::hash128(fmt::format("{}", fmt::join(contents, "\n"))).hex();
}

void require_same_files(Communicator& processes, const std::vector<GivenFile>& files) {
  if (const auto other = find_difference(processes, to_text(files)))
    throw UsageError(fmt::format("{}; give all machines the same files",
                                 first_other_file(other->process, other->first(), other->theirs())));
}

void require_same_model(Communicator& processes, std::int64_t step, const std::string& hash) {
  if (const auto other = find_difference(processes, hash))
    throw Error(
        fmt::format("at step {} process {} has another model than process 0, so nothing is saved; check that "
                    "machine's memory and libraries",
                    step, other->process));
}

}  // namespace comera
