#include "cli/options/corpus_options.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/choice.h"
#include "data/corpus/corpus_filters.h"
#include "data/corpus/documents/standard_input.h"
#include "data/tables/table_corpus.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"

namespace comera::cli {

namespace {

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

data::TableFormat format_named(const std::string& name) {
  if (name == "tsv") return data::TableFormat::tsv;
  if (name == "csv") return data::TableFormat::csv;
  if (name == "semicolon_csv") return data::TableFormat::semicolon_csv;
  if (name == "quoted_tsv") return data::TableFormat::quoted_tsv;
  if (name == "jsonl") return data::TableFormat::jsonl;
  return name == "text" ? data::TableFormat::text : data::TableFormat::automatic;
}

data::DocumentUnit unit_named(const std::string& name) {
  if (name == "file") return data::DocumentUnit::file;
  if (name == "paragraph") return data::DocumentUnit::paragraph;
  return name == "line" ? data::DocumentUnit::line : data::DocumentUnit::automatic;
}

std::unique_ptr<data::DocumentSource> open_part(const CorpusInput& input,
                                                std::vector<std::filesystem::path> inputs) {
  std::ranges::transform(inputs, inputs.begin(), data::or_standard_input);
  if (input.text.empty()) {
    data::CorpusOptions options;
    options.inputs = inputs;
    options.languages = input.languages;
    options.document = unit_named(input.document);
    options.min_bytes = input.min_bytes;
    options.max_bytes = input.max_bytes;
    data::refuse_mostly_dropped(options, input.max_bytes_option);
    return std::make_unique<data::FileCorpus>(options);
  }
  data::TableCorpusOptions options;
  options.inputs = inputs;
  for (const std::string& columns : input.text) options.documents.push_back(split_names(columns));
  options.format = format_named(input.format);
  options.header = !input.no_header;
  options.language_column = input.language_column;
  options.languages = input.languages;
  options.min_bytes = input.min_bytes.value_or(options.min_bytes);
  options.max_bytes = input.max_bytes;
  return std::make_unique<data::TableCorpus>(options);
}

}  // namespace

CLI::Option* add_corpus_options(CLI::App& command, CorpusInput& input, const char* max_bytes_name) {
  CLI::Option* paths =
      command
          .add_option("--input", input.inputs,
                      "Read these files, and folders with their subfolders; - is standard input")
          ->type_name("PATH");
  CLI::Option* text =
      command
          .add_option(
              "--text", input.text,
              "Read tables (TSV, CSV, JSONL or lines of text; plain, .gz or .zst) and make one document of "
              "these columns of each row, joined by line breaks. Given twice, each row yields two "
              "documents. In a plain text file the only column is called 'text'")
          ->needs(paths)
          ->allow_extra_args(false)
          ->type_name("COLUMN,...");
  command
      .add_option("--document", input.document,
                  fmt::format("What one document of prose (text, Markdown) is: file, paragraph (blank lines "
                              "divide them), line, or auto: paragraphs of together up to {} KiB, a smaller "
                              "file as a whole. Longer paragraphs and lines are divided",
                              data::longest_document >> 10))
      ->needs(paths)
      ->excludes(text)
      ->check(one_of({"auto", "file", "paragraph", "line"}))
      ->capture_default_str();
  command
      .add_option("--language-column", input.language_column,
                  "Match --languages against this column of tables (default: language)")
      ->needs(text)
      ->type_name("COLUMN");
  command
      .add_option("--format", input.format, "Format of all tables (default: by file name, else by content)")
      ->needs(text)
      ->check(one_of({"tsv", "csv", "semicolon_csv", "quoted_tsv", "jsonl", "text"}));
  command
      .add_flag("--no-header", input.no_header,
                "Treat the first line of TSV and CSV tables as data; columns are then named 1, 2, ...")
      ->needs(text);
  command
      .add_option("--languages", input.languages,
                  fmt::format("Keep only these languages (default: all). For files: {}. For tables: values "
                              "of the language column",
                              fmt::join(data::known_languages(), ", ")))
      ->needs(paths)
      ->delimiter(',')
      ->type_name("NAME");
  command
      .add_option(
          "--min-bytes", input.min_bytes,
          "Skip files (default: 32), parts of files and texts of tables (default: 1) smaller than this")
      ->needs(paths);
  input.max_bytes_option = max_bytes_name;
  command
      .add_option(
          max_bytes_name, input.max_bytes,
          "Skip files of code and texts of tables larger than this (default: files of code in folders "
          "above 1 MiB are skipped, other texts above it are divided)")
      ->needs(paths);
  return paths;
}

std::unique_ptr<data::DocumentSource> open_corpus(const CorpusInput& input) {
  std::unique_ptr<data::DocumentSource> corpus = open_part(input, input.inputs);
  if (!input.held_out.empty())
    corpus = std::make_unique<data::WithoutTrainingFunctions>(
        std::make_unique<data::TrainingThenHeldOut>(std::move(corpus), open_part(input, input.held_out)));
  if (input.near_duplicates)
    corpus = std::make_unique<data::WithoutNearDuplicates>(std::move(corpus), *input.near_duplicates);
  return corpus;
}

void CorpusProgress::update(std::int64_t documents, std::int64_t bytes) {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
  const double megabytes = static_cast<double>(bytes) * 1e-6;
  bar_.update(documents, fmt::format("{} documents, {:.1f} MB, {:.1f} MB/s", grouped(documents), megabytes,
                                     megabytes / taken.count()));
}

namespace {

// The option that affects what is dropped for a reason, or another remedy.
const char* what_changes(const std::string& reason) {
  static const std::map<std::string, const char*> changes = {
      {"other suffix", "give the file itself, or --text COLUMN for tables"},
      {"hidden folder", "give it as --input"},
      {"other language", "--languages"},
      {"too small", "--min-bytes"},
      {"too large", "--max-bytes (comera data), --max-file-bytes (other commands)"},
      {"UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"},
      {"invalid UTF-8", "convert it: iconv -f ENCODING -t UTF-8"},
      {"lone surrogate", "write whole characters"},
      {"near duplicate", "--near-duplicates"},
      {"function in training data", "--held-out-input"},
      {"other columns", "--text"},
      {"missing field", "--text"},
      {"field is not text", "--text"},
      {"not a JSON object", "--format"},
      {"wrong number of fields", "--format"},
      {"malformed table", "--format"},
      {"beyond the sample", "--max-bytes of 'comera tokenizer'"}};
  const auto found = changes.find(reason);
  return found == changes.end() ? "" : found->second;
}

}  // namespace

void print_account(const char* kept, std::int64_t documents, std::int64_t bytes,
                   const std::map<std::string, data::LanguageCounts>& languages, const char* left_out,
                   const data::DroppedByReason& dropped) {
  data::Dropped all;
  std::size_t widest = 22;
  for (const auto& [reason, entry] : dropped) {
    all.add(entry);
    widest = std::max(widest, reason.size());
  }
  for (const auto& [language, count] : languages) widest = std::max(widest, language.size());
  const auto row = [&](const std::string& name, std::int64_t count, const std::string& size,
                       const char* hint = "") {
    std::string line = fmt::format("{:<{}}{:>14}{:>18}", name, widest + 2, grouped(count), size);
    if (*hint != 0) {
      const bool fits = line.size() + 2 + std::string_view(hint).size() <= terminal_columns;
      line += fmt::format("{}{}", fits ? "  " : "\n      ", hint);
    }
    print_out("{}\n", line);
  };
  const auto size_of = [](const data::Dropped& entry) {
    return entry.all_bytes_known ? grouped(entry.bytes)
           : entry.bytes == 0    ? std::string("unknown")
                                 : "over " + grouped(entry.bytes);
  };
  print_out("{:<{}}{:>14}{:>18}\n", "", widest + 2, "documents", "bytes");
  row(kept, documents, grouped(bytes));
  for (const auto& [language, count] : languages) row("  " + language, count.documents, grouped(count.bytes));
  row(left_out, all.count, size_of(all));
  for (const auto& [reason, entry] : dropped) {
    row("  " + reason, entry.count, size_of(entry), what_changes(reason));
    if (reason != data::near_duplicate) continue;
    for (const auto& [language, of] : languages)
      if (of.near_duplicates > 0)
        print_out("    {:<{}}{:>14}{:>17.1f}%\n", language, widest - 2, grouped(of.near_duplicates),
                  100.0 * static_cast<double>(of.near_duplicates) /
                      static_cast<double>(of.documents + of.near_duplicates));
  }
}

void print_corpus_counts(const data::CorpusCounts& counts) {
  print_account("kept", counts.documents, counts.bytes, counts.languages, "dropped", counts.dropped);
  for (const std::string& note : counts.notes) log_info("note: {}\n", note);
  if (counts.more_notes > 0) log_info("note: {} more files had such problems\n", grouped(counts.more_notes));
}

}  // namespace comera::cli
