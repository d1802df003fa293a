// Documentation and functions that belong together, for contrastive learning.
#include <gmock/gmock.h>

#include <algorithm>

#include "data/corpus/function_pairs.h"
#include "data/tables/table_reader.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

TEST(FunctionPairs, OfMatchingOnesEachFunctionIsOnce) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += fmt::format("def f{0}(x):\n    \"\"\"Gives the number {0}.\"\"\"\n    return {0}\n\n", i);
  folder.write("in/f.py", text);
  CorpusOptions options;
  options.inputs = {folder / "in"};
  FileCorpus corpus(options);
  const FunctionPairsCounts counts =
      build_function_pairs(corpus, {.output = folder / "out", .held_out = 0.2, .matching_only = true});
  EXPECT_EQ(counts.train + counts.validation, 100);
  for (const char* split : {"train", "validation"}) {
    TableReader reader(folder / "out" / (std::string(split) + ".jsonl"),
                       {.columns = {"documentation", "code", "name"}});
    TableRow row;
    std::int64_t rows = 0;
    for (; reader.next(row); ++rows) {
      const std::string number = row.fields[2]->substr(1);
      EXPECT_EQ(*row.fields[0], fmt::format("Gives the number {}.", number));
      EXPECT_THAT(*row.fields[1], testing::HasSubstr(fmt::format("return {}", number)));
    }
    EXPECT_EQ(rows, split == std::string("train") ? counts.train : counts.validation);
    EXPECT_EQ(std::ranges::find(reader.columns(), "label"), reader.columns().end());
  }
}

}  // namespace
}  // namespace comera::data
