// Command lines made from what --help says.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <sstream>

#include "tests/qa/attack/kinds.h"
#include "tests/qa/attack/mutants/mutate.h"
#include "tests/qa/attack/samples/files.h"
#include "tests/qa/attack/samples/sample.h"
#include "tests/qa/attack/sandbox.h"

namespace comera::attack {

namespace {

struct Option {
  std::string name;   // "--output", or "" of a positional
  std::string value;  // what --help calls its value; "" of a flag
  bool required = false;
};

struct Command {
  std::vector<std::string> words;  // "bench", "step"
  std::vector<Option> options;
};

// A line such as "  --length INT   Tokens of a sequence" or "  -h, --help   Show this help".
Option option_of(const std::string& line, bool positional) {
  std::istringstream words(line);
  Option option;
  while (words >> option.name && option.name.ends_with(',')) {  // the short name, before the long one
  }
  // The words of a description come behind at least two spaces, or on a line of their own.
  const std::string rest = line.substr(line.find(option.name) + option.name.size());
  const std::string said = rest.substr(0, std::min(rest.find("  "), rest.size()));
  option.required = said.find("REQUIRED") != said.npos;
  std::istringstream(said) >> option.value;
  if (option.value == "Needs:" || option.value == "Excludes:" || option.value == "REQUIRED")
    option.value.clear();
  if (positional) option.name.clear();
  return option;
}

std::string help_of(const Try& own, std::vector<std::string> words) {
  words.emplace_back("--help");
  return run(own.comera(words)).out;
}

void read_help(const Try& own, const std::vector<std::string>& words, std::vector<Command>& commands) {
  std::istringstream lines(help_of(own, words));
  Command command{words, {}};
  std::string part;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(':') && !line.starts_with(' ')) part = line;
    const bool entry = line.starts_with("  ") && line.size() > 2 && line[2] != ' ';
    if (!entry) continue;
    if (part == "Options:" || part == "Positionals:")
      command.options.push_back(option_of(line, part == "Positionals:"));
    if (part != "Subcommands:") continue;
    std::vector<std::string> longer = words;
    std::string name;
    std::istringstream(line) >> name;
    longer.push_back(name);
    read_help(own, longer, commands);
  }
  commands.push_back(std::move(command));
}

const std::vector<Command>& commands_of(const Try& own) {
  static std::vector<Command> commands;
  static std::once_flag once;
  std::call_once(once, [&] { read_help(own, {}, commands); });
  if (commands.size() < 8) throw std::runtime_error("--help names too few commands");
  for (const Command& command : commands)
    for (const Option& option : command.options)
      if (option.name.empty() && option.value.empty())
        throw std::runtime_error("--help has a line of an unknown form");
  return commands;
}

// Names of files that exist, that are something else, or that cannot be.
std::string some_path(Try& own) {
  const Sample& sample = own.sample();
  const auto of_sample = [&](const char* name) { return sample.file(name).string(); };
  switch (own.chance.below(30)) {
    case 0:
      return of_sample("plain.toml");
    case 1:
      return of_sample("source");
    case 2:
      return of_sample("tok.model");
    case 3:
      return of_sample("shards");
    case 4:
      return of_sample("dev.tsv");
    case 5:
      return of_sample("lines.txt");
    case 6:
      return sample.finished("plain").run.string();
    case 7:
      return sample.finished("finetune").run.string();
    case 8:
      return sample.finished("adapting").run.string();
    case 9:
      return "/dev/null";
    case 10:
      return "/dev/zero";
    case 11:
      return "/dev/full";
    case 12:
      return "loop";  // a link to itself
    case 13:
      return "loops";  // a folder with a link to itself
    case 14:
      return "";
    case 15:
      return std::string(5000, 'x');
    case 16:
      return "\xff\xfe.toml";
    case 17:
      return "no/such/file";
    case 18:
      return ".";
    case 19:
      return "file/within";
    case 21:
      return "/proc/self/mem";
    case 24:
      return sample.exchange(own.chance.pick(Sample::exchanges())).string();
    case 25:
      return of_sample("clicks");
    case 26:
      return of_sample("clicks.log");
    case 27:
      return sample.finished("clicks").run.string();
    case 28:
      return of_sample("glue");
    case 29:
      return of_sample("rows.jsonl.gz");
    default:
      return fmt::format(
          "out{}{}", own.chance.below(3),
          own.chance.pick(std::vector<std::string>{"", ".h5", ".tsv", ".jsonl", ".svg", ".model"}));
  }
}

std::string some_number(Try& own) {
  static const std::vector<std::string> all = {
      "0",     "1",   "2",   "16",   "-1",  "400",    "4097", "1e9", "2147483648", "9223372036854775808",
      "1e400", "nan", "inf", "-0",   "0.5", "0.0001", "1.5",  "",    " 1",         "1x",
      "0x10",  "١",   "1,2", "[1,2]"};
  return own.chance.pick(all);
}

std::string some_setting(Try& own) {
  static const std::vector<std::string> all = {"run.threads=1",
                                               "model.layers=1",
                                               "model.layers=0",
                                               "model.hidden=25",
                                               "tensorized.enabled=false",
                                               "phase.0.steps=1",
                                               "phase.9.steps=1",
                                               "task.header=false",
                                               "a=b",
                                               "=",
                                               "x",
                                               "",
                                               "model.layers=",
                                               "model=1",
                                               "precision.compute=bf16",
                                               "precision.compute=fp4",
                                               "phase.0.learning_rate={cores=1}",
                                               "run.seed=-1",
                                               "run.device=cuda:9",
                                               "data.train=",
                                               "model.layers=\"\xff\"",
                                               "tensorized.ranks.x=[1]",
                                               "phase.-1.steps=1",
                                               "phase.99999999999999999999.steps=1",
                                               "data.tokenizer=/dev/null",
                                               "data.train=/dev/null"};
  return own.chance.pick(all);
}

std::string some_value(Try& own, const Option& option) {
  if (own.chance.one_in(12)) return own.chance.one_in(2) ? some_path(own) : some_number(own);
  if (option.value.find("KEY") == 0 || option.name == "--set") return some_setting(own);
  if (option.value.starts_with("INT") || option.value.starts_with("FLOAT") ||
      option.value.starts_with("TOKENS"))
    return some_number(own);
  // "TEXT:{never,auto,always}=never"
  if (const std::size_t begin = option.value.find('{'); begin != option.value.npos && !own.chance.one_in(5)) {
    std::istringstream list(option.value.substr(begin + 1, option.value.find('}') - begin - 1));
    std::vector<std::string> words;
    for (std::string word; std::getline(list, word, ',');) words.push_back(word);
    return own.chance.pick(words);
  }
  if (option.name == "--device")
    return own.chance.pick(std::vector<std::string>{"cpu", "auto", "cuda", "cuda:0", "cuda:x", "gpu", ""});
  if (option.name == "--languages")
    return own.chance.pick(std::vector<std::string>{"python", "java", "latin", "python,,", ""});
  if (option.name == "--text")
    return own.chance.pick(
        std::vector<std::string>{"first", "first,second", "text", "", ",", "none", "\xff"});
  return some_path(own);
}

std::string some_masked_text(Try& own) {
  static const std::vector<std::string> all = {
      "return [MASK]", "[MASK]", "[MASK] [MASK]\n\t[MASK]", "x", std::string(5000, '(') + "[MASK]",
      "\xff [MASK]",   " ",      "\u00e9[MASK]\U0001f642"};
  return own.chance.pick(all);
}

// Mostly what the command wants, with mistakes.
std::vector<std::string> some_line(Try& own, const Command& command) {
  std::vector<std::string> words = command.words;
  const auto add = [&](const Option& option) {
    const std::string value = option.value.empty() ? "" : some_value(own, option);
    if (option.name.empty())
      words.push_back(words[0] == "fill-mask" && option.value == "TEXT" ? some_masked_text(own)
                                                                        : some_path(own));
    else if (option.value.empty() ? !own.chance.one_in(30) : own.chance.one_in(20))
      words.push_back(option.name);  // a flag, or a value that is missing
    else if (own.chance.one_in(8))
      words.push_back(option.name + "=" + value);
    else
      words.insert(words.end(), {option.name, value});
  };
  for (const Option& option : command.options) {
    const bool wanted = option.required || option.name.empty();
    if (wanted ? !own.chance.one_in(8) : own.chance.one_in(4)) add(option);
    if (own.chance.one_in(20)) add(option);
  }
  if (own.chance.one_in(8))
    words.push_back(own.chance.pick(std::vector<std::string>{"--no-such", "-x", "--", "-", "--outptu",
                                                             "extra", "", "\xff\xfe", "--help"}));
  if (own.chance.one_in(10) && words.size() > 1) {
    std::string& word = words[own.chance.below(words.size())];
    word = mutated_text(own.chance, word).substr(0, 20000);
    if (!word.empty() && word.back() == '\n') word.pop_back();
    std::erase(word, '\0');
  }
  if (own.chance.one_in(10) && !words.empty())
    std::swap(words[own.chance.below(words.size())], words[own.chance.below(words.size())]);
  return words;
}

// So that no line asks for a run of hours.
void keep_short(std::vector<std::string>& words) {
  if (words.empty() || (words[0] != "pretrain" && words[0] != "finetune")) return;
  words.insert(words.end(), {"--stop-after", "1"});
}

bool names(const std::vector<std::string>& words, const char* path) {
  return std::ranges::any_of(words, [&](const std::string& word) { return word.find(path) != word.npos; });
}

}  // namespace

void attempt_command_line(Try& own) {
  const std::vector<Command>& commands = commands_of(own);
  std::vector<std::string> words = some_line(own, commands[own.number() % commands.size()]);
  // From root and without private mounts, /dev and /proc are not to be played with.
  if (geteuid() == 0 && !private_mounts() && (names(words, "/dev/") || names(words, "/proc/")))
    return own.skip("from root without mounts of its own, devices are left alone");
  keep_short(words);
  fs::create_directories(own.folder() / "loops" / "within");
  fs::create_symlink("..", own.folder() / "loops" / "within" / "up");
  fs::create_symlink("loop", own.folder() / "loop");
  write_text(own.folder() / "file", "a file\n");
  Call call = own.comera(words);
  // Measuring and drawing take as long as they take; that it can be asked for is seen in a second.
  const bool measures = std::ranges::find(words, "bench") != words.end() ||
                        std::ranges::find(words, "synthetic") != words.end();  // a million rows
  if (measures) call.limits.seconds = 3;
  const Ending ending = run(call);
  if (measures && ending.late) return own.note("measured: " + text_of(call));
  own.check(call, ending, {});
  if (ending.code == 2 && ending.err.find("--help") == ending.err.npos && sentence_of(ending.err).size() < 25)
    own.fail("a sentence of a few letters: " + ending.err);
}

}  // namespace comera::attack
