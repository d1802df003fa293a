#include "model/encoder_micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/ops/elementwise/layout.h"
#include "model/encoder_step.h"

namespace comera {

namespace {

class EncoderMicroBatch final : public MicroBatch {
 public:
  EncoderMicroBatch(const Model& model, PackedBatch batch, const Teacher* teacher)
      : model_(model), batch_(std::move(batch)), teacher_(teacher) {}

  void* block() const override { return batch_.block(); }
  std::size_t block_bytes() const override { return batch_.block_bytes(); }
  void check(std::span<const std::byte> block) const override { batch_.check(block); }
  void run(const Step& step, bool gradient) const override {
    if (!asks(step)) return model_.run_micro_batch(EncoderStep(step, batch_), gradient);
    Arena& arena = step.context.arena;
    const std::size_t mark = arena.mark();
    const TeacherAnswers answers =
        keeps_answers() ? kept(step.context) : teacher_->answer(step.context, batch_);
    model_.run_micro_batch(EncoderStep(step, batch_, nullptr, &answers), gradient);
    arena.release(mark);
  }

 private:
  // A student is evaluated by the targets of its head. Vectors without targets are compared with the
  // teacher's.
  bool asks(const Step& step) const {
    const EncoderConfig& config = model_.config();
    const bool without_targets = config.head == HeadKind::contrastive && !config.distillation.targets;
    return (teacher_ != nullptr || keeps_answers()) && (step.training || without_targets);
  }
  bool keeps_answers() const {
    return batch_.capacity.taught_vectors > 0 || batch_.capacity.taught_logits > 0;
  }
  // The answers that came with the batch, in the arena.
  TeacherAnswers kept(const Context& context) const {
    const ParameterStore& store = model_.parameters();
    const auto in_type = [&](const Tensor& numbers, DType type) {
      if (numbers.elements() == 0) return Tensor();
      const Tensor converted = context.arena.saved(numbers.shape(), type);
      comera::run(context, Cast{.x = numbers, .y = converted});
      return converted;
    };
    TeacherAnswers answers;
    answers.vectors = in_type(batch_.taught_vectors, store.compute());
    answers.logits = in_type(batch_.taught_logits, store.dtype());
    return answers;
  }

  const Model& model_;
  PackedBatch batch_;
  const Teacher* teacher_;
};

}  // namespace

void make_room_for_targets(HeadKind head, MicroBatchCapacity& capacity) {
  const bool spans = head == HeadKind::question_answering;
  if (head == HeadKind::token_classification) capacity.masked = capacity.tokens;
  if (spans) capacity.masked = 2 * capacity.sequences;  // the first and the last token
  capacity.slots = spans ? capacity.tokens : 0;
}

std::unique_ptr<MicroBatch> EncoderMicroBatches::allocate(Allocator& allocator) const {
  if (teacher_ != nullptr) teacher_->prepare(capacity_);
  return std::make_unique<EncoderMicroBatch>(model_, PackedBatch(allocator, capacity_), teacher_);
}

std::unique_ptr<MicroBatch> EncoderMicroBatches::measuring(Device device) const {
  return std::make_unique<EncoderMicroBatch>(model_, PackedBatch::measuring(capacity_, device), teacher_);
}

std::size_t EncoderMicroBatches::bytes() const {
  const PackedBatch batch = PackedBatch::measuring(capacity_);
  return batch.block_bytes() + batch.token_rows.bytes();
}

std::string EncoderMicroBatches::text() const {
  return fmt::format("a micro-batch of {} tokens", capacity_.tokens);
}

EncoderMicroBatches EncoderMicroBatches::with_tokens(std::int64_t tokens) const {
  const auto part = [&](std::int64_t of) { return (of * tokens + capacity_.tokens - 1) / capacity_.tokens; };
  // Masked positions are drawn randomly: a small micro-batch needs a larger margin.
  const auto masked = static_cast<double>(part(capacity_.masked));
  MicroBatchCapacity fewer = {
      .tokens = tokens,
      .sequences = part(capacity_.sequences),
      .longest = capacity_.longest,
      .masked = std::min(capacity_.masked, static_cast<std::int64_t>(masked + 5 * std::sqrt(masked) + 1)),
      .unique_ids = std::min(capacity_.unique_ids, tokens),
      .scores = model_.config().scores_per_example(part(capacity_.sequences)),
      .taught_vectors = capacity_.taught_vectors,
      .taught_logits = capacity_.taught_logits};
  make_room_for_targets(model_.config().head, fewer);
  return {model_, fewer, teacher_};
}

// The maximum number of tokens of an otherwise equal micro-batch; 0: not even its longest sequence fits.
std::int64_t EncoderMicroBatches::tokens_that_fit(const std::function<bool(const PackLayout&)>& fits) const {
  constexpr std::int64_t step = 64;
  const std::int64_t parts = model_.config().lte ? model_.config().lte->num_heads : 1;
  const auto tokens_of = [&](std::int64_t steps) {  // for division into parts
    const std::int64_t tokens = std::min(capacity_.longest + steps * step + parts - 1, capacity_.tokens);
    return tokens / parts * parts;
  };
  std::int64_t least = 0, most = (capacity_.tokens - capacity_.longest + step - 1) / step;
  if (!fits(with_tokens(tokens_of(least)))) return 0;
  while (least < most) {
    const std::int64_t middle = (least + most + 1) / 2;
    if (fits(with_tokens(tokens_of(middle))))
      least = middle;
    else
      most = middle - 1;
  }
  return tokens_of(least);
}

std::string EncoderMicroBatches::how_to_fit(const std::function<bool(const PackLayout&)>& fits) const {
  const std::int64_t tokens = tokens_that_fit(fits);
  if (tokens > 0) return fmt::format("set tokens_per_micro_batch to {} or less", tokens);
  return fmt::format("not even one sequence of {} tokens fits: make sequences shorter or the model smaller",
                     capacity_.longest);
}

}  // namespace comera
