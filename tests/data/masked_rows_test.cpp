#include "data/masked_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <fstream>
#include <map>
#include <set>

#include "data/build_shards.h"
#include "data/loader.h"
#include "data/sequence_set.h"
#include "kernels/core/check.h"
#include "small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::HasSubstr;

constexpr std::int32_t vocabulary = 1000;
constexpr std::int64_t width = 24, most_targets = 5;

// One sequence as the files hold it.
struct Row {
  std::vector<std::int32_t> original, segments, positions;
  std::int32_t label = 0;
};

// [CLS] a a … [SEP] b b … [SEP], with up to five targets.
Row made_row(std::int32_t number) {
  const SpecialIds special;
  const auto length =
      static_cast<std::int32_t>(5 + storage::mix64(static_cast<std::uint64_t>(number)) % (width - 4));
  Row row;
  for (std::int32_t i = 0; i < length; ++i) {
    row.original.push_back(5 + (31 * number + 7 * i) % (vocabulary - 5));
    row.segments.push_back(i > length / 2);
  }
  row.original.front() = special.cls;
  row.original[static_cast<std::size_t>(length / 2)] = row.original.back() = special.separator;
  for (std::int32_t at = 1 + number % 2; at < length - 1 && row.positions.size() < most_targets; at += 3)
    if (at != length / 2) row.positions.push_back(at);
  row.label = number % 2;
  return row;
}

struct Layout {
  std::map<std::string, std::vector<std::int32_t>> values;
  std::map<std::string, std::int64_t> widths = {{"input_ids", width},
                                                {"input_mask", width},
                                                {"segment_ids", width},
                                                {"masked_lm_positions", most_targets},
                                                {"masked_lm_ids", most_targets},
                                                {"next_sentence_labels", 0}};

  explicit Layout(std::int32_t rows, std::int32_t first = 0) {
    for (const auto& [name, columns] : widths) values[name];
    for (std::int32_t number = first; number < first + rows; ++number) {
      const Row row = made_row(number);
      auto ids = row.original;
      for (const auto at : row.positions) ids[static_cast<std::size_t>(at)] = SpecialIds().mask;
      add("input_ids", ids, width);
      add("input_mask", std::vector<std::int32_t>(ids.size(), 1), width);
      add("segment_ids", row.segments, width);
      add("masked_lm_positions", row.positions, most_targets);
      std::vector<std::int32_t> targets;
      for (const auto at : row.positions) targets.push_back(row.original[static_cast<std::size_t>(at)]);
      add("masked_lm_ids", targets, most_targets);
      values["next_sentence_labels"].push_back(row.label);
    }
  }

  void add(const std::string& name, std::vector<std::int32_t> row, std::int64_t padded) {
    row.resize(static_cast<std::size_t>(padded));
    values[name].insert(values[name].end(), row.begin(), row.end());
  }

  // As the original files: compressed, in chunks, with narrow integers where they fit. sealed_as: the format
  // indicated by the first bytes.
  std::filesystem::path write(const std::filesystem::path& path, std::string_view sealed_as = {}) const {
    std::filesystem::remove(path);
    storage::hdf5::File file =
        storage::hdf5::File::create(path, {.user_block = sealed_as.empty() ? 0 : storage::seal_bytes});
    for (const auto& [name, data] : values) {
      const std::int64_t columns = widths.at(name);
      const DType dtype = name == "input_mask" || name == "segment_ids" ? DType::uint8
                          : name == "masked_lm_ids"                     ? DType::int64
                                                                        : DType::int32;
      storage::hdf5::Dataset dataset = file.create_dataset(
          name, dtype, columns > 0 ? std::vector<std::int64_t>{columns} : std::vector<std::int64_t>{},
          {.chunk_rows = 37, .checksum = false, .deflate = 4});
      dataset.append(std::span<const std::int32_t>(data));
    }
    file.close();
    if (!sealed_as.empty())
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "comera " << sealed_as << '\n';
    return path;
  }
};

std::string refusal(const test::TemporaryFolder& folder, const Layout& layout) {
  const auto path = layout.write(folder / "a.hdf5");
  return test::error_of([&] { MaskedRowFile file(path, vocabulary, {}); });
}

TEST(MaskedRows, GiveEachRowWithoutPaddingAndWithItsOwnTargets) {
  const test::TemporaryFolder folder;
  const MaskedRowSet set({Layout(150).write(folder / "a.hdf5"), Layout(0).write(folder / "b.hdf5"),
                          Layout(70, 150).write(folder / "c.h5")},
                         vocabulary, {});
  EXPECT_EQ(set.rows(), 220);
  EXPECT_EQ(set.types(), 2);
  set.files()[0].check_types(2);
  EXPECT_THAT(test::error_of([&] { set.files()[0].check_types(1); }),
              HasSubstr("a.hdf5: row 0 has segment id 1, but the recipe has model.types = 1"));
  for (const std::int64_t cache : {0, 1 << 20}) {
    MaskedRows as_masked(set, width, false, cache), restored(set, width, true, cache);
    EXPECT_TRUE(as_masked.masked());
    EXPECT_FALSE(restored.masked());
    const auto lengths = as_masked.lengths();
    ASSERT_EQ(lengths.size(), 220u);
    Sample sample;
    for (std::int64_t i = 0; i < 220; ++i) {
      const auto number = static_cast<std::int32_t>(i * 77 % 220);  // in no order
      const Row row = made_row(number);
      as_masked.read(number, sample);
      EXPECT_EQ(lengths[static_cast<std::size_t>(number)], static_cast<std::int32_t>(row.original.size()));
      EXPECT_TRUE(sample.masked);
      EXPECT_EQ(sample.targets.positions, row.positions);
      EXPECT_EQ(sample.type_ids, row.segments);
      EXPECT_EQ(sample.label, row.label);
      auto ids = row.original;
      for (std::size_t t = 0; t < row.positions.size(); ++t) {
        EXPECT_EQ(sample.targets.ids[t], ids[static_cast<std::size_t>(row.positions[t])]);
        ids[static_cast<std::size_t>(row.positions[t])] = SpecialIds().mask;
      }
      EXPECT_EQ(sample.ids, ids);
      restored.read(number, sample);
      EXPECT_FALSE(sample.masked);
      EXPECT_EQ(sample.ids, row.original);
    }
  }
}

// Blocks hold whole rows, however much of them is padding.
TEST(MaskedRows, MasksMayBeTruthValues) {
  const test::TemporaryFolder folder;
  const Layout layout(20);
  const std::string numbers = layout.write(folder / "a.hdf5"), truth = layout.write(folder / "b.hdf5");
  const hid_t file = H5Fopen(truth.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(file, "input_mask", H5P_DEFAULT), 0);
  const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  for (const auto& [name, value] : {std::pair<const char*, std::int8_t>("FALSE", 0), {"TRUE", 1}})
    H5Tenum_insert(type, name, &value);
  const std::vector<std::int32_t>& mask = layout.values.at("input_mask");
  const std::vector<std::int8_t> values(mask.begin(), mask.end());
  const std::array<hsize_t, 2> shape = {20, width};
  const hid_t space = H5Screate_simple(2, shape.data(), nullptr);
  const hid_t dataset = H5Dcreate2(file, "input_mask", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Dclose(dataset);
  H5Sclose(space);
  H5Fclose(file);
  EXPECT_EQ(MaskedRowFile(truth, vocabulary, {}).content(), MaskedRowFile(numbers, vocabulary, {}).content());
}

TEST(MaskedRows, KeepNoMoreThanTheyMay) {
  const test::TemporaryFolder folder;
  const MaskedRowSet set({Layout(150).write(folder / "a.hdf5")}, vocabulary, {});
  MaskedRowFile::Rows rows;
  set.files()[0].read(0, 100, rows);
  std::size_t numbers = 0;
  for (const auto* values : {&rows.ids, &rows.segments, &rows.positions, &rows.targets, &rows.labels})
    numbers += values->size();
  EXPECT_EQ(set.files()[0].row_bytes() * 100, static_cast<std::int64_t>(4 * numbers));
  const std::int64_t bytes = 1 << 20;
  const MaskedRows source(set, width, false, bytes);
  EXPECT_LE(source.kept() * set.files()[0].row_bytes(), bytes);
  EXPECT_GT(source.kept() * set.files()[0].row_bytes(), bytes * 9 / 10);
  EXPECT_GT(MaskedRows(set, width, false, 0).kept(), 0);
}

LoaderOptions loader_options() {
  LoaderOptions options;
  options.capacity = {.tokens = 128, .sequences = 20, .longest = width, .masked = 40, .unique_ids = 128};
  options.seed = 3;
  return options;
}

TEST(MaskedRows, TrainingUsesExactlyTheFilesTargets) {
  const test::TemporaryFolder folder;
  const MaskedRowSet set({Layout(200).write(folder / "a.hdf5")}, vocabulary, {});
  const auto load = [&](bool restored, const LoaderOptions& options) {
    return std::make_unique<Loader>(std::make_unique<MaskedRows>(set, width, restored, 1 << 20), options);
  };
  const auto loader = load(false, loader_options());
  const std::int64_t expected = loader->count_micro_batches_per_epoch();
  std::set<std::int64_t> seen;
  std::int64_t micro_batches = 0;
  std::vector<LoaderPosition> positions;
  std::vector<std::vector<std::int32_t>> ids, masked;
  while (true) {
    positions.push_back(loader->position());
    const Batch& batch = loader->next();
    if (loader->epoch() > 0) break;
    ids.emplace_back(batch.token_ids.begin(), batch.token_ids.end());
    masked.emplace_back(batch.masked_positions.begin(), batch.masked_positions.end());
    ++micro_batches;
    std::int32_t target = 0;
    for (std::int32_t s = 0; s < batch.sequences; ++s) {
      const Row row = made_row(static_cast<std::int32_t>(batch.samples[s]));
      EXPECT_TRUE(seen.insert(batch.samples[s]).second);
      EXPECT_EQ(batch.labels[s], row.label);
      for (const auto at : row.positions) {
        ASSERT_LT(target, batch.masked);
        EXPECT_EQ(batch.masked_positions[target], batch.sequence_offsets[s] + at);
        EXPECT_EQ(batch.masked_targets[target], row.original[static_cast<std::size_t>(at)]);
        EXPECT_EQ(batch.token_ids[batch.masked_positions[target]], SpecialIds().mask);
        ++target;
      }
    }
    EXPECT_EQ(target, batch.masked);
  }
  EXPECT_EQ(seen.size(), 200u);
  EXPECT_EQ(micro_batches, expected);
  // From the middle, without a thread: the same.
  LoaderOptions direct = loader_options();
  direct.prefetch = 0;
  for (std::size_t at = 0; at < ids.size(); at += 4) {
    const auto resumed = load(false, direct);
    resumed->seek(positions[at]);
    const Batch& batch = resumed->next();
    EXPECT_THAT(batch.token_ids, testing::ElementsAreArray(ids[at]));
    EXPECT_THAT(batch.masked_positions, testing::ElementsAreArray(masked[at]));
  }
  // With new masks, targets differ from epoch to epoch, and the original ids are restored.
  const auto dynamic = load(true, loader_options());
  std::map<std::int64_t, std::set<std::vector<std::int32_t>>> masks;
  while (dynamic->epoch() < 3) {
    const Batch& batch = dynamic->next();
    std::vector<std::int32_t> tokens(batch.token_ids.begin(), batch.token_ids.end());
    for (std::int32_t i = 0; i < batch.masked; ++i)
      tokens[batch.masked_positions[i]] = batch.masked_targets[i];
    for (std::int32_t s = 0; s < batch.sequences; ++s) {
      const Row row = made_row(static_cast<std::int32_t>(batch.samples[s]));
      EXPECT_TRUE(
          std::equal(row.original.begin(), row.original.end(), tokens.begin() + batch.sequence_offsets[s]));
      masks[batch.samples[s]].insert({batch.token_ids.begin() + batch.sequence_offsets[s],
                                      batch.token_ids.begin() + batch.sequence_offsets[s + 1]});
    }
  }
  std::int64_t different = 0;
  for (const auto& [sample, forms] : masks) different += forms.size() > 1;
  EXPECT_GT(different, 150);
  // No room for a row's targets.
  LoaderOptions narrow = loader_options();
  narrow.capacity.masked = 2;
  EXPECT_THAT(test::error_of([&] { load(false, narrow)->next(); }),
              HasSubstr("targets, a batch has room for 2"));
}

TEST(MaskedRows, WhatDoesNotFitIsRefusedWithFileAndRow) {
  const test::TemporaryFolder folder;
  const auto with = [&](const char* dataset, std::size_t index, std::int32_t value) {
    Layout layout(50);
    layout.values[dataset][index] = value;
    return refusal(folder, layout);
  };
  EXPECT_EQ(refusal(folder, Layout(50)), "");
  const std::size_t row = 41;
  EXPECT_THAT(with("input_ids", row * width + 1, vocabulary),
              HasSubstr("a.hdf5: row 41 has token id 1000, but the vocabulary has 1000 pieces"));
  EXPECT_THAT(with("input_ids", row * width + 1, -4), HasSubstr("row 41 has token id -4"));
  EXPECT_THAT(with("input_ids", row * width, 101), HasSubstr("row 41 begins with id 101, but [CLS] is 2"));
  EXPECT_THAT(with("input_mask", row * width + 2, 0), HasSubstr("row 41 of 'input_mask' is not a run of 1"));
  EXPECT_THAT(with("input_mask", row * width + 2, 7), HasSubstr("row 41 of 'input_mask' is not a run of 1"));
  EXPECT_THAT(with("masked_lm_positions", row * most_targets, 23),
              HasSubstr("row 41 has a target at position 23, but the row has"));
  EXPECT_THAT(with("masked_lm_positions", row * most_targets, -1),
              HasSubstr("row 41 has a target at position -1"));
  EXPECT_THAT(with("masked_lm_positions", row * most_targets, 6), HasSubstr("they must rise"));
  EXPECT_THAT(with("masked_lm_ids", row * most_targets, 5000), HasSubstr("row 41 has target id 5000"));
  // A position of 0 is padding, and only after the last target.
  EXPECT_THAT(with("masked_lm_positions", row * most_targets, 0),
              testing::ContainsRegex("row 41 has a target at position [0-9]+ behind a position of 0"));
  std::int32_t padded = 0;
  while (made_row(padded).positions.size() == most_targets) ++padded;
  const std::size_t last = static_cast<std::size_t>(padded + 1) * most_targets - 1;
  EXPECT_THAT(with("masked_lm_ids", last, 7),
              HasSubstr(fmt::format("row {} has target id 7 at position 0, where no target can be", padded)));
  for (const std::int32_t padding : {SpecialIds().pad, -1, -100})
    EXPECT_EQ(with("masked_lm_ids", last, padding), "");
  Layout empty_row(50);
  for (std::size_t i = 0; i < width; ++i) empty_row.values["input_mask"][row * width + i] = 0;
  EXPECT_THAT(refusal(folder, empty_row), HasSubstr("row 41 of 'input_mask' has no token"));

  for (const char* name : {"input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids",
                           "next_sentence_labels"}) {
    Layout lacking(50);
    lacking.values.erase(name);
    const std::string said = refusal(folder, lacking);
    const bool optional = std::string(name) == "next_sentence_labels";
    EXPECT_THAT(said, HasSubstr(optional ? std::string() : "a.hdf5: has no '" + std::string(name) + "'"));
    EXPECT_EQ(said.empty(), optional);
    Layout shorter(50);
    auto& values = shorter.values[name];
    values.resize(values.size() - static_cast<std::size_t>(std::max<std::int64_t>(shorter.widths[name], 1)));
    EXPECT_THAT(refusal(folder, shorter),
                testing::ContainsRegex("has (49|50) rows, 'input_ids' has (49|50)"));
  }
  Layout flat(50);
  flat.widths["segment_ids"] = 0;
  EXPECT_THAT(refusal(folder, flat), HasSubstr("'segment_ids' has 1 dimensions, 2 were expected"));
  Layout narrow(50);
  narrow.values["masked_lm_ids"].resize(50 * 4);
  narrow.widths["masked_lm_ids"] = 4;
  EXPECT_THAT(refusal(folder, narrow),
              HasSubstr("'masked_lm_ids' have 4 entries, those of 'masked_lm_positions' 5"));

  const MaskedRowSet set({Layout(50).write(folder / "b.hdf5")}, vocabulary, {});
  EXPECT_THAT(test::error_of([&] { MaskedRows rows(set, 10, false, 0); }),
              HasSubstr("more than the 10 of a sequence"));
  EXPECT_THAT(
      test::error_of([&] { MaskedRowSet none({Layout(0).write(folder / "c.hdf5")}, vocabulary, {}); }),
      HasSubstr("have no rows"));
}

TEST(SequenceSet, TellsTheKindOfFilesByTheirContent) {
  const Tokenizer tokenizer = small_tokenizer();
  const test::TemporaryFolder folder;
  SmallCorpus corpus(50);
  BuildOptions build;
  build.output = folder / "shards";
  build.held_out = 0.2;
  build_shards(corpus, tokenizer, build);
  const auto shards = open_sequences(folder / "shards", "train", tokenizer);
  const auto validation = open_sequences(folder / "shards", "validation", tokenizer);
  EXPECT_NE(shards->fingerprint(), validation->fingerprint());
  EXPECT_FALSE(shards->samples(64, 1 << 20)->masked());
  EXPECT_THAT(test::error_of([&] {
                open_sequences(folder / "shards", "train", small_tokenizer(TokenizerModel::unigram));
              }),
              HasSubstr("make them again"));

  ShardInfo info;
  info.tokenizer_hash = tokenizer.hash();
  info.vocabulary = tokenizer.vocabulary();
  info.special = tokenizer.special();
  std::swap(info.special.cls, info.special.mask);
  info.split = "train";
  std::filesystem::create_directories(folder / "special");
  ShardWriter writer(folder / "special", info, 100);
  writer.add(std::vector<std::int32_t>{5, 6});
  writer.finish();
  EXPECT_THAT(test::error_of([&] { open_sequences(folder / "special", "train", tokenizer); }),
              HasSubstr("have other ids for [PAD]"));

  // The small tokenizer has fewer pieces than the rows' ids.
  const auto write = [&](const char* name, std::int32_t rows, std::int32_t first) {
    Layout layout(rows, first);
    for (const char* ids : {"input_ids", "masked_lm_ids"})
      for (auto& id : layout.values[ids]) id %= tokenizer.vocabulary();
    for (std::size_t i = 0; i < layout.values["input_ids"].size(); i += width)
      layout.values["input_ids"][i] = tokenizer.special().cls;
    std::filesystem::create_directories((folder / name).parent_path());
    layout.write(folder / name);
  };
  write("rows/train-00000.h5", 30, 0);
  write("rows/other.hdf5", 20, 30);
  const auto rows = open_sequences(folder / "rows", "train", tokenizer);
  EXPECT_EQ(rows->samples(width, 0)->count(), 50);
  EXPECT_TRUE(rows->samples(width, 0)->masked());
  EXPECT_FALSE(
      open_sequences(folder / "rows", "train", tokenizer, TargetKind::dynamic)->samples(width, 0)->masked());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tokenizer.vocabulary()));
  rows->count_pieces(counts);
  std::int64_t counted = 0, tokens = 0;
  for (const auto count : counts) counted += count;
  for (const auto length : rows->samples(width, 0)->lengths()) tokens += length;
  EXPECT_GT(counted, tokens - 50 * 4);
  EXPECT_LE(counted, tokens - 50 * 2);
  EXPECT_EQ(counts[static_cast<std::size_t>(tokenizer.special().mask)], 0);

  write("split/wiki_training_0.hdf5", 30, 0);
  write("split/wiki_test_0.hdf5", 20, 30);
  EXPECT_EQ(open_sequences(folder / "split", "train", tokenizer)->samples(width, 0)->count(), 30);
  EXPECT_EQ(open_sequences(folder / "split", "validation", tokenizer)->samples(width, 0)->count(), 20);

  std::filesystem::create_directories(folder / "empty");
  EXPECT_THAT(test::error_of([&] { open_sequences(folder / "empty", "train", tokenizer); }),
              HasSubstr("has no train shards"));
  folder.write("damaged/train-00000.h5", "nonsense");
  EXPECT_THAT(test::error_of([&] { open_sequences(folder / "damaged", "train", tokenizer); }),
              HasSubstr("train-00000.h5: is not a shard of comera"));
  // A file that begins like a shard is one: HDF5 must not see data that its seal does not cover.
  std::filesystem::create_directories(folder / "sealed");
  Layout(20).write(folder / "sealed/train-00000.h5", shard_seal.what);
  EXPECT_THAT(test::error_of([&] { open_sequences(folder / "sealed", "train", tokenizer); }),
              HasSubstr("is damaged: the checksum of its seal is wrong"));
  folder.write("damaged2/x.hdf5", "nonsense");
  EXPECT_THAT(test::error_of([&] { open_sequences(folder / "damaged2", "train", tokenizer); }),
              HasSubstr("x.hdf5: is not an HDF5 file"));
}

TEST(SequenceSet, TellsWhetherThereIsAnythingToPredict) {
  const Tokenizer tokenizer = small_tokenizer();
  const test::TemporaryFolder folder;
  for (const bool any : {false, true}) {
    Layout layout(30);
    for (const char* ids : {"input_ids", "masked_lm_ids"})
      for (auto& id : layout.values[ids]) id %= tokenizer.vocabulary();
    for (std::size_t i = 0; i < layout.values["input_ids"].size(); i += width)
      layout.values["input_ids"][i] = tokenizer.special().cls;
    if (!any)
      for (const char* none : {"masked_lm_positions", "masked_lm_ids"})
        std::ranges::fill(layout.values[none], 0);
    const std::string name = any ? "some" : "none";
    std::filesystem::create_directories(folder / name);
    layout.write(folder / name / "a.hdf5");
    EXPECT_EQ(open_sequences(folder / name, "train", tokenizer)->has_targets(), any);
    EXPECT_TRUE(open_sequences(folder / name, "train", tokenizer, TargetKind::dynamic)->has_targets());
  }
  for (const std::int32_t piece : {tokenizer.special().unknown, std::int32_t{40}}) {
    const std::string name = std::to_string(piece);
    std::filesystem::create_directories(folder / name);
    ShardWriter writer(folder / name,
                       {.tokenizer_hash = tokenizer.hash(),
                        .vocabulary = tokenizer.vocabulary(),
                        .special = tokenizer.special(),
                        .split = "train"},
                       1 << 20);
    writer.add(std::vector<std::int32_t>{tokenizer.special().unknown, piece, tokenizer.special().unknown});
    writer.finish();
    EXPECT_EQ(open_sequences(folder / name, "train", tokenizer)->has_targets(),
              piece != tokenizer.special().unknown);
  }
}

TEST(SequenceSet, DeflateStoresLess) {
  const test::TemporaryFolder folder;
  const std::vector<std::int32_t> zeros(1 << 16, 0);
  storage::hdf5::File file = storage::hdf5::File::create(folder / "a.h5");
  storage::hdf5::Dataset dataset = file.create_dataset("x", DType::int32, {}, {.deflate = 1});
  dataset.append(std::span<const std::int32_t>(zeros));
  file.close();
  EXPECT_LT(std::filesystem::file_size(folder / "a.h5"), 20000u);
  EXPECT_EQ(storage::hdf5::File::open(folder / "a.h5").read<std::int32_t>("x"), zeros);
}

}  // namespace
}  // namespace comera::data
