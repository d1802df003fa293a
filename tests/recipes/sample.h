#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace comera::test {

// The smallest recipe that is valid.
inline const std::string sample = R"([model]
layers = 2
hidden = 64
heads = 4
ffn = 128
vocabulary = 100
max_positions = 32

[tensorized.attention]
input_modes = [8, 8]
output_modes = [8, 8]
ranks = [8, 16, 8]

[[phase]]
name = "first"
length = 32
tokens_per_micro_batch = 64
steps = 10
learning_rate = 1e-3
)";

// sample with the first `from` replaced by `to`.
inline std::string edited(const std::string& from, const std::string& to) {
  std::string text = sample;
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

// The error message for a recipe; empty if it is accepted.
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(text, "r.toml", overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace comera::test
