#include "cli/run_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/corpus_work.h"
#include "cli/options/arguments.h"
#include "cli/options/number_checks.h"
#include "data/corpus/documents/standard_input.h"
#include "data/shards/sequence_set.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/hash.h"
#include "storage/small_file.h"
#include "training/logging/json.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::cli {

namespace {

constexpr std::int32_t usual_vocabulary = 8192;
constexpr std::int64_t sample_bytes_per_piece = 1000;  // of the tokenizer's training text

// What standard input holds, for a comparison with what data were made of.
std::string fingerprint_of_standard_input() {
  std::ifstream stream(data::or_standard_input("-"), std::ios::binary);
  std::string part(std::size_t{1} << 20, '\0'), so_far;
  while (stream.read(part.data(), static_cast<std::streamsize>(part.size())), stream.gcount() > 0)
    so_far = storage::hash128(so_far + part.substr(0, static_cast<std::size_t>(stream.gcount()))).hex();
  return so_far;
}

class RunData {
 public:
  RunData(const Recipe& recipe, const RunInput& input)
      : recipe_(recipe),
        input_(input),
        folder_(storage::from_root(recipe.run.output).lexically_normal() / "data") {}

  std::filesystem::path tokenizer() const {
    return recipe_.data.tokenizer.empty() ? folder_ / "tokenizer.model"
                                          : std::filesystem::path(recipe_.data.tokenizer);
  }
  std::filesystem::path shards() const { return run_shards(folder_.parent_path()); }

  void make_unless_there(bool run_goes_on) {
    const Json asked = description();
    if (storage::exists(note())) {
      const Json made = read_note();
      const bool complete = made.value("complete", false);
      // Leftovers of a killed command may be replaced.
      if ((complete || run_goes_on) && made.value("made_of", Json()) != asked)
        throw UsageError(
            fmt::format("{}: was made from another input or with other options; {}, or choose another "
                        "--output",
                        folder_.string(),
                        run_goes_on ? "continue its run with comera resume " + for_shell(recipe_.run.output)
                                    : std::string("remove this folder to make the data again")));
      if (complete) {
        log_info("using the data made before in {}\n", folder_.string());
        return;
      }
    } else if (run_goes_on) {
      throw UsageError(
          fmt::format("the run in {} was not started with --input; omit it, or choose another --output",
                      recipe_.run.output));
    } else if (!storage::entries_of(folder_).empty()) {
      throw UsageError(fmt::format(
          "{}: exists and does not belong to a run; move it, or choose another --output", folder_.string()));
    }
    make(asked);
  }

 private:
  std::filesystem::path note() const { return folder_ / "input.json"; }

  Json read_note() const {
    const std::string text = storage::read_small_file(note(), 1 << 20, "a note about data");
    Json made = Json::parse(text, nullptr, false);
    if (!made.is_object())
      throw Error(
          fmt::format("{}: is damaged; remove {} to make the data again", note().string(), folder_.string()));
    return made;
  }

  // Everything that determines the data, except the files' content.
  Json description() const {
    const CorpusInput& corpus = input_.corpus;
    Json inputs = Json::array();
    for (const std::filesystem::path& path : corpus.inputs)
      inputs.push_back(path == "-" ? "-" : storage::from_root(path).lexically_normal().string());
    Json made_of = {{"inputs", inputs},
                    {"text", corpus.text},
                    {"languages", corpus.languages},
                    {"language_column", corpus.language_column.value_or("")},
                    {"header", !corpus.no_header},
                    {"min_bytes", corpus.min_bytes.value_or(-1)},
                    {"max_bytes", corpus.max_bytes.value_or(data::usual_max_bytes)},
                    {"held_out", input_.held_out}};
    if (std::ranges::find(corpus.inputs, "-") != corpus.inputs.end())
      made_of["standard_input"] = fingerprint_of_standard_input();
    if (!corpus.format.empty()) made_of["format"] = corpus.format;
    if (corpus.document != "auto") made_of["document"] = corpus.document;
    if (recipe_.data.tokenizer.empty())
      made_of["vocabulary"] = vocabulary_for(recipe_, input_);
    else
      made_of["tokenizer"] = load_tokenizer(recipe_.data.tokenizer).hash();
    return made_of;
  }

  void write_note(const Json& asked, bool complete) const {
    storage::write_file_durably(note(), json_text({{"complete", complete}, {"made_of", asked}}) + "\n");
  }

  void make(const Json& asked) {
    storage::create_directories_durably(folder_);
    write_note(asked, false);
    try {
      const data::Tokenizer tokenizer = ready_tokenizer();
      data::BuildOptions build;
      build.output = shards();
      build.held_out = input_.held_out;
      const auto corpus = open_corpus(input_.corpus);
      make_shards(*corpus, tokenizer, build);
    } catch (...) {
      std::error_code ignored;
      std::filesystem::remove_all(folder_, ignored);
      throw;
    }
    write_note(asked, true);
  }

  data::Tokenizer ready_tokenizer() {
    if (!recipe_.data.tokenizer.empty()) return load_tokenizer(recipe_.data.tokenizer);
    const auto corpus = open_corpus(input_.corpus);
    data::TokenizerOptions options;
    options.vocabulary = vocabulary_for(recipe_, input_);
    options.max_bytes = options.vocabulary * sample_bytes_per_piece;
    TrainedTokenizer trained = make_tokenizer(*corpus, options);
    storage::write_file_durably(folder_ / "tokenizer.model", trained.tokenizer.bytes());
    print_vocabulary(trained, options.vocabulary);
    print_out("\n");
    return std::move(trained.tokenizer);
  }

  const Recipe& recipe_;
  const RunInput& input_;
  std::filesystem::path folder_;
};

}  // namespace

CLI::Option* add_run_input_options(CLI::App& command, RunInput& input) {
  CLI::Option* paths = add_corpus_options(command, input.corpus, "--max-file-bytes");
  paths->description(
      "Make a tokenizer and shards from these files or folders in OUTPUT/data, and train on them");
  command
      .add_option("--vocabulary", input.vocabulary,
                  "Largest vocabulary of the new tokenizer (default: the recipe's)")
      ->needs(paths)
      ->check(positive_number);
  command
      .add_option("--held-out", input.held_out,
                  "Keep this fraction of the documents of --input for validation")
      ->needs(paths)
      ->check(fraction_below_1)
      ->capture_default_str();
  return paths;
}

std::filesystem::path run_shards(const std::filesystem::path& run) { return run / "data" / "shards"; }

void follow_run_shards(const std::filesystem::path& run, DataSection& data) {
  std::error_code code;
  const std::filesystem::path here = run_shards(run);
  for (std::string* shards : {&data.train, &data.validation})
    if (!std::filesystem::exists(*shards, code) && shards->ends_with(run_shards("").string()) &&
        std::filesystem::exists(here, code))
      *shards = storage::from_root(here).lexically_normal().string();
}

std::int32_t vocabulary_for(const Recipe& recipe, const RunInput& input) {
  if (input.vocabulary > 0) return input.vocabulary;
  if (recipe.model.vocabulary > 0) return static_cast<std::int32_t>(recipe.model.vocabulary);
  // For the dense baseline too, because it is compared on the same pieces.
  const auto& table = recipe.tensorized.embedding;
  return table ? static_cast<std::int32_t>(table->rows()) : usual_vocabulary;
}

void check_run_input(const Recipe& recipe) {
  if (recipe.run.output.empty())
    throw UsageError("--input makes its data in the run's folder; name it with --output");
  if (!recipe.data.train.empty() || !recipe.data.sources.empty())
    throw UsageError("--input and the recipe's data.train both name training data; omit one of them");
}

Recipe make_run_data(Recipe recipe, const RunInput& input, RunMode mode, Communicator& communicator) {
  check_run_input(recipe);
  RunData data(recipe, input);
  communicator.set_patience({.stalled_seconds = 7 * 86400.0});  // a large corpus takes hours
  on_first(communicator, [&] {
    const RunDirectory directory(recipe.run.output, mode);  // no other process makes it meanwhile
    data.make_unless_there(directory.resumes());
    return std::string();
  });
  const std::string tokenizer = data.tokenizer().string(), shards = data.shards().string();
  recipe.data.tokenizer = tokenizer;
  recipe.data.train = shards;
  if (recipe.data.validation.empty() && data::has_held_out(shards))
    recipe.data.validation = shards;
  else if (recipe.data.validation.empty() && input.held_out > 0 && communicator.first())
    log_info(
        "note: no document was held out, because there are so few, and there will be no held-out loss; raise "
        "--held-out, for instance to 0.2\n");
  return recipe;
}

}  // namespace comera::cli
