#include "cli/pages/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace comera::cli {

namespace {

// What the values of an option may be: "files", "folders", "recipes", "none", or words of a list.
std::string kind_of(const OptionText& option) {
  static const std::map<std::string, std::string> kinds = {
      {"DIR", "folders"},     {"RUN", "folders"},   {"RECIPE", "recipes"}, {"SUBJECT", "recipes"},
      {"KEY=VALUE", "none"},  {"TEXT", "none"},     {"INT", "none"},       {"UINT", "none"},
      {"FLOAT", "none"},      {"TOKENS", "none"},   {"COLUMN", "none"},    {"COLUMN,...", "none"},
      {"TASK,...", "none"},   {"ROWS,...", "none"}, {"NAME", "none"},      {"SIMILARITY", "none"},
      {"METHOD=RATE", "none"}};
  if (!option.choices.empty()) return fmt::format("{}", fmt::join(option.choices, " "));
  if (option.value == "DEVICE") return "auto cpu cuda";
  const auto found = kinds.find(option.value);
  return found == kinds.end() ? "files" : found->second;
}

// A command and all below it, with the words after "comera".
void list_all(const CommandText& command, std::vector<const CommandText*>& all) {
  all.push_back(&command);
  for (const CommandText& each : command.commands) list_all(each, all);
}
std::vector<const CommandText*> list_all(const CommandText& program) {
  std::vector<const CommandText*> all;
  list_all(program, all);
  return all;
}

std::string below_program(const CommandText& command) {
  return fmt::format("{}", fmt::join(command.words.begin() + 1, command.words.end(), " "));
}

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  for (const CommandText& each : commands) names.push_back(each.words.back());
  return names;
}

std::vector<std::string> names_of(const std::vector<OptionText>& options) {
  std::vector<std::string> names;
  for (const OptionText& each : options) names.push_back(each.name());
  return names;
}

// "    'a'|'b') echo 'result' ;;", with one line for all that have the same result.
std::string cases(const std::map<std::string, std::vector<std::string>>& by_result) {
  std::string text;
  for (const auto& [result, patterns] : by_result)
    text += fmt::format("    '{}')\n      echo '{}' ;;\n", fmt::join(patterns, "'|\\\n    '"), result);
  return text;
}

constexpr const char* bash_functions = R"(# What can follow: the command in $1, the option in $2 or nothing.
_comera_find() {
  local command="" option="" values=0 word next
  for word in "${words[@]:1:cword-1}"; do
    case $word in
      -*) option=$word values=0 ;;
      =) ;;
      *)
        next="${command:+$command }$word"
        if [[ -z $option && " $(_comera_commands "$command") " == *" $word "* ]]; then
          command=$next
        else
          ((++values))
        fi ;;
    esac
  done
  local kind=""
  if [[ -n $option ]]; then
    kind=$(_comera_values "$command" "$option")
    case $kind in
      +*)
        kind=${kind#+}
        [[ $cur == -* ]] && kind="" ;;
      *) ((values > 0)) && kind="" ;;
    esac
  fi
  if [[ -n $kind ]]; then
    echo "$kind"
  elif [[ $cur == -* ]]; then
    _comera_options "$command"
  elif [[ -n $(_comera_commands "$command") ]]; then
    _comera_commands "$command"
  else
    _comera_arguments "$command"
  fi
}

_comera() {
  local cur=${COMP_WORDS[COMP_CWORD]} cword=$COMP_CWORD kind
  local words=("${COMP_WORDS[@]}")
  [[ $cur == = ]] && cur=""
  kind=$(_comera_find)
  COMPREPLY=()
  case $kind in
    files)
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      compopt -o filenames 2>/dev/null ;;
    folders)
      mapfile -t COMPREPLY < <(compgen -d -- "$cur")
      compopt -o filenames 2>/dev/null ;;
    recipes)
      mapfile -t COMPREPLY < <(compgen -W "$_comera_recipes" -- "$cur"; compgen -f -- "$cur")
      compopt -o filenames 2>/dev/null ;;
    none | "")
      compopt +o default 2>/dev/null ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$cur") ;;
  esac
}

complete -o default -F _comera comera
)";

// ---- zsh

std::string zsh_function(const CommandText& command) {
  std::string name = "_" + command.name("_");
  std::ranges::replace(name, '-', '_');
  return name;
}

// For a string in single quotes; brackets and colons separate the parts of a specification.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return escaped;
}

std::string zsh_action(const OptionText& option) {
  const std::string kind = kind_of(option);
  if (kind == "files") return "_files";
  if (kind == "folders") return "_files -/";
  if (kind == "recipes") return "_comera_recipes";
  return kind == "none" ? " " : fmt::format("({})", kind);
}

std::string zsh_option(const OptionText& option, const std::string& name) {
  const std::string description = zsh_text(option.description);
  if (option.value.empty()) return fmt::format("'{}[{}]'", name, description);
  const std::string repeated = option.description.find("may be repeated") != std::string::npos ? "*" : "";
  // Values go on up to the next option.
  const std::string values = option.several ? "*-*" : "";
  return fmt::format("'{}{}[{}]:{}{}:{}'", repeated, name + (option.several ? "" : "="), description, values,
                     option.several ? fmt::format(":{}", zsh_text(option.value)) : zsh_text(option.value),
                     zsh_action(option));
}

std::string zsh_arguments(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options)
    for (const std::string& name : option.names) text += fmt::format(" \\\n    {}", zsh_option(option, name));
  for (const OptionText& each : command.positionals)
    text +=
        fmt::format(" \\\n    '{}:{}:{}'", each.several ? "*" : "", zsh_text(each.name()), zsh_action(each));
  return text;
}

std::string zsh_command(const CommandText& command) {
  const std::string name = zsh_function(command);
  if (command.commands.empty())
    return fmt::format("{}() {{\n  _arguments{}\n}}\n\n", name, zsh_arguments(command));
  std::string list, choice;
  for (const CommandText& each : command.commands) {
    list += fmt::format("    '{}:{}'\n", each.words.back(), zsh_text(each.description));
    choice += fmt::format("    {}) {} ;;\n", each.words.back(), zsh_function(each));
  }
  return fmt::format(
      "{0}() {{\n"
      "  local -a commands line\n"
      "  local state\n"
      "  commands=(\n{1}  )\n"
      "  _arguments -C{2} \\\n    '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands ;;\n"
      "    argument)\n      case $line[1] in\n{3}      esac ;;\n"
      "  esac\n"
      "}}\n\n",
      name, list, zsh_arguments(command), choice);
}

}  // namespace

std::string bash_completion(const CommandText& program, const std::vector<std::string>& recipes) {
  std::map<std::string, std::vector<std::string>> commands, options, values, arguments;
  for (const CommandText* command : list_all(program)) {
    const std::string name = below_program(*command);
    if (!command->commands.empty())
      commands[fmt::format("{}", fmt::join(names_of(command->commands), " "))].push_back(name);
    options[fmt::format("{}", fmt::join(names_of(command->options), " "))].push_back(name);
    for (const OptionText& option : command->options)
      if (!option.value.empty())
        values[(option.several ? "+" : "") + kind_of(option)].push_back(name + " " + option.name());
    if (!command->positionals.empty()) arguments[kind_of(command->positionals.front())].push_back(name);
  }
  const auto function = [](const char* name, const char* what, const std::string& body) {
    return fmt::format("{}() {{\n  case \"{}\" in\n{}  esac\n}}\n\n", name, what, body);
  };
  return fmt::format(
             "# bash completion for comera. To use it now: source <(comera completion "
             "bash)\n\n_comera_recipes='{}'\n\n",
             fmt::join(recipes, " ")) +
         function("_comera_commands", "$1", cases(commands)) +
         function("_comera_options", "$1", cases(options)) +
         "# With a + for options that take several values.\n" +
         function("_comera_values", "$1 $2", cases(values)) +
         function("_comera_arguments", "$1", cases(arguments)) + bash_functions;
}

std::string zsh_completion(const CommandText& program, const std::vector<std::string>& recipes) {
  std::string text = fmt::format(
      "#compdef comera\n"
      "# zsh completion for comera. To use it now: source <(comera completion zsh)\n\n"
      "_comera_recipes() {{\n"
      "  compadd -- {}\n"
      "  _files\n"
      "}}\n\n",
      fmt::join(recipes, " "));
  for (const CommandText* command : list_all(program)) text += zsh_command(*command);
  // As a file of completions it is the function itself; otherwise it is registered.
  return text +
         "if [[ $funcstack[1] == _comera ]]; then\n  _comera \"$@\"\nelse\n  compdef _comera comera\nfi\n";
}

}  // namespace comera::cli
