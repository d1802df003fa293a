#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "tests/attack/chance.h"
#include "tests/attack/child.h"

namespace comera::attack {

// Everything in an HDF5 file as our code sees it, to be changed and written again with matching checksums:
// the file stays valid HDF5 (docs/developer/testing.md explains why), but its content makes no sense.
struct Content {
  struct Dataset {
    std::string path;
    DType dtype = DType::float32;
    std::vector<std::int64_t> shape;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<Dataset> datasets;
  std::map<std::string, Attributes> attributes;  // of groups and datasets

  explicit Content(const fs::path& file);

  enum class Seal : std::uint8_t { none, shard, checkpoint };
  void write(const fs::path& file, Seal seal) const;

  // Changes one thing. Returns a description.
  std::string change(Chance& chance);

 private:
  std::string change_dataset(Chance& chance);
  std::string change_values(Chance& chance, Dataset& dataset) const;
  std::string change_attribute(Chance& chance);
};

}  // namespace comera::attack
