#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace comera::cli {

// The columns of standard output, at most 100; 80 where it is no terminal.
std::size_t help_columns();

// The text of --help, in lines that a terminal does not have to break.
class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(std::size_t columns) : columns_(columns) {}

  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string entry(const std::string& left, const std::string& right) const;

  std::size_t columns_;
};

}  // namespace comera::cli
