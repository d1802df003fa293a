#include "cli/parse_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options/arguments.h"
#include "cli/pages/command_tree.h"
#include "recipes/files/packaged.h"
#include "recipes/suggest.h"

namespace comera::cli {

namespace {

// The command that was called, with its words: "bench step".
const CLI::App& called_command(const CLI::App& program, std::string& words) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    words += (words.empty() ? "" : " ") + command->get_name();
  }
  if (words.empty()) words = program.get_name().empty() ? "comera" : program.get_name();
  return *command;
}

const CLI::Option* option_named(const CLI::App& command, std::string_view name) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_name() == name || option->get_name(true, false) == name) return option;
  return nullptr;
}

// "A TOML file" -> "a TOML file"; "TOML file" stays.
std::string within_sentence(std::string text) {
  const bool word = text.size() > 1 && (text[1] < 'A' || text[1] > 'Z');
  if (word && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

std::string missing(const CLI::App& program, const std::string& name) {
  std::string words;
  const CLI::App& command = called_command(program, words);
  const CLI::Option* option = option_named(command, name);
  if (option == nullptr)
    return fmt::format("a command is required; see {}{} --help", words == "comera" ? "" : "comera ", words);
  const OptionText text = option_text(*option);
  if (!text.positional)
    return fmt::format("{} is missing: give {} {}; see comera {} --help", name, name, text.value, words);
  if (name == "recipe") {
    const std::vector<std::string> names = packaged_recipes();
    return fmt::format("the argument RECIPE is missing: give a TOML file{}",
                       names.empty()
                           ? std::string()
                           : fmt::format(" or the name of a built-in recipe ({})", fmt::join(names, ", ")));
  }
  std::string shown = name;
  std::ranges::transform(shown, shown.begin(), [](unsigned char c) { return std::toupper(c); });
  return fmt::format("the argument {} is missing: give {}; see comera {} --help", shown,
                     within_sentence(option->get_description()), words);
}

// "A requires B" -> {"A", "B"}; empty if the text is none of that kind.
std::vector<std::string> sides_of(const std::string& text, std::string_view verb) {
  const std::size_t at = text.find(verb);
  if (at == std::string::npos) return {};
  return {text.substr(0, at), text.substr(at + verb.size())};
}

// What other programs have as an option and a recipe has as a key; empty if there is none.
std::string_view recipe_key_of(std::string_view option) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr Pair keys[] = {{"--lr", "phase.0.learning_rate"},
                           {"--learning-rate", "phase.0.learning_rate"},
                           {"--learning_rate", "phase.0.learning_rate"},
                           {"--epochs", "phase.0.epochs"},
                           {"--num-epochs", "phase.0.epochs"},
                           {"--num_train_epochs", "phase.0.epochs"},
                           {"--steps", "phase.0.steps"},
                           {"--max-steps", "phase.0.steps"},
                           {"--max_steps", "phase.0.steps"},
                           {"--batch-size", "phase.0.tokens_per_micro_batch"},
                           {"--batch_size", "phase.0.tokens_per_micro_batch"},
                           {"--max-length", "phase.0.length"},
                           {"--max_length", "phase.0.length"},
                           {"--seed", "run.seed"},
                           {"--dropout", "model.dropout"},
                           {"--hours", "run.max_hours"},
                           {"--patience", "run.patience"},
                           {"--class-weights", "task.class_weights"},
                           {"--metric", "task.metric"},
                           {"--bf16", "precision.compute"},
                           {"--precision", "precision.compute"},
                           {"--optimizer", "optim.name"}};
  const auto* const found = std::ranges::find(keys, option, &Pair::first);
  return found == std::end(keys) ? std::string_view() : found->second;
}

bool takes_settings(const CLI::App& command) { return option_named(command, "--set") != nullptr; }

}  // namespace

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

std::string unexpected(const CLI::App& program) {
  std::string called;
  const CLI::App& command = called_command(program, called);
  const std::string word = without_marks(program.remaining(true).front());
  if (!word.starts_with("-") && word.find('=') != word.npos && takes_settings(command))
    return fmt::format("unexpected argument '{0}' for {1}; give each key its own --set: --set {0}", word,
                       called);
  if (!word.starts_with("-")) return fmt::format("unexpected argument '{}' for {}; see --help", word, called);
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string given = word.substr(0, word.find('='));
  if (const std::string_view key = recipe_key_of(given); !key.empty() && takes_settings(command))
    return fmt::format("{} is not an option of {}; it is a key of the recipe: --set {}=...", given, called,
                       key);
  std::string near = nearest(given, names);
  for (const auto& [one, other] : {std::pair{"--output", "--to"}, {"--to", "--output"}})
    if (given == one && std::ranges::find(names, other) != names.end()) near = other;
  return fmt::format("{} is not an option of {}{}", given, called,
                     near.empty() ? "; see --help" : fmt::format("; did you mean {}?", near));
}

std::string sentence_of(const CLI::App& program, const CLI::ParseError& error) {
  const std::string text = one_line(without_marks(error.what())), kind = error.get_name();
  if (kind == "RequiredError") return missing(program, text.substr(0, text.rfind(" is required")));
  if (const auto sides = sides_of(text, " requires "); kind == "RequiresError" && !sides.empty())
    return fmt::format("{} has an effect only with {}; give both or neither", sides[0], sides[1]);
  if (const auto sides = sides_of(text, " excludes "); kind == "ExcludesError" && !sides.empty())
    return fmt::format("{} and {} cannot be given together; omit one of them", sides[0], sides[1]);
  if (const auto sides = sides_of(text, "Could not convert: "); kind == "ConversionError" && !sides.empty()) {
    const auto parts = sides_of(sides[1], " = ");
    if (!parts.empty()) return fmt::format("{}: {} is not a number; see --help", parts[0], parts[1]);
  }
  if (const auto sides = sides_of(text, ": 1 required "); !sides.empty())
    return fmt::format("{} needs a value; see --help", sides[0]);
  return text + "; see --help";
}

}  // namespace comera::cli
