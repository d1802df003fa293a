#include "model/layers/positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/ops/elementwise/gather.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

namespace {

constexpr std::int64_t numbers_at_once = 1 << 16;

// 2^-first, …, 2^-last in equal ratios.
std::vector<double> powers_of_half(std::int64_t count, double first, double last) {
  std::vector<double> slopes;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    slopes.push_back(std::exp2(-(first + (last - first) * share)));
  }
  return slopes;
}

// Writes to `to`, in its type.
void write(Allocator& allocator, const Tensor& to, const std::vector<double>& values) {
  HostCopy copy(allocator, to);
  if (to.dtype() == DType::float64)
    std::ranges::copy(values, copy.tensor().data<double>());
  else
    std::ranges::transform(values, copy.tensor().data<float>(),
                           [](double value) { return static_cast<float>(value); });
  copy.write();
}

}  // namespace

std::vector<HeadSlopes> head_slopes(std::int64_t heads) {
  const std::int64_t pairs = heads < 2 ? 0 : std::max<std::int64_t>(heads / 4, 1), both = heads - 2 * pairs;
  std::vector<HeadSlopes> list;
  for (const double slope : powers_of_half(pairs, 0, 2)) {
    list.push_back({slope, blind_slope});
    list.push_back({blind_slope, slope});
  }
  for (const double slope : powers_of_half(both, 2, std::min(2 + static_cast<double>(both), 8.)))
    list.push_back({slope, slope});
  return list;
}

std::vector<double> rotary_turns(std::int64_t first, std::int64_t count, std::int64_t size, double theta) {
  const std::int64_t half = size / 2;
  std::vector<double> speeds(half);
  for (std::int64_t i = 0; i < half; ++i)
    speeds[i] = std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(size));
  std::vector<double> turns(static_cast<std::size_t>(count * size));
  for (std::int64_t row = 0; row < count; ++row) {
    double* of_position = turns.data() + row * size;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first + row) * speeds[i];
      of_position[i] = std::cos(angle);
      of_position[half + i] = std::sin(angle);
    }
  }
  return turns;
}

std::vector<std::int32_t> buckets_of_distances(std::int64_t positions, std::int64_t buckets) {
  constexpr double farthest = 128;  // beyond it all are in one bucket
  const std::int64_t of_side = buckets / 2, exact = of_side / 2;
  const auto unit = static_cast<float>(std::log(farthest / static_cast<double>(exact)));
  std::vector<std::int32_t> list;
  for (std::int64_t distance = 1 - positions; distance < positions; ++distance) {
    const std::int64_t size = std::abs(distance);
    std::int64_t bucket = size;
    if (size >= exact) {
      const float share = std::log(static_cast<float>(size) / static_cast<float>(exact)) / unit;
      bucket = std::min(exact + static_cast<std::int64_t>(share * static_cast<float>(of_side - exact)),
                        of_side - 1);
    }
    list.push_back(static_cast<std::int32_t>(bucket + (distance > 0 ? of_side : 0)));
  }
  return list;
}

PositionTables::PositionTables(ParameterStore& store, const EncoderConfig& config, Allocator& allocator)
    : store_(store) {
  const DType master = master_of(config.compute);
  const auto table = [&](const Shape& shape) {
    memory_ = Buffer(allocator, static_cast<std::size_t>(shape.elements()) * size_of(master),
                     MemoryKind::workspace);
    return memory_.tensor(shape, master);
  };
  switch (config.positions) {
    case Positions::learned:
      if (config.relative_buckets > 0) add_biases(store, config, allocator);
      break;
    case Positions::relative: {
      std::vector<double> slopes;
      for (const HeadSlopes& head : head_slopes(config.heads))
        slopes.insert(slopes.end(), {head.before, head.behind});
      slopes_ = table({config.heads, 2});
      write(allocator, slopes_, slopes);
      break;
    }
    case Positions::rotary: {
      const std::int64_t positions = config.max_positions, size = config.hidden / config.heads;
      try {
        turns_ = table({positions, size});
      } catch (const OutOfMemory&) {
        throw OutOfMemory(fmt::format(
            "out of memory: could not allocate {:.1f} MiB for {} rotary positions; lower "
            "model.max_positions, or --length if that is longer",
            static_cast<double>(positions * size) * static_cast<double>(size_of(master)) / 1048576,
            positions));
      }
      // In batches of rows, so that the host needs little memory besides the table.
      const std::int64_t rows = std::max<std::int64_t>(numbers_at_once / size, 1);
      for (std::int64_t first = 0; first < positions; first += rows) {
        const std::int64_t count = std::min(rows, positions - first);
        write(allocator, turns_.rows(first, count), rotary_turns(first, count, size, config.rotary_theta));
      }
      break;
    }
  }
}

void PositionTables::add_biases(ParameterStore& store, const EncoderConfig& config, Allocator& allocator) {
  bucket_biases_ = store.add({.name = "embedding.relative_bias",
                              .role = ParameterRole::frozen,
                              .shape = {config.relative_buckets, config.heads},
                              .initializer = {}});
  const std::vector<std::int32_t> buckets =
      buckets_of_distances(config.max_positions, config.relative_buckets);
  const std::int64_t distances = std::ssize(buckets);
  const DType master = master_of(config.compute);
  memory_ = Buffer(allocator, static_cast<std::size_t>(2 * distances * config.heads) * size_of(master),
                   MemoryKind::workspace);
  const Tensor both = memory_.tensor({2, distances, config.heads}, master);
  by_distance_ = both.rows(0, 1).reshape({distances, config.heads});
  biases_ = both.rows(1, 1).reshape({config.heads, distances});
  index_memory_ = Buffer(allocator, static_cast<std::size_t>(distances + 1) * sizeof(std::int32_t),
                         MemoryKind::workspace);
  const Tensor indices = index_memory_.tensor({distances + 1}, DType::int32);
  buckets_ = indices.rows(0, distances), count_ = indices.rows(distances, 1);
  HostCopy copy(allocator, indices);
  std::ranges::copy(buckets, copy.tensor().data<std::int32_t>());
  copy.tensor().data<std::int32_t>()[distances] = static_cast<std::int32_t>(distances);
  copy.write();
}

void PositionTables::make(const Context& context) const {
  if (!bucket_biases_) return;
  run(context,
      GatherRows{
          .x = store_.value(*bucket_biases_), .indices = buckets_, .count = count_, .y = by_distance_});
  const std::int64_t distances = by_distance_.dim(0), heads = by_distance_.dim(1);
  run(context, SwapAxes{.x = by_distance_.reshape({1, distances, heads, 1}),
                        .y = biases_.reshape({1, heads, distances, 1})});
}

}  // namespace comera
