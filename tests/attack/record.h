#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace comera::attack {

// The results of the tries, and their table. With a file, every try is a line in it, and an attack with the
// same file continues after them.
class Record {
 public:
  // file: "" for none. Error in the file's name if it cannot be written.
  Record(const std::string& file, std::uint64_t seed);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  struct Outcome {
    std::string kind;
    std::uint64_t number = 0;
    int attacks = 1;
    bool refused = false;
    std::string failure, skipped;
  };
  void add(const Outcome& outcome);
  bool has(const std::string& kind, std::uint64_t number) const;
  int attacks(const std::string& kind) const;

  bool failed() const;
  bool only_skipped() const;  // nothing could be tried
  void clear_file();
  // kind | tries | ended well | refused | failures, and what was skipped.
  std::string table() const;

 private:
  struct Sum {
    int attacks = 0, well = 0, refused = 0, failures = 0, skipped = 0;
    std::map<std::string, int> reasons;  // why tries were skipped
  };
  void count(const Outcome& outcome);

  mutable std::mutex mutex_;
  std::uint64_t seed_;
  std::FILE* file_ = nullptr;
  std::map<std::string, Sum> sums_;
  std::map<std::string, std::map<std::uint64_t, bool>> done_;
};

}  // namespace comera::attack
