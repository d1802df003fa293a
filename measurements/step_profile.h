#pragma once

#include <string>
#include <vector>

#include "kernels/backends/ceilings.h"
#include "kernels/core/profile.h"
#include "measurements/stepper.h"

namespace comera {

// Profile of one step: the time of each operation, its minimal work (kernels/ops/work.h), and the time that
// the machine needs for that.
struct StepProfile {
  std::vector<ProfileEntry> entries;
  double seconds = 0;  // of the whole step
};

// Runs a step and profiles it; with a clock, on the device's stream.
StepProfile profiled_step(Stepper& stepper, ProfileClock* clock = nullptr);

double seconds_in(const StepProfile& profile, const std::string& operation);

// The best of both: from windows in which nothing else ran.
Ceilings best_of(const Ceilings& a, const Ceilings& b);

std::string roofline_table(const std::string& title, const StepProfile& profile, const Ceilings& ceilings);
// For a device controlled by a host thread; ends with the ten operations that lose most.
std::string device_roofline_table(const std::string& title, const StepProfile& profile,
                                  const Ceilings& ceilings);

}  // namespace comera
