#include "tests/qa/attack/samples/trees.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/qa/attack/mutants/content.h"
#include "tests/qa/attack/samples/files.h"
#include "tests/qa/attack/samples/run_folder.h"

namespace comera::attack {

namespace {

std::string difference_of_files(const std::string& name, const std::string& one, const std::string& other) {
  if (one == other) return "";
  const auto at = std::ranges::mismatch(one, other).in1 - one.begin();
  return fmt::format("{} differs from byte {} on ({} and {} bytes)", name, at, one.size(), other.size());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Checkpoints carry their recipe, with absolute paths: tensors must be the same.
std::string difference_of_contents(const std::string& name, const fs::path& ours, const fs::path& theirs) {
  const Content one(ours), other(theirs);
  if (one.datasets.size() != other.datasets.size()) return name + " has other tensors";
  for (std::size_t i = 0; i < one.datasets.size(); ++i)
    if (one.datasets[i].path != other.datasets[i].path || one.datasets[i].bytes != other.datasets[i].bytes)
      return fmt::format("{}: {} is not what it is without all that", name, one.datasets[i].path);
  return "";
}

// Killed behind the last save, a run has a checkpoint more than it keeps.
bool is_checkpoint_more(const std::string& name) {
  return fs::path(name).filename().string().starts_with("step-") && name.ends_with(".h5");
}

// A run that goes on has its tokenizer from its own folder.
std::string without_tokenizers_place(std::string text) {
  const std::string key = "tokenizer = ";
  for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + key.size()))
    text.erase(at + key.size(), std::min(text.find("\\n", at), text.find('\n', at)) - at - key.size());
  return text;
}

bool is_of_process(const std::string& name) {
  return name == "lock" || name == "starts.jsonl" || name == "saved" || name == "processes";
}

}  // namespace

std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : fs::recursive_directory_iterator(folder, code))
    names.push_back(entry.path().lexically_relative(folder));
  std::ranges::sort(names);
  return names;
}

std::string difference_of_trees(const fs::path& ours, const fs::path& theirs,
                                const std::function<bool(const std::string&)>& ignored) {
  if (fs::is_regular_file(theirs))
    return fs::is_regular_file(ours)
               ? difference_of_files(ours.filename(), read_text(ours), read_text(theirs))
               : ours.filename().string() + " is no file";
  std::vector<std::string> one = names_below(ours), other = names_below(theirs);
  if (ignored) {
    std::erase_if(one, ignored);
    std::erase_if(other, ignored);
  }
  for (const std::string& name : one)
    if (!std::ranges::binary_search(other, name)) return name + " is there as well";
  for (const std::string& name : other) {
    if (!std::ranges::binary_search(one, name)) return name + " is missing";
    if (!fs::is_regular_file(theirs / name)) continue;
    if (std::string found = difference_of_files(name, read_text(ours / name), read_text(theirs / name));
        !found.empty())
      return found;
  }
  return "";
}

std::string difference_of_runs(const fs::path& ours, const fs::path& theirs) {
  std::vector<std::string> one = names_below(ours), other = names_below(theirs);
  const auto passing = [](const std::string& name) { return is_of_process(fs::path(name).filename()); };
  std::erase_if(one, passing);
  std::erase_if(other, passing);
  for (const std::string& name : one)
    if (!std::ranges::binary_search(other, name) && !is_checkpoint_more(name))
      return name + " is there as well";
  for (const std::string& name : other) {
    if (!std::ranges::binary_search(one, name)) return name + " is missing";
    if (!fs::is_regular_file(theirs / name)) continue;
    const std::string file = fs::path(name).filename();
    std::string found;
    if (file == "metrics.jsonl")
      found = difference_in_metrics((ours / name).parent_path(), (theirs / name).parent_path());
    else if (name.ends_with(".h5"))
      found = difference_of_contents(name, ours / name, theirs / name);
    else
      found = difference_of_files(
          name,
          without_tokenizers_place(
              replaced(read_text(ours / name), ours.parent_path().string(), theirs.parent_path().string())),
          without_tokenizers_place(read_text(theirs / name)));
    if (!found.empty()) return found;
  }
  return "";
}

bool is_temporary(const std::string& name) {
  for (const char* end : {".tmp", ".partial", ".comera-tmp", ".before"})
    if (name.ends_with(end) || name.find(std::string(end) + "/") != name.npos) return true;
  return false;
}

std::string temporary_below(const fs::path& folder) {
  for (const std::string& name : names_below(folder))
    if (is_temporary(name)) return name;
  return "";
}

}  // namespace comera::attack
