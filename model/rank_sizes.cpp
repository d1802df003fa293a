#include "model/rank_sizes.h"

#include <algorithm>
#include <limits>

#include "kernels/core/check.h"

namespace comera {

namespace {

using Train = ModelTensorTrains::Train;

std::vector<Train> trains_of(const EncoderConfig& config) {
  std::vector<Train> trains;
  if (const auto shape = config.tensorized.embedding_shape()) {
    Train train{.name = EncoderConfig::embedding_layer,
                .ranks = shape->ranks,
                .dense = config.vocabulary * config.token_columns(),
                .stays = true};
    for (int k = 0; k < shape->order(); ++k)
      train.modes.push_back(shape->row_modes[k] * shape->column_modes[k]);
    if (!train.ranks.empty()) trains.push_back(std::move(train));  // one core has no ranks
  }
  for (const EncoderConfig::LinearLayer& layer : config.linear_layers()) {
    if (!layer.shape) continue;
    Train train{.name = layer.name,
                .ranks = layer.shape->ranks,
                .dense = layer.inputs * layer.outputs,
                .stays = layer.name.starts_with("head.")};
    for (int k = 0; k < layer.shape->order(); ++k) train.modes.push_back(layer.shape->mode(k));
    trains.push_back(std::move(train));
  }
  return trains;
}

bool is_removed(const std::vector<std::int64_t>& ranks) { return std::ranges::find(ranks, 0) != ranks.end(); }

const std::vector<std::int64_t>& ranks_in(const LayerRanks& ranks, const std::string& layer) {
  const auto found = ranks.find(layer);
  COMERA_CHECK(found != ranks.end(), "the ranks of {} are not known", layer);
  return found->second;
}

std::int64_t size_of(const Train& train, const std::vector<std::int64_t>& ranks) {
  COMERA_CHECK(ranks.size() + 1 == train.modes.size(), "{} has {} cores, but {} ranks are given", train.name,
               train.modes.size(), ranks.size());
  if (is_removed(ranks)) return 0;
  std::int64_t size = 0, left = 1;
  for (std::size_t k = 0; k < train.modes.size(); ++k) {
    const std::int64_t right = k < ranks.size() ? ranks[k] : 1;
    size += left * train.modes[k] * right;
    left = right;
  }
  return size;
}

// The layers that each block's attention needs to pass anything from one token to another; nothing if the
// head reads all of them.
std::vector<std::vector<std::string>> ways_of(const EncoderConfig& config) {
  if (!reads_tokens(config.head) && config.head != HeadKind::replaced_tokens &&
      config.pooling == Pooling::mean)
    return {{}};
  if (config.tensorized.attention && config.tensorized.attention->diagonal) return {{}};
  std::vector<std::vector<std::string>> all;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string attention = fmt::format("encoder.{}.attention.", i);
    all.push_back({attention + "value", attention + "output"});
  }
  return all;
}

// A dense layer is in no list of ranks and never blocks a path.
bool passes(const std::vector<std::string>& way, const LayerRanks& ranks) {
  return std::ranges::none_of(way, [&](const std::string& layer) {
    const auto found = ranks.find(layer);
    return found != ranks.end() && is_removed(found->second);
  });
}

}  // namespace

ModelTensorTrains::ModelTensorTrains(const EncoderConfig& config)
    : trains(trains_of(config)), ways(ways_of(config)) {}

LayerRanks ranks_of(const ModelTensorTrains& model) {
  LayerRanks ranks;
  for (const Train& train : model.trains) ranks[train.name] = train.ranks;
  return ranks;
}

std::int64_t tensorized_size(const ModelTensorTrains& model, const LayerRanks& ranks) {
  std::int64_t size = 0;
  for (const Train& train : model.trains) size += size_of(train, ranks_in(ranks, train.name));
  return size;
}

std::int64_t dense_size(const ModelTensorTrains& model) {
  std::int64_t size = 0;
  for (const Train& train : model.trains) size += train.dense;
  return size;
}

bool is_connected(const ModelTensorTrains& model, const LayerRanks& ranks) {
  return std::ranges::any_of(model.ways, [&](const auto& way) { return passes(way, ranks); });
}

std::vector<std::string> connecting_layers(const ModelTensorTrains& model, const LayerRanks& ranks) {
  for (auto way : model.ways) {
    if (!passes(way, ranks)) continue;
    std::erase_if(way, [&](const std::string& layer) { return !ranks.contains(layer); });
    return way;
  }
  return {};
}

std::int64_t least_size(const ModelTensorTrains& model, const LayerRanks& ranks) {
  std::int64_t size = 0;
  std::map<std::string, std::int64_t> smallest;  // of the removable layers
  for (const Train& train : model.trains) {
    const std::int64_t own = size_of(train, std::vector<std::int64_t>(train.ranks.size(), 1));
    if (train.stays)
      size += own;
    else
      smallest[train.name] = own;
  }
  std::int64_t cheapest = std::numeric_limits<std::int64_t>::max();
  for (const auto& way : model.ways) {
    if (!passes(way, ranks)) continue;
    std::int64_t cost = 0;
    for (const std::string& layer : way)
      if (const auto found = smallest.find(layer); found != smallest.end()) cost += found->second;
    cheapest = std::min(cheapest, cost);
  }
  return cheapest == std::numeric_limits<std::int64_t>::max() ? size : size + cheapest;
}

std::vector<std::string> removed_layers(const ModelTensorTrains& model, const LayerRanks& ranks) {
  std::vector<std::string> removed;
  for (const Train& train : model.trains)
    if (is_removed(ranks_in(ranks, train.name))) removed.push_back(train.name);
  return removed;
}

}  // namespace comera
