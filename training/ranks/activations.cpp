#include "training/ranks/activations.h"

#include <algorithm>
#include <cstring>

#include "data/batching/loader.h"
#include "kernels/ops/processor.h"
#include "model/forward_step.h"
#include "tensorized/decomposition/input_moments.h"
#include "training/inference/trained_model.h"

namespace comera {

namespace {

constexpr std::int64_t least_tokens = 16384, tokens_for_each_input = 4, tokens_at_once = 2048;

class Observer {
 public:
  explicit Observer(const Model& model, const Processor& processor)
      : model_(model), processor_(processor), stream_(processor.allocator.stream()), forward_(processor) {
    for (const Linear* layer : model.linears()) widest_ = std::max(widest_, layer->spec().input_size);
    activations_.times.resize(model.config().vocabulary);
  }

  Activations run(data::Loader& loader, const MicroBatchCapacity& capacity) {
    Arena measuring = Arena::measuring(processor_.allocator.device());
    const PackedBatch none = PackedBatch::measuring(capacity, processor_.allocator.device());
    visit(measuring, none, [](const Linear&, const Tensor&, const Tensor&) {});
    Arena arena(processor_.allocator, measuring.peak());
    const PackedBatch batch(processor_.allocator, capacity);
    const std::int64_t enough = std::max(least_tokens, tokens_for_each_input * widest_);
    while (const data::Batch* next = activations_.tokens < enough ? loader.try_next() : nullptr) {
      batch.check(next->block());
      std::memcpy(batch.block(), next->block().data(), next->block().size());
      visit(arena, batch, [&](const Linear& layer, const Tensor& input, const Tensor& scales) {
        add(layer, input, scales, next->tokens);
      });
      for (std::int32_t t = 0; t < next->tokens; ++t) activations_.times[next->token_ids[t]] += 1;
      activations_.tokens += next->tokens;
    }
    if (activations_.tokens == 0)
      throw UsageError("there are no texts to measure activations on; give others");
    activations_.enough = enough;
    while (
        !moments_.empty()) {  // one by one: both kinds of matrices are as large as the widest inputs squared
      const auto next = moments_.begin();
      const auto inputs = std::make_shared<Activations::Inputs>();
      *inputs = {next->second.mean(), next->second.root()};
      for (int i = 0; i < next->first->outputs(); ++i)
        activations_.layers[next->first->output_name(i)] = inputs;
      moments_.erase(next);
    }
    return std::move(activations_);
  }

 private:
  void visit(Arena& arena, const PackedBatch& batch, const Model::Visit& visit) const {
    const Context context{processor_.backend, arena, stream_};
    model_.visit_inputs(EncoderStep(forward_.of(context, model_.parameters()), batch), visit);
  }

  void add(const Linear& layer, const Tensor& input, const Tensor& scales, std::int64_t tokens) {
    const std::int64_t width = layer.spec().input_size;
    const std::vector<double> rows = read_tensor(input.slice(0, {tokens, width}));
    std::vector<double> of_rows(tokens, 1.0);
    if (scales) of_rows = read_tensor(scales.slice(0, {tokens}));
    moments_.try_emplace(&layer, width).first->second.add(rows, of_rows);
  }

  const Model& model_;
  Processor processor_;
  Stream stream_;
  ForwardStep forward_;
  std::int64_t widest_ = 0;
  std::map<const Linear*, InputMoments> moments_;
  Activations activations_;
};

}  // namespace

Activations measure_activations(const std::filesystem::path& checkpoint,
                                std::unique_ptr<data::SampleSource> texts, std::int64_t length) {
  const LoadedModel dense(checkpoint, {}, {"precision.compute=fp32"}, "cpu", length);
  data::LoaderOptions options;
  options.capacity =
      data::capacity_for(std::max(tokens_at_once, 2 * length), length, 0, dense.model.config().vocabulary);
  options.masking.probability = 0;
  options.one_pass = options.permuted = true;
  options.right_modulus = dense.model.token_embedding().right_rows();
  data::Loader loader(std::move(texts), options);
  return Observer(dense.model, dense.processor).run(loader, options.capacity);
}

}  // namespace comera
