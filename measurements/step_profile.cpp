#include "measurements/step_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/backends/backends.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"

namespace comera {

StepProfile profiled_step(Stepper& stepper, ProfileClock* clock) {
  profile_reset();
  Profiling profiling(clock);
  const double seconds = stepper.step();
  profiling.finish();
  return {profile_entries(), seconds};
}

double seconds_in(const StepProfile& profile, const std::string& operation) {
  for (const ProfileEntry& entry : profile.entries)
    if (entry.name == operation) return entry.seconds;
  return 0;
}

Ceilings best_of(const Ceilings& a, const Ceilings& b) {
  return {std::max(a.product_flops, b.product_flops), std::max(a.copy_bytes, b.copy_bytes)};
}

namespace {

double floor_seconds(const Work& work, const Ceilings& ceilings) {
  return std::max(work.bytes / ceilings.copy_bytes, work.flops / ceilings.product_flops);
}

// `digits`: digits of milliseconds; `threads`: how many share the host's time.
std::string profile_table(const std::string& title, const StepProfile& profile, const Ceilings& ceilings,
                          int digits, int threads) {
  TextTable table({"operation", "calls", "ms", "cpu ms", "GB", "GFLOP", "GB/s", "GFLOP/s", "bytes ms",
                   "flops ms", "ms/floor"});
  table.align_right(1);
  const auto line = [&](const std::string& name, std::int64_t calls, double seconds, double cpu,
                        const Work& work, double floor) {
    const auto milliseconds = [digits](double of) { return fmt::format("{:.{}f}", of * 1e3, digits); };
    table.add({name, grouped(calls), milliseconds(seconds), milliseconds(cpu),
               fmt::format("{:.3f}", work.bytes * 1e-9), fmt::format("{:.2f}", work.flops * 1e-9),
               fmt::format("{:.1f}", work.bytes * 1e-9 / seconds),
               fmt::format("{:.1f}", work.flops * 1e-9 / seconds),
               milliseconds(work.bytes / ceilings.copy_bytes),
               milliseconds(work.flops / ceilings.product_flops), fmt::format("{:.2f}", seconds / floor)});
  };
  ProfileEntry total;
  double floors = 0, listed = 0;
  for (const ProfileEntry& entry : profile.entries) {
    const double floor = floor_seconds(entry.work, ceilings);
    line(entry.name, entry.calls, entry.seconds, entry.cpu_seconds / threads, entry.work, floor);
    total.calls += entry.calls;
    total.cpu_seconds += entry.cpu_seconds;
    total.work += entry.work;
    listed += entry.seconds;
    floors += floor;
  }
  line("total", total.calls, listed, total.cpu_seconds / threads, total.work, floors);
  const double bytes = total.work.bytes / ceilings.copy_bytes;
  std::string text = fmt::format("{}\n{}", title, table.text());
  text += fmt::format(
      "  the step took {:.{}f} ms: {:.2f} times its bytes' {:.{}f} ms, {:.2f} times its "
      "products' {:.{}f} ms, {:.2f} times the {:.{}f} ms of both, operation by operation\n",
      profile.seconds * 1e3, digits, profile.seconds / bytes, bytes * 1e3, digits,
      profile.seconds * ceilings.product_flops / total.work.flops,
      total.work.flops / ceilings.product_flops * 1e3, digits, profile.seconds / floors, floors * 1e3,
      digits);
  return text;
}

}  // namespace

std::string roofline_table(const std::string& title, const StepProfile& profile, const Ceilings& ceilings) {
  return profile_table(title, profile, ceilings, 1, thread_count()) +
         "  cpu ms: of all threads, over their number; less than ms where other programs ran\n";
}

std::string device_roofline_table(const std::string& title, const StepProfile& profile,
                                  const Ceilings& ceilings) {
  std::vector<ProfileEntry> entries = profile.entries;
  const auto lost = [&](const ProfileEntry& entry) {
    return entry.seconds - floor_seconds(entry.work, ceilings);
  };
  std::ranges::stable_sort(entries, [&](const auto& a, const auto& b) { return lost(a) > lost(b); });
  std::string text =
      profile_table(title, profile, ceilings, 3, 1) +
      "  ms: between two events, waiting for the host's next call included; cpu ms: the host's\n"
      "  furthest above their floor:";
  for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), 10); ++i)
    text += fmt::format("{} {} {:.3f} ms", i == 0 ? "" : ",", entries[i].name, lost(entries[i]) * 1e3);
  return text + "\n";
}

}  // namespace comera
