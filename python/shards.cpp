#include "data/shards/shard.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "python/arrays.h"

namespace comera::python {

namespace {

// Documents of a split of shards, by their number.
class PythonShards {
 public:
  PythonShards(const std::filesystem::path& folder, const std::string& split) : set_(folder, split) {}
  PythonShards(const PythonShards&) = delete;
  PythonShards& operator=(const PythonShards&) = delete;

  std::int64_t documents() const { return set_.documents(); }
  std::int64_t tokens() const { return set_.tokens(); }
  std::int64_t vocabulary() const { return set_.info().vocabulary; }

  Array<std::int32_t> document(std::int64_t number) const {
    if (number < 0) number += documents();
    if (number < 0 || number >= documents()) throw nb::index_error("no document of this number");
    for (const data::ShardReader& shard : set_.shards()) {
      if (number >= shard.documents()) {
        number -= shard.documents();
        continue;
      }
      const std::int64_t begin = shard.offsets()[number], count = shard.offsets()[number + 1] - begin;
      std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
      shard.read_tokens(begin, count, ids.data());
      return array_of<std::int32_t>(ids, sizes_of({count}));
    }
    throw Error("the shards have fewer documents than they say");
  }

 private:
  data::ShardSet set_;
};

}  // namespace

void add_shards(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<PythonShards>(module, "Shards", "The documents of a split of shards, as token ids.")
      .def(nb::init<const std::filesystem::path&, const std::string&>(), "folder"_a, "split"_a = "train")
      .def("__len__", &PythonShards::documents)
      .def("__getitem__", &PythonShards::document, "number"_a, "The ids of a document: int32 (tokens).")
      .def_prop_ro("tokens", &PythonShards::tokens, "The number of tokens of all documents.")
      .def_prop_ro("vocabulary", &PythonShards::vocabulary, "The number of the tokenizer's pieces.");
}

}  // namespace comera::python
