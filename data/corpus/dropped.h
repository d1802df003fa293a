#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace comera::data {

// What was left out for one reason: files, rows or documents, and how much of them.
struct Dropped {
  std::int64_t count = 0;
  std::int64_t bytes = 0;       // of files as they lie on the disk, of rows and documents as they were read
  bool all_bytes_known = true;  // false if something was not looked into, such as a folder

  void add(std::int64_t more_bytes) {
    ++count;
    bytes += more_bytes;
  }
  void add_unknown() {
    ++count;
    all_bytes_known = false;
  }
  void add(const Dropped& other) {
    count += other.count;
    bytes += other.bytes;
    all_bytes_known = all_bytes_known && other.all_bytes_known;
  }
};

using DroppedByReason = std::map<std::string, Dropped>;

}  // namespace comera::data
