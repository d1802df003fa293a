#include "tests/qa/fuzz/described_file.h"

#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace comera::fuzz {

std::uint8_t Choices::byte() {
  if (bytes_.empty()) return 0;
  const std::uint8_t first = bytes_.front();
  bytes_ = bytes_.subspan(1);
  return first;
}

std::uint64_t Choices::number() {
  const std::uint8_t kind = byte();
  if (kind < 192) return kind % 16;
  if (kind < 208) return std::uint64_t{1} << (kind * 4 % 64);
  if (kind < 224) return 0 - std::uint64_t{kind} % 8;
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | byte();
  return number;
}

std::string Choices::text(std::size_t most) {
  const std::size_t count = std::min({static_cast<std::size_t>(byte()), most, bytes_.size()});
  std::string text(text_of(bytes_.first(count)));
  bytes_ = bytes_.subspan(count);
  return text;
}

namespace {

hid_t make_type(Choices& choices) {
  const std::vector<hid_t> numbers = {H5T_STD_I32LE, H5T_STD_I64LE,  H5T_IEEE_F32LE, H5T_IEEE_F64LE,
                                      H5T_STD_U8LE,  H5T_STD_I8LE,   H5T_STD_U16BE,  H5T_STD_U32LE,
                                      H5T_STD_U64LE, H5T_IEEE_F64BE, H5T_STD_B32LE,  H5T_NATIVE_LDOUBLE};
  const std::uint8_t kind = choices.byte();
  if (kind < 200) return H5Tcopy(numbers[kind % numbers.size()]);
  if (kind < 215) {
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, kind % 2 == 0 ? H5T_VARIABLE : 1 + choices.byte());
    return text;
  }
  if (kind < 225) return H5Tvlen_create(H5T_STD_I32LE);
  if (kind < 235) {
    const hid_t compound = H5Tcreate(H5T_COMPOUND, 12);
    H5Tinsert(compound, "a", 0, H5T_STD_I32LE);
    H5Tinsert(compound, "b", 4, H5T_IEEE_F64LE);
    return compound;
  }
  if (kind < 245) {
    const hsize_t dims[] = {3};
    return H5Tarray_create2(H5T_STD_I64LE, 1, dims);
  }
  return H5Tcreate(H5T_OPAQUE, 1 + choices.byte());
}

constexpr hsize_t most_written = 4096;

}  // namespace

DescribedFile::DescribedFile(const std::string& path) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(creation, 512);
  file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  H5Pclose(creation);
  if (file_ < 0) broken("the scratch file cannot be made: " + path);
}

DescribedFile::~DescribedFile() { H5Fclose(file_); }

bool DescribedFile::has(const std::string& object) const {
  for (std::size_t at = object.find('/', 1);; at = object.find('/', at + 1)) {
    if (H5Lexists(file_, object.substr(0, at).c_str(), H5P_DEFAULT) <= 0) return object == "/";
    if (at == object.npos) return true;
  }
}

void DescribedFile::add_dataset(const std::string& name, Choices& choices) {
  const hid_t type = make_type(choices);
  const std::uint8_t form = choices.byte();
  std::vector<hsize_t> dims(form % 4 == 3 ? choices.byte() % 6 : 1);
  hsize_t elements = 1;
  for (hsize_t& dim : dims) {
    dim = choices.number();
    elements = dim != 0 && elements > most_written / dim ? most_written + 1 : elements * dim;
  }
  const bool chunked = elements > most_written || form & 4;
  const hid_t space = form == 255    ? H5Screate(H5S_NULL)
                      : dims.empty() ? H5Screate(H5S_SCALAR)
                                     : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (chunked && !dims.empty()) {
    std::vector<hsize_t> chunk(dims.size(), 1);
    chunk.back() = 16;
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    if (form & 8) H5Pset_fletcher32(creation);
    if (form & 16) H5Pset_deflate(creation, 6);
  }
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t dataset = H5Dcreate2(file_, name.c_str(), type, space, links, creation, H5P_DEFAULT);
  const H5T_class_t kind = H5Tget_class(type);
  if (dataset >= 0 && elements <= most_written && form != 255 && !(form & 32) &&
      (kind == H5T_INTEGER || kind == H5T_FLOAT)) {
    std::vector<std::int64_t> values(elements);
    for (std::int64_t& value : values) value = static_cast<std::int64_t>(choices.number());
    H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  if (dataset >= 0) {
    datasets_.push_back(name);
    H5Dclose(dataset);
  }
  H5Pclose(links);
  H5Pclose(creation);
  H5Sclose(space);
  H5Tclose(type);
}

void DescribedFile::add_attribute(const std::string& object, const std::string& name, Choices& choices) {
  if (H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT) != 0) return;
  const std::uint8_t form = choices.byte();
  const hsize_t count = form < 160 ? 1 : choices.number() % 40;
  const hid_t space = form == 255  ? H5Screate(H5S_NULL)
                      : form < 160 ? H5Screate(H5S_SCALAR)
                                   : H5Screate_simple(1, &count, nullptr);
  hid_t type = H5Tcopy(H5T_STD_I64LE);
  std::string text;
  if (form % 4 == 1) {
    H5Tclose(type);
    type = make_type(choices);
  } else if (form % 4 == 2) {
    H5Tclose(type);
    type = H5Tcopy(H5T_C_S1);
    text = choices.text(200);
    H5Tset_size(type, std::max<std::size_t>(text.size(), 1));
  }
  const hid_t attribute = H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space, H5P_DEFAULT,
                                            H5P_DEFAULT, H5P_DEFAULT);
  if (attribute >= 0 && form != 255) {
    const H5T_class_t kind = H5Tget_class(type);
    if (kind == H5T_INTEGER || kind == H5T_FLOAT) {
      std::vector<std::int64_t> values(std::max<hsize_t>(count, 1));
      for (std::int64_t& value : values) value = static_cast<std::int64_t>(choices.number());
      H5Awrite(attribute, H5T_NATIVE_INT64, values.data());
    } else if (form % 4 == 2) {
      std::string all;
      for (hsize_t i = 0; i < std::max<hsize_t>(count, 1); ++i)
        all += text.empty() ? std::string(1, '\0') : text;
      H5Awrite(attribute, type, all.data());
    }
  }
  if (attribute >= 0) H5Aclose(attribute);
  H5Tclose(type);
  H5Sclose(space);
}

void DescribedFile::add(Choices& choices, const Vocabulary& vocabulary) {
  const std::uint8_t step = choices.byte();
  const std::string& object = choices.pick(vocabulary.objects);
  if (step % 8 < 4) {
    const std::string owner = step < 128 ? "/" : object;
    if (has(owner)) add_attribute(owner, choices.pick(vocabulary.attributes), choices);
  } else if (step % 8 < 7) {
    if (!has(object)) add_dataset(object, choices);
  } else if (!has(object)) {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (step < 128) {
      const hid_t group = H5Gcreate2(file_, object.c_str(), links, H5P_DEFAULT, H5P_DEFAULT);
      if (group >= 0) H5Gclose(group);
    } else {
      H5Lcreate_soft(choices.pick(vocabulary.objects).c_str(), file_, object.c_str(), links, H5P_DEFAULT);
    }
    H5Pclose(links);
  }
}

std::vector<DescribedFile::Place> DescribedFile::contiguous() const {
  std::vector<Place> places;
  for (const std::string& name : datasets_) {
    const hid_t dataset = H5Dopen2(file_, name.c_str(), H5P_DEFAULT);
    if (dataset < 0) continue;
    const haddr_t offset = H5Dget_offset(dataset);
    const hsize_t bytes = H5Dget_storage_size(dataset);
    if (offset != HADDR_UNDEF && bytes > 0)
      places.push_back({name, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes)});
    H5Dclose(dataset);
  }
  return places;
}

bool lacks(const storage::hdf5::File& file, const std::string& name) {
  try {
    return !file.exists(name);
  } catch (const Error&) {
    return false;
  }
}

const std::string& scratch_file() {
  struct Scratch {
    std::string folder, path;
    Scratch() {
      folder = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/comera-fuzz-XXXXXX"
                                                         : "/tmp/comera-fuzz-XXXXXX";
      if (!mkdtemp(folder.data())) broken("no folder for scratch files: " + folder);
      path = folder + "/file.h5";
    }
    ~Scratch() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  };
  static const Scratch scratch;
  return scratch.path;
}

void write_scratch(std::string_view content) { std::ofstream(scratch_file(), std::ios::binary) << content; }

std::string read_scratch() {
  std::ifstream stream(scratch_file(), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace comera::fuzz
