#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

// Sizes of a model's tensor trains as a function of their ranks, on the host. A layer with a rank of 0 is
// removed; LayerRanks lists every tensor train of the model.
namespace comera {

// The tensor trains of a model, described without constructing it.
struct ModelTensorTrains {
  struct Train {
    std::string name;
    // Modes of its cores; for an embedding, row mode times column mode.
    std::vector<std::int64_t> modes = {};
    std::vector<std::int64_t> ranks = {};
    std::int64_t dense = 0;  // elements of the dense matrix
    bool stays = false;      // it cannot be removed
  };

  ModelTensorTrains() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an encoder's configuration contains all of it
  ModelTensorTrains(const EncoderConfig& config);

  std::vector<Train> trains;  // in forward order
  // Paths from the model's input to its output; a model must keep one. Each path lists the layers that it
  // needs; layers that are not tensor trains never block it.
  std::vector<std::vector<std::string>> ways;
};

// The ranks that the configuration gives.
LayerRanks ranks_of(const ModelTensorTrains& model);

// S: elements of all cores with these ranks.
std::int64_t tensorized_size(const ModelTensorTrains& model, const LayerRanks& ranks);
// The same for the dense matrices that the tensor trains replace.
std::int64_t dense_size(const ModelTensorTrains& model);

// Whether a path through the model exists. In an encoder: whether tokens still attend to one another, through
// the values and the output of some block's attention; a head that pools the mean of all tokens reads all of
// them anyway.
bool is_connected(const ModelTensorTrains& model, const LayerRanks& ranks);
// The tensor trains on the first such path: while they remain, the model stays connected.
std::vector<std::string> connecting_layers(const ModelTensorTrains& model, const LayerRanks& ranks);
// The least S of a connected model: rank 1 in the layers that stay, plus the cheapest path.
std::int64_t least_size(const ModelTensorTrains& model, const LayerRanks& ranks);

// The removed layers, in forward order.
std::vector<std::string> removed_layers(const ModelTensorTrains& model, const LayerRanks& ranks);

}  // namespace comera
