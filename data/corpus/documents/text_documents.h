#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "storage/input_file.h"

namespace comera::data {

// What one document of prose is.
enum class DocumentUnit : std::uint8_t {
  automatic,  // consecutive paragraphs of together at most longest_document bytes; a smaller file as a whole
  file,       // the whole file
  paragraph,  // the lines between two blank ones
  line,
};

// Longer paragraphs and lines are cut at a line end, else at a space, else between two characters.
constexpr std::size_t longest_document = std::size_t{16} << 10;

// The length of the first document of `text`, of which more may follow unless `whole`. Not for `file`.
std::size_t first_document(std::string_view text, DocumentUnit unit);
// A text as consecutive documents that together are the text, each of at most longest_document bytes.
std::vector<std::string> cut_text(std::string_view text);

// The documents of a text file, plain or compressed, read as a stream. A UTF-8 byte-order mark is removed.
// The bytes are not checked. Memory: one document, or for `file` up to `longest` bytes.
class TextDocuments {
 public:
  // longest: of a whole file, in bytes. ReadFailure if the file cannot be opened.
  TextDocuments(const std::filesystem::path& path, DocumentUnit unit, std::int64_t longest);

  // False at the end. The document of a `file` above the limit is cut after its first `longest` + 1 bytes.
  // Paragraphs and lines come without surrounding line ends. ReadFailure, DamagedData: see InputFile.
  bool next(std::string& text);

 private:
  void read_up_to(std::size_t bytes);

  storage::InputFile file_;
  DocumentUnit unit_;
  std::size_t longest_;
  std::string waiting_;    // read
  std::size_t place_ = 0;  // of its unused part
  bool begun_ = false, at_end_ = false;
};

}  // namespace comera::data
