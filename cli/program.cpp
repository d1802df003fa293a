#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/arguments.h"
#include "cli/options/old_names.h"
#include "cli/pages/help_format.h"
#include "cli/parse_errors.h"
#include "cli/process.h"
#include "distributed/launcher.h"
#include "kernels/core/console.h"
#include "kernels/core/version.h"
#include "recipes/suggest.h"
#include "training/logging/progress.h"

namespace comera::cli {

namespace {

constexpr int success = 0;
constexpr int failure = 1;
constexpr int wrong_usage = 2;

void add_commands(CLI::App& program) {
  add_data_command(program);
  add_tokenizer_command(program);
  add_pairs_command(program);
  add_plan_command(program);
  add_pretrain_command(program);
  add_finetune_command(program);
  add_distill_command(program);
  add_resume_command(program);
  add_eval_command(program);
  add_predict_command(program);
  add_embed_command(program);
  add_search_command(program);
  add_fill_command(program);
  add_glue_command(program);
  add_export_command(program);
  add_import_command(program);
  add_inspect_command(program);
  add_recipes_command(program);
  add_report_command(program);
  add_compact_command(program);
  add_clicks_command(program);
  add_bench_command(program);
  add_completion_command(program);
  add_manual_command(program);
}

// The requested command, such as "pretrain" or "clicks train"; empty without one. Commands with subcommands
// have no options with values, so the next word can only be a subcommand.
std::string asked_command(const CLI::App& program, int argc, const char* const* argv) {
  const CLI::App* command = &program;
  std::string asked;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const std::vector<const CLI::App*> commands = command->get_subcommands(nullptr);
    if (commands.empty()) break;
    const std::string word = asked.empty() ? command_of_now(argv[i]) : argv[i];
    const auto found = std::ranges::find(commands, word, [](const CLI::App* app) { return app->get_name(); });
    if (!asked.empty()) asked += ' ';
    if (found == commands.end()) {
      std::vector<std::string> names;
      for (const CLI::App* each : commands)
        if (!each->get_group().empty()) names.push_back(each->get_name());
      const std::string advice = word == "train" && asked.empty()
                                     ? std::string("; did you mean pretrain, finetune or clicks train?")
                                     : suggestion(word, names);
      throw UsageError(fmt::format("'{}' is not a command{}", asked + word, advice));
    }
    asked += word;
    command = *found;
  }
  return asked;
}

// A process that never joins the job would make the others wait indefinitely.
void refuse_processes(const std::string& command, int argc, const char* const* argv) {
  const std::vector<std::string> trains = {"pretrain", "finetune", "resume", "glue", "clicks train"};
  const auto asks = [&](const char* word) {
    return std::any_of(argv + 1, argv + argc, [&](const char* given) { return std::string(given) == word; });
  };
  if (command.empty() || !launched_among_several() || std::ranges::find(trains, command) != trains.end() ||
      asks("--help") || asks("-h") || asks("--version"))
    return;
  throw UsageError(
      fmt::format("comera {} runs in one process, but mpirun or srun has started several; start it without "
                  "them, or with one process",
                  command));
}

// Whatever the command line contains, the message is one line of limited length (see Error).
int fail(int code, const std::string& message) {
  log_info("comera: error: {}\n", Error(message).what());
  return code;
}

void run_command(CLI::App& program, int argc, const char* const* argv) {
  try {
    check_arguments(argc, argv);
    declare_program(program);
    refuse_empty_values(program);
    const std::string command = asked_command(program, argc, argv);
    refuse_processes(command, argc, argv);
    std::vector<std::string> words = words_for(program, argc, argv);
    use_names_of_now(command, words);
    std::optional<Ticker> ticker;
    if (!launched_among_several()) ticker.emplace("comera " + command);
    program.parse(std::move(words));
  } catch (const CLI::Success& wish) {  // --help, --version
    std::ostringstream text, none;
    program.exit(wish, text, none);
    print_out("{}", text.str());
  }
  check_output();
}

}  // namespace

void declare_program(CLI::App& program) {
  program.name("comera");
  program.description("Pretrain, fine-tune and run transformer encoders with tensor-train weights");
  program.formatter(std::make_shared<HelpFormat>(help_columns()));
  program.set_help_flag("-h,--help", "Show this help and exit");
  program.set_version_flag("--version", fmt::format("comera {}", version()), "Show the version and exit");
  program.require_subcommand(1);
  add_commands(program);  // which would inherit the footer
  program.footer(
      "Examples:\n"
      "  comera pretrain quickstart --input ~/src --output runs/first\n"
      "  comera fill-mask runs/first 'for i [MASK] range(10):'\n"
      "comera COMMAND --help shows a command's options and examples.");
}

int run_program(int argc, const char* const* argv) {
  CLI::App program;
  begin_output();
  try {
    run_command(program, argc, argv);
    return success;
  } catch (const CLI::ExtrasError&) {
    return fail(wrong_usage, unexpected(program));
  } catch (const CLI::RequiredError& error) {  // possibly caused by a misspelt option
    return fail(wrong_usage,
                program.remaining(true).empty() ? sentence_of(program, error) : unexpected(program));
  } catch (const CLI::ParseError& error) {
    return fail(wrong_usage, sentence_of(program, error));
  } catch (const UsageError& error) {
    return fail(wrong_usage, error.what());
  } catch (const OutputLost& error) {
    if (error.reason() == EPIPE) end_by_broken_pipe();
    return fail(failure, error.what());
  } catch (const Error& error) {
    return fail(failure, error.what());
  } catch (const std::bad_alloc&) {
    return fail(failure, "not enough memory; use smaller batches or a smaller model");
  } catch (const std::length_error&) {  // of a vector: more than any memory
    return fail(failure, "not enough memory; use smaller batches or a smaller model");
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(failure, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::system_error& error) {
    return fail(failure, fmt::format("the system refused a request, such as a new thread: {}; there may be "
                                     "too little memory or too many processes",
                                     error.code().message()));
  } catch (const std::exception& error) {
    return fail(failure, one_line(fmt::format("unexpected: {}", error.what())));
  }
}

}  // namespace comera::cli
