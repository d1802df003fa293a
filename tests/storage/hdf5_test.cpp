#include "storage/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace comera::storage::hdf5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> counting(int count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

template <class T>
void round_trip(DType dtype) {
  test::TemporaryFolder folder;
  const auto values = counting<T>(24);
  {
    File file = File::create(folder / "a.h5");
    file.write("/model/layer/weight", values, {2, 3, 4});
    file.write("none", std::vector<T>{});
    file.close();
  }
  const File file = File::open(folder / "a.h5");
  EXPECT_EQ(file.info("/model/layer/weight").dtype, dtype);
  EXPECT_THAT(file.info("/model/layer/weight").shape, ElementsAre(2, 3, 4));
  EXPECT_EQ(file.read<T>("/model/layer/weight"), values);
  EXPECT_TRUE(file.read<T>("none").empty());
}

TEST(Hdf5, RoundTripsEveryType) {
  round_trip<std::int32_t>(DType::int32);
  round_trip<std::int64_t>(DType::int64);
  round_trip<float>(DType::float32);
  round_trip<double>(DType::float64);
  round_trip<std::uint8_t>(DType::uint8);
}

// A file with a group and a dataset, changed behind the back of our own layer, then read by it.
template <class Change, class Use>
std::string error_of_using(Change&& change, Use&& use) {
  test::TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  for (const char* name : {"a.h5", "b.h5"}) {
    File file = File::create(folder / name);
    file.write("/group/numbers", counting<std::int32_t>(4));
    file.close();
  }
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(change(id), 0);
  H5Fclose(id);
  return test::error_of([&] { use(File::open(path)); });
}

TEST(Hdf5, LinksToElsewhereAreNotFollowed) {
  const auto numbers = [](const char* path) {
    return [path](const File& file) { file.read<std::int32_t>(path); };
  };
  const auto external = [](hid_t id) {
    return H5Lcreate_external("b.h5", "/group", id, "/other", H5P_DEFAULT, H5P_DEFAULT);
  };
  EXPECT_THAT(error_of_using(external, numbers("/other/numbers")),
              HasSubstr("'/other' is a link to another file"));
  EXPECT_THAT(
      error_of_using(external, [](const File& file) { static_cast<void>(file.exists("/other/numbers")); }),
      HasSubstr("'/other' is a link to another file"));
  const auto soft = [](hid_t id) {
    return H5Lcreate_soft("/group/numbers", id, "/again", H5P_DEFAULT, H5P_DEFAULT);
  };
  EXPECT_THAT(error_of_using(soft, numbers("/again")), HasSubstr("'/again' is a link to another name"));
  EXPECT_EQ(error_of_using(soft, numbers("/group/numbers")), "");
}

TEST(Hdf5, NumbersInOtherFilesAreNotRead) {
  const auto change = [](hid_t id) {
    const hsize_t size = 4;
    const hid_t space = H5Screate_simple(1, &size, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(creation, "/etc/passwd", 0, 16);
    const hid_t dataset =
        H5Dcreate2(id, "secret", H5T_NATIVE_INT32, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
    return H5Dclose(dataset);
  };
  EXPECT_THAT(error_of_using(change, [](const File& file) { file.read<std::int32_t>("secret"); }),
              HasSubstr("are stored in other files"));
}

TEST(Hdf5, AGroupWithinItselfIsRefused) {
  const auto change = [](hid_t id) {
    return H5Lcreate_hard(id, "/group", id, "/group/group", H5P_DEFAULT, H5P_DEFAULT);
  };
  EXPECT_THAT(error_of_using(change, [](const File& file) { static_cast<void>(file.children("/group")); }),
              HasSubstr("'/group' has 2 names"));
  const auto root = [](hid_t id) {
    return H5Lcreate_hard(id, "/", id, "/group/root", H5P_DEFAULT, H5P_DEFAULT);
  };
  EXPECT_THAT(error_of_using(root, [](const File& file) { static_cast<void>(file.children("/")); }),
              HasSubstr("names"));
}

TEST(Hdf5, ExtendsAndReadsByRows) {
  test::TemporaryFolder folder;
  const auto values = counting<std::int32_t>(1000);
  {
    File file = File::create(folder / "a.h5");
    Dataset flat = file.create_dataset("tokens", DType::int32, {}, {.chunk_rows = 64});
    Dataset pairs = file.create_dataset("pairs", DType::int32, {2}, {.chunk_rows = 7, .checksum = false});
    for (int begin = 0; begin < 1000; begin += 100) {
      flat.append(std::span(values).subspan(begin, 100));
      pairs.append(std::span(values).subspan(begin, 100));
    }
    EXPECT_EQ(flat.rows(), 1000);
    EXPECT_THAT(test::error_of([&] { pairs.append(std::span(values).first(3)); }),
                HasSubstr("rows of 2 elements"));
    file.close();
    EXPECT_THAT(test::error_of([&] { flat.append(std::span(values)); }), HasSubstr("closed"));
  }
  const File file = File::open(folder / "a.h5");
  const Dataset flat = file.dataset("tokens");
  EXPECT_EQ(flat.read_rows<std::int32_t>(0, 1000), values);
  EXPECT_THAT(flat.read_rows<std::int64_t>(63, 3), ElementsAre(63, 64, 65));
  EXPECT_TRUE(flat.read_rows<std::int32_t>(1000, 0).empty());
  EXPECT_THAT(file.dataset("pairs").read_rows<std::int32_t>(499, 1), ElementsAre(998, 999));
  EXPECT_THAT(test::error_of([&] { flat.read_rows<std::int32_t>(999, 2); }), HasSubstr("has 1000 rows"));
}

TEST(Hdf5, KeepsAttributesAndGroups) {
  test::TemporaryFolder folder;
  const std::string long_text(100000, 'x');
  {
    File file = File::create(folder / "a.h5");
    file.create_group("/b/c");
    file.create_group("/b/c");
    file.create_group("/a");
    file.set_attribute("/", "version", std::int64_t{1});
    file.set_attribute("/", "version", std::int64_t{2});
    file.set_attribute("/b", "rate", 0.1);
    file.set_attribute("/b/c", "name", "grüße");
    file.set_attribute("/b/c", "empty", "");
    file.set_attribute("/b/c", "long", long_text);
    file.set_attribute("/b/c", "modes", std::vector<std::int64_t>{12, 8, 8});
    file.set_attribute("/b/c", "no_modes", std::vector<std::int64_t>{});
    file.close();
  }
  const File file = File::open(folder / "a.h5");
  EXPECT_THAT(file.children(), ElementsAre("a", "b"));
  EXPECT_TRUE(file.exists("/b/c"));
  EXPECT_FALSE(file.exists("/x/y/z"));
  EXPECT_FALSE(file.is_dataset("/b/c"));
  EXPECT_EQ(file.int64_attribute("/", "version"), 2);
  EXPECT_EQ(file.double_attribute("/b", "rate"), 0.1);
  EXPECT_EQ(file.string_attribute("/b/c", "name"), "grüße");
  EXPECT_EQ(file.string_attribute("/b/c", "empty"), "");
  EXPECT_EQ(file.string_attribute("/b/c", "long"), long_text);
  EXPECT_THAT(file.int64_list_attribute("/b/c", "modes"), ElementsAre(12, 8, 8));
  EXPECT_TRUE(file.int64_list_attribute("/b/c", "no_modes").empty());
  EXPECT_FALSE(file.has_attribute("/b/c", "other"));
  EXPECT_THAT(test::error_of([&] { file.int64_attribute("/b/c", "other"); }),
              HasSubstr("has no attribute 'other'"));
  EXPECT_THAT(test::error_of([&] { file.int64_attribute("/b/c", "name"); }), HasSubstr("is not an integer"));
  EXPECT_THAT(test::error_of([&] { file.int64_attribute("/b/c", "modes"); }), HasSubstr("a list of 3"));
  EXPECT_THAT(test::error_of([&] { file.string_attribute("/", "version"); }), HasSubstr("is not a string"));
  EXPECT_THAT(test::error_of([&] { file.read<float>("/nothing"); }), HasSubstr("has no '/nothing'"));
  EXPECT_THAT(test::error_of([&] { file.read<float>("/b"); }), HasSubstr("is not a dataset"));
}

TEST(Hdf5, SaysWhyAFileCannotBeOpened) {
  test::TemporaryFolder folder;
  {
    File file = File::create(folder / "a.h5");
    file.write("x", counting<double>(4096));
    file.close();
  }
  const std::string whole = test::read_text(folder / "a.h5");
  folder.write("half.h5", std::string_view(whole).substr(0, whole.size() / 2));
  folder.write("empty.h5", "");
  folder.write("text.h5", "this is not an HDF5 file, whatever its name says");
  EXPECT_THAT(test::error_of([&] { File::open(folder / "none.h5"); }), HasSubstr("none.h5: no such file"));
  EXPECT_THAT(test::error_of([&] { File::open(folder / "empty.h5"); }),
              HasSubstr("empty.h5: the file is empty"));
  EXPECT_THAT(test::error_of([&] { File::open(folder / "text.h5"); }),
              HasSubstr("text.h5: is not an HDF5 file"));
  EXPECT_THAT(test::error_of([&] { File::open(folder / "half.h5"); }), HasSubstr("truncated"));
  EXPECT_THAT(test::error_of([&] { File::open(folder.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(test::error_of([&] { File::create(folder / "no/such/folder.h5"); }),
              HasSubstr("No such file or directory"));
}

TEST(Hdf5, AFlippedBitIsAnError) {
  test::TemporaryFolder folder;
  const auto values = counting<std::int32_t>(1000);
  {
    File file = File::create(folder / "a.h5");
    Dataset dataset = file.create_dataset("x", DType::int32, {}, {.chunk_rows = 1000});
    dataset.append(std::span(values));
    file.close();
  }
  std::string bytes = test::read_text(folder / "a.h5");
  const std::string_view pattern(reinterpret_cast<const char*>(values.data()), 400);
  const auto at = bytes.find(pattern);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 100] ^= 4;
  folder.write("b.h5", bytes);
  const File file = File::open(folder / "b.h5");
  EXPECT_THAT(test::error_of([&] { file.read<std::int32_t>("x"); }), HasSubstr("checksum"));
}

TEST(Hdf5, AFullDiskIsAnErrorWithItsReason) {
  test::TemporaryFolder folder;
  if (!folder.limit(256)) GTEST_SKIP() << "mounting a small file system is not allowed here";
  const auto values = counting<std::int32_t>(200000);
  const auto contiguous = [&] {
    File file = File::create(folder / "a.h5");
    file.write("x", values);
    file.close();
  };
  EXPECT_THAT(test::error_of(contiguous), HasSubstr("No space left on device"));
  std::filesystem::remove(folder / "a.h5");
  EXPECT_EQ(std::filesystem::space(folder.path()).available, 256u * 1024) << "its space is given back";
  const auto stream = [&] {
    File file = File::create(folder / "b.h5");
    Dataset dataset = file.create_dataset("x", DType::int32);
    for (int begin = 0; begin < 200000; begin += 1000) dataset.append(std::span(values).subspan(begin, 1000));
    file.close();
  };
  EXPECT_THAT(test::error_of(stream), HasSubstr("No space left on device"));
  std::filesystem::remove(folder / "b.h5");
  EXPECT_EQ(std::filesystem::space(folder.path()).available, 256u * 1024);
  const auto buffered = [&] {  // small enough to reach the disk only when the file is closed
    folder.write("filler", std::string(240 * 1024, 'x'));
    File file = File::create(folder / "c.h5");
    Dataset dataset = file.create_dataset("x", DType::int32);
    dataset.append(std::span(values).first(20000));
    file.close();
  };
  EXPECT_THAT(test::error_of(buffered), HasSubstr("No space left on device"));
}

TEST(Hdf5, TheSameContentGivesTheSameBytesAndIsFoundInThem) {
  test::TemporaryFolder folder;
  const auto values = counting<double>(1000);
  const auto bytes_of = [&](const char* name) {
    File file = File::create(folder / name, {.user_block = 512});
    file.write("/group/x", values);
    file.write("/group/none", std::vector<double>{}, {0, 3});
    file.close();
    std::stringstream text;
    text << std::ifstream(folder / name, std::ios::binary).rdbuf();
    return text.str();
  };
  const std::string bytes = bytes_of("a.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  EXPECT_EQ(bytes_of("b.h5"), bytes);
  EXPECT_EQ(bytes.substr(0, 512), std::string(512, '\0'));
  const File file = File::open(folder / "a.h5");
  const ByteRange range = file.data_range("/group/x");
  ASSERT_EQ(range.bytes, 8000);
  EXPECT_EQ(bytes.substr(range.offset, 8000),
            std::string_view(reinterpret_cast<const char*>(values.data()), 8000));
  EXPECT_EQ(file.data_range("/group/none").bytes, 0);
}

TEST(Hdf5, AttributesAreListedWithTheirKind) {
  test::TemporaryFolder folder;
  File file = File::create(folder / "a.h5");
  file.create_group("/g");
  file.set_attribute("/g", "d", std::vector<std::int64_t>{});
  file.set_attribute("/g", "c", std::vector<std::int64_t>{1});
  file.set_attribute("/g", "b", 0.5);
  file.set_attribute("/g", "a", std::int64_t{1});
  file.set_attribute("/g", "e", "text");
  std::string listed;
  for (const auto& info : file.attributes("/g"))
    listed += info.name + std::to_string(static_cast<int>(info.kind)) + " ";
  EXPECT_EQ(listed, "a0 b1 c3 d3 e2 ");
}

TEST(Hdf5, FilesMayBeUsedFromSeveralThreads) {
  test::TemporaryFolder folder;
  const auto work = [&](int index) {
    const auto path = folder / (index == 0 ? "t0.h5" : "t1.h5");
    for (int round = 0; round < 20; ++round) {
      std::filesystem::remove(path);
      File file = File::create(path);
      file.write("x", counting<std::int32_t>(5000));
      file.close();
      EXPECT_EQ(File::open(path).read<std::int32_t>("x").size(), 5000u);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}

// A file with one dataset, made by HDF5 itself.
std::string write_foreign(const std::filesystem::path& path, hid_t type, const void* values, hsize_t rows,
                          hid_t creation = H5P_DEFAULT) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &rows, nullptr);
  const hid_t dataset = H5Dcreate2(file, "values", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  EXPECT_GE(dataset, 0);
  EXPECT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  H5Dclose(dataset);
  H5Sclose(space);
  H5Fclose(file);
  return path.string();
}

hid_t enumeration(const std::vector<std::pair<const char*, std::int8_t>>& members) {
  const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  for (const auto& [name, value] : members) H5Tenum_insert(type, name, &value);
  return type;
}

TEST(Hdf5, TruthValuesAreNumbers) {
  const test::TemporaryFolder folder;
  const std::vector<std::int8_t> values = {1, 0, 1};
  const hid_t truth = enumeration({{"FALSE", 0}, {"TRUE", 1}}), other = enumeration({{"A", 0}, {"B", 1}}),
              turned = enumeration({{"FALSE", 1}, {"TRUE", 0}});
  const File file = File::open(write_foreign(folder / "a.h5", truth, values.data(), 3));
  EXPECT_EQ(file.info("values").dtype, DType::uint8);
  EXPECT_THAT(file.read<std::int32_t>("values"), ElementsAre(1, 0, 1));
  EXPECT_THAT(file.dataset("values").read_rows<std::uint8_t>(1, 2), ElementsAre(0, 1));
  for (const hid_t type : {other, turned}) {
    const File refused = File::open(write_foreign(folder / "b.h5", type, values.data(), 3));
    EXPECT_THAT(test::error_of([&] { refused.info("values"); }),
                HasSubstr("'values' holds values of an enumeration; write them as integers"));
  }
}

TEST(Hdf5, RowsOfVaryingLengthAreRefusedByName) {
  const test::TemporaryFolder folder;
  std::vector<std::int32_t> numbers = {1, 2, 3};
  const std::vector<hvl_t> rows = {{2, numbers.data()}, {3, numbers.data()}};
  const hid_t type = H5Tvlen_create(H5T_NATIVE_INT32);
  const File file = File::open(write_foreign(folder / "a.h5", type, rows.data(), 2));
  EXPECT_THAT(test::error_of([&] { file.dataset("values"); }),
              HasSubstr("'values' holds rows of varying length; write an array of whole rows"));
}

TEST(Hdf5, CompressionThatIsNotReadIsNamed) {
  const test::TemporaryFolder folder;
  const auto copy = [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) {
    return bytes;
  };
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, 32000, 1, 1, "lzf", nullptr, nullptr, copy};
  ASSERT_GE(H5Zregister(&filter), 0);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 2;
  H5Pset_chunk(creation, 1, &chunk);
  H5Pset_filter(creation, 32000, H5Z_FLAG_OPTIONAL, 0, nullptr);
  const std::vector<std::int32_t> values = {1, 2, 3};
  const std::string path = write_foreign(folder / "a.h5", H5T_NATIVE_INT32, values.data(), 3, creation);
  H5Pclose(creation);
  ASSERT_GE(H5Zunregister(32000), 0);
  const File file = File::open(path);
  EXPECT_THAT(test::error_of([&] { file.read<std::int32_t>("values"); }),
              HasSubstr("'values' is compressed with LZF (filter 32000 of HDF5), which is not read; write it "
                        "again with gzip (h5py: compression='gzip') or uncompressed"));
}

TEST(Hdf5, AFormatThatIsTooNewIsExplained) {
  const test::TemporaryFolder folder;
  const std::vector<std::int32_t> values = {1, 2, 3};
  const std::string path = write_foreign(folder / "a.h5", H5T_NATIVE_INT32, values.data(), 3);
  std::ostringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  std::string bytes = read.str();
  // The message of the layout: its type, 8, size and flags, then its version, 3, and the class, contiguous.
  bool found = false;
  for (std::size_t at = 0; at + 10 < bytes.size() && !found; ++at)
    if (bytes[at] == 8 && bytes[at + 1] == 0 && bytes[at + 8] == 3 && bytes[at + 9] == 1) {
      bytes[at + 8] = 9;
      found = true;
    }
  ASSERT_TRUE(found);
  std::ofstream(path, std::ios::binary) << bytes;
  const File file = File::open(path);
  EXPECT_THAT(test::error_of([&] { file.read<std::int32_t>("values"); }),
              HasSubstr("without libver='latest' or with libver=('earliest', 'v114')"));
}

}  // namespace
}  // namespace comera::storage::hdf5
