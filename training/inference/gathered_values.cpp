#include "training/inference/gathered_values.h"

#include <algorithm>

namespace comera {

std::optional<std::vector<double>> gathered_values(InferenceEngine& engine,
                                                   std::unique_ptr<data::SampleSource> samples,
                                                   const MicroBatchCapacity& capacity, std::int64_t count,
                                                   const KeepValues& keep, const std::function<bool()>& stop,
                                                   Communicator& communicator) {
  // Those of other processes are 0; the last one says whether to stop.
  std::vector<double> all(static_cast<std::size_t>(count + 1));
  const std::span values = std::span(all).first(static_cast<std::size_t>(count));
  const bool whole =
      engine.run(std::move(samples), capacity,
                 [&](std::int64_t sample, std::span<const double> row) { keep(sample, row, values); }, stop,
                 {.process = communicator.process(), .world_size = communicator.world_size()});
  all.back() = whole ? 0 : 1;
  communicator.sum(all);
  if (all.back() > 0) return std::nullopt;
  all.pop_back();
  return all;
}

void keep_row(std::int64_t sample, std::span<const double> values, std::span<double> all) {
  std::ranges::copy(values, all.begin() + sample * std::ssize(values));
}

}  // namespace comera
