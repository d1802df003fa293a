#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// The rows of a Parquet file, or of an Arrow file or stream (Feather 2, the cache of Hugging Face's
// datasets), as JSON objects: what the rest of the tables knows. Numbers and truth values are members as
// written, lists of texts are lists, structures and maps are objects; dates, times and decimals are texts.
// Read by Apache Arrow's library, a batch of rows at a time.
class ColumnarRows {
 public:
  virtual ~ColumnarRows() = default;
  // Names of all columns.
  virtual const std::vector<std::string>& columns() const = 0;
  // Reads only these columns from now on; names that are no columns are ignored. Before the first row.
  virtual void select(const std::vector<std::string>& columns) = 0;
  // False at the end. DamagedFile if the rest cannot be read.
  virtual bool next(std::string& object) = 0;
};

// "Parquet" or "Arrow" if a file begins so; otherwise null.
const char* columnar_format_of(std::string_view beginning);
// Whether a name says so: .parquet, .arrow, .feather.
bool is_columnar_name(const std::filesystem::path& path);
// Whether this program was built with Apache Arrow's library.
bool reads_columnar_files();
// DamagedFile if the file cannot be opened. Error if the program was built without the library.
std::unique_ptr<ColumnarRows> open_columnar(const std::filesystem::path& path);

}  // namespace comera::data
