// In programs that are built without Apache Arrow's library.
#include "data/tables/columnar_rows.h"
#include "kernels/core/check.h"

namespace comera::data {

bool reads_columnar_files() { return false; }

std::unique_ptr<ColumnarRows> open_columnar(const std::filesystem::path& path) {
  throw Error(fmt::format(
      "{}: this program was built without Apache Arrow's library, which reads Parquet and Arrow files",
      path.string()));
}

}  // namespace comera::data
