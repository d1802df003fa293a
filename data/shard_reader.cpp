#include <algorithm>

#include "data/shard.h"

namespace comera::data {
namespace {

constexpr std::int64_t block = 1 << 18;  // elements per read

void check_elements(const std::string& name, const hdf5::Dataset& dataset, const char* what,
                    std::int64_t expected) {
  COMERA_CHECK(dataset.info().shape.size() == 1 && dataset.rows() == expected,
               "{}: '{}' has {} elements, {} were expected; the shard is damaged", name, what,
               dataset.info().elements(), expected);
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& path)
    : name_(path.string()), file_(hdf5::File::open(path)) {
  check_attributes();
  check_tokens();
}

void ShardReader::check_attributes() {
  COMERA_CHECK(file_.has_attribute("/", "format") && file_.string_attribute("/", "format") == shard_format,
               "{}: is not a shard of this program; write shards with 'comera data'", name_);
  const std::int64_t version = file_.int64_attribute("/", "version");
  COMERA_CHECK(version <= shard_version,
               "{}: has version {} of the shard format, this program reads up to {}; use a newer one", name_,
               version, shard_version);
  info_.tokenizer_hash = file_.string_attribute("/", "tokenizer_hash");
  info_.vocabulary = static_cast<std::int32_t>(file_.int64_attribute("/", "vocabulary"));
  info_.split = file_.string_attribute("/", "split");
  const auto special = file_.int64_list_attribute("/", "special_ids");
  COMERA_CHECK(special.size() == 5 && std::all_of(special.begin(), special.end(),
                                                  [&](auto id) { return id >= 0 && id < info_.vocabulary; }),
               "{}: its special ids are not five ids of a vocabulary of {} pieces", name_, info_.vocabulary);
  const auto id = [&](std::size_t i) { return static_cast<std::int32_t>(special[i]); };
  info_.special = {id(0), id(1), id(2), id(3), id(4)};
  const std::int64_t documents = file_.int64_attribute("/", "documents");
  const std::int64_t count = file_.int64_attribute("/", "tokens");

  const hdf5::Dataset offsets = file_.dataset("document_offsets");
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
    const hdf5::Dataset labels = file_.dataset("labels");
    check_elements(name_, labels, "labels", documents);
    labels_ = labels.read_rows<std::int32_t>(0, documents);
  }
}

void ShardReader::check_tokens() const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(block));
  for (std::int64_t begin = 0; begin < tokens(); begin += block) {
    const std::int64_t count = std::min(block, tokens() - begin);
    read_tokens(begin, count, ids.data());
    // Unsigned, so that one comparison sees negative ids too.
    const auto bad = std::find_if(ids.begin(), ids.begin() + count, [&](std::int32_t id) {
      return static_cast<std::uint32_t>(id) >= static_cast<std::uint32_t>(info_.vocabulary);
    });
    if (bad == ids.begin() + count) continue;
    const std::int64_t at = begin + (bad - ids.begin());
    const auto document = std::upper_bound(offsets_.begin(), offsets_.end(), at) - offsets_.begin() - 1;
    throw Error(fmt::format("{}: token ids out of range: document {} has id {}, the vocabulary has {} pieces",
                            name_, document, *bad, info_.vocabulary));
  }
}

void ShardReader::read_tokens(std::int64_t begin, std::int64_t count, std::int32_t* tokens) const {
  tokens_.read_rows(begin, count, DType::int32, tokens);
}

void ShardReader::read_segment_ids(std::int64_t begin, std::int64_t count, std::int32_t* segment_ids) const {
  COMERA_CHECK(info_.segment_ids, "{}: has no segment ids", name_);
  segment_ids_.read_rows(begin, count, DType::int32, segment_ids);
}

ShardSet::ShardSet(const std::filesystem::path& folder, const std::string& split) {
  std::error_code code;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(split + "-") && name.ends_with(".h5")) paths.push_back(entry->path());
  }
  COMERA_CHECK(!code, "{}: could not list the folder: {}", folder.string(), code.message());
  COMERA_CHECK(!paths.empty(), "{}: has no {} shards; write them with 'comera data'", folder.string(), split);
  std::sort(paths.begin(), paths.end());
  shards_.reserve(paths.size());
  for (const auto& path : paths) {
    shards_.emplace_back(path);
    const ShardReader& shard = shards_.back();
    COMERA_CHECK(
        shard.info().tokenizer_hash == info().tokenizer_hash && shard.info().vocabulary == info().vocabulary,
        "{}: was made with another tokenizer than {}; write all shards of a folder with one", shard.name(),
        shards_[0].name());
    documents_ += shard.documents();
    tokens_ += shard.tokens();
  }
  COMERA_CHECK(tokens_ > 0, "{}: its {} shards hold no tokens", folder.string(), split);
}

}  // namespace comera::data
