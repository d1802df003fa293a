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

void write_examples(const std::filesystem::path& file, const std::vector<DocumentedFunction>& functions,
                    std::int64_t copies) {
  storage::DurableFile durable(file);
  const storage::FileDescriptor stream = storage::FileDescriptor::create(durable.temporary());
  std::string block;
  std::int64_t written = 0;
  const auto flush = [&] {
    stream.write(written, block);
    written += static_cast<std::int64_t>(block.size());
    block.clear();
  };
  const auto count = static_cast<std::int64_t>(functions.size());
  const auto write = [&](const DocumentedFunction& of_documentation, const DocumentedFunction& of_code,
                         const char* label) {
    const nlohmann::ordered_json example = {{"documentation", of_documentation.documentation},
                                            {"code", of_code.code},
                                            {"label", label},
                                            {"name", of_code.name}};
    block += example.dump() + '\n';
    if (block.size() >= block_bytes) flush();
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
  flush();
  durable.commit();
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
  write_examples(options.output / "train.jsonl", train, options.copies);
  write_examples(options.output / "validation.jsonl", validation, 1);
  counts.train = 2 * options.copies * static_cast<std::int64_t>(train.size());
  counts.validation = 2 * static_cast<std::int64_t>(validation.size());
  return counts;
}

}  // namespace comera::data
