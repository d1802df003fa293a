#include "tensorized/linear/float8_state.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/check.h"

namespace comera {

namespace {

constexpr std::int64_t slots = Float8Slots::count;
constexpr auto scale_bytes = static_cast<std::int64_t>(sizeof(Float8Scale));

}  // namespace

Float8State::Float8State(const Float8Config& config, std::vector<std::string> layers, Allocator& allocator)
    : config_(config),
      layers_(std::move(layers)),
      allocator_(allocator),
      scales_(allocator, count() * scale_bytes, MemoryKind::workspace) {
  COMERA_CHECK(config.amax_history_len >= 1, "a history of {} steps of magnitudes is none",
               config.amax_history_len);
  if (delayed()) {
    history_ = Buffer(allocator, count() * config.amax_history_len * sizeof(float), MemoryKind::workspace);
    position_ = Buffer(allocator, sizeof(std::int64_t), MemoryKind::workspace);
    largest_ = Buffer(allocator, count() * sizeof(float), MemoryKind::workspace);
    HostCopy largest(allocator, largest_.tensor({count()}, DType::float32));
    for (std::int64_t i = 0; i < count(); ++i) {
      largest.tensor().data<float>()[i] = largest_of(i % slots);
    }
    largest.write();
  }
  upload(std::vector<Float8Scale>(count()), {});
}

float Float8State::largest_of(std::int64_t slot) const {
  const bool wide = Float8Slots::is_gradient(slot) && config_.gradients() == DType::float8_e5m2;
  return wide ? float8_e5m2::largest : float8_e4m3::largest;
}

Tensor Float8State::scales(int layer) const {
  return all_scales().slice(layer * slots * scale_bytes, {slots * scale_bytes});
}

Tensor Float8State::all_scales() const { return scales_.tensor({count() * scale_bytes}, DType::uint8); }

void Float8State::next(const Context& context, const Tensor& results) const {
  if (!delayed() || count() == 0) return;
  run(context,
      Float8NextScales{.scales = all_scales(),
                       .largest = largest_.tensor({count()}, DType::float32),
                       .history = history_.tensor({count(), config_.amax_history_len}, DType::float32),
                       .position = position_.tensor({1}, DType::int64),
                       .results = results,
                       .margin = static_cast<int>(config_.margin)});
}

Float8State::Snapshot Float8State::snapshot() const {
  HostCopy scales(allocator_, scales_.tensor({count() * scale_bytes}, DType::uint8));
  const auto* scale = static_cast<const Float8Scale*>(scales.read().tensor().raw());
  Snapshot snapshot;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    for (std::int64_t slot = 0; slot < slots; ++slot)
      snapshot[layers_[layer]].scale.push_back(scale[layer * slots + slot].scale);
  if (!delayed()) return snapshot;
  const std::int64_t length = config_.amax_history_len;
  HostCopy histories(allocator_, history_.tensor({count(), length}, DType::float32)),
      position(allocator_, position_.tensor({1}, DType::int64));
  const float* history = histories.read().tensor().data<float>();
  const std::int64_t oldest = *position.read().tensor().data<std::int64_t>() % length;
  for (const std::string& layer : layers_)
    for (std::int64_t slot = 0; slot < slots; ++slot, history += length) {
      std::vector<float>& to = snapshot[layer].history;
      to.insert(to.end(), history + oldest, history + length);
      to.insert(to.end(), history, history + oldest);
    }
  return snapshot;
}

void Float8State::restore(const Snapshot& given) {
  const Snapshot own = snapshot();
  const std::int64_t length = config_.amax_history_len;
  const bool remembers = delayed();
  std::vector<Float8Scale> scales;
  std::vector<float> history;
  for (const std::string& layer : layers_) {
    const auto found = given.find(layer);
    const Layer& from = found == given.end() ? own.at(layer) : found->second;
    const auto steps = static_cast<std::int64_t>(from.history.size()) / slots;
    COMERA_CHECK(
        from.scale.size() == slots && static_cast<std::int64_t>(from.history.size()) == steps * slots,
        "{}: {} scales and {} magnitudes of its 8-bit operands, expected {} and a multiple of it", layer,
        from.scale.size(), from.history.size(), slots);
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const float scale = from.scale[slot];
      int exponent = 0;
      COMERA_CHECK(scale > 0 && 1 / scale > 0 && std::frexp(scale, &exponent) == 0.5F,
                   "{}: {} is no scale of an 8-bit operand, which is a power of two", layer, scale);
      Float8Scale& taken = scales.emplace_back(Float8Scale{.inverse = 1 / scale, .scale = scale});
      if (!remembers) continue;
      const std::int64_t kept = std::min(steps, length);
      history.insert(history.end(), length - kept, 0.F);
      const float* end = from.history.data() + (slot + 1) * steps;
      history.insert(history.end(), end - kept, end);
      // The scale may have been computed for another format or margin.
      if (kept > 0)
        set_float8_scale(*std::max_element(end - kept, end), largest_of(slot),
                         static_cast<int>(config_.margin), taken);
      else if (Float8Slots::is_gradient(slot) && config_.gradients() == DType::float8_e4m3)
        taken = {};  // possibly for E5M2, and far too large
    }
  }
  upload(scales, history);
}

// The history begins with the oldest step, which is the next to be overwritten.
void Float8State::upload(const std::vector<Float8Scale>& scales, const std::vector<float>& history) {
  HostCopy to(allocator_, scales_.tensor({count() * scale_bytes}, DType::uint8));
  std::ranges::copy(scales, static_cast<Float8Scale*>(to.tensor().raw()));
  to.write();
  if (!delayed()) return;
  HostCopy steps(allocator_, history_.tensor({count(), config_.amax_history_len}, DType::float32)),
      position(allocator_, position_.tensor({1}, DType::int64));
  std::fill_n(steps.tensor().data<float>(), steps.tensor().elements(), 0.F);
  std::ranges::copy(history, steps.tensor().data<float>());
  *position.tensor().data<std::int64_t>() = 0;
  steps.write();
  position.write();
}

}  // namespace comera
