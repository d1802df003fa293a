#pragma once

#include <cstdint>

namespace comera {

// How a TTM embedding looks rows up; all three give the same rows (docs/architecture.md compares their cost).
enum class LookupKind : std::uint8_t { naive, unique, halves };
// How a TT linear is evaluated; automatic asks the planner (tensorized/plan.h).
enum class PlanKind : std::uint8_t { automatic, halves, dense, modewise };

constexpr const char* name_of(LookupKind kind) {
  constexpr const char* names[] = {"naive", "unique", "halves"};
  return names[static_cast<int>(kind)];
}
constexpr const char* name_of(PlanKind kind) {
  constexpr const char* names[] = {"automatic", "halves", "dense", "modewise"};
  return names[static_cast<int>(kind)];
}

}  // namespace comera
