#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "storage/hdf5.h"

namespace comera::data {

// Where a row of a vector file comes from.
struct VectorPlace {
  std::string path;       // of the file
  std::int64_t line = 0;  // in it, from 1
  std::string id;         // of a table's row, such as its column `id`; empty without one
  std::string text;       // its first line, shortened; empty if unknown
};

// How the vectors of a file were made.
struct VectorSource {
  std::string model = {};       // as given
  std::string checkpoint = {};  // absolute path of the file
  std::int64_t bytes = 0;       // its size,
  std::int64_t crc32 = 0;       // and its checksum
  std::string pooling = {};     // "mean" or "first"
  bool normalized = false;      // whether rows have the length 1
  std::int64_t length = 0;      // the most tokens of a text
};

// Writes an HDF5 file of vectors: `vectors` (float32, rows x width), `lines`, the distinct paths, and ids and
// texts as bytes with the offsets of each row. The file is complete or absent.
// vectors: rows of `width` numbers, one for each place.
void write_vector_file(const std::filesystem::path& path, std::span<const float> vectors, std::int64_t width,
                       const std::vector<VectorPlace>& places, const VectorSource& source);

// Finds the nearest rows of such a file. Memory: a block of rows, whatever the size of the file.
class VectorFile {
 public:
  // Error if it is no file of vectors, or one of an older version without texts and places.
  explicit VectorFile(const std::filesystem::path& path);

  const VectorSource& source() const { return source_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t width() const { return width_; }

  struct Hit {
    std::int64_t row = 0;
    float score = 0;  // cosine
  };
  // The `most` rows with the largest cosine for each query, best first; rows that are equally near are in the
  // order of the file. Reads the file once for all queries. queries: unit vectors of the file's width, one
  // after the other.
  std::vector<std::vector<Hit>> nearest(std::span<const float> queries, std::int64_t most) const;
  VectorPlace place(std::int64_t row) const;

 private:
  std::string text_of(const char* name, std::int64_t row) const;

  storage::hdf5::File file_;
  VectorSource source_;
  std::int64_t rows_ = 0, width_ = 0;
};

}  // namespace comera::data
