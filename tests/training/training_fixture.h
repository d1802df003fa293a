#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "training/run/training_run.h"

namespace comera::test {

// Runs the program itself. Returns its exit code (128 + signal if one killed it); output holds both streams.
struct ProgramResult {
  int code = 0;
  std::string output;
};
ProgramResult run_program(const std::vector<std::string>& arguments);

// A folder with a tiny corpus, its tokenizer and its shards, made once for a process, and a folder of its own
// for each test.
class TrainingFixture : public testing::Test {
 protected:
  TrainingFixture();
  ~TrainingFixture() override;

  // A tensor-train model of two small layers with two phases: 7 steps of length 16, then 5 of length 32, two
  // micro-batches a step, dropout, warm-up; evaluation and checkpoints at intervals that do not divide one
  // another.
  std::string recipe_text() const;
  Recipe recipe(const std::string& run, const std::vector<std::string>& overrides = {}) const;
  std::filesystem::path write_recipe() const;  // recipe_text() as a file

  std::filesystem::path folder() const { return folder_; }
  static const std::filesystem::path& corpus();  // holds tok.model, train-00000.h5, validation-00000.h5
  // That it ended with this exit code and one line, "comera: error: …", which has all the parts.
  static void expect(const ProgramResult& result, int code, const std::vector<std::string>& parts);

 private:
  std::filesystem::path folder_;
};

// A checkpoint without its tokenizer under another name, each tensor as `change` leaves it, or without it if
// that says false, and with `more` groups. Of float32 models.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                     const std::function<bool(const std::string& path, std::vector<float>& values)>& change,
                     const std::map<std::string, Attributes>& more = {});

// Every tensor of two checkpoints by its checksum, and what the trainer and the loader stand at.
void expect_equal_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace comera::test
