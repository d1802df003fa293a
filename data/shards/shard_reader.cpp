#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "data/shards/shard.h"
#include "storage/folder.h"

namespace comera::data {
namespace {

constexpr std::int64_t block = 1 << 18;  // elements per read

void check_elements(const std::string& name, const storage::hdf5::Dataset& dataset, const char* what,
                    std::int64_t expected) {
  COMERA_CHECK(dataset.info().dtype != DType::float32 && dataset.info().dtype != DType::float64,
               "{}: '{}' holds floating-point numbers, integers were expected; the shard is damaged", name,
               what);
  COMERA_CHECK(dataset.info().shape.size() == 1 && dataset.rows() == expected,
               "{}: '{}' has {} elements, {} were expected; the shard is damaged", name, what,
               dataset.info().elements(), expected);
  // Rows that were declared but not written would be filled in, and take memory without bytes in the file.
  COMERA_CHECK(
      dataset.info().stored_bytes / static_cast<std::int64_t>(size_of(dataset.info().dtype)) >= expected,
      "{}: '{}' holds {} bytes, too few for its {} elements; the shard is damaged", name, what,
      dataset.info().stored_bytes, expected);
}

// A hash of hashes, so that content can be added in parts.
class Digest {
 public:
  template <class T>
  void add(std::span<const T> values) {
    add(storage::hash128({reinterpret_cast<const char*>(values.data()), values.size_bytes()}));
  }
  void add(const storage::Hash128& hash) { hashes_ += hash.hex(); }
  storage::Hash128 value() const { return storage::hash128(hashes_); }

 private:
  std::string hashes_;
};

Error incomplete(const std::filesystem::path& folder, const std::string& what) {
  return Error(fmt::format("the corpus in {} is incomplete: {}; make it again with 'comera data'",
                           folder.string(), what));
}

// The names must count from 0 without a gap.
void check_names(const std::filesystem::path& folder, const std::string& split,
                 const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string expected = shard_name(split, static_cast<std::int64_t>(i));
    if (names[i] > expected) throw incomplete(folder, expected + " is missing");
    if (names[i] < expected) throw incomplete(folder, names[i] + " is not one of its shards");
  }
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& path) : name_(path.string()) {
  storage::check_seal(path, shard_seal);
  file_ = storage::hdf5::File::open(path);
  check_attributes();
  check_contents();
}

void ShardReader::check_attributes() {
  COMERA_CHECK(file_.has_attribute("/", "format") && file_.string_attribute("/", "format") == shard_format,
               "{}: is not a shard of this program; write shards with 'comera data'", name_);
  const std::int64_t version = file_.int64_attribute("/", "version");
  COMERA_CHECK(version <= shard_version,
               "{}: has version {} of the shard format, this program reads up to {}; use a newer one", name_,
               version, shard_version);
  info_.tokenizer_hash = file_.string_attribute("/", "tokenizer_hash");
  const std::int64_t vocabulary = file_.int64_attribute("/", "vocabulary");
  COMERA_CHECK(vocabulary > 0 && vocabulary <= std::numeric_limits<std::int32_t>::max(),
               "{}: its vocabulary cannot have {} pieces; the shard is damaged", name_, vocabulary);
  info_.vocabulary = static_cast<std::int32_t>(vocabulary);
  info_.split = file_.string_attribute("/", "split");
  const auto special = file_.int64_list_attribute("/", "special_ids");
  COMERA_CHECK(special.size() == 5 && std::all_of(special.begin(), special.end(),
                                                  [&](auto id) { return id >= 0 && id < info_.vocabulary; }),
               "{}: its special ids are not five ids of a vocabulary of {} pieces", name_, info_.vocabulary);
  const auto id = [&](std::size_t i) { return static_cast<std::int32_t>(special[i]); };
  info_.special = {id(0), id(1), id(2), id(3), id(4)};
  if (file_.has_attribute("/", "index")) index_ = file_.int64_attribute("/", "index");
  if (file_.has_attribute("/", "shards")) shards_ = file_.int64_attribute("/", "shards");
  const std::int64_t documents = file_.int64_attribute("/", "documents");
  const std::int64_t count = file_.int64_attribute("/", "tokens");
  COMERA_CHECK(documents >= 0 && documents < std::numeric_limits<std::int64_t>::max() && count >= 0,
               "{}: it cannot have {} documents of {} tokens; the shard is damaged", name_, documents, count);

  const storage::hdf5::Dataset offsets = file_.dataset("document_offsets");
  check_elements(name_, offsets, "document_offsets", documents + 1);
  offsets_ = offsets.read_rows<std::int64_t>(0, documents + 1);
  COMERA_CHECK(
      offsets_.front() == 0 && offsets_.back() == count && std::is_sorted(offsets_.begin(), offsets_.end()),
      "{}: its document offsets do not rise from 0 to {} tokens; the shard is damaged", name_, count);
  tokens_ = file_.dataset("tokens");
  check_elements(name_, tokens_, "tokens", count);
  info_.segment_ids = file_.exists("segment_ids");
  if (info_.segment_ids) {
    segment_ids_ = file_.dataset("segment_ids");
    check_elements(name_, segment_ids_, "segment_ids", count);
  }
  info_.labels = file_.exists("labels");
  if (info_.labels) {
    const storage::hdf5::Dataset labels = file_.dataset("labels");
    check_elements(name_, labels, "labels", documents);
    labels_ = labels.read_rows<std::int32_t>(0, documents);
    if (!labels_.empty()) {
      const auto [lowest, highest] = std::minmax_element(labels_.begin(), labels_.end());
      lowest_label_ = *lowest;
      highest_label_ = *highest;
    }
  }
}

std::int64_t ShardReader::document_of(std::int64_t token) const {
  return std::upper_bound(offsets_.begin(), offsets_.end(), token) - offsets_.begin() - 1;
}

void ShardReader::check_contents() {
  Digest digest;
  digest.add(std::span<const std::int64_t>(offsets_));
  digest.add(std::span<const std::int32_t>(labels_));
  std::vector<std::int32_t> ids;
  for (std::int64_t begin = 0; begin < tokens(); begin += block) {
    const std::int64_t count = std::min(block, tokens() - begin);
    ids.resize(static_cast<std::size_t>(count));
    read_tokens(begin, count, ids.data());
    check_tokens(begin, ids);
    digest.add(std::span<const std::int32_t>(ids));
    if (!info_.segment_ids) continue;
    read_segment_ids(begin, count, ids.data());
    check_segment_ids(begin, ids);
    types_ = std::max(types_, *std::max_element(ids.begin(), ids.end()) + 1);
    digest.add(std::span<const std::int32_t>(ids));
  }
  content_ = digest.value();
}

void ShardReader::check_tokens(std::int64_t begin, std::span<const std::int32_t> ids) const {
  // Unsigned, so that one comparison also detects negative ids.
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) {
    return static_cast<std::uint32_t>(id) >= static_cast<std::uint32_t>(info_.vocabulary);
  });
  if (bad == ids.end()) return;
  throw Error(fmt::format("{}: token ids out of range: document {} has id {}, the vocabulary has {} pieces",
                          name_, document_of(begin + (bad - ids.begin())), *bad, info_.vocabulary));
}

void ShardReader::check_segment_ids(std::int64_t begin, std::span<const std::int32_t> ids) const {
  // The largest number has no successor, which types() would need.
  const auto bad = std::find_if(ids.begin(), ids.end(), [](std::int32_t id) {
    return id < 0 || id == std::numeric_limits<std::int32_t>::max();
  });
  if (bad == ids.end()) return;
  throw Error(fmt::format("{}: segment ids out of range: document {} has segment id {}", name_,
                          document_of(begin + (bad - ids.begin())), *bad));
}

void ShardReader::check_types(std::int32_t types) const {
  if (types_ <= types) return;
  std::vector<std::int32_t> ids;
  for (std::int64_t begin = 0; begin < tokens(); begin += block) {
    ids.resize(static_cast<std::size_t>(std::min(block, tokens() - begin)));
    read_segment_ids(begin, static_cast<std::int64_t>(ids.size()), ids.data());
    const auto bad = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= types; });
    COMERA_CHECK(bad == ids.end(), "{}: document {} has segment id {}, but the recipe has model.types = {}",
                 name_, document_of(begin + (bad - ids.begin())), *bad, types);
  }
}

void ShardReader::read_tokens(std::int64_t begin, std::int64_t count, std::int32_t* tokens) const {
  tokens_.read_rows(begin, count, DType::int32, tokens);
}

void ShardReader::read_segment_ids(std::int64_t begin, std::int64_t count, std::int32_t* segment_ids) const {
  COMERA_CHECK(info_.segment_ids, "{}: has no segment ids", name_);
  segment_ids_.read_rows(begin, count, DType::int32, segment_ids);
}

namespace {

// A corpus of several languages has a folder of shards for each.
std::string no_shards(const std::filesystem::path& folder, const std::string& split) {
  std::vector<std::string> below;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code))
    if (std::filesystem::exists(entry->path() / (split + "-00000.h5"), code))
      below.push_back(entry->path().filename().string());
  std::sort(below.begin(), below.end());
  return below.empty()
             ? fmt::format("{}: has no {} shards; write them with 'comera data'", folder.string(), split)
             : fmt::format("{}: has no {} shards, but its folders have ({}): give these, as {}/*",
                           folder.string(), split, fmt::join(below, ", "), folder.string());
}

}  // namespace

ShardSet::ShardSet(const std::filesystem::path& folder, const std::string& split) {
  std::error_code code;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(split + "-") && name.ends_with(".h5")) names.push_back(name);
  }
  storage::refuse_missing(folder, "folder of shards", "write them with 'comera data'");
  COMERA_CHECK(!code, "{}: could not list the folder: {}; folders of shards are written by 'comera data'",
               folder.string(), code.message());
  if (names.empty()) throw Error(no_shards(folder, split));
  std::sort(names.begin(), names.end());
  check_names(folder, split, names);
  shards_.reserve(names.size());
  for (const std::string& name : names) {
    const ShardReader& shard = shards_.emplace_back(folder / name);
    const bool first = shards_.size() == 1;
    check_place(folder, split, static_cast<std::int64_t>(names.size()));
    check_kind();
    documents_ += shard.documents();
    tokens_ += shard.tokens();
    types_ = std::max(types_, shard.types());
    lowest_label_ = first ? shard.lowest_label() : std::min(lowest_label_, shard.lowest_label());
    highest_label_ = first ? shard.highest_label() : std::max(highest_label_, shard.highest_label());
  }
  COMERA_CHECK(tokens_ > 0, "{}: its {} shards hold no tokens", folder.string(), split);
}

void ShardSet::check_place(const std::filesystem::path& folder, const std::string& split,
                           std::int64_t found) const {
  const ShardReader& shard = shards_.back();
  const std::int64_t index = static_cast<std::int64_t>(shards_.size()) - 1;
  const std::int64_t expected = shards_[0].shards();
  const std::string name = shard_name(split, index);
  if (shard.shards() == 0) throw incomplete(folder, name + " is of a run that did not finish");
  if (found < expected) throw incomplete(folder, shard_name(split, found) + " is missing");
  if (found > expected)
    throw incomplete(folder, fmt::format("{} is not one of its {} {} shards", shard_name(split, expected),
                                         expected, split));
  if (shard.index() != index || shard.shards() != expected || shard.info().split != split)
    throw incomplete(folder, fmt::format("{} was made as {}, one of {} shards", name,
                                         shard_name(shard.info().split, shard.index()), shard.shards()));
}

void ShardSet::check_kind() const {
  const ShardReader& shard = shards_.back();
  COMERA_CHECK(
      shard.info().tokenizer_hash == info().tokenizer_hash && shard.info().vocabulary == info().vocabulary,
      "{}: was made with another tokenizer than {}; write all shards of a folder with one", shard.name(),
      shards_[0].name());
  COMERA_CHECK(shard.info().segment_ids == info().segment_ids && shard.info().labels == info().labels,
               "{}: has segment ids or labels and {} has not, or the reverse; write all shards of a folder "
               "alike",
               shard.name(), shards_[0].name());
}

void ShardSet::count_pieces(std::vector<std::int64_t>& counts) const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(block));
  for (const ShardReader& shard : shards_)
    for (std::int64_t begin = 0; begin < shard.tokens(); begin += block) {
      const std::int64_t count = std::min(block, shard.tokens() - begin);
      shard.read_tokens(begin, count, ids.data());
      for (std::int64_t i = 0; i < count; ++i) ++counts[static_cast<std::size_t>(ids[i])];
    }
}

std::string ShardSet::fingerprint() const {
  Digest digest;
  const std::string head = info().tokenizer_hash + " " + info().split;
  digest.add(std::span<const char>(head));
  for (const ShardReader& shard : shards_) digest.add(shard.content());
  return digest.value().hex();
}

}  // namespace comera::data
