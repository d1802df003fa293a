#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/device_option.h"
#include "cli/options/inference_options.h"
#include "cli/options/number_checks.h"
#include "data/tables/table_corpus.h"
#include "data/vectors/similarity.h"
#include "data/vectors/text_samples.h"
#include "data/vectors/vector_file.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/seal.h"
#include "training/logging/json.h"
#include "training/vectors/vector_scores.h"

namespace comera::cli {

namespace {

struct SearchOptions {
  std::filesystem::path index, model;
  std::vector<std::string> queries;
  std::int64_t top = 10;
  bool json = false;
  InferenceOptions inference;
};

bool made(const data::VectorSource& source, const std::filesystem::path& checkpoint) {
  const storage::FileDescriptor file = storage::FileDescriptor::open_to_read(checkpoint);
  return file.size() == source.bytes && storage::checksum(file, 0, file.size()) == source.crc32;
}

// The checkpoint that made the vectors: cosines of other models' vectors say nothing.
std::filesystem::path model_of(const SearchOptions& options, const data::VectorSource& source) {
  if (options.model.empty()) {
    if (storage::exists(source.checkpoint) && made(source, source.checkpoint)) return source.checkpoint;
    throw UsageError(fmt::format(
        "{}: the model that made its vectors, {}, {}; give it with --model, or embed the texts again",
        options.index.string(), source.checkpoint,
        storage::exists(source.checkpoint) ? "has changed" : "is no longer there"));
  }
  std::filesystem::path checkpoint = find_trained_model(options.model).checkpoint;
  if (!made(source, checkpoint))
    throw UsageError(fmt::format(
        "--model {}: is another model than {}, which made the vectors in {}; embed the texts with it",
        options.model.string(), source.model, options.index.string()));
  return checkpoint;
}

std::vector<std::string> lines_of_standard_input() {
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);)
    if (line.find_first_not_of(" \t\r") != line.npos) lines.push_back(line);
  return lines;
}

// Unit vectors, one after the other.
std::vector<float> vectors_of(const SearchOptions& options, const std::vector<std::string>& queries,
                              const data::VectorFile& index, const LoadedModel& loaded) {
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  auto samples = std::make_unique<data::TextSamples>(loaded.tokenizer, capacity.longest);
  for (const std::string& query : queries) samples->add(query);
  InferenceEngine engine(loaded.model,
                         output_of(index.source().pooling == "first" ? Pooling::first : Pooling::mean),
                         loaded.processor);
  const std::int64_t width = engine.width();
  COMERA_CHECK(width == index.width(), "{}: has vectors of width {}, and the model {}",
               options.index.string(), index.width(), width);
  std::vector<float> vectors(queries.size() * static_cast<std::size_t>(width));
  engine.run(std::move(samples), capacity, [&](std::int64_t sample, std::span<const double> values) {
    require_finite(values, options.inference, fmt::format("'{}'", queries[static_cast<std::size_t>(sample)]));
    std::ranges::transform(values, vectors.begin() + sample * width,
                           [](double value) { return static_cast<float>(value); });
  });
  data::scale_to_unit_length(vectors, width);
  return vectors;
}

void print_hit(const SearchOptions& options, const std::string& query, std::size_t rank,
               const data::VectorFile::Hit& hit, const data::VectorPlace& place) {
  if (options.json) {
    Json object = {
        {"query", query}, {"rank", rank}, {"score", hit.score}, {"path", place.path}, {"line", place.line}};
    if (!place.id.empty()) object["id"] = place.id;
    object["text"] = place.text;
    print_out("{}\n", json_text(object));
    return;
  }
  print_out("{:.4f}  {}:{}{}  {}\n", hit.score, place.path, place.line,
            place.id.empty() ? "" : fmt::format("  {}", place.id), place.text);
}

void search(SearchOptions options) {
  const std::string how =
      fmt::format("make it with comera embed MODEL --input FILE --normalize --output {}",
                  data::is_table_name(options.index) ? "index.h5" : options.index.string());
  storage::refuse_missing(options.index, "file of vectors", how);
  if (data::is_table_name(options.index))
    throw UsageError(fmt::format("{}: is a table, not a file of vectors; {}", options.index.string(), how));
  const data::VectorFile index(options.index);
  std::vector<std::string> queries = options.queries;
  if (queries == std::vector<std::string>{"-"}) queries = lines_of_standard_input();
  std::erase_if(queries,
                [](const std::string& query) { return query.find_first_not_of(" \t\r\n") == query.npos; });
  if (queries.empty()) throw UsageError("there is nothing to search for; give a text that is not empty");
  options.inference.model = model_of(options, index.source());
  options.inference.length = index.source().length;
  const LoadedModel loaded = options.inference.load();
  const auto found = index.nearest(vectors_of(options, queries, index, loaded), options.top);
  for (std::size_t query = 0; query < queries.size(); ++query) {
    if (!options.json && queries.size() > 1) print_out("{}{}\n", query == 0 ? "" : "\n", queries[query]);
    for (std::size_t rank = 0; rank < found[query].size(); ++rank)
      print_hit(options, queries[query], rank + 1, found[query][rank], index.place(found[query][rank].row));
  }
}

}  // namespace

void add_search_command(CLI::App& program) {
  auto options = std::make_shared<SearchOptions>();
  CLI::App* command =
      program.add_subcommand("search", "Find the texts whose vectors are nearest to that of a query");
  command->add_option("index", options->index, "The .h5 file of vectors that `comera embed` wrote")
      ->required()
      ->type_name("INDEX");
  command
      ->add_option("queries", options->queries,
                   "Texts to search for, each by itself; - reads them from standard input, one per line")
      ->required()
      ->type_name("QUERY");
  command->add_option("--top", options->top, "Show this many of the nearest texts for each query")
      ->check(positive_number)
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object per line");
  command
      ->add_option(
          "--model", options->model,
          "The model that made the vectors, if it is no longer where it was (default: as recorded in "
          "INDEX)")
      ->type_name("MODEL");
  add_device_option(*command, options->inference.device);
  command->add_option("--threads", options->inference.threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
  command->footer(
      "Examples:\n"
      "  comera embed runs/vectors --input ~/src/project --normalize \\\n"
      "    --output project.h5\n"
      "  comera search project.h5 'read a file line by line'\n"
      "A line has the cosine, the place, and the first line of the text. Every row of the file is compared, "
      "in blocks of 8 MiB.");
  command->callback([options] { search(*options); });
}

}  // namespace comera::cli
