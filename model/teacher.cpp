#include "model/teacher.h"

namespace comera {

Teacher::Teacher(const Model& model, Pooling pooling, const DistillationConfig& learned,
                 const Processor& processor, std::int64_t layers)
    : model_(model),
      pooling_(pooling),
      learned_(learned),
      layers_(layers),
      processor_(processor),
      stream_(processor.allocator.stream()),
      forward_(processor) {}

EncoderStep Teacher::step_of(const Context& context, const PackedBatch& batch,
                             const MergedEncoder* merged) const {
  return EncoderStep(forward_.of(context, model_.parameters()), batch, merged);
}

std::optional<RowSubset> Teacher::rows_for_vectors(const PackedBatch& batch) const {
  return learned_.hidden > 0 || learned_.relations > 0 ? std::nullopt : pooled_rows(batch, pooling_);
}

void Teacher::prepare(const MicroBatchCapacity& capacity) {
  const PackedBatch batch = PackedBatch::measuring(capacity, processor_.allocator.device());
  const auto merge = [&](Arena& arena) {
    const Context context{processor_.backend, arena, stream_};
    const EncoderStep step = step_of(context, batch, nullptr);
    if (learned_.of_encoder()) for_encoder_ = model_.prepare(step, rows_for_vectors(batch));
    if (learned_.logits > 0) for_logits_ = model_.prepare(step, model_.head().reads(batch));
  };
  Arena measuring = Arena::measuring(processor_.allocator.device());
  merge(measuring);
  arena_.reset();
  arena_.emplace(processor_.allocator, measuring.peak());
  merge(*arena_);
  prepared_for_ = capacity;
  processor_.allocator.synchronize(stream_);
}

TeacherAnswers Teacher::answer(const Context& context, const PackedBatch& batch) const {
  Arena& arena = context.arena;
  const EncoderConfig& config = model_.config();
  const DType activations = model_.parameters().compute(), master = model_.parameters().dtype();
  const std::int64_t sequences = batch.capacity.sequences;
  const bool prepared = arena_ && batch.capacity == prepared_for_;
  TeacherAnswers answers;
  if (learned_.of_encoder()) {
    const EncoderStep step = step_of(context, batch, prepared ? &for_encoder_ : nullptr);
    answers.vectors = arena.saved({sequences, config.vector_width()}, activations);
    if (learned_.hidden > 0 || learned_.relations > 0) {
      const auto rows = [&] { return arena.saved({batch.capacity.tokens, config.hidden}, activations); };
      InnerStates states;
      if (learned_.relations > 0)
        for (Tensor& part : states.qkv) part = rows();
      if (learned_.all_layers && learned_.hidden > 0) {
        states.layers.resize(static_cast<std::size_t>(config.layers));
        for (std::int64_t k = 1; k < layers_; ++k) {
          answers.layers.push_back(rows());
          states.layers[k * config.layers / layers_ - 1] = answers.layers.back();
        }
      }
      answers.hidden = model_.encode(step, {}, &states);
      answers.relations = states.qkv;
      model_.pool(step, answers.hidden, pooling_, answers.vectors);
    } else {
      model_.embed(step, pooling_, answers.vectors);
    }
  }
  if (learned_.logits > 0) {
    const EncoderStep step = step_of(context, batch, prepared ? &for_logits_ : nullptr);
    const bool of_tokens = reads_tokens(config.head);
    const Shape shape = of_tokens ? Shape{batch.capacity.masked, config.token_outputs()}
                                  : Shape{sequences, config.sequence_outputs()};
    answers.logits = arena.saved(shape, master);
    if (of_tokens)
      model_.logits(step, answers.logits);
    else
      model_.predict(step, answers.logits);
  }
  return answers;
}

}  // namespace comera
