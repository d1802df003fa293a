#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/checkpoint_ranks.h"
#include "reports/text/text_table.h"

// Shared by the report of one checkpoint's ranks and the comparison of two.
namespace comera {

// "encoder.3" for "encoder.3.ffn.up"; empty for layers outside blocks.
std::string block_of(const std::string& layer);

// Calls row(display name, layer) for every layer, and head(block, its layers) before those of a block, so
// that many blocks remain readable.
template <class Layer>
void for_each_in_blocks(const std::vector<Layer>& layers,
                        const std::function<void(const std::string&, const std::vector<Layer>&)>& head,
                        const std::function<void(const std::string&, const Layer&)>& row,
                        const std::function<std::string(const Layer&)>& name) {
  std::string block;
  for (const Layer& layer : layers) {
    const std::string own = block_of(name(layer));
    if (own != block && !own.empty()) {
      std::vector<Layer> members;
      for (const Layer& other : layers)
        if (block_of(name(other)) == own) members.push_back(other);
      head(own, members);
    }
    block = own;
    row(own.empty() ? name(layer) : "  " + name(layer).substr(own.size() + 1), layer);
  }
}

// The ranks, or "removed" if a bond has none.
std::string ranks_text(const std::vector<std::int64_t>& ranks);

double ratio(std::int64_t a, std::int64_t b);
// a / b; empty if b is 0.
std::string times(std::int64_t a, std::int64_t b);

struct TrainTotals {
  std::int64_t matrices = 0;    // of the tensorized layers
  std::int64_t tensorized = 0;  // how many there are
};
TrainTotals totals_of(const CheckpointRanks& state);

// "2 of 38: " and their names.
std::string removed_text(const CheckpointRanks& state);

}  // namespace comera
