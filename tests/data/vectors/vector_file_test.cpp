// Files of vectors, and what is nearest in them.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "data/vectors/similarity.h"
#include "data/vectors/vector_file.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::HasSubstr;

std::vector<float> random_rows(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<std::size_t>(rows * columns));
  for (float& value : all) value = normal(engine);
  return all;
}

// Of several blocks of the file, lengths other than 1, and ties.
TEST(VectorFile, FindsTheNearestRows) {
  const test::TemporaryFolder folder;
  constexpr std::int64_t rows = 3000, columns = 1500;
  std::vector<float> vectors = random_rows(rows, columns, 1);
  std::copy_n(vectors.begin(), columns, vectors.begin() + 2000 * columns);  // row 2000 is row 0
  std::fill_n(vectors.begin() + 7 * columns, columns, 0.F);
  std::vector<VectorPlace> places;
  for (std::int64_t i = 0; i < rows; ++i)
    places.push_back({i < 2500 ? "a.txt" : "b.txt", i + 1, i % 2 == 0 ? "" : fmt::format("id {}", i),
                      fmt::format("text {}", i)});
  const auto path = folder.path() / "v.h5";
  for (const bool normalized : {false, true}) {
    if (normalized) scale_to_unit_length(vectors, columns);
    std::filesystem::remove(path);
    write_vector_file(path, vectors, columns, places,
                      {.model = "m",
                       .checkpoint = "/c",
                       .bytes = 5,
                       .crc32 = 6,
                       .pooling = "mean",
                       .normalized = normalized,
                       .length = 32});
    const VectorFile file(path);
    EXPECT_EQ(file.rows(), rows);
    EXPECT_EQ(file.source().length, 32);
    EXPECT_EQ(file.source().normalized, normalized);
    std::vector<float> queries(vectors.begin(), vectors.begin() + columns);
    const std::vector<float> other = random_rows(1, columns, 9);
    queries.insert(queries.end(), other.begin(), other.end());
    scale_to_unit_length(queries, columns);
    const auto found = file.nearest(queries, 5);
    ASSERT_EQ(found.size(), 2u);
    ASSERT_EQ(found[0].size(), 5u);
    EXPECT_EQ(found[0][0].row, 0);
    EXPECT_EQ(found[0][1].row, 2000);
    EXPECT_NEAR(found[0][0].score, 1, 1e-5);
    // As all rows sorted.
    std::vector<std::pair<float, std::int64_t>> all;
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<float> row(vectors.begin() + i * columns, vectors.begin() + (i + 1) * columns);
      scale_to_unit_length(row, columns);
      all.emplace_back(-dot(row, std::span(queries).subspan(columns)), i);
    }
    std::ranges::sort(all);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(found[1][i].row, all[i].second);
      EXPECT_NEAR(found[1][i].score, -all[i].first, 1e-5);
    }
    const VectorPlace place = file.place(2501);
    EXPECT_EQ(place.path, "b.txt");
    EXPECT_EQ(place.line, 2502);
    EXPECT_EQ(place.id, "id 2501");
    EXPECT_EQ(place.text, "text 2501");
    EXPECT_EQ(file.place(0).id, "");
  }
}

TEST(VectorFile, FewerRowsThanWantedAndNoIdsAreFine) {
  const test::TemporaryFolder folder;
  const std::vector<float> one = {3, 4};
  write_vector_file(folder.path() / "v.h5", one, 2, {{"a", 1, "", ""}}, {.pooling = "mean"});
  const VectorFile file(folder.path() / "v.h5");
  const std::vector<float> query = {1, 0};
  const auto found = file.nearest(query, 10);
  ASSERT_EQ(found[0].size(), 1u);
  EXPECT_NEAR(found[0][0].score, 0.6, 1e-6);
  EXPECT_EQ(file.place(0).text, "");
}

TEST(VectorFile, OthersAreRefused) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::filesystem::path& path) {
    return test::error_of([&] { VectorFile file(path); });
  };
  EXPECT_THAT(refusal(folder.write("t.h5", "text")), HasSubstr("t.h5"));
  const auto write = [&](const char* name, const auto& fill) {
    storage::hdf5::File file = storage::hdf5::File::create(folder.path() / name);
    fill(file);
    file.close();
    return folder.path() / name;
  };
  EXPECT_THAT(refusal(write("other.h5", [](auto&) {})), HasSubstr("holds no vectors"));
  EXPECT_THAT(
      refusal(write("old.h5", [](auto& file) { file.set_attribute("/", "format", "comera-vectors"); })),
      HasSubstr("older version"));
  EXPECT_THAT(refusal(write("damaged.h5",
                            [](auto& file) {
                              file.set_attribute("/", "format", "comera-vectors");
                              file.set_attribute("/", "version", std::int64_t{2});
                            })),
              HasSubstr("damaged"));
}

}  // namespace
}  // namespace comera::data
