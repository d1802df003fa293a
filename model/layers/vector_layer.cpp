#include "model/layers/vector_layer.h"

#include "tensorized/linear/row_subset.h"

namespace comera {

namespace {

// The rows of the batch's sequences.
RowSubset sequences_of(const PackedBatch& batch) {
  return {.indices = batch.token_rows, .count = batch.sequence_count(), .most = batch.capacity.sequences};
}

}  // namespace

VectorLayer::VectorLayer(ParameterStore& store, const EncoderConfig& config)
    : linear_(make_linear(
          store,
          {.name = name, .outputs = {""}, .input_size = config.hidden, .output_size = config.vector_size},
          DenseForm{})),
      activation_(config.vector_tanh ? Activation::tanh : Activation::none) {}

VectorLayer::Saved VectorLayer::forward(const EncoderStep& step, const Tensor& x) const {
  Saved saved;
  saved.linear = linear_->forward(step.context, x, {.activation = activation_});
  const Tensor all = saved.linear.output();
  saved.y = step.context.arena.saved(all.shape(), all.dtype());
  gather(step.context, sequences_of(step.batch), all, saved.y);
  return saved;
}

void VectorLayer::backward(const EncoderStep& step, const Saved& saved, const Tensor& dy,
                           const Tensor& dx) const {
  ArenaScope scope(step.context.arena);
  const Tensor own = scope.tensor(dy.shape(), dy.dtype());
  gather(step.context, sequences_of(step.batch), dy, own);
  linear_->backward(step.context, saved.linear, {own}, dx, false);
}

}  // namespace comera
