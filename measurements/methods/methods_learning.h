#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "measurements/methods/methods.h"

namespace comera {

struct MethodsLearningOptions {
  std::vector<Method> methods;
  std::int64_t steps = 0;                     // of each method
  std::filesystem::path output;               // a run's folder for each method, learning.json, learning.svg
  std::function<bool()> stop_requested = {};  // asked after every step
};

// What a method's run wrote into its metrics.
struct LearningCurve {
  struct Point {
    std::int64_t step = 0;
    double seconds = 0;  // of training until then, without evaluations
    double loss = 0;
  };
  std::string name, detail;
  std::vector<Point> training;  // means over the steps since the point before
  std::vector<Point> held_out;
};

// Throws UsageError if the output has a run that was begun with other settings, or if a method cannot be
// trained.
void check_learning(const MethodsLearningOptions& options);

// Trains every method from the recipe's seed on the recipe's data in the same order, by the rates of its
// first phase, for the same number of steps. A run that is there already goes on where it stands, so that a
// stopped comparison is gone on with by the same call. False if it was stopped.
bool learn_methods(const MethodsLearningOptions& options);

// Of what learn_methods() has left, written as learning.json and learning.svg; as text.
std::string report_learning(const MethodsLearningOptions& options);

}  // namespace comera
