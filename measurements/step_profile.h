#pragma once

#include <string>
#include <vector>

#include "kernels/backends/ceilings.h"
#include "kernels/core/profile.h"
#include "measurements/stepper.h"

namespace comera {

// Of one step: what each operation took, what it must at least do (kernels/ops/work.h), and what the machine
// needs for that.
struct StepProfile {
  std::vector<ProfileEntry> entries;
  double seconds = 0;  // of the whole step
};

// Takes a step and says where its time went; with a clock, that of the device's stream.
StepProfile profiled_step(Stepper& stepper, ProfileClock* clock = nullptr);

double seconds_in(const StepProfile& profile, const std::string& operation);

// Of both: windows in which nothing else ran.
Ceilings best_of(const Ceilings& a, const Ceilings& b);

std::string roofline_table(const std::string& title, const StepProfile& profile, const Ceilings& ceilings);
// Of a device that is given its work by a host's thread; ends with the ten operations that lose most.
std::string device_roofline_table(const std::string& title, const StepProfile& profile,
                                  const Ceilings& ceilings);

}  // namespace comera
