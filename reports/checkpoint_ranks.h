#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "checkpoints/rank_history.h"

namespace comera {

// A linear layer or the token embedding of a checkpoint's model.
struct ReportedLayer {
  std::string name;
  std::int64_t matrix = 0;               // elements of the dense matrix
  std::string modes = {};                // "[12,8,8 8,8,12]"; empty for a dense layer, as all that follows
  std::vector<std::int64_t> sizes = {};  // indices of each core: s_k of a TT, m_k n_k of a TTM
  std::vector<std::int64_t> held = {};   // ranks of the cores in the file, live or pruned
  // With a rank of 0, the layer is removed; if its cores are gone, held's ranks are 0, too.
  std::vector<std::int64_t> live = {};

  bool tensorized() const { return !sizes.empty(); }
  bool removed() const;
  std::int64_t size() const;  // elements of the cores with live ranks only; for a dense layer the matrix
  // Elements of its cores with these ranks; 0 if a bond has none, because then the layer is removed.
  std::int64_t core_elements(const std::vector<std::int64_t>& ranks) const;
  // Its ranks in the list; zeros if it is not listed, because then it has been removed.
  std::vector<std::int64_t> ranks_in(const LayerRanks& all) const;
};

// The initial and current ranks of a checkpoint's tensor trains.
struct CheckpointRanks {
  std::string name;  // the file's
  std::int64_t step = 0;
  std::vector<ReportedLayer> layers;  // in forward order
  RankHistory history;                // without stages in older checkpoints: the start is then what is held
  std::int64_t initial_size = 0;      // S_init
  std::int64_t parameters = 0;        // parameters in the file, without gates
  std::int64_t dense_baseline = 0;    // the same of the dense baseline

  std::int64_t size() const;             // S
  std::int64_t live_parameters() const;  // of the whole model after compaction, without gates
  std::vector<std::string> removed() const;
};

// Reads the gates' values, and otherwise only names and shapes. Throws Error if the tensors in the file do
// not match its recipe.
CheckpointRanks checkpoint_ranks(const CheckpointReader& reader);

}  // namespace comera
