#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/tables/line_reader.h"
#include "data/tasks/task.h"

namespace comera::data {

// A word of a sentence.
struct ConllWord {
  std::int64_t line = 0;
  std::string text, label;  // the label is empty if labels are not read
  std::string columns;      // the line, with a tab between columns
};

// Words and their labels in CoNLL's columns (Tjong Kim Sang and De Meulder, 2003): a word on each line, its
// columns between tabs, or between spaces if the first line has no tab; blank lines between sentences. Lines
// that begin with -DOCSTART- separate documents. Plain or compressed, read as a stream.
class ConllReader {
 public:
  // task.text: the number of the word's column, from 1; none: 1. task.label: that of the label's column;
  // empty: the last. labels: whether that is read. UnreadableFile if the file cannot be opened; UsageError
  // for columns that are no numbers.
  ConllReader(const std::filesystem::path& path, const Task& task, bool labels);

  // False at the end. Replaces the words by those of the next sentence, which has at least one. Error in one
  // sentence, with the line, for lines of different numbers of columns, without a wanted column, or that are
  // not UTF-8, and for a file without words.
  bool next(std::vector<ConllWord>& sentence);

  // Lines about documents before the last sentence, columns between tabs.
  const std::vector<std::string>& document_lines() const { return document_lines_; }
  // Of a line; known after the first sentence.
  std::int64_t columns() const { return columns_; }
  const std::filesystem::path& path() const { return lines_.path(); }

 private:
  bool read_line();
  std::vector<std::string> split() const;
  ConllWord word_of(const std::vector<std::string>& fields);
  [[noreturn]] void fail(const std::string& what) const;

  LineReader lines_;
  bool labels_;
  std::int64_t word_column_ = 1, label_column_ = 0;  // 0: the last
  std::int64_t columns_ = 0, first_line_ = 0;
  bool tabs_ = false;
  std::string line_;
  std::vector<std::string> document_lines_, coming_document_lines_;
  bool has_words_ = false;
};

// Whether a file is plainly of this kind: by its name (.conll, .iob, .iob2, .bio), or, if its name does not
// say otherwise, by its first lines: several sentences of lines with equally many columns, two or more, whose
// last is O or B-, I-, E-, S-, L- or U- and a type. Errors: LineReader's.
bool is_conll_file(const std::filesystem::path& file);

// Whether a label belongs to a chunk of words, such as "B-PER".
bool is_chunk_label(std::string_view label);

}  // namespace comera::data
