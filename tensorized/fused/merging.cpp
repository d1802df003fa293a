#include "tensorized/fused/merging.h"

#include "kernels/ops/elementwise/layout.h"

namespace comera {

namespace {
// The size of each layer's part, in the layout of Together.
std::int64_t room(std::int64_t elements) { return PackedTensors{{elements}}.elements(); }
}  // namespace

Merging::Merging(const Context& context, ArenaScope& scope, const Merging& counted)
    : compute_(counted.compute_), counting_(Arena::measuring(context.backend.device())) {
  const DType master = master_of(compute_);
  if (counted.master_elements_ > 0) master_ = context.arena.saved({counted.master_elements_}, master);
  if (counted.narrow_elements_ > 0) {
    narrow_ = context.arena.saved({counted.narrow_elements_}, compute_);
    computed_ = scope.tensor(narrow_.shape(), master);
  }
}

Merging::Operands Merging::take(std::int64_t elements, DType dtype) {
  const bool narrow = dtype != master_of(compute_);
  COMERA_CHECK(!narrow || dtype == compute_, "a merged tensor of another type than the model's");
  std::int64_t& taken = narrow ? narrow_elements_ : master_elements_;
  const std::int64_t begin = taken;
  taken += room(elements);
  const Tensor& memory = narrow ? narrow_ : master_;
  if (!memory) {
    const Tensor nowhere = counting_.saved({elements}, dtype);
    return {nowhere, narrow ? counting_.saved({elements}, master_of(compute_)) : nowhere};
  }
  const Tensor kept = memory.slice(begin, {elements});
  return {kept, narrow ? computed_.slice(begin, {elements}) : kept};
}

void Merging::will_have_gradients(std::int64_t elements) {
  gradients_ += room(elements);
  most_gradients_ = std::max(most_gradients_, room(elements));
}

void Merging::end_block() {
  of_last_block_ = gradients_ - before_block_;
  most_of_a_block_ = std::max(most_of_a_block_, of_last_block_);
  before_block_ = gradients_;
}

void Merging::run(const Context& context) const {
  for (const Tensor& tensor : cleared_) comera::run(context, Fill{.x = tensor, .value = 0});
  if (!factors_.factors.empty()) comera::run(context, factors_);
  for (const Row& row : rows_) comera::run(context, Add{.x = row.from, .y = row.to});
  if (!products_.products.empty()) {
    const ProductPlace place(context.products, "", cores_stay_wide);
    comera::run(context, products_);
  }
  if (narrow_) comera::run(context, Cast{.x = computed_, .y = narrow_});
}

MergedGradients::MergedGradients(const Context& context, const Merging& merged, std::int64_t most)
    : context_(context),
      waits_(merged.is_narrow() && (most > 0 || context.backend.device().kind == DeviceKind::cuda)),
      operands_(context.arena.mark()) {
  of_tokens_.type = merged.compute();
}

void MergedGradients::take_memory(ArenaScope& scope, std::int64_t elements) {
  memory_ = elements > 0 ? scope.tensor({elements}, master_of(of_tokens_.type)) : Tensor();
  taken_ = 0;
}

std::vector<Tensor> MergedGradients::zeros(const PackedTensors& together) {
  const std::int64_t elements = together.elements();
  if (taken_ + elements > memory_.elements()) flush();
  if (taken_ == 0) comera::run(context_, Fill{.x = memory_, .value = 0});
  std::vector<Tensor> parts = together.in(memory_.slice(taken_, {elements}));
  taken_ += elements;
  return parts;
}

Tensor MergedGradients::operand(ArenaScope& scope, Shape shape, DType dtype) {
  return waits_ ? context_.arena.saved(shape, dtype) : scope.tensor(shape, dtype);
}

LaterSums MergedGradients::later_sums(ArenaScope& scope, std::int64_t numbers) {
  if (!waits_) return {};
  return {&of_tokens_, operand(scope, {LaterSums::most_parts * numbers}, master_of(of_tokens_.type))};
}

void MergedGradients::end_block() {
  flush_tokens();
  if (waits_) context_.arena.release(operands_);
}

void MergedGradients::flush_tokens() {
  if (of_tokens_.empty()) return;
  comera::run(context_, of_tokens_);
  of_tokens_.gradients.clear();
  of_tokens_.sums.clear();
}

void MergedGradients::flush() {
  flush_tokens();
  if (empty()) return;
  if (!products_.products.empty()) {
    const ProductPlace place(context_.products, "", cores_stay_wide);
    comera::run(context_, products_);
  }
  if (!factors_.factors.empty()) comera::run(context_, factors_);
  for (const Row& row : rows_) comera::run(context_, Add{.x = row.from, .y = row.to});
  products_.products.clear();
  factors_.factors.clear();
  rows_.clear();
  taken_ = 0;
  ++flushes_;
}

}  // namespace comera
