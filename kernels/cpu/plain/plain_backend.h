#pragma once

#include "kernels/ops/backend.h"

// The plain CPU backend: one loop per formula, float and double, on one thread. It is the oracle that quick
// kernels are tested against, so it is written to be read, not to be fast.
namespace comera {

const Backend& plain_backend();

namespace plain {

// All operations: the CPU's backend begins with them too.
void register_all(Backend& backend);
// Every file registers its own, for both types.
void register_products(Backend& backend);
void register_attention(Backend& backend);
void register_norms(Backend& backend);
void register_embedding(Backend& backend);
void register_ttm(Backend& backend);
void register_cross_entropy(Backend& backend);
void register_elementwise(Backend& backend);
void register_float8(Backend& backend);
void register_rotary(Backend& backend);
void register_sequence(Backend& backend);
void register_directions(Backend& backend);
void register_muon(Backend& backend);
void register_optimizer(Backend& backend);
void register_ranks(Backend& backend);

}  // namespace plain
}  // namespace comera
