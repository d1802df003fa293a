#pragma once

#include <string>
#include <vector>

#include "storage/hdf5.h"
#include "tests/fuzz/target.h"

namespace comera::fuzz {

// Takes decisions from the bytes of an input; zeros when they are used up.
class Choices {
 public:
  explicit Choices(Bytes bytes) : bytes_(bytes) {}
  bool left() const { return !bytes_.empty(); }
  std::uint8_t byte();
  std::uint64_t number();  // small, huge and negative ones
  std::string text(std::size_t most);
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[byte() % list.size()];
  }

 private:
  Bytes bytes_;
};

struct Vocabulary {
  std::vector<std::string> objects;
  std::vector<std::string> attributes;
};

// Whether nothing has that name yet, not even a link, which our own layer does not follow.
bool lacks(const storage::hdf5::File& file, const std::string& name);

// Writes an HDF5 file with a user block of 512 bytes that is valid for HDF5, with content determined by the
// choices: datasets of any type, rank, size and layout, with or without values, attributes of any kind,
// groups and links, under the names that the reader looks for. An existing dataset or attribute is unchanged,
// so that `finish` can add what is missing for a file to be read further.
class DescribedFile {
 public:
  explicit DescribedFile(const std::string& path);
  ~DescribedFile();
  DescribedFile(const DescribedFile&) = delete;
  DescribedFile& operator=(const DescribedFile&) = delete;

  void add(Choices& choices, const Vocabulary& vocabulary);

  struct Place {
    std::string path;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  // Datasets whose values are contiguous.
  std::vector<Place> contiguous() const;

  bool has(const std::string& object) const;

 private:
  void add_dataset(const std::string& name, Choices& choices);
  void add_attribute(const std::string& object, const std::string& name, Choices& choices);

  std::int64_t file_;
  std::vector<std::string> datasets_;
};

// A memory file of this process, if the system provides one; removed at the end.
const std::string& scratch_file();
void write_scratch(std::string_view content);
std::string read_scratch();

}  // namespace comera::fuzz
