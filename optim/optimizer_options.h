#pragma once

#include <cstdint>

namespace comera {

// muon: Muon for the matrices of linear layers, dense or cores of trains, AdamW for all the rest.
enum class OptimizerKind : std::uint8_t { adamw, muon };
const char* name_of(OptimizerKind kind);  // "adamw", "muon"

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;  // of Muon
  double weight_decay = 0.01;
  bool decay_cores = false;  // weight decay on tensor-train cores too; never on biases, norms and gates
};

}  // namespace comera
