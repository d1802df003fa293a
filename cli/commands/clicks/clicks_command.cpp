#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"

namespace comera::cli {

void add_clicks_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("clicks", "Train recommendation models (DLRM) on click logs");
  command->require_subcommand(1);
  add_click_data_command(*command);
  add_click_synthetic_command(*command);
  add_click_train_command(*command);
  add_click_eval_command(*command);
  add_click_predict_command(*command);
}

}  // namespace comera::cli
