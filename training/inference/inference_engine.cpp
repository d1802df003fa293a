#include "training/inference/inference_engine.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/check.h"
#include "kernels/shared/step_values.h"

namespace comera {

InferenceEngine::InferenceEngine(const Model& model, Output output, const Processor& processor)
    : model_(model),
      output_(output),
      processor_(processor),
      stream_(processor.allocator.stream()),
      forward_(processor) {}

std::int64_t InferenceEngine::width() const {
  if (output_ == Output::logits) return model_.config().token_outputs();
  return output_ == Output::predictions ? model_.config().sequence_outputs() : model_.config().vector_width();
}

// The output of a forward pass, in outputs_.
Tensor InferenceEngine::values(const MicroBatchCapacity& capacity) const {
  const ParameterStore& store = model_.parameters();
  return outputs_.tensor({output_ == Output::logits ? capacity.masked : capacity.sequences, width()},
                         by_head() ? store.dtype() : store.compute());
}

EncoderStep InferenceEngine::step(const Context& context, const PackedBatch& batch,
                                  const MergedEncoder* merged) const {
  return EncoderStep(forward_.of(context, model_.parameters()), batch, merged);
}

void InferenceEngine::prepare(const Context& context, const PackedBatch& batch) {
  merged_ = model_.prepare(
      step(context, batch, nullptr),
      by_head() ? model_.head().reads(batch)
                : pooled_rows(batch, output_ == Output::mean ? Pooling::mean : Pooling::first));
}

void InferenceEngine::forward(const Context& context, const PackedBatch& batch) const {
  const EncoderStep step = this->step(context, batch, &merged_);
  const Tensor to = values(batch.capacity);
  if (output_ == Output::logits)
    model_.logits(step, to);
  else if (output_ == Output::predictions)
    model_.predict(step, to);
  else
    model_.embed(step, output_ == Output::mean ? Pooling::mean : Pooling::first, to);
}

void InferenceEngine::set_capacity(const MicroBatchCapacity& capacity) {
  const bool of_masked = output_ == Output::logits;
  const ParameterStore& store = model_.parameters();
  const auto number = static_cast<std::int64_t>(size_of(by_head() ? store.dtype() : store.compute()));
  Allocator& allocator = processor_.allocator;
  outputs_ = Buffer();
  outputs_ = Buffer(allocator, (of_masked ? capacity.masked : capacity.sequences) * width() * number,
                    MemoryKind::workspace);
  Arena measuring = Arena::measuring(allocator.device());
  {
    const Context context{processor_.backend, measuring, stream_};
    const PackedBatch batch = PackedBatch::measuring(capacity, allocator.device());
    prepare(context, batch);
    forward(context, batch);
  }
  context_.reset();
  arena_.reset();
  feed_.reset();
  batch_ = PackedBatch();
  batch_ = PackedBatch(allocator, capacity);
  feed_ = allocator.feed(batch_.block(), batch_.block_bytes());
  arena_.emplace(allocator, measuring.peak());
  context_.emplace(Context{processor_.backend, *arena_, stream_});
  prepare(*context_, batch_);
  graph_ = Graph(
      allocator, stream_, [this] { forward(*context_, batch_); }, processor_.graphs);
}

// A model cannot read beyond its positions.
void InferenceEngine::require_positions(const data::SampleSource& samples) const {
  const EncoderConfig& config = model_.config();
  if (config.positions == Positions::relative) return;
  std::int64_t longest = 0;
  for (const std::int32_t length : samples.lengths()) longest = std::max<std::int64_t>(longest, length);
  if (longest > config.max_positions * samples.sequences_per_sample())
    throw UsageError(fmt::format("a sequence has {} tokens, and the model {} positions; shorten it", longest,
                                 config.max_positions));
}

namespace {

// With room for as many sequences of these samples as fill the tokens: every row is computed, used or not.
MicroBatchCapacity filled_by(const data::SampleSource& samples, MicroBatchCapacity capacity) {
  constexpr double margin = 1.1;  // since a micro-batch may have shorter ones
  double tokens = 0;
  const std::vector<std::int32_t> lengths = samples.lengths();
  for (const std::int32_t length : lengths) tokens += length;
  const double sequences = static_cast<double>(std::ssize(lengths) * samples.sequences_per_sample());
  if (tokens == 0) return capacity;
  const double wanted = margin * static_cast<double>(capacity.tokens) * sequences / tokens;
  capacity.sequences = std::max(
      capacity.sequences, static_cast<std::int64_t>(std::min(wanted, static_cast<double>(capacity.tokens))));
  return capacity;
}

}  // namespace

bool InferenceEngine::run(std::unique_ptr<data::SampleSource> samples, const MicroBatchCapacity& given,
                          const Visit& visit, const std::function<bool()>& stop,
                          const MicroBatchShare& share) {
  require_positions(*samples);
  const MicroBatchCapacity capacity = filled_by(*samples, given);
  set_capacity(capacity);
  data::LoaderOptions options;
  options.capacity = capacity;
  options.masking.probability = 0;
  options.right_modulus = model_.token_embedding().right_rows();
  options.one_pass = true;
  options.micro_batches_per_step = options.world_size = share.world_size;
  options.process = share.process;
  data::Loader loader(std::move(samples), options);
  const Tensor values = this->values(batch_.capacity);
  while (const data::Batch* batch = loader.try_next()) {
    if (stop && stop()) return false;
    batch_.check(batch->block());
    std::memcpy(feed_->next(), batch->block().data(), batch->block().size());
    feed_->send();
    graph_.launch();
    std::vector<double> numbers = read_tensor(values, processor_.allocator);
    if (output_ == Output::predictions && model_.config().head == HeadKind::regression)
      for (double& number : numbers) number = model_.config().score_of(number);
    std::int64_t row = 0;
    // The end of an example's rows.
    const auto end = [&](std::int32_t example) -> std::int64_t {
      if (output_ != Output::logits) return example + 1;
      const auto& positions = batch->masked_positions;
      return std::lower_bound(positions.begin(), positions.begin() + batch->masked,
                              batch->sequence_offsets[example + 1]) -
             positions.begin();
    };
    for (std::int32_t s = 0; s < batch->examples; ++s)
      for (; row < end(s); ++row)
        visit(batch->samples[s], std::span<const double>(numbers).subspan(row * width(), width()));
  }
  return true;
}

}  // namespace comera
