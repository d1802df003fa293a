#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/choice.h"
#include "cli/options/inference_options.h"
#include "cli/options/output_options.h"
#include "cli/precision_note.h"
#include "data/corpus/documents/standard_input.h"
#include "data/tables/table_reader.h"
#include "data/vectors/similarity.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/hdf5.h"
#include "training/inference/inference_engine.h"
#include "training/logging/json.h"
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

void write_hdf5(const std::filesystem::path& path, const std::vector<float>& vectors, std::int64_t width,
                const data::Examples& examples, const EmbedOptions& options) {
  storage::DurableFile durable(path);
  std::vector<std::int64_t> lines(examples.count());
  for (std::int64_t i = 0; i < examples.count(); ++i) lines[i] = examples.line(i);
  storage::hdf5::File file = storage::hdf5::File::create(durable.temporary());
  file.write<float>("vectors", vectors, {examples.count(), width});
  file.write<std::int64_t>("lines", lines);
  file.set_attribute("/", "format", std::string("comera-vectors"));
  file.set_attribute("/", "pooling", options.pooling);
  file.set_attribute("/", "normalized", std::int64_t{options.normalize ? 1 : 0});
  file.set_attribute("/", "model", options.inference.model.string());
  file.close();
  durable.commit();
}

void write_jsonl(const std::filesystem::path& path, const std::vector<float>& vectors, std::int64_t width,
                 const data::Examples& examples) {
  std::string text;
  for (std::int64_t i = 0; i < examples.count(); ++i) {
    const auto row = vectors.begin() + i * width;
    const Json line = {{"line", examples.line(i)}, {"vector", std::vector<double>(row, row + width)}};
    text += json_text(line) + "\n";
  }
  storage::write_file_durably(path, text);
}

// Other heads say nothing about the vectors of sentences.
Pooling pooling_of(const EmbedOptions& options, const EncoderConfig& config) {
  if (options.pooling.empty()) return config.head == HeadKind::contrastive ? config.pooling : Pooling::mean;
  return options.pooling == "mean" ? Pooling::mean : Pooling::first;
}

void embed(EmbedOptions options) {
  const OutputFormat format = output_format(options.output.path, {OutputFormat::hdf5, OutputFormat::jsonl});
  options.output.check(options.input);
  LoadedModel loaded = options.inference.load();
  log_info("{}", inference_precision_note(loaded.recipe));
  data::Task task;
  task.format = loaded.recipe.task.format;
  task.header = loaded.recipe.task.header;
  task.text = options.text;
  const data::TableFormat read_as =
      task.format == data::TableFormat::automatic && std::filesystem::is_regular_file(options.input)
          ? data::found_format_of(options.input)
          : task.format;
  if (task.text.empty() && read_as != data::TableFormat::text && read_as != data::TableFormat::automatic)
    task.text = loaded.recipe.task.text;
  if (task.text.empty()) task.text = {"text"};
  if (task.text.size() > 2) throw UsageError("--text: give one or two columns");
  if (task.text.size() == 2 && loaded.model.config().pairs == PairEncoding::separate)
    throw UsageError(
        fmt::format("{}: encodes each text of a pair separately, so a pair has no vector; give one column, "
                    "for example --text {}",
                    options.inference.model.string(), task.text.front()));
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  const std::int64_t types = loaded.model.config().types;
  const auto examples = [&] {
    try {
      return data::Examples::read(task, {{"input", options.input}}, loaded.tokenizer, false,
                                  capacity.longest);
    } catch (const data::UnsuitableTable& error) {
      if (!options.text.empty()) throw;
      throw Error(fmt::format("{}; name the column of the texts with --text COLUMN", error.what()));
    }
  }();
  auto samples = std::make_unique<data::ExampleSamples>(examples, capacity.longest, types);
  report_examples(options.input.string(), *samples, examples, capacity.longest);
  const Pooling pooling = pooling_of(options, loaded.model.config());
  options.pooling = pooling == Pooling::mean ? "mean" : "first";
  const auto output = output_of(pooling);
  InferenceEngine engine(loaded.model, output, loaded.processor);
  const std::int64_t width = engine.width();
  std::vector<float> vectors(examples.count() * width);
  engine.run(std::move(samples), capacity, [&](std::int64_t sample, std::span<const double> values) {
    require_finite(values, options.inference.model, options.input, examples.line(sample));
    std::ranges::transform(values, vectors.begin() + sample * width,
                           [](double value) { return static_cast<float>(value); });
  });
  if (options.normalize) data::scale_to_unit_length(vectors, width);
  if (format == OutputFormat::hdf5)
    write_hdf5(options.output.path, vectors, width, examples, options);
  else
    write_jsonl(options.output.path, vectors, width, examples);
  print_out("wrote {} vectors of width {} to {}\n", examples.count(), width, options.output.path.string());
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
                   "plain, .gz or .zst")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--text", options->text,
                   "Text columns, one or two (default: those of the model's task). Give one if the model "
                   "encodes the texts of a pair separately")
      ->delimiter(',')
      ->type_name("COLUMN,...");
  add_output_options(*command, options->output, "Write the vectors to this .h5 or .jsonl file");
  command
      ->add_option("--pooling", options->pooling,
                   "Pool by the mean of all tokens, or take the first token (default: mean, or as a "
                   "contrastive model was trained)")
      ->check(one_of({"mean", "first"}));
  command->add_flag("--normalize", options->normalize,
                    "Scale each vector to length 1, so that dot products are cosines");
  command->footer(
      "Examples:\n"
      "  comera embed runs/first --input functions.jsonl.gz --text code \\\n"
      "    --output functions.h5\n"
      "The file holds `vectors` (rows x hidden) and `lines`, the input line of each row. All vectors are "
      "kept in memory until the end.");
  command->callback([options] {
    options->input = data::or_standard_input(options->input);
    embed(*options);
  });
}

}  // namespace comera::cli
