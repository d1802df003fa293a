#include "training/rank_agreement.h"

#include <algorithm>
#include <map>
#include <optional>

#include "recipes/changes.h"

namespace comera {

namespace {

// The first rank whose text is not rank 0's, and all texts.
struct Difference {
  std::size_t rank = 0;
  std::vector<std::string> all;
  const std::string& first() const { return all[0]; }
  const std::string& theirs() const { return all[rank]; }
};

std::optional<Difference> find_difference(Communicator& ranks, const std::string& own) {
  if (ranks.alone()) return std::nullopt;
  Difference found{.rank = 1, .all = ranks.gather(own)};
  while (found.rank < found.all.size() && found.theirs() == found.first()) ++found.rank;
  return found.rank < found.all.size() ? std::optional(found) : std::nullopt;
}

// ": it has phase.0.steps = 20 instead of 10", of recipes that differ.
std::string first_change(const std::string& ours, const std::string& theirs) {
  const auto read = [](const std::string& text) { return parse_stored_recipe(text, "a rank's recipe"); };
  const std::vector<RecipeChange> changes = recipe_changes(read(ours), read(theirs));
  if (changes.empty()) return "";
  const RecipeChange& first = changes.front();
  if (first.from.empty())
    return fmt::format(": it has {} = {}, which rank 0 does not have", first.key, first.to);
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

// What rank `rank` has otherwise: "rank 1 has no shards/train-00001.h5 (data.train)".
std::string first_other_file(std::size_t rank, const std::string& first, const std::string& theirs) {
  const auto expected = parse_files(first), found = parse_files(theirs);
  for (const auto& [name, content] : expected) {
    const auto same = found.find(name);
    if (same == found.end())
      return fmt::format("rank {} has no {} ({}), which rank 0 has", rank, name.second, name.first);
    if (same->second != content)
      return fmt::format("rank {} has something else in {} ({}) than rank 0", rank, name.second, name.first);
  }
  for (const auto& [name, content] : found)
    if (!expected.contains(name))
      return fmt::format("rank {} has {} ({}), which rank 0 has not", rank, name.second, name.first);
  return fmt::format("rank {} has the files in another order than rank 0", rank);
}

}  // namespace

void require_same_recipe(Communicator& ranks, const Recipe& recipe) {
  if (const auto other = find_difference(ranks, to_toml(recipe)))
    throw UsageError(fmt::format("rank {} was started with another recipe than rank 0; give all the same{}",
                                 other->rank, first_change(other->first(), other->theirs())));
}

void require_same_command(Communicator& ranks, const std::string& words) {
  if (const auto other = find_difference(ranks, words))
    throw UsageError(fmt::format("rank {} was started with '{}', but rank 0 with '{}'; give all the same",
                                 other->rank, other->theirs(), other->first()));
}

void require_same_processor(Communicator& ranks, const std::string& backend,
                            const std::string& instruction_set) {
  // One that takes the CPU because its GPU's driver is broken must not keep the others waiting.
  if (const auto other = find_difference(ranks, backend))
    throw UsageError(fmt::format("rank {} would train on {}, rank 0 on {}; give all a GPU, or --device cpu",
                                 other->rank, other->theirs(), other->first()));
  // Sums over more lanes have other last bits, which norms and clipping would bring into the models.
  if (const auto other = find_difference(ranks, instruction_set)) {
    const bool any_v3 = std::ranges::find(other->all, "v3") != other->all.end();
    throw UsageError(fmt::format(
        "rank {} would compute with {}, rank 0 with {}, and their models would drift apart; start all "
        "with COMERA_ISA={} in the environment",
        other->rank, other->theirs(), other->first(), any_v3 ? "v3" : "v4"));
  }
}

void require_same_files(Communicator& ranks, const std::vector<GivenFile>& files) {
  if (const auto other = find_difference(ranks, to_text(files)))
    throw UsageError(fmt::format("{}; give all machines the same files",
                                 first_other_file(other->rank, other->first(), other->theirs())));
}

void require_same_model(Communicator& ranks, std::int64_t step, const std::string& hash) {
  if (const auto other = find_difference(ranks, hash))
    throw Error(
        fmt::format("at step {} rank {} has another model than rank 0, so that nothing is saved; look after "
                    "that machine's memory and libraries",
                    step, other->rank));
}

}  // namespace comera
