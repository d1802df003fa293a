#pragma once

#include <cstdint>
#include <string>

namespace comera {

// 1,485,795
inline std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(digits.begin() + at, ',');
  return digits;
}

}  // namespace comera
