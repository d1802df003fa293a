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
  std::string modes = {};                // "[12,8,8 | 8,8,12]"; of a dense layer empty, like all that follows
  std::vector<std::int64_t> sizes = {};  // indices that each core carries: s_k of a TT, m_k n_k of a TTM
  std::vector<std::int64_t> held = {};   // ranks that the file's cores have, live or dead
  // A rank of 0: the layer is removed; held's ranks are 0, too, if its cores are gone.
  std::vector<std::int64_t> live = {};

  bool tensorized() const { return !sizes.empty(); }
  bool removed() const;
  std::int64_t size() const;  // elements of the cores, counting live ranks only; of a dense layer the matrix
  // Elements of its cores with those ranks; 0 if a bond has none, for then nothing of the layer is kept.
  std::int64_t core_elements(const std::vector<std::int64_t>& ranks) const;
  // Its ranks among those; zeros if it is not listed, for then it has been removed.
  std::vector<std::int64_t> ranks_in(const LayerRanks& all) const;
};

// What a checkpoint's tensor trains were and are.
struct CheckpointRanks {
  std::string name;  // the file's
  std::int64_t step = 0;
  std::vector<ReportedLayer> layers;  // in forward order
  RankHistory history;                // without stages, of older checkpoints: the start is then what is held
  std::int64_t initial_size = 0;      // S_init
  std::int64_t parameters = 0;        // numbers in the file, without gates
  std::int64_t dense_baseline = 0;    // the same of the dense baseline

  std::int64_t size() const;             // S
  std::int64_t live_parameters() const;  // of the whole model after a compaction, without gates
  std::vector<std::string> removed() const;
};

// Reads the gates' numbers, and nothing of the rest but names and shapes. Throws Error if the tensors in the
// file are not those of its recipe.
CheckpointRanks checkpoint_ranks(const CheckpointReader& reader);

}  // namespace comera
