#include "training/run/job.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/hash.h"
#include "training/run/process_agreement.h"

namespace comera {

Job::Step Job::share(const Step& own) {
  if (alone()) return own;
  const bool stop = stop_requested_ && stop_requested_();
  std::vector<double> all = {own.targets, static_cast<double>(own.units), stop ? 1. : 0.,
                             first() && own.save ? 1. : 0., first() ? own.seconds : 0.};
  const std::size_t behind = all.size();
  all.resize(behind + host_.world_size());
  all[behind + host_.process()] = own.waited_ms;
  host_.sum(all);
  stop_agreed_ |= all[2] > 0;
  const std::span<const double> waited = std::span(all).subspan(behind);
  const double sums = *std::ranges::min_element(waited);
  const double mean = std::reduce(waited.begin(), waited.end()) / static_cast<double>(waited.size());
  waited_.sums += sums;
  waited_.processes += mean - sums;
  ++waited_steps_;
  return {.targets = all[0],
          .units = static_cast<std::int64_t>(all[1]),
          .save = all[3] > 0,
          .waited_ms = own.waited_ms,
          .seconds = all[4]};
}

bool Job::stop_wanted() const { return stop_agreed_ || (alone() && stop_requested_ && stop_requested_()); }

void Job::require_same_model(std::int64_t step, const ParameterStore& store) const {
  if (alone()) return;
  std::vector<std::byte> bytes(store.all_values().bytes());
  Allocator& allocator = store.allocator();
  allocator.download(bytes.data(), store.all_values().raw(), bytes.size(), allocator.stream());
  allocator.synchronize(allocator.stream());
  const std::string_view model(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  comera::require_same_model(host_, step, storage::hash128(model).hex());
}

std::optional<Job::Waiting> Job::take_waiting() {
  const std::int64_t steps = std::exchange(waited_steps_, 0);
  const Waiting sums = std::exchange(waited_, {});
  if (steps == 0) return std::nullopt;
  return Waiting{.sums = sums.sums / static_cast<double>(steps),
                 .processes = sums.processes / static_cast<double>(steps)};
}

}  // namespace comera
