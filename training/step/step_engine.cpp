#include "training/step/step_engine.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "kernels/core/check.h"
#include "model/step.h"

namespace comera {

StepEngine::StepEngine(Trainable& model, const OptimizerOptions& optimizer, const Processor& processor)
    : StepEngine(model, processor) {
  optimizer_ = make_optimizer(model_.parameters(), optimizer, processor.allocator);
  if (const std::vector<RankedLayer> layers = model_.ranked_layers(); !layers.empty())
    importance_.emplace(model_.parameters(), layers);
  if (optimizer.average_decay > 0) average_.emplace(model_.parameters(), optimizer.average_decay);
}

StepEngine::StepEngine(Trainable& model, const Processor& processor)
    : processor_(processor),
      model_(model),
      stream_(allocator().stream()),
      inputs_(allocator(), sizeof(StepInputs), MemoryKind::workspace),
      results_(allocator(), sizeof(StepResults), MemoryKind::workspace),
      inputs_feed_(allocator().feed(inputs_.data(), inputs_.bytes())),
      results_feed_(allocator().feed(results_.data(), results_.bytes())) {
  host_inputs_.dropout = evaluation_key(0);
  send_inputs();
  clear_results();
}

StepEngine::~StepEngine() {
  if (communicator_ != nullptr) model_.on_gradients_ready({});
}

void StepEngine::send_inputs() {
  std::memcpy(inputs_feed_->next(), &host_inputs_, sizeof host_inputs_);
  inputs_feed_->send();
}

void StepEngine::clear_results() {
  host_results_ = StepResults{};
  fetched_ = true;
  std::memcpy(results_feed_->next(), &host_results_, sizeof host_results_);
  results_feed_->send();
}

const StepResults& StepEngine::results() {
  if (fetched_) return host_results_;
  // First, because copying to host memory waits for the stream without watching the other processes.
  if (communicator_ != nullptr) communicator_->wait(stream_);
  allocator().download(&host_results_, results_.data(), sizeof host_results_, stream_);
  allocator().synchronize(stream_);
  fetched_ = true;
  return host_results_;
}

Step StepEngine::step(const Context& context, bool training) const {
  return {.context = context,
          .store = model_.parameters(),
          .inputs = inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
          .results = results_.tensor({sizeof(StepResults)}, DType::uint8),
          .training = training};
}

Graph StepEngine::graph(std::function<void()> body) const {
  return {allocator(), stream_, std::move(body), processor_.graphs};
}

Arena::Plan StepEngine::plan_for(const MicroBatch& micro_batch) const {
  Arena measuring = Arena::measuring(allocator().device());
  const Context dry{processor_.backend, measuring, stream_};
  micro_batch.run(step(dry, false), false);
  if (optimizer_) {
    micro_batch.run(step(dry, true), true);
    run_apply(dry);
    model_.consolidate(dry);
  }
  return measuring.peak();
}

// The plan by kind, the available memory, and what would fit.
std::string StepEngine::does_not_fit(const PackLayout& micro_batches, const Arena::Plan& plan) const {
  const auto mebibytes = [](std::size_t bytes) { return static_cast<double>(bytes) / 1048576; };
  const auto in_use = [&](MemoryKind kind) { return mebibytes(allocator().use(kind).current); };
  std::size_t available = allocator().available();
  const std::string needs = fmt::format(
      "out of memory: {} needs {:.1f} MiB ({:.1f} kept for backward, {:.1f} scratch), {:.1f} MiB are free "
      "beside parameters {:.1f}, gradients {:.1f}, optimizer {:.1f} MiB; ",
      micro_batches.text(), mebibytes(plan.total), mebibytes(plan.saved), mebibytes(plan.scratch),
      mebibytes(available), in_use(MemoryKind::parameters), in_use(MemoryKind::gradients),
      in_use(MemoryKind::optimizer));
  available -= available / 64;  // reserve for fragmentation
  return needs + micro_batches.how_to_fit([&](const PackLayout& smaller) {
    const std::unique_ptr<MicroBatch> micro_batch = smaller.measuring(allocator().device());
    // Memory for the micro-batch, and for two batches being uploaded.
    return plan_for(*micro_batch).total + smaller.bytes() + 2 * micro_batch->block_bytes() <= available;
  });
}

void StepEngine::set_micro_batches(const PackLayout& micro_batches) {
  COMERA_CHECK(&micro_batches.model() == &model_, "the micro-batches are of another model than the engine's");
  const Arena::Plan plan = plan_for(*micro_batches.measuring(allocator().device()));
  for (Graph* graph : {&micro_, &last_, &apply_, &merge_, &evaluate_})
    *graph = Graph();  // of the old micro-batch
  context_.reset();
  arena_.reset();
  micro_batch_feed_.reset();
  micro_batch_.reset();
  try {
    micro_batch_ = micro_batches.allocate(allocator());
    micro_batch_feed_ = allocator().feed(micro_batch_->block(), micro_batch_->block_bytes());
    arena_.emplace(allocator(), plan);
    plan_ = plan;
  } catch (const OutOfMemory&) {
    micro_batch_feed_.reset();
    micro_batch_.reset();
    if (allocator().available() == 0) throw;
    throw OutOfMemory(does_not_fit(micro_batches, plan));
  }
  context_.emplace(Context{processor_.backend, *arena_, stream_});
  evaluate_ = graph([this] { micro_batch_->run(step(*context_, false), false); });
  if (!optimizer_) return;
  micro_ = graph([this] { micro_batch_->run(step(*context_, true), true); });
  last_ = graph([this] { run_last_micro_batch(); });
  // Only this graph has sums in it: a process may run the others without recording them.
  last_.agree_by([this](const std::string& fault) { require_same_recording(*communicator_, fault); });
  apply_ = graph([this] { run_apply(*context_); });
  merge_ = graph([this] { model_.consolidate(*context_); });
}

void StepEngine::adapt_ranks(const RankUnits& units, const RankStageOptions& options,
                             const std::vector<std::string>& kept) {
  std::vector<RankedLayer> layers = model_.ranked_layers();
  for (RankedLayer& layer : layers) layer.keeps_one |= std::ranges::find(kept, layer.name) != kept.end();
  ranks_.emplace(model_.parameters(), layers, units, options, *importance_);
}

std::vector<ParameterState> StepEngine::states() const {
  std::vector<ParameterState> states = optimizer_->states();
  if (importance_)
    for (ParameterState& state : importance_->states()) states.push_back(std::move(state));
  if (average_)
    for (ParameterState& state : average_->states()) states.push_back(std::move(state));
  return states;
}

void StepEngine::begin_average() {
  if (average_) average_->begin();
}

void StepEngine::exchange_average() {
  if (average_) average_->exchange();
}

void StepEngine::join(Communicator& communicator, std::int64_t bucket_bytes) {
  communicator_ = &communicator;
  gradient_sum_.emplace(communicator, model_.parameters().gradients(), bucket_bytes);
  if (!gradient_sum_->overlaps()) return;
  model_.on_gradients_ready([this](const std::vector<ParameterRange>& ranges) {
    if (summing_) gradient_sum_->ready(ranges, stream_);
  });
}

// Of everything that is not being summed yet.
void StepEngine::begin_last_sums() {
  gradient_sum_->flush(stream_);
  // The loss, its targets and the hits: StepResults begins with them.
  static_assert(offsetof(StepResults, gradient_norm) == 3 * sizeof(double));
  communicator_->begin_sum(Tensor(results_.data(), {3}, DType::float64, allocator().device()), stream_);
  if (const Float8State* float8 = model_.float8(); float8 != nullptr && float8->delayed())
    communicator_->begin_max(float8->all_scales(), stream_);
  if (const Tensor& marks = model_.parameters().marks()) communicator_->begin_max(marks, stream_);
}

void StepEngine::run_last_micro_batch() {
  gradient_sum_->begin_pass();
  summing_ = true;
  micro_batch_->run(step(*context_, true), true);
  summing_ = false;
  communicator_->together(stream_, [this] { begin_last_sums(); });
  const auto begin = std::chrono::steady_clock::now();
  communicator_->finish(stream_);
  waited_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void StepEngine::run_apply(const Context& context) const {
  const Tensor inputs = inputs_.tensor({sizeof(StepInputs)}, DType::uint8);
  const Tensor results = results_.tensor({sizeof(StepResults)}, DType::uint8);
  optimizer_->measure(context, inputs, results);
  if (ranks_) ranks_->descend(context, inputs, results);
  optimizer_->update(context, inputs, results);
  if (ranks_) {
    const Optimizer::Moments moments = optimizer_->moments();
    ranks_->prune(context, moments.first, moments.second, inputs, results);
  }
  if (average_) average_->follow(context, inputs, results);
  if (model_.float8() != nullptr) model_.float8()->next(context, results);
}

void StepEngine::load(std::span<const std::byte> block) {
  COMERA_CHECK(micro_batch_ != nullptr, "a batch was loaded before the size of micro-batches was set");
  micro_batch_->check(block);
  std::memcpy(micro_batch_feed_->next(), block.data(), block.size());
  micro_batch_feed_->send();
}

void StepEngine::micro(const DropoutKey& key, bool last) {
  host_inputs_.dropout = key;
  send_inputs();
  fetched_ = false;
  if (last && communicator_ != nullptr)
    last_.launch();
  else
    micro_.launch();
}

void StepEngine::apply(std::int64_t update, double targets, const StepRates& learning_rates, double max_norm,
                       const RankStep& rank_step) {
  learning_rates.write_to(host_inputs_);
  host_inputs_.targets = targets;
  host_inputs_.max_norm = max_norm;
  host_inputs_.rank_target = rank_step.target;
  host_inputs_.rank_urgency = rank_step.urgency;
  optimizer_->prepare(host_inputs_, update);
  if (average_) average_->prepare(host_inputs_, update);
  send_inputs();
  refresh_optimizer(update);
  fetched_ = false;
  apply_.launch();
}

void StepEngine::refresh_optimizer(std::int64_t update) {
  if (!optimizer_->refreshes(update)) return;
  // A skipped step changes nothing.
  optimizer_->measure(*context_, inputs_.tensor({sizeof(StepInputs)}, DType::uint8),
                      results_.tensor({sizeof(StepResults)}, DType::uint8));
  fetched_ = false;
  if (results().nonfinite != 0) return;
  if (communicator_ == nullptr) {
    optimizer_->refresh(0, 1);
    return;
  }
  communicator_->begin_sum(optimizer_->refresh(communicator_->process(), communicator_->world_size()),
                           stream_);
  communicator_->finish(stream_);
}

void StepEngine::consolidate() { merge_.launch(); }

void StepEngine::evaluate(std::int64_t micro_batch) {
  const DropoutKey key = evaluation_key(micro_batch), now = host_inputs_.dropout;
  if (now.seed != key.seed || now.step != key.step || now.micro_batch != key.micro_batch) {
    host_inputs_.dropout = key;
    send_inputs();
  }
  fetched_ = false;
  evaluate_.launch();
}

}  // namespace comera
