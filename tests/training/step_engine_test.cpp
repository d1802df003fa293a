// The engine with another kind of model than the encoder, and its error handling.
#include "training/step_engine.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <span>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/layout.h"
#include "model/step.h"

namespace comera::test {
namespace {

constexpr std::int64_t size = 3;

// The loss is w.x, so that the gradient of w is x.
class Line final : public Trainable {
 public:
  Line() {
    id_ = store_.add({.name = "w", .shape = {size}});
    store_.allocate(host_allocator(), DType::float64, true);
    store_.initialize(1);
    ranges_ = store_.block_ranges(0);
  }
  std::vector<RankedLayer> ranked_layers() const override { return {}; }
  void run(const Step& step, const Tensor& x, bool gradient) const {
    begin_pass(step.context, step.training);
    if (!gradient) return;
    comera::run(step.context, Add{.x = x, .y = step.store.gradient(id_)});
    gradients_are_ready(ranges_);
  }
  std::vector<double> w() const { return read_tensor(store_.value(id_)); }

 private:
  ParameterId id_ = 0;
  std::vector<ParameterRange> ranges_;
};

class LineBatch final : public MicroBatch {
 public:
  LineBatch(const Line& model, Buffer memory, const Tensor& x)
      : model_(model), memory_(std::move(memory)), x_(x) {}
  void* block() const override { return x_.raw(); }
  std::size_t block_bytes() const override { return size * sizeof(double); }
  void check(std::span<const std::byte> block) const override {
    if (block.size() != block_bytes()) throw Error("another size");
  }
  void run(const Step& step, bool gradient) const override {
    const std::size_t mark = step.context.arena.mark();
    model_.run(step, x_, gradient);
    step.context.arena.release(mark);
  }

 private:
  const Line& model_;
  Buffer memory_;
  Tensor x_;
};

class LineBatches final : public PackLayout {
 public:
  explicit LineBatches(const Line& model) : model_(model) {}
  std::unique_ptr<MicroBatch> allocate(Allocator& allocator) const override {
    Buffer memory(allocator, bytes(), MemoryKind::workspace);
    const Tensor x = memory.tensor({size}, DType::float64);
    return std::make_unique<LineBatch>(model_, std::move(memory), x);
  }
  std::unique_ptr<MicroBatch> measuring(Device) const override { return allocate(host_allocator()); }
  const Trainable& model() const override { return model_; }
  std::size_t bytes() const override { return size * sizeof(double); }
  std::string text() const override { return "a line"; }
  std::string how_to_fit(const std::function<bool(const PackLayout&)>&) const override { return ""; }

 private:
  const Line& model_;
};

// The first of two processes; counts the requested sums.
class Counting final : public Communicator {
 public:
  Counting() : Communicator(0, 2) {}
  void begin_sum(const Tensor&, const Stream&) override { ++sums; }
  void begin_max(const Tensor&, const Stream&) override {}
  void finish(const Stream&) override {}
  void sum(std::span<double>) override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text, text}; }
  void fail(int, const std::string& message) override { throw Error(message); }
  int sums = 0;
};

class Engine : public testing::Test {
 protected:
  Processor processor() const { return {plain_backend(), host_allocator()}; }
  void load(StepEngine& engine, const std::array<double, size>& x) {
    engine.load(std::as_bytes(std::span(x)));
  }
  Line line_;
};

constexpr StepRates rates{0.5, 0.5, 0.5, 0.5, 0.5};

TEST_F(Engine, TrainsAModelThatIsNoEncoder) {
  StepEngine engine(line_, {.weight_decay = 0}, processor());
  engine.set_micro_batches(LineBatches(line_));
  engine.clear_results();
  const std::vector<double> begun = line_.w();
  load(engine, {4, -2, 0});
  engine.micro({});
  load(engine, {1, 1, 0});
  engine.micro({});
  engine.apply(0, 1, rates, 0);
  EXPECT_EQ(engine.results().nonfinite, 0);
  // The first update of Adam is the sign of the sum of the gradients.
  const std::vector<double> w = line_.w();
  EXPECT_NEAR(w[0], begun[0] - 0.5, 1e-6);
  EXPECT_NEAR(w[1], begun[1] + 0.5, 1e-6);
  EXPECT_EQ(w[2], begun[2]);
  EXPECT_NEAR(engine.results().gradient_norm, std::hypot(5.0, 1.0), 1e-12);
}

TEST_F(Engine, RefusesPacksOfAnotherModel) {
  Line other;
  StepEngine engine(line_, {}, processor());
  EXPECT_THAT([&] { engine.set_micro_batches(LineBatches(other)); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("the micro-batches are of another model")));
}

TEST_F(Engine, RefusesABatchBeforeThePacksAndOfAnotherSize) {
  StepEngine engine(line_, {}, processor());
  EXPECT_THROW(load(engine, {1, 2, 3}), Error);
  engine.set_micro_batches(LineBatches(line_));
  const double one = 1;
  EXPECT_THAT([&] { engine.load(std::as_bytes(std::span(&one, 1))); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("another size")));
}

// The model lives on; the engine and its sums do not.
TEST_F(Engine, TheModelForgetsAnEngineThatIsGone) {
  Counting communicator;
  {
    StepEngine engine(line_, {}, processor());
    engine.join(communicator, 8);
    engine.set_micro_batches(LineBatches(line_));
    load(engine, {1, 2, 3});
    engine.micro({});
    EXPECT_EQ(communicator.sums, 2) << "one bucket of gradients, and the loss";
  }
  StepEngine second(line_, {}, processor());
  second.set_micro_batches(LineBatches(line_));
  load(second, {1, 2, 3});
  second.micro({});
  EXPECT_EQ(communicator.sums, 2);
}

TEST_F(Engine, AfterPacksThatDidNotFitThereIsNothingToRun) {
  StepEngine engine(line_, {}, processor());
  engine.set_micro_batches(LineBatches(line_));
  load(engine, {1, 2, 3});
  engine.micro({});
  // Memory is measured before it is taken, which must not fail here.
  class Narrow final : public PackLayout {
   public:
    explicit Narrow(const Line& model) : whole_(model) {}
    std::unique_ptr<MicroBatch> allocate(Allocator&) const override {
      throw OutOfMemory("no memory is left");
    }
    std::unique_ptr<MicroBatch> measuring(Device device) const override { return whole_.measuring(device); }
    const Trainable& model() const override { return whole_.model(); }
    std::size_t bytes() const override { return whole_.bytes(); }
    std::string text() const override { return whole_.text(); }
    std::string how_to_fit(const std::function<bool(const PackLayout&)>&) const override { return ""; }

   private:
    LineBatches whole_;
  };
  EXPECT_THROW(engine.set_micro_batches(Narrow(line_)), OutOfMemory);
  EXPECT_THROW(load(engine, {1, 2, 3}), Error);
  EXPECT_THROW(engine.micro({}), Error);
  EXPECT_THROW(engine.evaluate(), Error);
  EXPECT_THROW(engine.apply(0, 1, rates, 0), Error);
  // Micro-batches that fit again.
  engine.set_micro_batches(LineBatches(line_));
  load(engine, {1, 2, 3});
  EXPECT_NO_THROW(engine.micro({}));
}

}  // namespace
}  // namespace comera::test
