#pragma once

#include <cstdint>

#include "kernels/shared/philox.h"

namespace comera {

// The location of a dropout in the model, and its probability. Mask decisions are bytes, so that one Philox
// call serves 16 elements: the probability actually used is round(256 p) / 256, and the scale follows it.
struct DropoutSpec {
  double probability = 0;  // 0: off
  std::uint32_t site = 0;  // unique for each dropout of the model

  COMERA_HOST_DEVICE std::uint32_t threshold() const {
    return static_cast<std::uint32_t>(probability * 256 + 0.5);  // NOLINT(bugprone-incorrect-roundings)
  }
  COMERA_HOST_DEVICE bool active() const { return threshold() > 0; }
  COMERA_HOST_DEVICE double scale() const { return 256.0 / (256.0 - threshold()); }
};

// What a mask depends on besides the element: never on process, thread or layout.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;
};

// The mask bytes of elements [16 block, 16 block + 16): element i uses byte i % 4 (lowest first) of word (i %
// 16) / 4 and is dropped if that byte is below the threshold.
COMERA_HOST_DEVICE Philox4 dropout_bytes(const DropoutKey& key, std::uint32_t site, std::uint32_t block) {
  return philox({{block, site, key.step, key.micro_batch}}, key.seed);
}

// A number between 0 and 1 for each row of a site that draws instead of dropping.
COMERA_HOST_DEVICE double uniform_of_row(const DropoutKey& key, std::uint32_t site, std::int64_t row) {
  const Philox4 words = dropout_bytes(key, site, static_cast<std::uint32_t>(row));
  return (static_cast<double>(words.word[0]) + 0.5) * 0x1p-32;
}

COMERA_HOST_DEVICE bool dropout_keeps(const DropoutKey& key, const DropoutSpec& spec, std::uint64_t element) {
  const Philox4 bytes = dropout_bytes(key, spec.site, static_cast<std::uint32_t>(element / 16));
  const std::uint32_t lane = static_cast<std::uint32_t>(element % 16);
  return ((bytes.word[lane / 4] >> (8 * (lane % 4))) & 255u) >= spec.threshold();
}

}  // namespace comera
