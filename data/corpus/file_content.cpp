#include "data/corpus/file_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/tables/columnar_rows.h"
#include "data/tables/json_members.h"
#include "data/tables/json_records.h"
#include "data/tables/json_scanner.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view beginning;
  const char* what;
};

constexpr const char* unpack = "unpack it, or compress it with gzip or zstd";
constexpr const char* as_rows =
    "write its rows as JSON lines (pandas: to_json(FILE, orient='records', lines=True))";

constexpr std::array formats = {Format{"ORC"sv, "an ORC file"}, Format{"Obj\x01"sv, "an Avro file"},
                                Format{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
                                Format{"SQLite format 3\0"sv, "a database of SQLite"},
                                Format{"PK\x03\x04"sv, "a ZIP archive or a spreadsheet"}};

constexpr std::array compressions = {Format{"\xFD"
                                            "7zXZ\0"sv,
                                            "xz"},
                                     Format{"BZh"sv, "bzip2"}, Format{"\x04\x22\x4D\x18"sv, "LZ4"}};

constexpr std::int64_t most_lines_to_judge_by = 32;

// Control characters that do not occur in text.
bool has_control_characters(std::string_view bytes) {
  return std::ranges::any_of(bytes, [](char c) { return static_cast<unsigned char>(c) < 9; });
}

// UTF-8 but for a last character that may be cut.
bool begins_with_utf8(std::string_view bytes) {
  for (int cut = 0; cut < 4 && !bytes.empty(); ++cut, bytes.remove_suffix(1))
    if (is_utf8(bytes)) return true;
  return bytes.empty();
}

// Compressed data have about 4 % of control characters, files of numbers more. Text that has some, such as
// separators of fields, is UTF-8.
bool is_binary(std::string_view bytes) {
  const auto control = std::ranges::count_if(bytes, [](char c) { return static_cast<unsigned char>(c) < 9; });
  return control >= 32 && 50 * control > std::ssize(bytes) && !begins_with_utf8(bytes);
}

// By its first header, so that the beginning of an archive is enough.
bool is_tar(std::string_view bytes) {
  constexpr std::size_t place = 257;  // of the name, in a header of POSIX 1003.1
  return bytes.size() > place && bytes.substr(place).starts_with("ustar");
}

// Line ends of old Macintosh systems, which would make the whole file one line.
bool has_carriage_returns_only(std::string_view text) {
  // A single one may be a mistake within a long line.
  return std::ranges::count(text, '\r') > 2 && text.find('\n') == std::string_view::npos;
}

}  // namespace

bool is_wide_text(std::string_view beginning) {
  if (beginning.starts_with("\xFF\xFE") || beginning.starts_with("\xFE\xFF") ||
      beginning.starts_with("\0\0\xFE\xFF"sv))
    return true;
  // Without a byte-order mark: every other byte of Latin letters is zero.
  if (beginning.size() < 4) return false;
  const bool first = beginning[0] == '\0', second = beginning[1] == '\0';
  return first != second && (beginning[2] == '\0') == first && (beginning[3] == '\0') == second;
}

std::string what_is_wrong_with(std::string_view beginning) {
  if (is_wide_text(beginning)) {
    const bool four = beginning.starts_with("\xFF\xFE\0\0"sv) || beginning.starts_with("\0\0\xFE\xFF"sv);
    const std::string name = four ? "UTF-32" : "UTF-16";
    return "is " + name + "; convert it to UTF-8: iconv -f " + name + " -t UTF-8 FILE > NEW";
  }
  if (has_carriage_returns_only(beginning))
    return "ends its lines with carriage returns alone; convert them: tr '\\r' '\\n' < FILE > NEW";
  if (const char* columnar = columnar_format_of(beginning))
    return fmt::format(
        "is {} {} file; {}", *columnar == 'A' ? "an" : "a", columnar,
        reads_columnar_files()
            ? "give --text COLUMN, which reads a column of its rows"
            : std::string(
                  "this program was built without the library that reads it (docs/guide/installation.md); ") +
                  as_rows);
  if (!has_control_characters(beginning)) return "";
  for (const Format& format : formats)
    if (beginning.starts_with(format.beginning))
      return std::string("is ") + format.what + ", which is not read; " + as_rows;
  for (const Format& format : compressions)
    if (beginning.starts_with(format.beginning))
      return std::string("is compressed with ") + format.what + ", which is not read; " + unpack;
  if (is_tar(beginning))
    return "is a tar archive, which is not read; unpack it, and give its folder or files";
  return is_binary(beginning) ? "is not text, but binary data; give a text file or a table" : "";
}

namespace {

// Up to its first member, which may be cut: the rest may lie beyond the known part of the file.
bool begins_object(std::string_view text) {
  JsonScanner scanner(text);
  scanner.blanks();
  if (scanner.skip('[')) scanner.blanks();
  if (!scanner.skip('{')) return false;
  bool lone = false;
  scanner.blanks();
  if (!scanner.string(nullptr, lone)) return false;
  scanner.blanks();
  if (!scanner.skip(':')) return false;
  scanner.blanks();
  constexpr std::string_view first_of_values = "\"{[-0123456789tfnNI";
  return first_of_values.find(scanner.next()) != std::string_view::npos &&
         (scanner.value() || scanner.at_end());
}

bool is_object(std::string_view line) {
  std::vector<std::optional<std::string>> values;
  std::vector<FieldKind> kinds;
  std::vector<std::string> names;
  return read_json_members(line, {}, values, kinds, &names) == JsonResult::ok && !names.empty();
}

}  // namespace

bool holds_json_objects(std::string_view beginning) {
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  beginning.remove_prefix(first);
  const bool spans_lines = beginning.front() == '[' || goes_on(beginning.substr(0, beginning.find('\n')));
  if (spans_lines && begins_object(beginning)) return true;
  std::int64_t lines = 0, objects = 0;
  for (std::string_view rest = beginning; lines < most_lines_to_judge_by && !rest.empty();) {
    const std::size_t end = rest.find('\n');
    // The last line may be cut: it counts only if it is the only one.
    if (end == std::string_view::npos && lines > 0) break;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++lines;
    objects += is_object(line) || (end == std::string_view::npos && begins_object(line));
  }
  return objects > 0 && 2 * objects >= lines;
}

}  // namespace comera::data
