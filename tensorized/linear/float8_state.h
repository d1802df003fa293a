#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/context.h"
#include "kernels/ops/products/float8.h"

namespace comera {

// How the linear layers of a model multiply in 8 bits, in the terms of TransformerEngine's recipes.
struct Float8Config {
  enum class Scaling : std::uint8_t {
    current,  // a tensor's scale is derived from the tensor itself
    delayed,  // derived from the largest magnitudes of the same tensor in earlier steps
  };
  enum class Format : std::uint8_t {
    hybrid,  // E4M3 forwards, E5M2 for gradients
    e4m3,    // E4M3 for both
  };
  Scaling scaling = Scaling::current;
  Format format = Format::hybrid;
  std::int64_t amax_history_len = 16;  // delayed: number of steps kept
  std::int64_t margin = 0;             // scales are 2^margin times smaller than they could be

  DType gradients() const { return format == Format::hybrid ? DType::float8_e5m2 : DType::float8_e4m3; }
  friend bool operator==(const Float8Config&, const Float8Config&) = default;
};

constexpr const char* name_of(Float8Config::Scaling scaling) {
  return scaling == Float8Config::Scaling::delayed ? "delayed" : "current";
}
constexpr const char* name_of(Float8Config::Format format) {
  return format == Float8Config::Format::e4m3 ? "e4m3" : "hybrid";
}

// The scales of all 8-bit operands of a model, and the history from which the next scales are derived, in
// device memory beside the parameters. Each layer has Float8Slots::count of them.
class Float8State {
 public:
  Float8State(const Float8Config& config, std::vector<std::string> layers, Allocator& allocator);
  Float8State(const Float8State&) = delete;
  Float8State& operator=(const Float8State&) = delete;

  const Float8Config& config() const { return config_; }
  const std::vector<std::string>& layers() const { return layers_; }

  bool delayed() const { return config_.scaling == Float8Config::Scaling::delayed; }

  // For the operations of one layer.
  Tensor scales(int layer) const;
  // For all layers. All values are non-negative floats; within a step, only amax of delayed scales changes.
  Tensor all_scales() const;
  Float8Options options() const {
    return {.delayed = delayed(),
            .record = recording_,
            .margin = static_cast<int>(config_.margin),
            .gradients = config_.gradients()};
  }
  // Whether the coming pass is a training pass, which updates delayed scales.
  void record(bool recording) { recording_ = recording; }
  // After a step: computes the next step's scales if they are delayed.
  void next(const Context& context, const Tensor& results) const;

  // A layer's scales and history in host memory. history: (slots, steps), oldest first.
  struct Layer {
    std::vector<float> scale, history;
    friend bool operator==(const Layer&, const Layer&) = default;
  };
  using Snapshot = std::map<std::string, Layer>;
  Snapshot snapshot() const;
  // Layers missing from the snapshot keep their state, and layers unknown here are ignored. If the history is
  // longer, its newest steps are used. Scales are recomputed from the history for this format and margin, or
  // copied where there is no history (except E4M3 gradient scales, which restart). Throws Error, naming the
  // layer, if the number of values does not match.
  void restore(const Snapshot& snapshot);

 private:
  float largest_of(std::int64_t slot) const;  // the largest finite value of its format
  std::int64_t count() const { return static_cast<std::int64_t>(layers_.size()) * Float8Slots::count; }
  void upload(const std::vector<Float8Scale>& scales, const std::vector<float>& history);

  Float8Config config_;
  std::vector<std::string> layers_;
  Allocator& allocator_;
  Buffer scales_, largest_, history_, position_;
  bool recording_ = false;
};

// A layer's part of the state.
struct Float8Layer {
  const Float8State* state = nullptr;
  int index = 0;

  Tensor scales() const { return state->scales(index); }
  Float8Options options() const { return state->options(); }
};

}  // namespace comera
