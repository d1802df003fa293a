#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/training/training_fixture.h"

namespace comera::test {

// Pairs of words with a rule that has to be learnt from both: are they the same?
class Finetune : public TrainingFixture {
 protected:
  Finetune() {
    write_table("train.tsv", 400, 1);
    write_table("dev.tsv", 120, 2);
  }

  void write_table(const std::string& name, int rows, unsigned seed) const {
    const std::vector<std::string> words = {"count", "total", "value", "index"};
    std::ofstream stream(folder() / name);
    stream << "number\tsecond\tlabel\tfirst\tscore\n";
    for (int i = 0; i < rows; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const std::size_t a = (seed >> 10) % 4, other = (seed >> 20) % 3;
      const bool same = (seed >> 28) % 2 == 0;
      const std::size_t b = same ? a : (a + 1 + other) % 4;
      stream << fmt::format("{}\t{}\t{}\t{}\t{}\n", i, words[b], same ? "same" : "other", words[a],
                            same ? 1.5 : -0.5);
    }
  }

  std::vector<std::string> task(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"task.name=words",
                                    "task.text=[\"first\", \"second\"]",
                                    "task.label=label",
                                    fmt::format("task.train=\"{}\"", (folder() / "train.tsv").string()),
                                    fmt::format("task.validation=\"{}\"", (folder() / "dev.tsv").string()),
                                    "run.evaluation_interval=0",
                                    "run.checkpoint_interval=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The options above for the program.
  std::vector<std::string> arguments(const std::string& command, const std::vector<std::string>& more,
                                     const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {command, write_recipe().string()};
    for (const std::string& override : task(overrides)) all.insert(all.end(), {"--set", override});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TrainingOutcome finetune(const Recipe& recipe, std::int64_t stop_after = 0,
                           RunMode mode = RunMode::automatic) const {
    TrainingRun run(recipe, {.finetune = true, .mode = mode, .stop_after = stop_after, .output = silent()});
    return run.run();
  }
  static std::FILE* silent() {
    static std::FILE* const file = std::fopen("/dev/null", "w");
    return file;
  }
  static nlohmann::json last_line(const std::filesystem::path& file, const std::string& member) {
    std::ifstream stream(file);
    nlohmann::json found;
    for (std::string line; std::getline(stream, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains(member)) found = object;
    }
    return found;
  }
};

// Of the first phase of a dry run.
inline std::int64_t tokens_a_step(const std::string& output) {
  std::istringstream row(output.substr(output.find('\n', output.find("tokens a step")) + 1));
  std::string name, length, tokens;
  row >> name >> length >> tokens;
  std::erase(tokens, ',');
  return std::stoll(tokens);
}

}  // namespace comera::test
