#include "recipes/run/step_engine.h"

#include <algorithm>

namespace comera {

StepEngine::StepEngine(const EncoderConfig& config, const AdamWOptions& optimizer, const Backend& backend,
                       Allocator& allocator)
    : backend_(backend),
      allocator_(allocator),
      own_model_(std::make_unique<Model>(config, allocator, true)),
      model_(*own_model_),
      optimizer_(std::in_place, model_.parameters(), optimizer, allocator),
      stream_(allocator.stream()),
      inputs_(allocator, sizeof(StepInputs), MemoryKind::workspace),
      results_(allocator, sizeof(StepResults), MemoryKind::workspace) {
  send_first_values();
}

StepEngine::StepEngine(Model& model, const Backend& backend, Allocator& allocator)
    : backend_(backend),
      allocator_(allocator),
      model_(model),
      stream_(allocator.stream()),
      inputs_(allocator, sizeof(StepInputs), MemoryKind::workspace),
      results_(allocator, sizeof(StepResults), MemoryKind::workspace) {
  send_first_values();
}

void StepEngine::send_first_values() {
  send_inputs();
  clear_results();
}

void StepEngine::send_inputs() {
  allocator_.upload(inputs_.data(), &host_inputs_, sizeof host_inputs_, stream_);
}

void StepEngine::clear_results() {
  host_results_ = StepResults{};
  allocator_.upload(results_.data(), &host_results_, sizeof host_results_, stream_);
}

const StepResults& StepEngine::results() {
  allocator_.download(&host_results_, results_.data(), sizeof host_results_, stream_);
  allocator_.synchronize(stream_);
  return host_results_;
}

Step StepEngine::step(const Context& context, const PackedBatch& batch, bool training) const {
  return {context,
          model_.parameters(),
          batch,
          inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
          results_.tensor({sizeof(StepResults)}, DType::uint8),
          training};
}

void StepEngine::set_capacity(const PackCapacity& capacity) {
  Arena measuring = Arena::measuring(allocator_.device());
  {
    const Context dry{backend_, measuring, stream_};
    const PackedBatch batch = PackedBatch::measuring(capacity, allocator_.device());
    model_.run_pack(step(dry, batch, false), false);
    if (optimizer_) {
      model_.run_pack(step(dry, batch, true), true);
      optimizer_->apply(dry, inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
                        results_.tensor({sizeof(StepResults)}, DType::uint8));
    }
  }
  context_.reset();
  arena_.reset();
  batch_ = PackedBatch();
  batch_ = PackedBatch(allocator_, capacity);
  arena_.emplace(allocator_, measuring.peak());
  context_.emplace(Context{backend_, *arena_, stream_});
  evaluate_ = Graph(allocator_, stream_, [this] { model_.run_pack(step(*context_, batch_, false), false); });
  if (!optimizer_) return;
  micro_ = Graph(allocator_, stream_, [this] { model_.run_pack(step(*context_, batch_, true), true); });
  apply_ = Graph(allocator_, stream_, [this] {
    optimizer_->apply(*context_, inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
                      results_.tensor({sizeof(StepResults)}, DType::uint8));
  });
}

void StepEngine::load(const data::Batch& batch) { upload_batch(batch, batch_, allocator_, stream_); }

void StepEngine::micro(const DropoutKey& key) {
  host_inputs_.dropout = key;
  send_inputs();
  micro_.launch();
}

void StepEngine::apply(std::int64_t update, double targets, const double* learning_rates, double max_norm) {
  std::copy_n(learning_rates, parameter_roles, host_inputs_.learning_rate);
  host_inputs_.targets = targets;
  host_inputs_.max_norm = max_norm;
  optimizer_->prepare(host_inputs_, update);
  send_inputs();
  apply_.launch();
}

void StepEngine::evaluate() { evaluate_.launch(); }

}  // namespace comera
