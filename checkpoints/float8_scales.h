#pragma once

#include "checkpoints/checkpoint_file.h"
#include "tensorized/linear/float8_state.h"

namespace comera {

// "/precision/<layer>/scale" and, with delayed scales, "/precision/<layer>/history" (slots, steps), oldest
// first.
void save_float8(CheckpointWriter& writer, const Float8State& state);
// Works like Float8State::restore(): a checkpoint of another precision has no scales, and all of them
// restart. Throws Error, naming the file, if a layer's scales are invalid.
void load_float8(const CheckpointReader& reader, Float8State& state);
// Copies a checkpoint's scales, which do not depend on ranks.
void copy_float8(const CheckpointReader& from, CheckpointWriter& to);
inline constexpr std::string_view float8_at = "/precision/";

}  // namespace comera
