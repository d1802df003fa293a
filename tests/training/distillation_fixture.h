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
  void make_teacher(const std::vector<std::string>& more = {}) const {
    pretrain(recipe("teacher", with({"tensorized.enabled=false", "run.seed=5"}, more)));
  }
};

}  // namespace comera::test
