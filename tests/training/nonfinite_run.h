#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/training/training_fixture.h"

namespace comera::test {

// From the end of step `from` to that of step `to`, a weight is so large that every forward pass overflows,
// though the weight itself is finite. 0: before the process's first step; -1: never.
struct PlantedOverflow {
  std::int64_t from = -1, to = -1;
};

// Steps that are not finite in the middle of a run that adapts ranks, on any processor: of 12 steps the first
// four are an early phase, the others a late one.
class NonfiniteRun : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, const PlantedOverflow& planted,
                        const std::vector<std::string>& overrides = {}, TrainingOptions options = {}) const;
  // A run whose step `undone` is done with finite numbers, and then undone by hand. Without averages over
  // steps, which would count it.
  TrainingOutcome train_with_undone_step(const std::string& run, std::int64_t undone,
                                         const std::vector<std::string>& overrides) const;
  std::vector<nlohmann::json> metrics(const std::string& run) const;
  std::string checkpoint(const std::string& run, std::int64_t step) const;

  void expect_a_skipped_step_to_change_nothing(const std::vector<std::string>& overrides = {}) const;
  void expect_a_full_row_to_stop_and_to_go_on() const;
  void expect_rows_to_be_resumed() const;

  const Processor* processor_ = nullptr;  // null: the CPU
};

}  // namespace comera::test
