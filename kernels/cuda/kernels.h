#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/ops/backend.h"

// Each file of kernels registers its own. tf32: see backend() in cuda_backend.h.
namespace comera::COMERA_CUDA {

void register_attention_backward(Backend& backend, bool tf32);
void register_attention_forward(Backend& backend, bool tf32);
void register_cross_entropy(Backend& backend);
void register_directions(Backend& backend);
void register_elementwise(Backend& backend);
void register_float8(Backend& backend);
void register_muon(Backend& backend);
void register_norms(Backend& backend);
void register_optimizer(Backend& backend);
void register_ranks(Backend& backend);
void register_products(Backend& backend, bool tf32);
void register_rows(Backend& backend);
void register_ttm(Backend& backend);
void register_ttm_chain(Backend& backend);

}  // namespace comera::COMERA_CUDA
