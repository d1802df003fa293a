#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/training/finetune_fixture.h"

namespace comera::test {

// Small teachers, and students of theirs.
class DistillationRun : public Finetune {
 protected:
  std::string from(const std::string& run) const {
    return fmt::format("distillation.teacher=\"{}\"", (folder() / run).string());
  }
  TrainingOutcome pretrain(const Recipe& recipe, std::int64_t stop_after = 0) const {
    TrainingRun run(recipe, {.mode = RunMode::automatic, .stop_after = stop_after, .output = silent()});
    return run.run();
  }
  std::vector<std::string> with(std::vector<std::string> settings,
                                const std::vector<std::string>& more) const {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  }
  // Vectors of both columns, each by itself.
  std::vector<std::string> vectors(const std::vector<std::string>& more = {}) const {
    return with(
        task({"task.kind=contrastive", "task.label=''", "task.validation=[]", "model.pooling=mean",
              "phase.0.steps=6", "phase.1.steps=4", "distillation.vectors=1", "distillation.similarities=1",
              "model.dropout=0", "model.attention_dropout=0", from("teacher")}),
        more);
  }
  // Texts of several words for training, in the same columns.
  void write_sentences() const {
    const std::vector<std::string> words = {"count", "total", "value", "index"};
    std::ofstream stream(folder() / "train.tsv");
    stream << "number\tsecond\tlabel\tfirst\tscore\n";
    for (std::size_t i = 0; i < 400; ++i)
      stream << fmt::format("{}\treturn the {} of {}\tsame\treturn {} or the {}\t1\n", i, words[i % 4],
                            words[i / 4 % 4], words[i / 16 % 4], words[i / 64 % 4]);
  }
  static std::vector<double> losses_in(const std::filesystem::path& run) {
    std::ifstream lines(run / "metrics.jsonl");
    std::vector<double> all;
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("loss")) all.push_back(json["loss"]);
    return all;
  }
  void make_teacher(const std::vector<std::string>& more = {}) const {
    pretrain(recipe("teacher", with({"tensorized.enabled=false", "run.seed=5"}, more)));
  }
};

}  // namespace comera::test
