#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "measurements/methods/methods.h"

namespace comera {

struct MethodsLearningOptions {
  std::vector<Method> methods;
  std::int64_t steps = 0;                     // per method
  std::filesystem::path output;               // a run's folder for each method, learning.json, learning.svg
  std::function<bool()> stop_requested = {};  // called after every step
};

// The metrics of a method's run.
struct LearningCurve {
  struct Point {
    std::int64_t step = 0;
    double seconds = 0;  // of training so far, without evaluations
    double loss = 0;
  };
  std::string name, detail;
  std::vector<Point> training;  // means over the steps since the previous point
  std::vector<Point> held_out;
};

// Throws UsageError if the output contains a run with other settings, or if a method cannot be trained.
void check_learning(const MethodsLearningOptions& options);

// Trains every method from the recipe's seed on the recipe's data in the same order, with the rates of its
// first phase, for the same number of steps. Existing runs are resumed, so that the same call continues a
// stopped comparison. False if it was stopped.
bool learn_methods(const MethodsLearningOptions& options);

// The results of learn_methods(), written as learning.json and learning.svg, and returned as text.
std::string report_learning(const MethodsLearningOptions& options);

}  // namespace comera
