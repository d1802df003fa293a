#include "bench/step_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/backends/backends.h"

namespace comera {

StepProfile profiled_step(Stepper& stepper) {
  profile_reset();
  profile_enable(true);
  const double seconds = stepper.step();
  profile_enable(false);
  return {profile_entries(), seconds};
}

double seconds_in(const StepProfile& profile, const std::string& operation) {
  for (const ProfileEntry& entry : profile.entries)
    if (entry.name == operation) return entry.seconds;
  return 0;
}

Ceilings best_of(const Ceilings& a, const Ceilings& b) {
  return {std::max(a.fp32_flops, b.fp32_flops), std::max(a.copy_bytes, b.copy_bytes)};
}

namespace {

double floor_seconds(const Work& work, const Ceilings& ceilings) {
  return std::max(work.bytes / ceilings.copy_bytes, work.flops / ceilings.fp32_flops);
}

}  // namespace

std::string roofline_table(const std::string& title, const StepProfile& profile, const Ceilings& ceilings) {
  std::string text = fmt::format("{}\n  {:<33}{:>6}{:>9}{:>9}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}\n", title,
                                 "operation", "calls", "ms", "cpu ms", "GB", "GFLOP", "GB/s", "GFLOP/s",
                                 "bytes ms", "flops ms", "ms/floor");
  const auto line = [&](const std::string& name, std::int64_t calls, double seconds, double cpu,
                        const Work& work, double floor) {
    text += fmt::format(
        "  {:<33}{:>6}{:>9.1f}{:>9.1f}{:>8.3f}{:>8.2f}{:>8.1f}{:>8.1f}{:>9.1f}{:>9.1f}{:>9.2f}\n", name,
        calls, seconds * 1e3, cpu * 1e3, work.bytes * 1e-9, work.flops * 1e-9, work.bytes * 1e-9 / seconds,
        work.flops * 1e-9 / seconds, work.bytes / ceilings.copy_bytes * 1e3,
        work.flops / ceilings.fp32_flops * 1e3, seconds / floor);
  };
  ProfileEntry total;
  double floors = 0, listed = 0;
  for (const ProfileEntry& entry : profile.entries) {
    const double floor = floor_seconds(entry.work, ceilings);
    line(entry.name, entry.calls, entry.seconds, entry.cpu_seconds / thread_count(), entry.work, floor);
    total.calls += entry.calls;
    total.cpu_seconds += entry.cpu_seconds;
    total.work += entry.work;
    listed += entry.seconds;
    floors += floor;
  }
  line("total", total.calls, listed, total.cpu_seconds / thread_count(), total.work, floors);
  const double bytes = total.work.bytes / ceilings.copy_bytes;
  text += fmt::format(
      "  the step took {:.0f} ms: {:.2f} times its bytes' {:.0f} ms, {:.2f} times its "
      "products' {:.0f} ms, {:.2f} times the {:.0f} ms of both, operation by operation\n",
      profile.seconds * 1e3, profile.seconds / bytes, bytes * 1e3,
      profile.seconds * ceilings.fp32_flops / total.work.flops, total.work.flops / ceilings.fp32_flops * 1e3,
      profile.seconds / floors, floors * 1e3);
  return text + "  cpu ms: of all threads, over their number; less than ms where other programs ran\n";
}

}  // namespace comera
