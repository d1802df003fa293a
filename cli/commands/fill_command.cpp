#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/fill_questions.h"
#include "cli/fill_report.h"
#include "cli/options/inference_options.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "data/corpus/documents/standard_input.h"
#include "data/tables/table_reader.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

struct FillOptions {
  InferenceOptions inference;
  std::vector<std::string> texts;
  std::filesystem::path input;
  std::string column = "text";
  std::filesystem::path held_out;
  std::int64_t examples = 10;
  std::int64_t seed = 0;
  std::int64_t top = 5;
  OutputOptions output;

  void check() const {
    const int given = static_cast<int>(!texts.empty()) + static_cast<int>(!input.empty()) +
                      static_cast<int>(!held_out.empty());
    if (given == 0)
      throw UsageError(fmt::format("no texts to fill: give a TEXT with {}, --input FILE or --held-out FOLDER",
                                   data::MaskedText::mark));
    if (given > 1) throw UsageError("give only one of TEXT, --input and --held-out");
    if (output.path.empty()) return;
    output_format(output.path, {OutputFormat::jsonl});
    output.check(input);
  }
};

std::vector<Question> questions_of_texts(const FillOptions& options, const LoadedModel& loaded,
                                         const FillReport& report, std::int64_t length) {
  std::vector<Question> questions;
  for (const std::string& text : options.texts) {
    questions.push_back({.place = fmt::format("'{}'", shortened_text(text)),
                         .title = "",
                         .number_key = "line",
                         .number = static_cast<std::int64_t>(questions.size()) + 1,
                         .text = report.reader().read(text)});
    check_text(questions.back(), loaded, length);
  }
  return questions;
}

std::vector<Question> questions_of_file(const FillOptions& options, const LoadedModel& loaded,
                                        const FillReport& report, std::int64_t length) {
  const TaskSection& task = loaded.recipe.task;
  storage::refuse_missing(options.input, "file");
  data::TableReader reader(options.input,
                           {.format = task.format, .header = task.header, .columns = {options.column}});
  std::vector<Question> questions;
  for (data::TableRow row; reader.next(row);) {
    questions.push_back({.place = fmt::format("line {} of {}", row.line, options.input.string()),
                         .title = fmt::format("line {}: ", row.line),
                         .number_key = "line",
                         .number = row.line,
                         .text = report.reader().read(*row.fields[0])});
    check_text(questions.back(), loaded, length);
  }
  if (const std::string left_out = data::describe_skipped(options.input, reader.counts()); !left_out.empty())
    log_info("{}\n", left_out);
  COMERA_CHECK(!questions.empty(), "{}: holds no text", options.input.string());
  return questions;
}

void write(const std::vector<Question>& questions, const FillOptions& options, const FillReport& report) {
  std::string lines;
  std::int64_t marks = 0;
  for (const Question& question : questions)
    for (std::size_t mark = 0; mark < question.answers.size(); ++mark, ++marks) {
      Json object = {{question.number_key, question.number}, {"mask", mark + 1}};
      report.add_to(object, question.text, mark, question.answers[mark]);
      lines += json_text(object) + "\n";
    }
  storage::write_file_durably(options.output.path, lines);
  print_out("wrote {} predictions for {} texts to {}\n", marks, questions.size(),
            options.output.path.string());
}

void print_questions(const std::vector<Question>& questions, const FillReport& report) {
  for (const Question& question : questions) {
    const std::size_t marks = question.answers.size();
    for (std::size_t mark = 0; mark < marks; ++mark) {
      const std::string which = marks > 1 ? fmt::format("mask {} of {}: ", mark + 1, marks) : "";
      print_out("{}", report.lines(question.title + which, question.text, mark, question.answers[mark]));
    }
  }
}

// How many of the masked pieces were predicted.
void print_score(const std::vector<Question>& questions, std::int64_t top) {
  const auto within = [&](std::int64_t rank) {
    return std::ranges::count_if(
        questions, [&](const Question& question) { return question.answers[0].standing.rank <= rank; });
  };
  print_out("{} of {} hidden pieces {} the first guess{}\n", within(1), questions.size(),
            within(1) == 1 ? "was" : "were",
            top > 1 ? fmt::format(", {} among the first {}", within(top), top) : "");
}

void fill(const FillOptions& options) {
  options.check();
  const LoadedModel loaded = options.inference.load();
  if (loaded.model.config().head == HeadKind::replaced_tokens)
    throw UsageError(
        fmt::format("{} has learned to find replaced tokens and fills no masks; give a model pretrained with "
                    "model.head = \"mlm\"",
                    options.inference.model.string()));
  if (loaded.model.config().head != HeadKind::mlm)
    throw UsageError(fmt::format(
        "{} has no masked-language head, as fine-tuned models and students of vectors have none; give the "
        "pretrained model",
        options.inference.model.string()));
  require_trained_head(*loaded.trained.reader,
                       "pretrain it first: comera pretrain RECIPE --from MODEL, or use comera embed");
  const std::int64_t length = inference_capacity(options.inference, loaded).longest;
  const FillReport report(loaded.tokenizer);
  std::vector<Question> questions =
      !options.held_out.empty()
          ? hidden_pieces({.folder = options.held_out, .examples = options.examples, .seed = options.seed},
                          loaded, length)
      : !options.input.empty() ? questions_of_file(options, loaded, report, length)
                               : questions_of_texts(options, loaded, report, length);
  answer(questions, options.top, options.inference, loaded);
  if (options.output.path.empty())
    print_questions(questions, report);
  else
    write(questions, options, report);
  if (!options.held_out.empty()) print_score(questions, options.top);
}

}  // namespace

void add_fill_command(CLI::App& program) {
  auto options = std::make_shared<FillOptions>();
  CLI::App* command =
      program.add_subcommand("fill-mask", "Predict the most likely pieces for each [MASK] of a text");
  add_inference_options(*command, options->inference);
  command
      ->add_option("texts", options->texts,
                   "Texts with one or more [MASK], or the tokenizer's own <mask>; each stands for one token")
      ->type_name("TEXT");
  CLI::Option* input = command
                           ->add_option("--input", options->input,
                                        "Read the texts from a text file (one per line) or from a column "
                                        "of a TSV, CSV or JSONL file; plain, .gz or .zst")
                           ->type_name("FILE");
  command->add_option("--text", options->column, "Column of --input that holds the texts")
      ->type_name("COLUMN")
      ->needs(input)
      ->capture_default_str();
  CLI::Option* held_out =
      command
          ->add_option(
              "--held-out", options->held_out,
              "Hide one piece in each of some held-out sequences of these shards, and score the guesses")
          ->type_name("DIR");
  command->add_option("--examples", options->examples, "Number of held-out sequences")
      ->needs(held_out)
      ->check(positive_number)
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Random seed that chooses the sequences and pieces")
      ->needs(held_out)
      ->check(number_from_0)
      ->capture_default_str();
  command->add_option("--top", options->top, "Show this many pieces for each [MASK]")
      ->check(positive_number)
      ->capture_default_str();
  add_output_options(*command, options->output,
                     "Write one line per [MASK] to this .jsonl file instead of printing", false);
  command->footer(
      "Examples:\n"
      "  comera fill-mask runs/first 'for i [MASK] range(10):'\n"
      "  comera fill-mask runs/first --held-out shards --examples 20\n"
      "Pieces are entries of the tokenizer's vocabulary. SentencePiece writes a leading space as "
      "\xe2\x96\x81; WordPiece writes `##` before a piece that continues a word. A space before [MASK] is "
      "predicted as part of the token.");
  command->callback([options] {
    options->input = data::or_standard_input(options->input);
    fill(*options);
  });
}

}  // namespace comera::cli
