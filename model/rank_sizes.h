#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

// Sizes of a model's tensor trains by their ranks, on the host. A layer one of whose ranks is 0 is removed;
// LayerRanks lists every tensor train of the model.
namespace comera {

// As the configuration says it.
LayerRanks ranks_of(const EncoderConfig& config);

// S: elements of all cores with these ranks.
std::int64_t tensorized_size(const EncoderConfig& config, const LayerRanks& ranks);
// The same of the matrices that the tensor trains stand for.
std::int64_t dense_size(const EncoderConfig& config);

// Whether tokens still see one another: through the values and the output of some block's attention. A head
// that looks at the mean of all tokens sees all of them anyway.
bool sees_context(const EncoderConfig& config, const LayerRanks& ranks);
// The values and the output of the first block through which they do, as far as they are tensor trains: with
// them kept, tokens go on seeing one another. None if they do without any train.
std::vector<std::string> context_layers(const EncoderConfig& config, const LayerRanks& ranks);
// The least S with which they do: rank 1 in the embedding, the head, and the cheapest attention.
std::int64_t least_size(const EncoderConfig& config, const LayerRanks& ranks);

// In forward order.
std::vector<std::string> removed_layers(const EncoderConfig& config, const LayerRanks& ranks);

}  // namespace comera
