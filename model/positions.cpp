#include "model/positions.h"

#include <algorithm>
#include <cmath>

namespace comera {

namespace {

// 2^-first, …, 2^-last in equal ratios.
std::vector<double> powers_of_half(std::int64_t count, double first, double last) {
  std::vector<double> slopes;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    slopes.push_back(std::exp2(-(first + (last - first) * share)));
  }
  return slopes;
}

// Into `to`, in its type.
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

std::vector<double> rotary_turns(std::int64_t positions, std::int64_t size, double theta) {
  const std::int64_t half = size / 2;
  std::vector<double> turns(static_cast<std::size_t>(positions * size));
  for (std::int64_t p = 0; p < positions; ++p) {
    double* of_position = turns.data() + p * size;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(size));
      of_position[i] = std::cos(angle);
      of_position[half + i] = std::sin(angle);
    }
  }
  return turns;
}

PositionTables::PositionTables(const EncoderConfig& config, Allocator& allocator) {
  const DType master = master_of(config.compute);
  const auto table = [&](const Shape& shape, const std::vector<double>& values) {
    memory_ = Buffer(allocator, static_cast<std::size_t>(shape.elements()) * size_of(master),
                     MemoryKind::workspace);
    const Tensor tensor = memory_.tensor(shape, master);
    write(allocator, tensor, values);
    return tensor;
  };
  switch (config.positions) {
    case Positions::learned:
      break;
    case Positions::relative: {
      std::vector<double> slopes;
      for (const HeadSlopes& head : head_slopes(config.heads))
        slopes.insert(slopes.end(), {head.before, head.behind});
      slopes_ = table({config.heads, 2}, slopes);
      break;
    }
    case Positions::rotary:
      turns_ = table({config.max_positions, config.hidden / config.heads},
                     rotary_turns(config.max_positions, config.hidden / config.heads, config.rotary_theta));
      break;
  }
}

}  // namespace comera
