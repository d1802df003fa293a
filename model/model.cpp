#include "model/model.h"

#include <algorithm>

#include "kernels/ops/lookups/replaced_tokens.h"
#include "tensorized/embedding/ttm_chain.h"

namespace comera {

namespace {
const EncoderConfig& validated(const EncoderConfig& config) {
  config.validate();
  return config;
}
}  // namespace

Model::Model(const EncoderConfig& config, Allocator& allocator, bool gradients)
    : network_(store_, validated(config), allocator) {
  if (config.head == HeadKind::replaced_tokens) {
    store_.begin_block();
    generator_ = std::make_unique<EncoderNetwork>(store_, config.generator_encoder(), allocator, &network_);
  }
  store_.allocate(allocator, config.compute, gradients);
  for (int block = 0; block < store_.blocks(); ++block) block_ranges_.push_back(store_.block_ranges(block));
  if (!config.float8) return;
  add_float8(*config.float8, allocator);
}

void Model::add_float8(const Float8Config& config, Allocator& allocator) {
  const std::vector<Linear*> linears = network_.layers();
  std::vector<std::string> names;
  for (const Linear* linear : linears) names.push_back(linear->spec().name);
  for (const auto& block : network_.blocks())
    if (block->attention().between_factors() != nullptr)
      for (const Linear* linear : {&block->attention().projections(), &block->attention().output()})
        names.push_back(linear->spec().name + ".between_halves");
  float8_ = std::make_unique<Float8State>(config, names, allocator);
  int next = 0;
  const auto layer = [&] { return Float8Layer{.state = float8_.get(), .index = next++}; };
  for (Linear* linear : linears) linear->use_float8(layer());
  for (const auto& block : network_.blocks())
    if (TTAttention* attention = block->attention().between_factors()) {
      const Float8Layer query = layer(), output = layer();
      attention->use_float8({query, output});
    }
}

void Model::run_micro_batch(const EncoderStep& step, bool gradient) const {
  begin_pass(step.context, gradient);
  EncoderNetwork::BlockReady ready;
  if (announces_gradients()) ready = [&](std::size_t block) { gradients_are_ready(block_ranges_[block]); };
  if (generator_ == nullptr) return network_.run_micro_batch(step, gradient, ready);
  Arena& arena = step.context.arena;
  const std::size_t mark = arena.mark();
  const auto integers = [&](std::int64_t count) { return arena.saved({count}, DType::int32); };
  const MicroBatchCapacity& capacity = step.batch.capacity;
  EncoderStep generating(step);
  generating.draws = {
      .site = dropout_site::draws, .step_inputs = step.inputs, .drawn = integers(capacity.masked)};
  generator_->run_micro_batch(generating, gradient, nullptr);
  if (gradient && ready) ready(block_ranges_.size() - 1);

  PackedBatch read = step.batch.view();
  const Tensor replaced = arena.saved({capacity.tokens}, DType::float32);
  read.token_ids = integers(capacity.tokens);
  run(step.context, ReplaceTokens{.token_ids = step.batch.token_ids,
                                  .positions = step.batch.masked_positions,
                                  .targets = step.batch.masked_targets,
                                  .drawn = generating.draws.drawn,
                                  .count = step.batch.masked_count(),
                                  .parameters = store_.dtype(),
                                  .y = read.token_ids,
                                  .replaced = replaced});
  read.unique_total = integers(1);
  for (Tensor* of_token : {&read.unique_index, &read.unique_order}) *of_token = integers(capacity.tokens);
  for (Tensor* of_id : {&read.unique_ids, &read.right_order}) *of_id = integers(capacity.unique_ids);
  read.unique_offsets = integers(capacity.unique_ids + 1);
  run(step.context, OrderIds{.ids = read.token_ids,
                             .count = read.token_count(),
                             .right_rows = token_embedding().right_rows(),
                             .parameters = store_.dtype(),
                             .unique_ids = read.unique_ids,
                             .unique_count = read.unique_total,
                             .unique_index = read.unique_index,
                             .unique_order = read.unique_order,
                             .unique_offsets = read.unique_offsets,
                             .right_order = read.right_order});
  EncoderStep detecting(step, read);
  detecting.replaced = replaced;
  network_.run_micro_batch(detecting, gradient, ready);
  arena.release(mark);
}

MergedEncoder Model::prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const {
  begin_pass(step.context, false);
  return network_.prepare(step, read);
}

EncoderStep Model::prepared(const EncoderStep& step, const std::optional<RowSubset>& read,
                            MergedEncoder& own) const {
  if (step.merged != nullptr) return step;
  own = prepare(step, read);
  return {step, step.batch, &own};
}

Tensor Model::encode(const EncoderStep& step, const std::optional<RowSubset>& read,
                     const InnerStates* states) const {
  MergedEncoder own;
  return network_.encode(prepared(step, read, own), read, states);
}

void Model::predict(const EncoderStep& step, const Tensor& y) const {
  network_.sequence_head();
  const std::size_t mark = step.context.arena.mark();
  MergedEncoder own;
  network_.predict(prepared(step, head().reads(step.batch), own), y);
  step.context.arena.release(mark);
}

void Model::logits(const EncoderStep& step, const Tensor& y) const {
  network_.tokenwise_head();
  const std::size_t mark = step.context.arena.mark();
  MergedEncoder own;
  network_.logits(prepared(step, head().reads(step.batch), own), y);
  step.context.arena.release(mark);
}

void Model::embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const {
  const std::size_t mark = step.context.arena.mark();
  MergedEncoder own;
  network_.embed(prepared(step, pooled_rows(step.batch, pooling), own), pooling, vectors);
  step.context.arena.release(mark);
}

void Model::visit_inputs(const EncoderStep& step, const Visit& visit) const {
  const std::size_t mark = step.context.arena.mark();
  MergedEncoder own;
  network_.visit_inputs(prepared(step, std::nullopt, own), visit);
  step.context.arena.release(mark);
}

void Model::consolidate(const Context& context) const {
  for (const Linear* linear : network_.layers()) linear->consolidate(context);
}

std::vector<const Linear*> Model::linears() const {
  const std::vector<Linear*> list = network_.layers();
  return {list.begin(), list.end()};
}

std::vector<std::pair<std::string, std::vector<double>>> Model::dense_matrices() const {
  std::vector<std::pair<std::string, std::vector<double>>> matrices;
  for (const Linear* linear : linears())
    for (int i = 0; i < linear->outputs(); ++i)
      matrices.emplace_back(linear->output_name(i) + ".weight", linear->matrix(i));
  return matrices;
}

namespace {

// The tensor trains of layers whose output only the next one reads.
void add_chain(std::vector<RankedLayer>& list, std::initializer_list<const Linear*> chain, bool keeps_one) {
  const std::size_t first = list.size();
  for (const Linear* linear : chain)
    for (RankedLayer& layer : linear->ranked_layers()) {
      layer.keeps_one = keeps_one;
      list.push_back(std::move(layer));
    }
  for (std::size_t i = first; i + 1 < list.size(); ++i)
    if (!list[i + 1].has_diagonal) list[i].needs = static_cast<int>(i) + 1;
}

}  // namespace

std::vector<RankedLayer> Model::ranked_layers() const {
  std::vector<RankedLayer> list;
  const TTMCores* table = token_embedding().as_tensor_train();
  if (table != nullptr && !table->gates.empty())
    list.push_back({.name = EncoderConfig::embedding_layer,
                    .cores = table->cores,
                    .gates = table->gates,
                    .keeps_one = true});
  for (const auto& block : network_.blocks()) {
    add_chain(list, {&block->attention().projections(), &block->attention().output()}, false);
    add_chain(list, {&block->ffn().up(), &block->ffn().down()}, false);
  }
  for (const Linear* linear : head().linears()) add_chain(list, {linear}, true);
  return list;
}

std::int64_t generator_parameters(const ParameterStore& store) {
  std::int64_t count = 0;
  for (ParameterId id = 0; id < store.size(); ++id)
    if (is_of_generator(store.info(id).name)) count += store.info(id).shape.elements();
  return count;
}

}  // namespace comera
