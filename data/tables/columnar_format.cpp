#include <algorithm>
#include <cctype>

#include "data/tables/columnar_rows.h"

namespace comera::data {

const char* columnar_format_of(std::string_view beginning) {
  using namespace std::string_view_literals;
  if (beginning.starts_with("PAR1"sv)) return "Parquet";
  // A file, or a stream: the length of its first message follows.
  const bool stream =
      beginning.size() > 8 && beginning.starts_with("\xFF\xFF\xFF\xFF"sv) && beginning[7] == 0;
  return stream || beginning.starts_with("ARROW1"sv) ? "Arrow" : nullptr;
}

bool is_columnar_name(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".parquet" || suffix == ".arrow" || suffix == ".feather";
}

}  // namespace comera::data
