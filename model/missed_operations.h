#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera {

// A fused operation that a layer of an encoder does not use.
struct MissedOperation {
  std::string operation;
  std::int64_t layer = 0;
  std::string reason;  // a part of a sentence
};

}  // namespace comera
