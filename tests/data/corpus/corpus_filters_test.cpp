#include "data/corpus/corpus_filters.h"

#include <gmock/gmock.h>

#include <cmath>

#include "data/corpus/build_shards.h"
#include "data/shards/shard.h"
#include "kernels/core/check.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CorpusFilters : public ::testing::Test {
 protected:
  std::unique_ptr<DocumentSource> corpus(const std::string& folder) const {
    return std::make_unique<FileCorpus>(CorpusOptions{.inputs = {folder_.path() / folder}, .languages = {}});
  }
  static std::vector<std::string> names(DocumentSource& source) {
    std::vector<std::string> found;
    for (Document document; source.next(document);)
      found.push_back(std::filesystem::path(document.name).filename().string());
    return found;
  }
  test::TemporaryFolder folder_;
};

TEST_F(CorpusFilters, NearDuplicatesAreDroppedAndCountedByLanguage) {
  const std::string text = SmallCorpus::text(8);
  folder_.write("all/a.py", text);
  folder_.write("all/b.py", text + "# one line more\n");
  folder_.write("all/c.java", "// other words before\n" + text);
  folder_.write("all/d.py", SmallCorpus::text(17));
  folder_.write("all/e.py", SmallCorpus::text(8) + " ");
  WithoutNearDuplicates filtered(corpus("all"), 0.8);
  EXPECT_THAT(names(filtered), ElementsAre("a.py", "d.py"));
  const CorpusCounts counts = filtered.counts();
  EXPECT_EQ(counts.documents, 2);
  EXPECT_EQ(counts.dropped.at("near duplicate").count, 3);
  EXPECT_EQ(counts.languages.at("python").documents, 2);
  EXPECT_EQ(counts.languages.at("python").near_duplicates, 2);
  EXPECT_EQ(counts.languages.at("java").near_duplicates, 1);
  EXPECT_EQ(counts.languages.at("java").documents, 0);
  EXPECT_EQ(counts.bytes, static_cast<std::int64_t>(text.size() + SmallCorpus::text(17).size()));
}

TEST_F(CorpusFilters, ASimilarityThatFindsNothingIsRefused) {
  folder_.write("all/a.py", SmallCorpus::text(8));
  for (const double similarity : {0.0, 0.7, 1.5, std::nan("")})
    EXPECT_THAT([&] { WithoutNearDuplicates(corpus("all"), similarity); },
                testing::ThrowsMessage<UsageError>(HasSubstr("from 0.75 to 1")));
}

TEST_F(CorpusFilters, HeldOutDocumentsShareNoFunctionWithTraining) {
  const std::string function =
      "def shared(first, second):\n    total = first * second + first // second\n"
      "    if total > 100:\n        raise ValueError('a long text so that it is long enough to count')\n    "
      "return total\n";
  folder_.write("train/a.py", SmallCorpus::text(8) + function);
  folder_.write("train/b.py", SmallCorpus::text(17));
  folder_.write("held/copied.py", "import os\n\n" + function + "\nprint(shared(1, 2))  # of another file\n");
  folder_.write("held/same.py", SmallCorpus::text(17));
  folder_.write("held/other.py", "print('a file with nothing in common', 1, 2, 3)\n");
  WithoutTrainingFunctions filtered(std::make_unique<TrainingThenHeldOut>(corpus("train"), corpus("held")));
  EXPECT_THAT(names(filtered), ElementsAre("a.py", "b.py", "other.py"));
  const CorpusCounts counts = filtered.counts();
  EXPECT_EQ(counts.documents, 3);
  EXPECT_EQ(counts.dropped.at("function in training data").count, 1);
  EXPECT_EQ(counts.dropped.at("duplicate").count, 1);
}

TEST_F(CorpusFilters, ShardsHaveThePartsThatWereGiven) {
  for (int i = 0; i < 6; ++i) folder_.write("train/" + std::to_string(i) + ".py", SmallCorpus::text(i));
  for (int i = 10; i < 13; ++i) folder_.write("held/" + std::to_string(i) + ".py", SmallCorpus::text(i));
  const Tokenizer tokenizer = small_tokenizer();
  TrainingThenHeldOut source(corpus("train"), corpus("held"));
  // A share to hold out that is not used.
  const BuildCounts counts =
      build_shards(source, tokenizer, {.output = folder_.path() / "shards", .held_out = 0.9});
  EXPECT_EQ(counts.train.documents, 6);
  EXPECT_EQ(counts.validation.documents, 3);
  EXPECT_EQ(ShardSet(folder_.path() / "shards", "validation").documents(), 3);
}

}  // namespace
}  // namespace comera::data
