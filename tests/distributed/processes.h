#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/float8_scales.h"
#include "checkpoints/rank_history.h"
#include "tests/distributed/mpirun.h"

namespace comera::test {

// Whole runs of one, two, three and four processes, beside one another.
class Processes : public TrainingFixture {
 protected:
  void SetUp() override {
    if (const std::string reason = Mpirun::missing(); !reason.empty()) GTEST_SKIP() << reason;
  }

  // Five micro-batches a step: two and four processes have shares of different size.
  std::vector<std::string> command(const std::string& run, const std::vector<std::string>& overrides,
                                   const std::vector<std::string>& options = {}) const {
    std::vector<std::string> all = {COMERA_PROGRAM, "pretrain", write_recipe().string(), "--output",
                                    (folder() / run).string()};
    std::vector<std::string> settings = {"phase.0.micro_batches_per_step=5",
                                         "phase.1.micro_batches_per_step=5",
                                         "phase.0.tokens_per_micro_batch=64",
                                         "phase.1.tokens_per_micro_batch=64",
                                         "run.log_interval=1",
                                         "run.threads=1",
                                         "run.checkpoint_interval=0",
                                         "model.dropout=0.1",
                                         "model.attention_dropout=0.1"};
    settings.insert(settings.end(), overrides.begin(), overrides.end());
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  void train(int processes, const std::string& run, const std::vector<std::string>& overrides,
             const std::vector<std::string>& options = {}) const {
    const ProgramResult result = run_processes(processes, command(run, overrides, options));
    ASSERT_EQ(result.code, 0) << result.output;
  }

  std::vector<nlohmann::json> lines(const std::string& run) const {
    std::ifstream file(folder() / run / "metrics.jsonl");
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  std::filesystem::path newest(const std::string& run) const {
    return find_latest(folder() / run / "checkpoints", ResumeMode::newest)->path;
  }

  void expect_the_same(const std::string& a, const std::string& b, double tolerance) const {
    const auto first = lines(a), second = lines(b);
    ASSERT_GT(first.size(), 0u);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i)
      for (const char* key :
           {"loss", "gradient_norm", "validation_loss", "validation_accuracy", "unigram_loss"}) {
        ASSERT_EQ(first[i].contains(key), second[i].contains(key));
        if (!first[i].contains(key)) continue;
        const double value = first[i][key];
        // One hit more or less where narrow types round otherwise.
        const double room = key == std::string("validation_accuracy") ? 5 : 0;
        EXPECT_NEAR(second[i][key], value, tolerance * (std::abs(value) + room))
            << b << ", " << key << " of step " << first[i]["step"];
      }
    EXPECT_EQ(first.back()["step"], second.back()["step"]);
    const CheckpointReader one(newest(a)), other(newest(b));
    EXPECT_EQ(one.attributes("/data"), other.attributes("/data"));
    EXPECT_EQ(one.integer("/trainer", "tokens"), other.integer("/trainer", "tokens"));
    EXPECT_EQ(held_ranks(one), held_ranks(other));
    // Magnitudes of 8-bit operands are of all micro-batches, not of a process's, which are a tenth less in
    // the mean; rounding moves some. A scale is a power of two, so that it moves by as much.
    double deviations = 0, magnitudes = 0;
    for (const auto& tensor : one.tensors()) {
      if (!tensor.path.starts_with(float8_at)) continue;
      const auto values = one.read_values<float>(tensor.path), others = other.read_values<float>(tensor.path);
      ASSERT_EQ(values.size(), others.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_LE(others[i], 2 * values[i]) << tensor.path << ' ' << i;
        EXPECT_GE(others[i], values[i] / 2) << tensor.path << ' ' << i;
        if (!tensor.path.ends_with("history") || values[i] == 0) continue;
        deviations += std::abs(others[i] / values[i] - 1), ++magnitudes;
      }
    }
    if (magnitudes > 0) EXPECT_LT(deviations / magnitudes, 0.01) << magnitudes;
  }
};

}  // namespace comera::test
