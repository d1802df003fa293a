#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "kernels/core/check.h"
#include "recipes/suggest.h"

namespace comera::cli {

namespace {

constexpr int success = 0;
constexpr int failure = 1;
constexpr int wrong_usage = 2;

void add_commands(CLI::App& program) {
  add_data_command(program);
  add_tokenizer_command(program);
  add_pairs_command(program);
  add_pretrain_command(program);
  add_finetune_command(program);
  add_eval_command(program);
  add_predict_command(program);
  add_embed_command(program);
  add_inspect_command(program);
  add_compact_command(program);
  add_bench_command(program);
}

// The program has no options with values of its own, so that the first word can only be a subcommand.
void check_command(const CLI::App& program, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (std::ranges::find(names, argv[1]) == names.end())
    throw UsageError(fmt::format("'{}' is not a command{}", argv[1], suggestion(argv[1], names)));
}

int fail(int code, const std::string& message) {
  fmt::print(stderr, "comera: error: {}\n", message);
  return code;
}

// The first word that the command has no use for. (CLI11 lists all such words backwards.)
std::string unexpected(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::string word = program.remaining(true).front();
  if (!word.starts_with("-"))
    return fmt::format("'{}' is one word more than {} takes; see --help", word, command->get_name());
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string given = word.substr(0, word.find('='));
  const std::string near = nearest(given, names);
  return fmt::format("{} is not an option of {}{}", given, command->get_name(),
                     near.empty() ? "; see --help" : fmt::format("; did you mean {}?", near));
}

// CLI11's messages may have several lines.
std::string sentence(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  CLI::App program("Pretrains encoder-only transformers whose weights are tensor trains", "comera");
  try {
    program.set_version_flag("--version", "comera " COMERA_VERSION);
    program.require_subcommand(1);
    add_commands(program);
    check_command(program, argc, argv);
    program.parse(argc, argv);
    return success;
  } catch (const CLI::Success& wish) {  // --help, --version
    return program.exit(wish);
  } catch (const CLI::ExtrasError&) {
    return fail(wrong_usage, unexpected(program));
  } catch (const CLI::ParseError& error) {
    return fail(wrong_usage, sentence(error.what()) + "; see --help");
  } catch (const UsageError& error) {
    return fail(wrong_usage, error.what());
  } catch (const Error& error) {
    return fail(failure, error.what());
  } catch (const std::bad_alloc&) {
    return fail(failure, "there is not enough memory; use smaller batches or a smaller model");
  } catch (const std::exception& error) {
    return fail(failure, sentence(fmt::format("unexpected: {}", error.what())));
  }
}

}  // namespace comera::cli
