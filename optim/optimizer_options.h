#pragma once

#include <cstdint>
#include <optional>

namespace comera {

// muon: Muon for the matrices of linear layers, dense or cores of tensor trains, and AdamW for all others.
// lamb: AdamW's directions, scaled for each matrix and core in proportion to its norm.
// galore: Adam in a subspace for the matrices of dense linear layers, and AdamW for all others.
enum class OptimizerKind : std::uint8_t { adamw, muon, lamb, galore };
const char* name_of(OptimizerKind kind);  // "adamw", "muon", "lamb", "galore"

// The side of a weight's gradient that GaLore projects, with the weight as outputs × inputs as in the paper.
// std: the shorter side, for a square matrix the inputs; reverse_std: the longer side, for a square matrix
// the outputs; right: the inputs; left: the outputs; full: both.
enum class GaloreProjection : std::uint8_t { std, reverse_std, right, left, full };
const char* name_of(GaloreProjection projection);

// Names as in the authors' program (Zhao et al., 2024).
struct GaloreOptions {
  std::int64_t rank = 128;             // of the subspace; at most a matrix's shorter side
  std::int64_t update_proj_gap = 200;  // number of updates with one subspace
  double scale = 0.25;                 // of an update, relative to those of all other parameters
  GaloreProjection proj_type = GaloreProjection::std;
  friend bool operator==(const GaloreOptions&, const GaloreOptions&) = default;
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;                    // for Muon
  std::optional<GaloreOptions> galore = {};  // if absent: the defaults above
  double weight_decay = 0.01;
  bool decay_cores = false;  // decay tensor-train cores too; biases, norms and gates never decay
  double average_decay = 0;  // of the average of all weights (optim/weight_average.h); 0: none
  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

}  // namespace comera
