#include "data/corpus/function_pairs.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "data/corpus/functions.h"
#include "kernels/core/check.h"
#include "storage/durable_file.h"

namespace comera::data {

namespace {

constexpr std::int64_t fewest = 50;
constexpr std::size_t block_bytes = 1 << 20;  // written at once

// A JSONL file, written in blocks.
class ExampleFile {
 public:
  explicit ExampleFile(const std::filesystem::path& file)
      : durable_(file), stream_(storage::FileDescriptor::create(durable_.temporary())) {}

  void add(const nlohmann::ordered_json& example) {
    block_ += example.dump() + '\n';
    if (block_.size() >= block_bytes) flush();
  }
  void close() {
    flush();
    durable_.commit();
  }

 private:
  void flush() {
    stream_.write(written_, block_);
    written_ += static_cast<std::int64_t>(block_.size());
    block_.clear();
  }

  storage::DurableFile durable_;
  storage::FileDescriptor stream_;
  std::string block_;
  std::int64_t written_ = 0;
};

void write_labelled(const std::filesystem::path& path, const std::vector<DocumentedFunction>& functions,
                    std::int64_t copies) {
  ExampleFile file(path);
  const auto count = static_cast<std::int64_t>(functions.size());
  const auto write = [&](const DocumentedFunction& of_documentation, const DocumentedFunction& of_code,
                         const char* label) {
    file.add({{"documentation", of_documentation.documentation},
              {"code", of_code.code},
              {"label", label},
              {"name", of_code.name}});
  };
  for (std::int64_t copy = 0; copy < copies; ++copy)
    for (std::int64_t i = 0; i < count; ++i) {
      write(functions[i], functions[i], "yes");
      // Any function but this one.
      const std::uint64_t bits =
          storage::mix64(storage::mix64(static_cast<std::uint64_t>(i)) + static_cast<std::uint64_t>(copy));
      const auto other = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(count - 1));
      write(functions[other < i ? other : other + 1], functions[i], "no");
    }
  file.close();
}

void write_matching(const std::filesystem::path& path, const std::vector<DocumentedFunction>& functions) {
  ExampleFile file(path);
  for (const DocumentedFunction& function : functions)
    file.add({{"documentation", function.documentation}, {"code", function.code}, {"name", function.name}});
  file.close();
}

}  // namespace

FunctionPairsCounts build_function_pairs(DocumentSource& source, const FunctionPairsOptions& options) {
  FunctionPairsCounts counts;
  std::vector<DocumentedFunction> train, validation;
  storage::HashSet documentations, codes;
  Document document;
  while (source.next(document))
    for (DocumentedFunction& function : find_documented_functions(document.text, document.language)) {
      ++counts.functions;
      const storage::Hash128 hash = storage::hash128(function.documentation);
      const bool fresh = documentations.insert(hash) && codes.insert(storage::hash128(function.code));
      if (!fresh) {
        ++counts.duplicates;
        continue;
      }
      (is_held_out(hash, options.held_out) ? validation : train).push_back(std::move(function));
    }
  COMERA_CHECK(source.counts().documents > 0, "the corpus is empty: {}", nothing_was_kept(source.counts()));
  COMERA_CHECK(static_cast<std::int64_t>(train.size() + validation.size()) >= fewest,
               "the corpus has {} documented functions, but a task needs at least {}; add inputs",
               train.size() + validation.size(), fewest);
  COMERA_CHECK(std::min(train.size(), validation.size()) >= 2,
               "{0} documented functions with --held-out {2} give {1} for validation, and each side needs at "
               "least 2; change it, or add files",
               train.size() + validation.size(), validation.size(), options.held_out);
  storage::create_directories_durably(options.output);
  const std::filesystem::path to_train = options.output / "train.jsonl",
                              to_validate = options.output / "validation.jsonl";
  counts.train = std::ssize(train);
  counts.validation = std::ssize(validation);
  if (options.matching_only) {
    write_matching(to_train, train);
    write_matching(to_validate, validation);
    return counts;
  }
  write_labelled(to_train, train, options.copies);
  write_labelled(to_validate, validation, 1);
  counts.train *= 2 * options.copies;
  counts.validation *= 2;
  return counts;
}

}  // namespace comera::data
