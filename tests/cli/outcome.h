#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cli/program.h"

namespace comera::cli {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// The output of `comera ARGUMENTS`, run in this process.
inline Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "comera");
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_program(static_cast<int>(pointers.size()), pointers.data());
  std::fflush(stdout);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace comera::cli
