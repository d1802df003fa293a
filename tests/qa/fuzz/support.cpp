#include <cstdio>
#include <cstdlib>

#include "kernels/core/check.h"
#include "tests/qa/fuzz/target.h"

namespace comera::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      recipe_target,      shard_target, shard_contents_target, checkpoint_target, checkpoint_contents_target,
      masked_rows_target, table_target};
  return all;
}

const Target& target_of(std::string_view name) {
  for (const Target& target : targets())
    if (target.name == name) return target;
  broken("there is no target of that name: " + std::string(name));
}

void broken(const std::string& sentence) {
  std::fprintf(stderr, "broken promise: %s\n", sentence.c_str());
  std::abort();
}

bool refuses(const std::string& name, void (*work)(void*), void* context) {
  try {
    work(context);
    return false;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.empty() || message.find('\n') != message.npos || message.find('\0') != message.npos)
      broken("an error's message is not one line: " + message);
    if (message.find(name) == message.npos) broken("an error does not name " + name + ": " + message);
    return true;
  } catch (const std::exception& error) {
    broken(std::string("something else than an Error was thrown: ") + error.what());
  }
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace comera::fuzz
