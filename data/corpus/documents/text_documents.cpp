#include "data/corpus/documents/text_documents.h"

#include <algorithm>

namespace comera::data {

namespace {

constexpr std::size_t none = std::string_view::npos;

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_blank_line(std::string_view line) { return std::ranges::all_of(line, is_white); }

// The position after the last line end of `text`; none if there is none before it, or it lies within the
// first quarter, which would make a very short document.
std::size_t late_enough(std::size_t position, std::size_t size) {
  return position != none && position + 1 >= size / 4 ? position + 1 : none;
}

// The position after the last blank line.
std::size_t last_paragraph_end(std::string_view text) {
  for (std::size_t end = text.rfind('\n'); end != none && end > 0; end = text.rfind('\n', end - 1)) {
    const std::size_t begin = text.rfind('\n', end - 1);
    if (begin == none) return none;
    if (is_blank_line(text.substr(begin + 1, end - begin - 1))) return late_enough(end, text.size());
  }
  return none;
}

// The position before the last character that begins within `text`, which may be cut.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  constexpr std::size_t longest_character = 4;
  const std::size_t first = text.size() > longest_character ? text.size() - longest_character : 1;
  while (at > first && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// Where to cut a text that is too long; `text` is as much of it as a document may have.
std::size_t last_place_to_cut(std::string_view text, bool at_lines) {
  std::size_t place = at_lines ? last_paragraph_end(text) : none;
  if (place == none && at_lines) place = late_enough(text.rfind('\n'), text.size());
  if (place == none) place = late_enough(text.find_last_of(" \t"), text.size());
  return place == none ? last_character(text) : place;
}

// The length of the lines before the first blank one.
std::size_t paragraph_length(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    if (begin > 0 && is_blank_line(text.substr(begin, end - begin + 1))) return begin;
    begin = end + 1;
  }
  return text.size();
}

// Of the blank lines at the beginning.
std::size_t blank_lines_length(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == none) return text.size();
  return first == 0 ? 0 : text.substr(0, first).rfind('\n') + 1;  // none + 1 is 0
}

}  // namespace

std::size_t first_document(std::string_view text, DocumentUnit unit) {
  std::size_t size = text.size();
  if (unit == DocumentUnit::paragraph) size = paragraph_length(text);
  if (unit == DocumentUnit::line) size = std::min(text.find('\n'), text.size() - 1) + 1;
  if (size <= longest_document) return size;
  return last_place_to_cut(text.substr(0, longest_document), unit != DocumentUnit::line);
}

std::vector<std::string> cut_text(std::string_view text) {
  std::vector<std::string> documents;
  while (!text.empty()) {
    const std::size_t size = first_document(text, DocumentUnit::automatic);
    documents.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return documents;
}

TextDocuments::TextDocuments(const std::filesystem::path& path, DocumentUnit unit, std::int64_t longest)
    : file_(path), unit_(unit), longest_(static_cast<std::size_t>(longest)) {}

// So that as many bytes wait, or all that are left.
void TextDocuments::read_up_to(std::size_t bytes) {
  constexpr std::size_t part = std::size_t{64} << 10;
  waiting_.erase(0, place_);
  place_ = 0;
  while (!at_end_ && waiting_.size() < bytes) {
    const std::size_t size = waiting_.size();
    waiting_.resize(size + part);
    const std::size_t count = file_.read(waiting_.data() + size, part);
    waiting_.resize(size + count);
    at_end_ = count == 0;
  }
  if (!begun_ && waiting_.starts_with("\xEF\xBB\xBF")) place_ = 3;
  begun_ = true;
}

bool TextDocuments::next(std::string& text) {
  if (unit_ == DocumentUnit::file) {
    if (begun_) return false;
    read_up_to(longest_ + 4);  // with a byte-order mark
    text = waiting_.substr(place_, longest_ + 1);
    return !text.empty();
  }
  const bool cuts_lines = unit_ != DocumentUnit::automatic;
  for (;;) {
    if (waiting_.size() - place_ <= longest_document) read_up_to(longest_document + 1);
    std::string_view rest = std::string_view(waiting_).substr(place_);
    if (cuts_lines) {
      const std::size_t blank = blank_lines_length(rest);
      place_ += blank;
      if (blank > 0) continue;
    }
    if (rest.empty()) return false;
    const std::size_t size = first_document(rest, unit_);
    text = rest.substr(0, size);
    place_ += size;
    if (!cuts_lines) return true;
    text.erase(text.find_last_not_of("\r\n") + 1);
    return true;
  }
}

}  // namespace comera::data
