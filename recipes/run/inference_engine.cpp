#include "recipes/run/inference_engine.h"

#include "kernels/core/check.h"
#include "kernels/shared/step_values.h"

namespace comera {

InferenceEngine::InferenceEngine(const Model& model, Output output, const Backend& backend,
                                 Allocator& allocator)
    : model_(model),
      output_(output),
      backend_(backend),
      allocator_(allocator),
      stream_(allocator.stream()),
      inputs_(allocator, sizeof(StepInputs), MemoryKind::workspace),
      results_(allocator, sizeof(StepResults), MemoryKind::workspace) {
  const StepInputs inputs;
  const StepResults results;
  allocator_.upload(inputs_.data(), &inputs, sizeof inputs, stream_);
  allocator_.upload(results_.data(), &results, sizeof results, stream_);
  allocator_.synchronize(stream_);
}

std::int64_t InferenceEngine::width() const {
  return output_ == Output::predictions ? model_.config().sequence_outputs() : model_.config().hidden;
}

void InferenceEngine::forward(const Context& context, const PackedBatch& batch) const {
  const Step step{context,
                  model_.parameters(),
                  batch,
                  inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
                  results_.tensor({sizeof(StepResults)}, DType::uint8),
                  false};
  const Tensor values = outputs_.tensor({batch.capacity.sequences, width()}, model_.parameters().dtype());
  if (output_ == Output::predictions)
    model_.predict(step, values);
  else
    model_.embed(step, output_ == Output::mean ? Pooling::mean : Pooling::first, values);
}

void InferenceEngine::set_capacity(const PackCapacity& capacity) {
  const DType dtype = model_.parameters().dtype();
  outputs_ = Buffer();
  outputs_ = Buffer(allocator_, capacity.sequences * width() * static_cast<std::int64_t>(size_of(dtype)),
                    MemoryKind::workspace);
  Arena measuring = Arena::measuring(allocator_.device());
  forward(Context{backend_, measuring, stream_}, PackedBatch::measuring(capacity, allocator_.device()));
  context_.reset();
  arena_.reset();
  batch_ = PackedBatch();
  batch_ = PackedBatch(allocator_, capacity);
  arena_.emplace(allocator_, measuring.peak());
  context_.emplace(Context{backend_, *arena_, stream_});
  graph_ = Graph(allocator_, stream_, [this] { forward(*context_, batch_); });
}

bool InferenceEngine::run(std::unique_ptr<data::SampleSource> samples, const data::BatchCapacity& capacity,
                          const Visit& visit, const std::function<bool()>& stop) {
  set_capacity(pack_capacity(capacity));
  data::LoaderOptions options;
  options.capacity = capacity;
  options.masking.probability = 0;
  options.right_modulus = model_.token_embedding().right_rows();
  options.one_pass = true;
  data::Loader loader(std::move(samples), options);
  const Tensor values = outputs_.tensor({capacity.sequences, width()}, model_.parameters().dtype());
  std::vector<float> singles(values.elements());
  std::vector<double> doubles(values.elements());
  while (const data::Batch* batch = loader.try_next()) {
    if (stop && stop()) return false;
    upload_batch(*batch, batch_, allocator_, stream_);
    graph_.launch();
    if (values.dtype() == DType::float32) {
      allocator_.download(singles.data(), values.raw(), values.bytes(), stream_);
      allocator_.synchronize(stream_);
      std::copy(singles.begin(), singles.end(), doubles.begin());
    } else {
      allocator_.download(doubles.data(), values.raw(), values.bytes(), stream_);
      allocator_.synchronize(stream_);
    }
    for (std::int32_t s = 0; s < batch->examples; ++s)
      visit(batch->samples[s], std::span<const double>(doubles).subspan(s * width(), width()));
  }
  return true;
}

}  // namespace comera
