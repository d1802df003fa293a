#pragma once

#include "checkpoints/checkpoint_file.h"
#include "tensorized/linear/float8_state.h"

namespace comera {

// "/precision/<layer>/scale" and, of delayed scales, "/precision/<layer>/history" (slots, steps), oldest
// first.
void save_float8(CheckpointWriter& writer, const Float8State& state);
// As Float8State::restore(): a checkpoint of another precision has none, and all begins anew. Throws Error,
// naming the file, if a layer's are not what they should be.
void load_float8(const CheckpointReader& reader, Float8State& state);
// Copies what a checkpoint has of it: it does not depend on ranks.
void copy_float8(const CheckpointReader& from, CheckpointWriter& to);
inline constexpr std::string_view float8_at = "/precision/";

}  // namespace comera
