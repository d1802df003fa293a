#include "data/shards/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "data/corpus/build_shards.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ShardInfo small_info() {
  ShardInfo info;
  info.tokenizer_hash = "abc";
  info.vocabulary = 100;
  info.split = "train";
  return info;
}

std::vector<std::string> files(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void write_small(const std::filesystem::path& folder, const ShardInfo& info = small_info()) {
  ShardWriter writer(folder, info, 1000);
  writer.add(std::vector<std::int32_t>{5, 6, 7});
  writer.add(std::vector<std::int32_t>{});
  writer.add(std::vector<std::int32_t>{8, 99});
  writer.finish();
}

void write_three(const std::filesystem::path& folder, const ShardInfo& info = small_info()) {
  ShardWriter writer(folder, info, 4);
  for (int i = 0; i < 3; ++i) writer.add(std::vector<std::int32_t>(4, 5 + i));
  writer.finish();
}

void replace(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
}

// A shard of these tokens, whose contents were changed by `change` before it was closed.
template <class T = std::int32_t, class Change>
std::string error_after(Change&& change, const std::vector<T>& ids = {5, 6, 7, 8}) {
  test::TemporaryFolder folder;
  {
    storage::hdf5::File file =
        storage::hdf5::File::create(folder / "train-00000.h5", {.user_block = storage::seal_bytes});
    storage::hdf5::Dataset tokens = file.create_dataset("tokens", dtype_of<T>);
    tokens.append(std::span<const T>(ids));
    file.write("document_offsets", std::vector<std::int64_t>{0, 2, 4});
    file.set_attribute("/", "format", shard_format);
    file.set_attribute("/", "version", shard_version);
    file.set_attribute("/", "tokenizer_hash", "abc");
    file.set_attribute("/", "vocabulary", std::int64_t{100});
    file.set_attribute("/", "special_ids", std::vector<std::int64_t>{0, 1, 2, 3, 4});
    file.set_attribute("/", "split", "train");
    file.set_attribute("/", "documents", std::int64_t{2});
    file.set_attribute("/", "tokens", std::int64_t{4});
    change(file);
    file.close();
  }
  seal(folder / "train-00000.h5", shard_seal);
  return test::error_of([&] { ShardReader reader(folder / "train-00000.h5"); });
}

TEST(Shard, RoundTrips) {
  test::TemporaryFolder folder;
  write_small(folder.path());
  const ShardReader reader(folder / "train-00000.h5");
  EXPECT_EQ(reader.info().tokenizer_hash, "abc");
  EXPECT_EQ(reader.documents(), 3);
  EXPECT_EQ(reader.tokens(), 5);
  EXPECT_THAT(reader.offsets(), ElementsAre(0, 3, 3, 5));
  std::vector<std::int32_t> tokens(3);
  reader.read_tokens(2, 3, tokens.data());
  EXPECT_THAT(tokens, ElementsAre(7, 8, 99));
}

TEST(Shard, KeepsSegmentsAndLabels) {
  test::TemporaryFolder folder;
  ShardInfo info = small_info();
  info.segment_ids = info.labels = true;
  ShardWriter writer(folder.path(), info, 1000);
  const std::vector<std::int32_t> tokens = {5, 6}, segments = {0, 1};
  writer.add(tokens, segments, 2);
  EXPECT_THAT(test::error_of([&] { writer.add(tokens); }), HasSubstr("segment ids"));
  writer.finish();
  const ShardReader reader(folder / "train-00000.h5");
  EXPECT_THAT(reader.labels(), ElementsAre(2));
  std::vector<std::int32_t> read(2);
  reader.read_segment_ids(0, 2, read.data());
  EXPECT_EQ(read, segments);
}

TEST(Shard, BeginsANewFileAtTheLimit) {
  test::TemporaryFolder folder;
  ShardWriter writer(folder.path(), small_info(), 10);
  for (int i = 0; i < 7; ++i) writer.add(std::vector<std::int32_t>(4, 5 + i));
  writer.add(std::vector<std::int32_t>(25, 50));  // longer than a shard: alone in one
  writer.finish();
  EXPECT_THAT(files(folder.path()), ElementsAre("train-00000.h5", "train-00001.h5", "train-00002.h5",
                                                "train-00003.h5", "train-00004.h5"));
  const ShardSet set(folder.path(), "train");
  EXPECT_EQ(set.documents(), 8);
  EXPECT_EQ(set.tokens(), 53);
}

TEST(Shard, NamesFileDocumentAndIdOutOfRange) {
  for (const std::int32_t bad : {100, -1}) {
    const std::string error = error_after([&](storage::hdf5::File& file) {
      storage::hdf5::Dataset tokens = file.dataset("tokens");
      tokens.append(std::span<const std::int32_t>(&bad, 1));
      file.set_attribute("/", "tokens", std::int64_t{5});
      file.set_attribute("/", "documents", std::int64_t{3});
      storage::hdf5::Dataset offsets = file.create_dataset("other", DType::int64);
    });
    EXPECT_THAT(error, HasSubstr("document_offsets"));
  }
  test::TemporaryFolder folder;
  ShardWriter writer(folder.path(), small_info(), 1000);
  writer.add(std::vector<std::int32_t>{5, 6});
  writer.add(std::vector<std::int32_t>{7, 100});
  writer.finish();
  EXPECT_THAT(test::error_of([&] { ShardReader reader(folder / "train-00000.h5"); }),
              AllOf(HasSubstr("train-00000.h5: token ids out of range"), HasSubstr("document 1 has id 100"),
                    HasSubstr("100 pieces")));
}

TEST(Shard, RefusesWhatIsDamagedOrNewer) {
  EXPECT_EQ(error_after([](storage::hdf5::File&) {}), "");
  EXPECT_THAT(error_after([](storage::hdf5::File& f) { f.set_attribute("/", "format", "other"); }),
              HasSubstr("is not a shard"));
  EXPECT_THAT(error_after([](storage::hdf5::File& f) { f.set_attribute("/", "version", std::int64_t{99}); }),
              AllOf(HasSubstr("version 99"), HasSubstr("up to 2")));
  EXPECT_THAT(error_after([](storage::hdf5::File& f) { f.set_attribute("/", "tokens", std::int64_t{5}); }),
              HasSubstr("damaged"));
  EXPECT_THAT(
      error_after([](storage::hdf5::File& f) { f.set_attribute("/", "documents", std::int64_t{-1}); }),
      HasSubstr("damaged"));
  EXPECT_THAT(
      error_after([](storage::hdf5::File& f) { f.set_attribute("/", "vocabulary", std::int64_t{6}); }),
      HasSubstr("out of range"));
  EXPECT_THAT(error_after([](storage::hdf5::File& f) {
                f.set_attribute("/", "special_ids", std::vector<std::int64_t>{0, 1, 2, 3, 400});
              }),
              HasSubstr("special ids"));
}

TEST(Shard, FloatingPointTokensAreRefused) {
  EXPECT_THAT(
      error_after<float>([](storage::hdf5::File&) {}, {5.5F, 6, 7, 8}),
      AllOf(HasSubstr("train-00000.h5: 'tokens' holds floating-point numbers"), HasSubstr("integers")));
}

TEST(Shard, BeginsWithItsSeal) {
  test::TemporaryFolder folder;
  write_small(folder.path());
  const std::string whole = test::read_text(folder / "train-00000.h5");
  std::string seal = fmt::format("comera shard\nversion 2\nbytes {}\ncontents {:08x}\n", whole.size(),
                                 storage::checksum(whole.data() + 512, whole.size() - 512));
  seal.resize(504);
  seal += fmt::format("{:08x}", storage::checksum(seal.data(), 504));
  EXPECT_EQ(whole.substr(0, 512), seal);
}

TEST(Shard, RefusesTruncatedForeignAndFlippedFiles) {
  test::TemporaryFolder folder;
  {
    ShardWriter writer(folder.path(), small_info(), 1 << 20);
    for (int i = 0; i < 100; ++i) writer.add(std::vector<std::int32_t>(500, 77));
    writer.finish();
  }
  const std::string whole = test::read_text(folder / "train-00000.h5");
  const auto error = [&](std::string_view bytes) {
    folder.write("changed.h5", bytes);
    return test::error_of([&] { ShardReader reader(folder / "changed.h5"); });
  };
  EXPECT_EQ(error(whole), "");
  EXPECT_THAT(error(std::string_view(whole).substr(0, whole.size() - 1)),
              HasSubstr("changed.h5: is truncated"));
  EXPECT_THAT(error(std::string_view(whole).substr(0, 1000)), HasSubstr("changed.h5"));
  EXPECT_THAT(error("foreign"), HasSubstr("is not a shard of comera"));
  EXPECT_THAT(error(whole + "x"), HasSubstr("changed after it was written"));
  EXPECT_THAT(error(std::string_view(whole).substr(storage::seal_bytes)),
              HasSubstr("without a shard's seal"));
  std::string newer = whole;
  EXPECT_THAT(error(newer.replace(newer.find("version 2"), 9, "version 7")),
              AllOf(HasSubstr("version 7"), HasSubstr("use a newer one")));
  std::string flipped = whole;
  const std::string pattern(reinterpret_cast<const char*>(std::vector<std::int32_t>(100, 77).data()), 400);
  flipped[flipped.find(pattern) + 200] ^= 1;
  EXPECT_THAT(error(flipped), HasSubstr("checksum"));
}

// Names, attributes and the structure of HDF5 too, which HDF5 itself does not protect.
TEST(Shard, AFlippedBitAnywhereIsRefused) {
  test::TemporaryFolder folder;
  write_small(folder.path());
  const std::string whole = test::read_text(folder / "train-00000.h5");
  for (std::size_t at = 0; at < whole.size(); at += at < 8192 ? 1 : 61) {
    std::string flipped = whole;
    flipped[at] ^= static_cast<char>(1 << (at % 8));
    folder.write("changed.h5", flipped);
    EXPECT_THAT(test::error_of([&] { ShardReader reader(folder / "changed.h5"); }), HasSubstr("changed.h5: "))
        << at;
  }
}

// Sealed, but not by our writer: declared rows without numbers are not made up, and nothing is computed from
// impossible counts.
TEST(Shard, RefusesImpossibleCounts) {
  const auto set = [](const char* name, std::int64_t value) {
    return error_after([&](storage::hdf5::File& file) { file.set_attribute("/", name, value); });
  };
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(set("documents", most), HasSubstr("it cannot have 9223372036854775807 documents"));
  EXPECT_THAT(set("tokens", -4), HasSubstr("it cannot have 2 documents of -4 tokens"));
  EXPECT_THAT(set("vocabulary", 0), HasSubstr("its vocabulary cannot have 0 pieces"));
  EXPECT_THAT(set("vocabulary", std::int64_t{1} << 40), HasSubstr("its vocabulary cannot have"));
}

TEST(ShardSet, RefusesEmptyAndMixedFolders) {
  test::TemporaryFolder folder;
  EXPECT_THAT(test::error_of([&] { ShardSet set(folder.path(), "train"); }),
              HasSubstr("has no train shards"));
  EXPECT_THAT(test::error_of([&] { ShardSet set(folder / "none", "train"); }),
              HasSubstr("no such folder of shards; write them "
                        "with 'comera data'"));
  test::TemporaryFolder other;
  ShardInfo info = small_info();
  info.tokenizer_hash = "def";
  write_three(folder.path());
  write_three(other.path(), info);
  replace(other / "train-00001.h5", folder / "train-00001.h5");
  EXPECT_THAT(test::error_of([&] { ShardSet set(folder.path(), "train"); }), HasSubstr("another tokenizer"));
  test::TemporaryFolder hollow;
  ShardWriter writer(hollow.path(), small_info(), 10);
  writer.add({});
  writer.finish();
  EXPECT_THAT(test::error_of([&] { ShardSet set(hollow.path(), "train"); }), HasSubstr("hold no tokens"));
}

TEST(ShardSet, RefusesAnIncompleteSetByName) {
  test::TemporaryFolder folder;
  const auto error_with = [&](auto&& change) {
    write_three(folder.path());
    change();
    return test::error_of([&] { ShardSet set(folder.path(), "train"); });
  };
  EXPECT_EQ(error_with([] {}), "");
  for (const char* name : {"train-00000.h5", "train-00001.h5", "train-00002.h5"})
    EXPECT_THAT(error_with([&] { std::filesystem::remove(folder / name); }),
                HasSubstr("the corpus in " + folder.path().string() + " is incomplete: " + name +
                          " is missing; make it again with 'comera data'"));
  EXPECT_THAT(error_with([&] { replace(folder / "train-00000.h5", folder / "train-00003.h5"); }),
              HasSubstr("incomplete: train-00003.h5 is not one of its 3 train shards"));
  EXPECT_THAT(error_with([&] { replace(folder / "train-00000.h5", folder / "train-00000b.h5"); }),
              HasSubstr("incomplete: train-00000b.h5 is not one of its shards"));
  EXPECT_THAT(error_with([&] { replace(folder / "train-00000.h5", folder / "train-00001.h5"); }),
              HasSubstr("incomplete: train-00001.h5 was made as train-00000.h5, one of 3 shards"));
  EXPECT_THAT(error_with([&] {
                storage::hdf5::File file = storage::hdf5::File::modify(folder / "train-00000.h5");
                file.set_attribute("/", "shards", std::int64_t{0});
                file.close();
                seal(folder / "train-00000.h5", shard_seal);
              }),
              HasSubstr("incomplete: train-00000.h5 is of a run that did not finish"));
}

TEST(ShardSet, AnUnfinishedSetLeavesTheOldOne) {
  test::TemporaryFolder folder;
  write_three(folder.path());
  const auto before = files(folder.path());
  const std::string fingerprint = ShardSet(folder.path(), "train").fingerprint();
  {
    ShardWriter writer(folder.path(), small_info(), 4);
    for (int i = 0; i < 5; ++i) writer.add(std::vector<std::int32_t>(4, 50));
    EXPECT_TRUE(std::filesystem::exists(folder / "train-00003.h5.partial"));
    EXPECT_THAT(test::error_of([&] { writer.publish(); }), HasSubstr("not sealed"));
    writer.seal();
    EXPECT_THAT(test::error_of([&] { writer.add({}); }), HasSubstr("nothing can be added"));
    EXPECT_EQ(ShardSet(folder.path(), "train").fingerprint(), fingerprint);
  }
  EXPECT_EQ(files(folder.path()), before);
}

// A kill after any number of the removals and renamings that put a set in the place of another.
TEST(ShardSet, AKillWhileTheSetIsReplacedIsSeen) {
  test::TemporaryFolder source, folder;
  write_three(source.path());
  for (std::size_t kept = 1; kept <= 2; ++kept)
    for (const bool last_ones : {true, false}) {  // the rest of the old set, the first of the new one
      std::filesystem::remove_all(folder.path());
      std::filesystem::create_directory(folder.path());
      for (std::size_t i = 0; i < kept; ++i) {
        const std::string name = shard_name("train", static_cast<std::int64_t>(last_ones ? 2 - i : i));
        replace(source / name, folder / name);
      }
      EXPECT_THAT(test::error_of([&] { ShardSet set(folder.path(), "train"); }),
                  AllOf(HasSubstr("incomplete"), HasSubstr("is missing")));
    }
}

TEST(ShardSet, KnowsItsTypesAndLabelsAndRefusesNegativeSegments) {
  test::TemporaryFolder folder;
  write_small(folder.path());
  EXPECT_EQ(ShardSet(folder.path(), "train").types(), 1);
  ShardInfo info = small_info();
  info.segment_ids = info.labels = true;
  const std::vector<std::int32_t> tokens = {5, 6};
  const auto write = [&](std::int32_t segment) {
    ShardWriter writer(folder.path(), info, 2);
    writer.add(tokens, std::vector<std::int32_t>{0, 2}, 4);
    writer.add(tokens, std::vector<std::int32_t>{0, segment}, -1);
    writer.finish();
    return test::error_of([&] { ShardSet set(folder.path(), "train"); });
  };
  EXPECT_EQ(write(1), "");
  const ShardSet set(folder.path(), "train");
  EXPECT_EQ(set.types(), 3);
  set.shards()[0].check_types(3);
  EXPECT_THAT(test::error_of([&] { set.shards()[0].check_types(2); }),
              HasSubstr("train-00000.h5: document 0 has segment id 2, but the recipe has model.types = 2"));
  EXPECT_EQ(set.lowest_label(), -1);
  EXPECT_EQ(set.highest_label(), 4);
  EXPECT_THAT(write(-7), HasSubstr("train-00001.h5: segment ids out of range: document 0 has segment id -7"));
}

TEST(ShardSet, TheFingerprintIsOfTheContent) {
  test::TemporaryFolder one, two, changed;
  write_three(one.path());
  write_three(two.path());
  const auto fingerprint = [](const test::TemporaryFolder& folder, const char* split = "train") {
    return ShardSet(folder.path(), split).fingerprint();
  };
  EXPECT_EQ(fingerprint(one).size(), 32u);
  EXPECT_EQ(fingerprint(one), fingerprint(two));
  ShardInfo info = small_info();
  info.split = "validation";
  write_three(two.path(), info);
  EXPECT_NE(fingerprint(one), fingerprint(two, "validation"));
  info = small_info();
  info.tokenizer_hash = "def";
  write_three(changed.path(), info);
  EXPECT_NE(fingerprint(one), fingerprint(changed));
  ShardWriter writer(changed.path(), small_info(), 4);
  for (int i = 0; i < 3; ++i) writer.add(std::vector<std::int32_t>{5 + i, 5 + i, 5 + i, i == 1 ? 9 : 5 + i});
  writer.finish();
  EXPECT_NE(fingerprint(one), fingerprint(changed));
}

TEST(BuildShards, AreTheSameForAnyNumberOfThreads) {
  const Tokenizer tokenizer = small_tokenizer();
  test::TemporaryFolder folder;
  const auto build = [&](const char* name, int threads) {
    SmallCorpus corpus(400);
    return build_shards(corpus, tokenizer,
                        {.output = folder / name,
                         .held_out = 0.2,
                         .tokens_per_shard = 20000,
                         .threads = threads,
                         .progress = {}});
  };
  const BuildCounts counts = build("one", 1);
  build("two", 2);
  build("five", 5);
  EXPECT_EQ(counts.train.documents + counts.validation.documents, 400);
  EXPECT_NEAR(counts.validation.documents, 80, 30);
  EXPECT_GT(counts.train.shards, 1);
  EXPECT_EQ(files(folder / "one"), files(folder / "two"));
  for (const std::string& name : files(folder / "one")) {
    EXPECT_TRUE(test::read_text(folder / "one" / name) == test::read_text(folder / "two" / name)) << name;
    EXPECT_TRUE(test::read_text(folder / "one" / name) == test::read_text(folder / "five" / name)) << name;
  }
  const ShardSet set(folder / "one", "train");
  EXPECT_EQ(set.documents(), counts.train.documents);
  EXPECT_EQ(set.tokens(), counts.train.tokens);
  EXPECT_EQ(set.info().tokenizer_hash, tokenizer.hash());
}

TEST(BuildShards, ShardsDecodeToTheDocuments) {
  const Tokenizer tokenizer = small_tokenizer();
  test::TemporaryFolder folder;
  SmallCorpus corpus(5);
  std::int64_t calls = 0;
  build_shards(corpus, tokenizer,
               {.output = folder / "out", .held_out = 0, .progress = [&](const BuildProgress&) { ++calls; }});
  EXPECT_GT(calls, 0);
  const ShardReader shard(folder / "out/train-00000.h5");
  for (int d = 0; d < 5; ++d) {
    std::vector<std::int32_t> ids(shard.offsets()[d + 1] - shard.offsets()[d]);
    shard.read_tokens(shard.offsets()[d], static_cast<std::int64_t>(ids.size()), ids.data());
    EXPECT_EQ(tokenizer.decode(ids), SmallCorpus::text(d));
  }
}

TEST(BuildShards, ReplacesAnEarlierRun) {
  const Tokenizer tokenizer = small_tokenizer();
  test::TemporaryFolder folder;
  folder.write("notes.txt", "stay");
  folder.write("train-mine.h5.partial", "stay");
  for (const int count : {400, 30}) {
    SmallCorpus corpus(count);
    build_shards(corpus, tokenizer,
                 {.output = folder.path(), .held_out = 0.3, .tokens_per_shard = 20000, .progress = {}});
    folder.write("train-00099.h5.partial", "left by a run that was killed");
    EXPECT_EQ(
        ShardSet(folder.path(), "train").documents() + ShardSet(folder.path(), "validation").documents(),
        count);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder / "train-mine.h5.partial"));
  SmallCorpus corpus(30);
  build_shards(corpus, tokenizer, {.output = folder.path(), .held_out = 0.3, .progress = {}});
  EXPECT_FALSE(std::filesystem::exists(folder / "train-00099.h5.partial"));
}

TEST(BuildShards, AnEmptyCorpusIsAnError) {
  const Tokenizer tokenizer = small_tokenizer();
  test::TemporaryFolder folder;
  SmallCorpus corpus(0);
  EXPECT_THAT(
      test::error_of([&] { build_shards(corpus, tokenizer, {.output = folder / "out", .progress = {}}); }),
      HasSubstr("the corpus is empty"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  SmallCorpus some(30);
  build_shards(some, tokenizer, {.output = folder / "out", .progress = {}});
  const auto before = files(folder / "out");
  EXPECT_THAT(
      test::error_of([&] { build_shards(corpus, tokenizer, {.output = folder / "out", .progress = {}}); }),
      HasSubstr("the corpus is empty"));
  EXPECT_EQ(files(folder / "out"), before);
}

TEST(BuildShards, AFailingSourceEndsTheBuildAndLeavesNothing) {
  class Failing : public SmallCorpus {
   public:
    Failing() : SmallCorpus(2000) {}
    bool next(Document& document) override {
      if (counts().documents == 1500) throw Error("the source broke");
      return SmallCorpus::next(document);
    }
  };
  const Tokenizer tokenizer = small_tokenizer();
  test::TemporaryFolder folder;
  Failing corpus;
  EXPECT_THAT(
      test::error_of([&] { build_shards(corpus, tokenizer, {.output = folder / "out", .progress = {}}); }),
      HasSubstr("the source broke"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(BuildShards, AFullDiskLeavesTheOldSet) {
  const Tokenizer tokenizer = small_tokenizer();
  test::TemporaryFolder folder;
  if (!folder.limit(1024)) GTEST_SKIP() << "mounting a small file system is not allowed here";
  SmallCorpus few(100);
  build_shards(few, tokenizer, {.output = folder.path(), .progress = {}});
  const auto before = files(folder.path());
  const std::string fingerprint = ShardSet(folder.path(), "train").fingerprint();
  SmallCorpus corpus(2000);
  EXPECT_THAT(test::error_of([&] {
                build_shards(corpus, tokenizer,
                             {.output = folder.path(), .tokens_per_shard = 40000, .progress = {}});
              }),
              HasSubstr("No space left on device"));
  EXPECT_EQ(files(folder.path()), before);
  EXPECT_EQ(ShardSet(folder.path(), "train").fingerprint(), fingerprint);
}

}  // namespace
}  // namespace comera::data
