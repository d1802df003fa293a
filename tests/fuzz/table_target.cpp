#include <algorithm>

#include "data/table_reader.h"
#include "data/tokenizers/utf8.h"
#include "tests/fuzz/described_file.h"
#include "tests/fuzz/target.h"

namespace comera::fuzz {
namespace {

// The first byte chooses format and options, the rest is the file. Every row has the wanted columns as
// well-formed text, is counted, and comes after the one before.
void run(Bytes input) {
  if (input.empty()) return;
  const std::uint8_t choice = input.front();
  constexpr data::TableFormat formats[] = {data::TableFormat::tsv, data::TableFormat::csv,
                                           data::TableFormat::jsonl, data::TableFormat::text};
  data::TableOptions options;
  options.format = formats[choice % 4];
  options.header = !(choice & 4);
  if (choice & 8)
    options.columns = {options.format == data::TableFormat::text ? "text" : options.header ? "a" : "1"};
  if (choice & 16) options.optional = {options.header ? "b" : "2"};
  options.longest_row = choice & 32 ? 20 : 4096;
  write_scratch(text_of(input.subspan(1)));
  refuses(scratch_file(), [&] {
    data::TableReader reader(scratch_file(), options);
    data::TableRow row;
    std::int64_t rows = 0, line = 0;
    while (reader.next(row)) {
      ++rows;
      if (row.line <= line) broken("rows do not come in the order of their lines");
      line = row.line;
      if (row.fields.size() < options.columns.size() + options.optional.size()) broken("a row lacks fields");
      for (std::size_t i = 0; i < options.columns.size(); ++i)
        if (!row.fields[i]) broken("a wanted field is absent");
      for (const auto& field : row.fields)
        if (field && (!data::is_utf8(*field) || field->find('\0') != field->npos))
          broken("a field is not text");
    }
    if (reader.next(row)) broken("there is a row after the end");
    if (rows != reader.counts().rows) broken("rows were not counted");
    data::describe_skipped(scratch_file(), reader.counts());
  });
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  // The output of `printf '1\t2\n3\t4\n' | gzip -n`.
  const std::string gzip =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x33\xe4\x34\xe2\x32\xe6\x34\xe1\x02\x00\xa8\x84\x7c\x35\x08"
      "\x00"
      "\x00\x00"s;
  // The first byte determines how a table is read. It is a separate literal if a hexadecimal digit follows.
  // NOLINTBEGIN(bugprone-suspicious-missing-comma)
  return {
      "\x18"
      "a\tb\n1\t2\n\n3\t4\n",
      "\x19"
      "a,b\n\"1,\"\"x\"\"\n2\",3\r\n4,5\n",
      "\x1a{\"a\": \"x\\u00e9\", \"b\": 2}\n{\"b\": null, \"a\": \"\"}\n[1]\n",
      "\x0b"
      "one\r\ntwo\n\nthree",
      "\x38"
      "a\tb\n" +
          std::string(30, 'x') + "\t2\n3\t4\n",
      "\x1c\xef\xbb\xbf"
      "1\t2\n",
      "\x1c" + gzip};
  // NOLINTEND(bugprone-suspicious-missing-comma)
}

}  // namespace

const Target table_target = {"table", run, nullptr, seeds};

}  // namespace comera::fuzz
