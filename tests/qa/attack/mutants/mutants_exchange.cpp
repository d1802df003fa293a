// Models of transformers that are almost what they were, given to import, and what comes of them.
#include <fmt/format.h>

#include <cstring>

#include "tests/qa/attack/kinds.h"
#include "tests/qa/attack/mutants/mutate.h"
#include "tests/qa/attack/samples/files.h"
#include "tests/qa/attack/samples/sample.h"

namespace comera::attack {

namespace {

using Words = std::vector<std::string>;

std::string length_bytes(std::uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

void put_number(Chance& chance, std::string& bytes, std::size_t header_end) {
  constexpr float numbers[] = {
      __builtin_nanf(""), -__builtin_inff(), __builtin_inff(), 3e38F, -3e38F, 1e-40F, 1e20F};
  const float number = chance.pick(numbers);
  const std::size_t count = (bytes.size() - header_end) / sizeof number;
  const std::size_t times = chance.one_in(3) ? count : 1 + chance.below(3);
  for (std::size_t i = 0; i < times; ++i) {
    const std::size_t at = times == count ? i : chance.below(count);
    std::memcpy(bytes.data() + header_end + at * sizeof number, &number, sizeof number);
  }
}

std::string mutated_safetensors(Chance& chance, const std::string& sound) {
  std::uint64_t length = 0;
  std::memcpy(&length, sound.data(), sizeof length);
  const std::size_t header_end = sizeof length + length;
  const std::string header = sound.substr(sizeof length, length), data = sound.substr(header_end);
  std::string changed = sound;
  switch (chance.below(6)) {
    case 0:  // the length alone
      return length_bytes(chance.one_in(2) ? length + static_cast<std::uint64_t>(chance.between(-9, 9))
                                           : chance.bits() >> chance.below(64)) +
             header + data;
    case 1: {
      const std::string other = mutated_text(chance, header);
      return length_bytes(other.size()) + other + data;
    }
    case 2:
    case 3: {
      const std::string other = mutated_json(chance, header);
      return length_bytes(other.size()) + other + data;
    }
    case 4:
      put_number(chance, changed, header_end);
      return changed;
    default:
      return mutated_bytes(chance, sound);
  }
}

// Fewer merges than there were: pieces are left that none makes.
std::string cut_short(Chance& chance, const std::string& merges) {
  const std::size_t first = merges.find('\n') + 1;
  const std::size_t at = merges.find('\n', first + chance.below(merges.size() - first - 8));
  return chance.one_in(5) ? "" : merges.substr(0, std::min(at + 1, merges.size() - 4));
}

Words reading(Try& own) {
  return own.chance.pick(
      std::vector<Words>{{"fill-mask", "imported.h5", "return [MASK]", "--threads", "1"},
                         {"embed", "imported.h5", "--input", own.sample().file("lines.txt").string(),
                          "--output", "v.jsonl", "--threads", "1"},
                         {"inspect", "imported.h5"},
                         {"export", "imported.h5", "--to", "again", "--threads", "1"}});
}

}  // namespace

void mutate_exchange(Try& own) {
  const std::string base = own.chance.pick(Sample::exchanges());
  const fs::path folder = own.folder() / "mutant";
  fs::copy(own.sample().exchange(base), folder);
  static const Words all = {
      "model.safetensors",       "model.safetensors", "config.json", "config.json", "tokenizer.json",
      "tokenizer_config.json",   "vocab.txt",         "vocab.json",  "merges.txt",  "added_tokens.json",
      "special_tokens_map.json", "tokenizer.model"};
  std::string name;
  do name = own.chance.pick(all);
  while (!fs::exists(folder / name));
  const std::string sound = read_text(folder / name);
  const bool cut = name == "merges.txt" && own.chance.one_in(3);
  std::string changed;
  if (cut)
    changed = cut_short(own.chance, sound);
  else if (name == "model.safetensors")
    changed = mutated_safetensors(own.chance, sound);
  else if (name == "tokenizer.model")
    changed = mutated_bytes(own.chance, sound);
  else
    changed = name.ends_with(".json") && !own.chance.one_in(3) ? mutated_json(own.chance, sound)
                                                               : mutated_text(own.chance, sound);
  write_text(folder / name, changed);
  own.note(base + ": " + name);
  const Ending ending = own.check(own.comera({"import", "mutant", "--output", "imported.h5"}),
                                  {.success = !cut, .names = {"mutant"}});
  if (ending.code != 0) {
    if (fs::exists(own.folder() / "imported.h5")) own.fail("refused, and a checkpoint is there");
    return;
  }
  const Ending read = own.check(own.comera(reading(own)), {});
  if (read.code != 0) return;
  if (const std::string found = nonfinite_in(read.out); !found.empty())
    own.fail("its words hold what is not finite: " + found);
  if (const std::string found = nonfinite_result(own.folder() / "v.jsonl"); !found.empty()) own.fail(found);
}

}  // namespace comera::attack
