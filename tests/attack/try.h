#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/attack/chance.h"
#include "tests/attack/child.h"
#include "tests/attack/judge.h"

namespace comera::attack {

class Sample;

// One numbered try of a kind: its resources and its report. It has its own folder, which is kept if it fails.
class Try {
 public:
  Try(std::string_view kind, std::uint64_t seed, std::uint64_t number, fs::path folder, const Sample& sample);

  Chance chance;
  const fs::path& folder() const { return folder_; }
  const Sample& sample() const { return sample_; }
  std::uint64_t number() const { return number_; }

  // comera with these arguments in the try's folder, under the usual limits.
  Call comera(std::vector<std::string> arguments) const;
  // Runs it, logs it in commands.txt and reports a failure if the judge finds one.
  Ending check(const Call& call, const Allowed& allowed = {});
  // The same of a child that was started elsewhere.
  void check(const Call& call, const Ending& ending, const Allowed& allowed);
  void note(const std::string& line) const;  // in commands.txt

  void count(int attacks) { attacks_ = attacks; }  // number of tries to count; 1 by default
  void fail(const std::string& why);               // the first is kept
  void skip(const std::string& why) { skipped_ = why; }
  void refused() { refused_ = true; }

  int attacks() const { return attacks_; }
  const std::string& failure() const { return failure_; }
  const std::string& skipped() const { return skipped_; }
  bool was_refused() const { return refused_; }

 private:
  fs::path folder_;
  const Sample& sample_;
  std::uint64_t number_;
  int attacks_ = 1;
  bool refused_ = false;
  std::string failure_, skipped_;
};

}  // namespace comera::attack
