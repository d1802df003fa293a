#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The interface for the fuzzers (fuzzer.cpp) and for the ordinary tests with the checked-in corpora
// (replay_test.cpp). A target returns if the code under test behaves as promised for these bytes, with a
// result or an Error of one line; anything else ends the process, so that a fuzzer keeps the bytes.
namespace comera::fuzz {

using Bytes = std::span<const std::uint8_t>;

struct Target {
  const char* name;  // also of its folder below corpus/
  void (*run)(Bytes input);
  // Turns changed bytes into ones that get further, for instance by repairing checksums. Null: none. `random`
  // chooses among several ways.
  std::string (*mend)(const std::string& input, std::uint32_t random) = nullptr;
  // Small inputs to start from; a corpus's checked-in files add to them.
  std::vector<std::string> (*seeds)() = nullptr;
};

// recipe_target.cpp, …
extern const Target recipe_target;
extern const Target shard_target, shard_contents_target;
extern const Target checkpoint_target, checkpoint_contents_target;
extern const Target masked_rows_target;
extern const Target table_target;

const std::vector<Target>& targets();
// Ends the process if there is none of that name.
const Target& target_of(std::string_view name);

// Prints the sentence and ends the process: a promise was broken.
[[noreturn]] void broken(const std::string& sentence);

// Calls `work`, which may only throw an Error whose message is one line that contains `name`. Returns whether
// it threw.
bool refuses(const std::string& name, void (*work)(void*), void* context);
template <class Work>
bool refuses(const std::string& name, Work&& work) {
  return refuses(
      name, [](void* context) { (*static_cast<std::remove_reference_t<Work>*>(context))(); }, &work);
}

std::string_view text_of(Bytes bytes);

}  // namespace comera::fuzz
