#include "model/dlrm/dlrm.h"

#include <fmt/format.h>

#include "kernels/core/check.h"
#include "kernels/ops/elementwise/clicks.h"
#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/elementwise/layout.h"
#include "tensorized/embedding/dense_embedding.h"
#include "tensorized/embedding/ttm_chain.h"
#include "tensorized/linear/in_type.h"

namespace comera {

namespace {
const DlrmConfig& validated(const DlrmConfig& config) {
  config.validate();
  return config;
}
}  // namespace

Dlrm::Dlrm(const DlrmConfig& config, Allocator& allocator, bool gradients) : config_(validated(config)) {
  bottom_ = make_layers(bottom_name, config.bottom, config.dense_features, false);
  for (std::size_t t = 0; t < config.tables.size(); ++t) {
    store_.begin_block();
    const DlrmConfig::Table& table = config.tables[t];
    if (table.train)
      tables_.push_back(make_embedding(store_, table_name(t), table.rows, config.width,
                                       config.deviation_of(table), table.train, config.lookup));
    else
      tables_.push_back(std::make_unique<DenseEmbedding>(
          store_, table_name(t), table.rows, config.width, config.deviation_of(table),
          DenseEmbedding::Training{.by_rows = config.sparse_updates, .own_rate = true}));
  }
  store_.begin_block();
  top_ = make_layers(top_name, config.top, config.features(), true);
  store_.allocate(allocator, config.compute, gradients);
  for (int block = 0; block < store_.blocks(); ++block) blocks_.push_back(store_.block_ranges(block));
}

Dlrm::Layers Dlrm::make_layers(std::string (*name)(std::size_t), const std::vector<DlrmConfig::Layer>& layers,
                               std::int64_t inputs, bool scores) {
  Layers made;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const DlrmConfig::Layer& layer = layers[i];
    made.push_back(make_linear(store_,
                               {.name = name(i),
                                .outputs = {""},
                                .input_size = inputs,
                                .output_size = layer.outputs,
                                .scores = scores && i + 1 == layers.size()},
                               layer.train ? std::vector{*layer.train} : std::vector<TTShape>{},
                               config_.plan));
    inputs = layer.outputs;
  }
  return made;
}

std::vector<RankedLayer> Dlrm::ranked_layers() const {
  std::vector<RankedLayer> list;
  const auto add = [&](const Layers& layers) {
    int before = -1;  // a layer's output is read only by the next one
    for (const auto& layer : layers) {
      const std::vector<RankedLayer> own = layer->ranked_layers();
      if (before >= 0 && !own.empty()) list[before].needs = static_cast<int>(list.size());
      before = own.empty() ? -1 : static_cast<int>(list.size());
      list.insert(list.end(), own.begin(), own.end());
    }
  };
  add(bottom_);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const TTMCores* train = tables_[t]->as_tensor_train();
    if (train != nullptr && !train->gates.empty())
      list.push_back(
          {.name = table_name(t), .cores = train->cores, .gates = train->gates, .keeps_one = true});
  }
  add(top_);
  return list;
}

std::vector<std::int64_t> Dlrm::right_rows() const {
  std::vector<std::int64_t> rows;
  for (const auto& table : tables_) rows.push_back(table->right_rows());
  return rows;
}

std::vector<Linear::Saved> Dlrm::run_layers(const Step& step, const Layers& layers, Tensor x, bool answers) {
  std::vector<Linear::Saved> saved;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool answer = answers && i + 1 == layers.size();
    saved.push_back(layers[i]->forward(
        step.context, x,
        {.activation = answer ? Activation::none : Activation::relu, .training = step.training}));
    x = saved.back().output();
  }
  return saved;
}

void Dlrm::run_layers_backward(const Step& step, const Layers& layers,
                               const std::vector<Linear::Saved>& saved, const Tensor& dy, const Tensor& dx) {
  ArenaScope scope(step.context.arena);
  Tensor gradient = dy;
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Tensor before = i == 0 ? dx : scope.tensor(saved[i].x.shape(), saved[i].x.dtype());
    layers[i]->backward(step.context, saved[i], {gradient}, before, false);
    gradient = before;
  }
}

// A bag's sum of rows is a segment of its ids' looked-up rows.
void Dlrm::pool(const Step& step, const ClickBatch& batch, std::size_t table, const Tensor& vectors) const {
  const Context& context = step.context;
  const ClickBatch::Table& ids = batch.tables[table];
  ArenaScope scope(context.arena);
  const Embedding::Rows found = tables_[table]->look_up(context, scope, ids.ids);
  const InMasterType sums(context, scope, vectors);
  run(context, SegmentSum{.dy = found.rows,
                          .order = found.index,
                          .offsets = ids.offsets,
                          .count = batch.example_count(),
                          .ids = {},
                          .out = sums.tensor()});
  sums.write_back();
  if (config_.pooling == BagPooling::mean) run(context, DivideBags{.x = vectors, .offsets = ids.offsets});
}

void Dlrm::pass_numbers(const Step& step, const ClickBatch& batch, Passed& passed) const {
  const Context& context = step.context;
  const DType compute = store_.compute();
  if (bottom_.empty()) {
    passed.first = context.arena.saved({batch.capacity.examples, config_.width}, compute);
    run(context, Fill{.x = passed.first, .value = 0});
    return;
  }
  Tensor dense_features = batch.dense_features;
  if (dense_features.dtype() != compute) {
    dense_features = context.arena.saved(batch.dense_features.shape(), compute);
    run(context, Cast{.x = batch.dense_features, .y = dense_features});
  }
  passed.bottom = run_layers(step, bottom_, dense_features, false);
  passed.first = passed.bottom.back().output();
}

Dlrm::Passed Dlrm::forward(const Step& step, const ClickBatch& batch) const {
  const Context& context = step.context;
  const DType compute = store_.compute();
  const std::int64_t examples = batch.capacity.examples, width = config_.width;
  const auto count = std::ssize(tables_);
  COMERA_CHECK(std::ssize(batch.tables) == count && batch.capacity.dense_features == config_.dense_features,
               "a batch has {} tables and {} dense features, the model {} and {}", batch.tables.size(),
               batch.capacity.dense_features, count, config_.dense_features);
  Passed passed;
  pass_numbers(step, batch, passed);
  passed.vectors = context.arena.saved({count, examples, width}, compute);
  for (std::int64_t t = 0; t < count; ++t)
    pool(step, batch, static_cast<std::size_t>(t),
         passed.vectors.slice(t * examples * width, {examples, width}));
  passed.features = context.arena.saved({examples, config_.features()}, compute);
  run(context, DotInteractionForward{.first = passed.first, .others = passed.vectors, .y = passed.features});
  passed.top = run_layers(step, top_, passed.features, true);
  return passed;
}

void Dlrm::backward(const Step& step, const ClickBatch& batch, const Passed& passed) const {
  const Context& context = step.context;
  ArenaScope scope(context.arena);
  const std::int64_t examples = batch.capacity.examples, width = config_.width;
  const Tensor dvectors = scope.tensor(passed.vectors.shape(), passed.vectors.dtype());
  const Tensor dbottom = scope.tensor({examples, width}, passed.vectors.dtype());
  {
    ArenaScope inner(context.arena);
    const Tensor dfeatures = inner.tensor(passed.features.shape(), passed.features.dtype());
    run_layers_backward(step, top_, passed.top, passed.answer(), dfeatures);
    gradients_are_ready(blocks_.back());
    run(context, DotInteractionBackward{.first = passed.first,
                                        .others = passed.vectors,
                                        .dy = dfeatures,
                                        .dfirst = dbottom,
                                        .dothers = dvectors});
  }
  for (std::size_t t = tables_.size(); t-- > 0;) {
    const Tensor dy = dvectors.slice(static_cast<std::int64_t>(t) * examples * width, {examples, width});
    if (config_.pooling == BagPooling::mean)
      run(context, DivideBags{.x = dy, .offsets = batch.tables[t].offsets});
    tables_[t]->backward(context, batch.tables[t].ids, dy);
    gradients_are_ready(blocks_[t + 1]);
  }
  if (bottom_.empty()) return;
  const Tensor dnumbers = scope.tensor(passed.bottom.front().x.shape(), passed.bottom.front().x.dtype());
  run_layers_backward(step, bottom_, passed.bottom, dbottom, dnumbers);
  gradients_are_ready(blocks_.front());
}

void Dlrm::run_micro_batch(const Step& step, const ClickBatch& batch, bool gradient,
                           const Tensor& logits) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  begin_pass(context, gradient);
  const Passed passed = forward(step, batch);
  if (!gradient && logits) run(context, Cast{.x = passed.answer(), .y = logits});
  run(context, BinaryCrossEntropy{.logits = passed.answer(),
                                  .labels = batch.labels,
                                  .count = batch.example_count(),
                                  .gradient = gradient,
                                  .results = step.results});
  if (gradient) backward(step, batch, passed);
  context.arena.release(mark);
}

}  // namespace comera
