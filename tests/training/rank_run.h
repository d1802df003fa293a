#pragma once

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/training/training_fixture.h"

namespace comera::test {

// The fixture's recipe with an early phase and a late one to half the size, fast enough for a test.
inline std::vector<std::string> adapting(const std::vector<std::string>& more = {},
                                         const std::string& target = "target_ratio=0.5") {
  std::vector<std::string> all = {"phase.0.objective=regularize",
                                  "phase.0.steps=30",
                                  "phase.0.learning_rate={cores=3e-3, gates=1e-2, other=2e-3}",
                                  "phase.0.adaptation.threshold=0.05",
                                  "phase.1.objective=compress",
                                  "phase.1.steps=60",
                                  "phase.1.schedule=constant",
                                  "phase.1.learning_rate={cores=3e-3, gates=3e-2, other=2e-3}",
                                  "phase.1.adaptation.threshold=0.1",
                                  "phase.1.adaptation." + target,
                                  "phase.1.adaptation.compact_interval=7",
                                  "run.threads=1",  // several would wait for one another beside other tests
                                  "run.checkpoint_interval=0",
                                  "run.evaluation_interval=0"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class RankRun : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, const std::vector<std::string>& overrides,
                        TrainingOptions options = {}) const {
    static std::FILE* const null = std::fopen("/dev/null", "w");
    options.output = null;
    return TrainingRun(recipe(run, overrides), options).run();
  }
  // The same; returns its messages.
  std::string words_of(const std::string& run, const std::vector<std::string>& overrides,
                       TrainingOptions options = {}) const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> said(std::tmpfile(), std::fclose);
    options.output = said.get();
    TrainingRun(recipe(run, overrides), options).run();
    std::string words(static_cast<std::size_t>(std::ftell(said.get())), ' ');
    std::rewind(said.get());
    EXPECT_EQ(std::fread(words.data(), 1, words.size(), said.get()), words.size());
    return words;
  }
  // The lines of metrics with something about ranks.
  std::vector<nlohmann::json> rank_lines(const std::string& run) const {
    std::ifstream stream(folder() / run / "metrics.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(stream, line);) {
      auto object = nlohmann::json::parse(line);
      if (object.contains("ranks")) lines.push_back(std::move(object));
    }
    return lines;
  }
};

}  // namespace comera::test
