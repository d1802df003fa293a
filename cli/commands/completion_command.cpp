#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/choice.h"
#include "cli/pages/command_pages.h"
#include "cli/pages/completion.h"
#include "kernels/core/console.h"
#include "recipes/files/packaged.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

// As they are installed below share/.
void write_manual(const CommandText& program, const std::filesystem::path& folder) {
  const auto write = [&](const std::filesystem::path& file, const std::string& text) {
    storage::create_directories_durably((folder / file).parent_path());
    storage::write_file_durably(folder / file, text);
  };
  for (const auto& [name, page] : manual_pages(program))
    write(std::filesystem::path("man/man1") / name, page);
  write("bash-completion/completions/comera", bash_completion(program, packaged_recipes()));
  write("zsh/site-functions/_comera", zsh_completion(program, packaged_recipes()));
}

}  // namespace

void add_completion_command(CLI::App& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      program.add_subcommand("completion", "Print a script that completes commands and options in a shell");
  command->add_option("shell", *shell, "The shell")->required()->check(one_of({"bash", "zsh"}));
  command->footer(
      "Examples:\n"
      "  source <(comera completion bash)\n"
      "Add this line to ~/.bashrc (or, with zsh, to ~/.zshrc after compinit) to have it in every shell. The "
      "Debian package installs both scripts.");
  command->callback([&program, shell] {
    const CommandText text = command_text(program);
    print_out("{}", *shell == "bash" ? bash_completion(text, packaged_recipes())
                                     : zsh_completion(text, packaged_recipes()));
  });
}

// For builds: not shown.
void add_manual_command(CLI::App& program) {
  auto folder = std::make_shared<std::filesystem::path>();
  CLI::App* command = program.add_subcommand("write-manual", "Write manual pages and completions")->group("");
  command->add_option("folder", *folder, "Write them below this folder")->required()->type_name("DIR");
  command->callback([&program, folder] { write_manual(command_text(program), *folder); });
}

}  // namespace comera::cli
