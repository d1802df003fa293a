#include "tests/qa/attack/try.h"

#include <fmt/format.h>

#include <fstream>

#include "tests/qa/attack/samples/sample.h"

namespace comera::attack {

Try::Try(std::string_view kind, std::uint64_t seed, std::uint64_t number, fs::path folder,
         const Sample& sample)
    : chance(seed, kind, number), folder_(std::move(folder)), sample_(sample), number_(number) {
  fs::create_directories(folder_);
}

Call Try::comera(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), sample_.program());
  return {.words = std::move(arguments), .folder = folder_};
}

void Try::note(const std::string& line) const {
  std::ofstream(folder_ / "commands.txt", std::ios::app) << line << '\n';
}

Ending Try::check(const Call& call, const Allowed& allowed) {
  Ending ending = run(call);
  check(call, ending, allowed);
  return ending;
}

void Try::check(const Call& call, const Ending& ending, const Allowed& allowed) {
  const std::string fault = fault_in(ending, allowed);
  note(fmt::format("$ {}\n# exit code {}, signal {}, {:.2f} s\n{}{}", text_of(call), ending.code,
                   ending.signal, ending.seconds, ending.err, ending.out.substr(0, 4000)));
  if (ending.code == 1 || ending.code == 2) refused();
  if (!fault.empty()) fail(fault);
}

void Try::fail(const std::string& why) {
  note("# failed: " + why);
  if (failure_.empty()) failure_ = why;
}

}  // namespace comera::attack
