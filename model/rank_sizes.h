#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

// Sizes of a model's tensor trains by their ranks, on the host. A layer one of whose ranks is 0 is removed;
// LayerRanks lists every tensor train of the model.
namespace comera {

// The tensor trains of a model that need not be there.
struct ModelTensorTrains {
  struct Train {
    std::string name;
    // Of its cores; row and column mode of an embedding's multiplied.
    std::vector<std::int64_t> modes = {};
    std::vector<std::int64_t> ranks = {};
    std::int64_t dense = 0;  // elements of its matrix
    bool stays = false;      // it cannot be removed
  };

  ModelTensorTrains() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an encoder's configuration says all of it
  ModelTensorTrains(const EncoderConfig& config);

  std::vector<Train> trains;  // in forward order
  // A model without any way from its input to its output is no result. Of each way: the layers that it
  // needs; those that are no trains always pass.
  std::vector<std::vector<std::string>> ways;
};

// As the configuration says it.
LayerRanks ranks_of(const ModelTensorTrains& model);

// S: elements of all cores with these ranks.
std::int64_t tensorized_size(const ModelTensorTrains& model, const LayerRanks& ranks);
// The same of the matrices that the tensor trains stand for.
std::int64_t dense_size(const ModelTensorTrains& model);

// Whether there is a way through the model. In an encoder: whether tokens still see one another, through the
// values and the output of some block's attention; a head that looks at the mean of all tokens sees all of
// them anyway.
bool is_connected(const ModelTensorTrains& model, const LayerRanks& ranks);
// The tensor trains on the first such way: with them kept, the model stays connected.
std::vector<std::string> connecting_layers(const ModelTensorTrains& model, const LayerRanks& ranks);
// The least S with which it is: rank 1 in what stays, and the cheapest way.
std::int64_t least_size(const ModelTensorTrains& model, const LayerRanks& ranks);

// In forward order.
std::vector<std::string> removed_layers(const ModelTensorTrains& model, const LayerRanks& ranks);

}  // namespace comera
