#pragma once

#include <cstdint>
#include <optional>

namespace comera {

// muon: Muon for the matrices of linear layers, dense or cores of trains, AdamW for all the rest.
// lamb: AdamW's directions, each matrix and core moving by a share of its own norm.
// galore: Adam in a subspace for the matrices of dense linear layers, AdamW for all the rest.
enum class OptimizerKind : std::uint8_t { adamw, muon, lamb, galore };
const char* name_of(OptimizerKind kind);  // "adamw", "muon", "lamb", "galore"

// Which side of a weight's gradient GaLore projects; sides are those of the weight as outputs × inputs, as
// its authors have it. std: the shorter side, of a square one that of the inputs; reverse_std: the longer, of
// a square one that of the outputs; right: that of the inputs; left: that of the outputs; full: both.
enum class GaloreProjection : std::uint8_t { std, reverse_std, right, left, full };
const char* name_of(GaloreProjection projection);

// By the names of the authors' program (Zhao et al., 2024).
struct GaloreOptions {
  std::int64_t rank = 128;             // of the subspace; no more than a matrix's shorter side is used
  std::int64_t update_proj_gap = 200;  // so many updates have one subspace
  double scale = 0.25;                 // of an update, against those of all other parameters
  GaloreProjection proj_type = GaloreProjection::std;
  friend bool operator==(const GaloreOptions&, const GaloreOptions&) = default;
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;                    // of Muon
  std::optional<GaloreOptions> galore = {};  // not given: as above
  double weight_decay = 0.01;
  bool decay_cores = false;  // weight decay on tensor-train cores too; never on biases, norms and gates
  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

}  // namespace comera
