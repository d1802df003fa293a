#pragma once

#include <cstdint>

namespace comera {

// How a TTM embedding looks up rows; all three give the same rows (docs/developer/architecture.md compares
// their cost).
enum class LookupKind : std::uint8_t { naive, unique, factors };
// How a TT linear is evaluated; automatic asks the planner (tensorized/plan.h).
enum class PlanKind : std::uint8_t { automatic, factors, dense, modewise };

// How a tied TTM decoder computes its logits: through the left and right factors, without ever forming the
// table, or by rebuilding the table for a pass. automatic takes the one with less work.
enum class DecoderKind : std::uint8_t { automatic, structured, rebuild };

constexpr const char* name_of(LookupKind kind) {
  constexpr const char* names[] = {"naive", "unique", "factors"};
  return names[static_cast<int>(kind)];
}
constexpr const char* name_of(PlanKind kind) {
  constexpr const char* names[] = {"automatic", "factors", "dense", "modewise"};
  return names[static_cast<int>(kind)];
}

}  // namespace comera
