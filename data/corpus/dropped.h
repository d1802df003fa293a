#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace comera::data {

// The items dropped for one reason: files, rows or documents, and their size.
struct Dropped {
  std::int64_t count = 0;
  std::int64_t bytes = 0;       // for files their size on disk, for rows and documents their size as read
  bool all_bytes_known = true;  // false if something was not read, such as a folder

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
