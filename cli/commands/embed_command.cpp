#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/inference_task.h"
#include "cli/options/choice.h"
#include "cli/options/inference_options.h"
#include "cli/options/output_options.h"
#include "cli/precision_note.h"
#include "data/corpus/corpus.h"
#include "data/corpus/documents/standard_input.h"
#include "data/tables/table_reader.h"
#include "data/vectors/passages.h"
#include "data/vectors/similarity.h"
#include "data/vectors/text_samples.h"
#include "data/vectors/vector_file.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "kernels/core/grouped.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/seal.h"
#include "training/inference/inference_engine.h"
#include "training/logging/json.h"
#include "training/logging/progress.h"
#include "training/vectors/vector_scores.h"

namespace comera::cli {

namespace {

struct EmbedOptions {
  InferenceOptions inference;
  std::filesystem::path input;
  OutputOptions output;
  std::vector<std::string> text;
  std::string pooling;  // empty: as the model was trained
  bool normalize = false;
};

// Texts to encode, and where each comes from.
struct Texts {
  std::unique_ptr<data::SampleSource> samples;
  std::vector<data::VectorPlace> places;
};

data::VectorSource source_of(const EmbedOptions& options, const LoadedModel& loaded, std::int64_t length) {
  const storage::FileDescriptor file = storage::FileDescriptor::open_to_read(loaded.trained.checkpoint);
  return {.model = options.inference.model.string(),
          .checkpoint = storage::from_root(loaded.trained.checkpoint).lexically_normal().string(),
          .bytes = file.size(),
          .crc32 = storage::checksum(file, 0, file.size()),
          .pooling = options.pooling,
          .normalized = options.normalize,
          .length = length};
}

void write_jsonl(const std::filesystem::path& path, const std::vector<float>& vectors, std::int64_t width,
                 const std::vector<data::VectorPlace>& places, bool of_folder) {
  std::string text;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto row = vectors.begin() + static_cast<std::int64_t>(i) * width;
    Json line = {{"line", places[i].line}};
    if (of_folder) line["path"] = places[i].path;
    line["vector"] = std::vector<double>(row, row + width);
    text += json_text(line) + "\n";
  }
  storage::write_file_durably(path, text);
}

Pooling pooling_of(const EmbedOptions& options, const LoadedModel& loaded) {
  return chosen_pooling(loaded, options.pooling,
                        "choose --pooling mean or first for vectors of the encoder alone");
}

data::Task task_of_table(const EmbedOptions& options, const LoadedModel& loaded) {
  data::Task task;
  task.format = loaded.recipe.task.format;
  task.header = loaded.recipe.task.header;
  task.text = options.text;
  const data::TableFormat read_as =
      task.format == data::TableFormat::automatic && std::filesystem::is_regular_file(options.input)
          ? data::found_format_of(options.input)
          : task.format;
  const bool given = !task.text.empty() || is_set(options.inference, "task.text");
  if (task.text.empty() && read_as != data::TableFormat::text && read_as != data::TableFormat::automatic)
    task.text = loaded.recipe.task.text;
  if (task.text.empty()) task.text = {"text"};
  if (!given && has_other_columns(task, read_as, options.input)) task.text = find_texts(task, options.input);
  if (task.text.size() > 2)
    throw UsageError(options.text.empty()
                         ? fmt::format("{} has learned the columns {}; name the one to embed with --text",
                                       options.inference.model.string(), fmt::join(task.text, ", "))
                         : std::string("--text: give one or two columns"));
  if (task.text.size() == 2 && loaded.model.config().pairs == PairEncoding::separate)
    throw UsageError(
        fmt::format("{}: encodes each text of a pair separately, so a pair has no vector; give one column, "
                    "for example --text {}",
                    options.inference.model.string(), task.text.front()));
  return task;
}

// The texts themselves, and what names a row.
data::KeptColumns columns_of_places(const data::Task& task) {
  data::KeptColumns keep{.names = {task.text.back()}, .required = false};
  for (const char* name : {"id", "ID", "Id", "idx", "guid", "index", "name", "title", "path", "url"})
    if (std::ranges::find(task.text, name) == task.text.end()) keep.names.emplace_back(name);
  return keep;
}

Texts texts_of_table(const EmbedOptions& options, const LoadedModel& loaded, std::int64_t length,
                     data::Examples& examples) {
  const data::Task task = task_of_table(options, loaded);
  try {
    examples = data::Examples::read(task, {{"input", options.input}}, loaded.tokenizer, false, length,
                                    columns_of_places(task));
  } catch (const data::UnsuitableTable& error) {
    if (!options.text.empty()) throw;
    throw Error(fmt::format("{}; name the column of the texts with --text COLUMN", error.what()));
  }
  auto samples = std::make_unique<data::ExampleSamples>(examples, length, loaded.model.config().types);
  report_examples(options.input.string(), *samples, examples, length);
  Texts texts;
  for (std::int64_t i = 0; i < examples.count(); ++i) {
    data::VectorPlace& place = texts.places.emplace_back();
    place.path = options.input.string();
    place.line = examples.line(i);
    for (std::size_t column = 0; column < examples.kept_columns().size(); ++column) {
      const std::string& text = examples.kept(i)[column].text;
      if (examples.kept_columns()[column] == task.text.back())
        place.text = data::first_line_of(text);
      else if (place.id.empty())
        place.id = data::first_line_of(text);
    }
  }
  texts.samples = std::move(samples);
  return texts;
}

// Code and prose, in passages that the model can read as a whole.
Texts texts_of_folder(const EmbedOptions& options, const LoadedModel& loaded, std::int64_t length) {
  constexpr std::int64_t bytes_per_token = 4;
  if (!options.text.empty())
    throw UsageError(
        fmt::format("--text names columns of a table, but {} is a folder; omit it", options.input.string()));
  auto samples = std::make_unique<data::TextSamples>(loaded.tokenizer, length);
  data::FileCorpus corpus({.inputs = {options.input}, .document = data::DocumentUnit::file});
  Texts texts;
  for (data::Document document; corpus.next(document);)
    for (const data::Passage& passage :
         data::passages_of(document.text, static_cast<std::size_t>(length * bytes_per_token))) {
      samples->add(passage.text);
      texts.places.push_back({.path = document.name,
                              .line = passage.line,
                              .id = {},
                              .text = std::string(data::first_line_of(passage.text))});
    }
  if (texts.places.empty()) throw Error(data::nothing_was_kept(corpus.counts()));
  log_info("{}: {} passages of {} files, {} cut to {} tokens\n", options.input.string(),
           grouped(samples->count()), grouped(corpus.counts().documents), grouped(samples->truncated()),
           length);
  texts.samples = std::move(samples);
  return texts;
}

void embed(EmbedOptions options) {
  const OutputFormat format = output_format(options.output.path, {OutputFormat::hdf5, OutputFormat::jsonl});
  options.output.check(options.input);
  LoadedModel loaded = options.inference.load();
  log_info("{}", inference_precision_note(loaded.recipe));
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  std::error_code code;
  const bool of_folder = std::filesystem::is_directory(options.input, code);
  data::Examples examples;
  Texts texts = of_folder ? texts_of_folder(options, loaded, capacity.longest)
                          : texts_of_table(options, loaded, capacity.longest, examples);
  const Pooling pooling = pooling_of(options, loaded);
  options.pooling = pooling == Pooling::mean ? "mean" : "first";
  InferenceEngine engine(loaded.model, output_of(pooling), loaded.processor);
  const std::int64_t width = engine.width();
  std::vector<float> vectors(texts.places.size() * static_cast<std::size_t>(width));
  ProgressBar progress("embed");
  std::int64_t done = 0;
  engine.run(std::move(texts.samples), capacity, [&](std::int64_t sample, std::span<const double> values) {
    const data::VectorPlace& place = texts.places[static_cast<std::size_t>(sample)];
    require_finite(values, options.inference.model, place.path, place.line);
    std::ranges::transform(values, vectors.begin() + sample * width,
                           [](double value) { return static_cast<float>(value); });
    ++done;
    progress.update(done, fmt::format("{} of {} vectors", grouped(done), grouped(std::ssize(texts.places))));
  });
  if (options.normalize) data::scale_to_unit_length(vectors, width);
  if (format == OutputFormat::hdf5)
    data::write_vector_file(options.output.path, vectors, width, texts.places,
                            source_of(options, loaded, capacity.longest));
  else
    write_jsonl(options.output.path, vectors, width, texts.places, of_folder);
  print_out("wrote {} vectors of width {} to {}\n", texts.places.size(), width, options.output.path.string());
}

}  // namespace

void add_embed_command(CLI::App& program) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App* command =
      program.add_subcommand("embed", "Write an embedding (one vector) for each sentence, pair or function");
  add_inference_options(*command, options->inference);
  command
      ->add_option("--input", options->input,
                   "Read a TSV, CSV or JSONL file with text columns, or a text file with one text per line; "
                   "plain, .gz or .zst. Of a folder, read its code and prose in passages, such as functions")
      ->required()
      ->type_name("PATH");
  command
      ->add_option("--text", options->text,
                   "Text columns, one or two (default: those of the model's task, or what is plainly text). "
                   "Give one if "
                   "the model encodes the texts of a pair separately")
      ->delimiter(',')
      ->type_name("COLUMN,...");
  add_output_options(*command, options->output, "Write the vectors to this .h5 or .jsonl file");
  command
      ->add_option("--pooling", options->pooling,
                   "Pool by the mean of all tokens, or take the first token (default: as a contrastive "
                   "model was trained or sentence-transformers pools an imported one, otherwise mean)")
      ->check(one_of({"mean", "first"}));
  command->add_flag("--normalize", options->normalize,
                    "Scale each vector to length 1, so that dot products are cosines");
  command->footer(
      "Examples:\n"
      "  comera embed runs/first --input functions.jsonl.gz --text code \\\n"
      "    --output functions.h5\n"
      "  comera embed runs/vectors --input ~/src/project --output project.h5\n"
      "The file holds `vectors` (rows x hidden), and the file, line, id and first line of text of each row; "
      "`comera search` reads it. All vectors are kept in memory until the end.");
  command->callback([options] {
    options->input = data::or_standard_input(options->input);
    embed(*options);
  });
}

}  // namespace comera::cli
