#include "data/tables/table_corpus.h"

#include <algorithm>
#include <iterator>

#include "kernels/core/check.h"

namespace comera::data {

bool is_table_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const bool part = name.starts_with("part-") && name.find_first_of("0123456789") == 5;
  return part || is_columnar_name(path) || format_of(path) != TableFormat::automatic;
}

TableCorpus::TableCorpus(TableCorpusOptions options) : options_(std::move(options)), walk_(options_.inputs) {
  const std::int64_t most = options_.max_bytes.value_or(usual_max_bytes);
  if (options_.min_bytes < 0 || most < options_.min_bytes)
    throw UsageError(
        fmt::format("the size limits of a text, {} to {} bytes, leave nothing", options_.min_bytes, most));
  if (options_.documents.empty()) throw UsageError("no column was given that holds text");
  std::vector<std::string>& columns = table_options_.columns;
  for (const auto& names : options_.documents) {
    auto& fields = documents_.emplace_back();
    if (names.empty()) throw UsageError("no column was given that holds text");
    for (const std::string& name : names) {
      if (name.empty()) throw UsageError("a column of a table needs a name, one of those given is empty");
      const auto found = std::ranges::find(columns, name);
      fields.push_back(static_cast<std::size_t>(found - columns.begin()));
      if (found == columns.end()) columns.push_back(name);
    }
  }
  // A filter without its column would silently keep or drop everything.
  const bool required = options_.language_column || !options_.languages.empty();
  const std::string language = options_.language_column.value_or("language");
  const auto found = std::ranges::find(columns, language);
  language_field_ = static_cast<std::size_t>(found - columns.begin());
  if (found == columns.end()) (required ? columns : table_options_.optional).push_back(language);
  table_options_.header = options_.header;
  table_options_.format = options_.format;
  table_options_.format_option = "--format";
  table_options_.nulls = true;
  next_document_ = documents_.size();
}

void TableCorpus::pass_over(const char* reason, std::int64_t bytes, const std::string& note) {
  counts_.drop(reason, bytes);
  counts_.note(note);
}

// If objects lack the columns, the file is counted; if its rows are malformed, the rows are.
void TableCorpus::pass_over_unsuitable(const std::string& note) {
  const bool rows_failed = table_ && !table_->counts().skipped.empty();
  const bool lacks_columns = rows_failed && table_->counts().skipped.size() == 1 &&
                             table_->counts().skipped.contains("missing field");
  if (rows_failed && !lacks_columns) return;  // close_table() counts them
  pass_over("other columns", file_.bytes, note);
  table_.reset();
}

// Runs work that may find the table unsuitable, damaged or unreadable; false if it did.
template <class Work>
bool TableCorpus::guarded(Work&& work) {
  try {
    work();
    return true;
  } catch (const DamagedFile& error) {
    if (file_.named) throw;
    pass_over("damaged file", table_ ? table_->lost() : file_.bytes, error.what());
  } catch (const UnsuitableTable& error) {
    if (file_.named) throw;
    pass_over_unsuitable(error.what());
  } catch (const UnreadableFile& error) {
    if (file_.named) throw;
    pass_over("unreadable", file_.bytes, error.what());
  } catch (const Error& error) {
    if (file_.named) throw;
    pass_over("malformed table", table_ ? table_->lost() : file_.bytes, error.what());
  }
  return false;
}

bool TableCorpus::open_table() {
  while (walk_.next(file_, counts_.dropped)) {
    if (!file_.named && !is_table_name(file_.path)) {
      counts_.drop("other suffix", file_.bytes);
      continue;
    }
    if (guarded([&] { table_.emplace(file_.path, table_options_); })) return true;
    table_.reset();
  }
  return false;
}

void TableCorpus::close_table() {
  if (table_ && !table_->counts().skipped.empty()) {
    counts_.note(describe_skipped(file_.path, table_->counts()));
    for (const auto& [reason, skipped] : table_->counts().skipped)
      counts_.dropped[reason].add({.count = skipped.rows, .bytes = skipped.bytes});
  }
  table_.reset();
}

bool TableCorpus::next_row() {
  for (;;) {
    if (!table_ && !open_table()) return false;
    bool found = false;
    guarded([&] { found = table_->next(row_); });
    if (!found) {
      close_table();
      continue;
    }
    next_document_ = 0;
    return true;
  }
}

bool TableCorpus::take(const std::vector<std::size_t>& fields, Document& document) {
  std::string joined;
  for (const std::size_t field : fields) {
    const auto& text = row_.fields[field];
    if (!text || text->empty()) continue;
    if (!joined.empty()) joined += '\n';
    joined += *text;
  }
  const auto size = static_cast<std::int64_t>(joined.size());
  const auto reject = [&](const char* reason) {
    counts_.drop(reason, size);
    return false;
  };
  const auto& wanted = options_.languages;
  const auto& language = row_.fields[language_field_];
  const bool in_list = language && std::ranges::find(wanted, *language) != wanted.end();
  if (!wanted.empty() && !in_list) return reject("other language");
  if (size == 0) return reject("empty");
  if (size < std::max<std::int64_t>(options_.min_bytes, 1)) return reject("too small");
  if (size <= options_.max_bytes.value_or(usual_max_bytes)) return deliver(std::move(joined), document);
  if (options_.max_bytes) return reject("too large");
  std::ranges::move(cut_text(joined), std::back_inserter(parts_));
  return false;
}

bool TableCorpus::deliver(std::string text, Document& document) {
  document.hash = storage::hash128(text);
  if (!hashes_.insert(document.hash)) {
    counts_.drop("duplicate", static_cast<std::int64_t>(text.size()));
    return false;
  }
  document.text = std::move(text);
  document.name = fmt::format("{}:{}", file_.path.string(), row_.line);
  document.language = row_.fields[language_field_].value_or("");
  counts_.add(document);
  return true;
}

bool TableCorpus::next(Document& document) {
  for (;;) {
    if (!parts_.empty()) {
      std::string part = std::move(parts_.front());
      parts_.pop_front();
      if (deliver(std::move(part), document)) return true;
      continue;
    }
    if (next_document_ == documents_.size() && !next_row()) return false;
    if (take(documents_[next_document_++], document)) return true;
  }
}

}  // namespace comera::data
