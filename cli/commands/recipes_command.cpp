#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/output_options.h"
#include "cli/options/recipe_options.h"
#include "cli/pages/command_tree.h"
#include "cli/run_input.h"
#include "kernels/core/console.h"
#include "kernels/core/terminal.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "recipes/files/packaged.h"
#include "reports/model_report.h"
#include "storage/durable_file.h"
#include "storage/small_file.h"

namespace comera::cli {

namespace {

std::string millions(std::int64_t parameters) {
  return fmt::format("{:.1f} M", static_cast<double>(parameters) * 1e-6);
}

// "0.9 M parameters (dense: 5.3 M)"
std::string size_of_recipe(const std::filesystem::path& file) try {
  const Recipe recipe = load_recipe(file, {});
  if (recipe.dlrm) return "a click model; its data decide the size";
  const EncoderConfig config = encoder_config(recipe, vocabulary_for(recipe, {}));
  const std::int64_t parameters = Model(config, host_allocator(), false).parameters().count();
  const std::int64_t dense = dense_parameters(config);
  return parameters == dense
             ? fmt::format("{} parameters", millions(parameters))
             : fmt::format("{} parameters (dense: {})", millions(parameters), millions(dense));
} catch (const Error&) {
  return "for a pretrained model (--from)";  // it lacks the keys that come from that
}

std::filesystem::path packaged_file(const std::string& name) {
  if (const auto file = packaged_recipe(name)) return *file;
  return find_recipe(name);  // says which there are
}

void list() {
  constexpr std::size_t columns = 80, indent = 4;
  for (const std::string& name : packaged_recipes()) {
    const std::filesystem::path file = packaged_file(name);
    print_out("{}  {}\n    {}\n", styled(stdout, Style::heading, name), size_of_recipe(file),
              wrapped(purpose_of_recipe(file), columns, indent));
  }
  print_out(
      "\n"
      "Use one by its name: comera pretrain NAME. To change one: comera recipes copy NAME FILE,\n"
      "or a recipe that begins with include = \"NAME\" and has the changes only.\n");
}

struct RecipeFile {
  std::string name;
  std::filesystem::path output;
  bool overwrite = false;

  std::string text() const {
    return storage::read_small_file(packaged_file(name), std::int64_t{4} << 20, "a recipe, a TOML file");
  }
};

void copy(const RecipeFile& recipe) {
  const std::string text = recipe.text();
  check_free(recipe.output, recipe.overwrite);
  prepare_output(recipe.output);
  storage::write_file_durably(recipe.output, text);
  print_out("saved {}\n", recipe.output.string());
}

void add_name(CLI::App& command, RecipeFile& recipe) {
  command.add_option("name", recipe.name, "The name of a built-in recipe, such as quickstart")
      ->required()
      ->type_name("NAME");
}

}  // namespace

void add_recipes_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("recipes", "List, show and copy the built-in recipes");
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) list();
  });
  CLI::App* all = command->add_subcommand("list", "List the built-in recipes with their sizes and purposes");
  all->footer("Examples:\n  comera recipes list\n`comera recipes` alone does the same.");
  all->callback([] { list(); });

  auto shown = std::make_shared<RecipeFile>();
  CLI::App* show = command->add_subcommand("show", "Print a built-in recipe");
  add_name(*show, *shown);
  show->footer("Examples:\n  comera recipes show quickstart");
  show->callback([shown] { print_out("{}", shown->text()); });

  auto copied = std::make_shared<RecipeFile>();
  CLI::App* write = command->add_subcommand("copy", "Copy a built-in recipe to a file, to change it there");
  add_name(*write, *copied);
  write->add_option("file", copied->output, "Write the recipe to this file")->required()->type_name("FILE");
  write->add_flag("--overwrite", copied->overwrite, "Replace an existing file");
  write->footer(
      "Examples:\n"
      "  comera recipes copy quickstart mine.toml\n"
      "  comera pretrain mine.toml --input ~/src --output runs/mine");
  write->callback([copied] { copy(*copied); });
}

}  // namespace comera::cli
