#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/test_device.h"
#include "tests/training/training_fixture.h"

namespace comera::test {

// Checks for any device that runs the CUDA kernels; GoogleTest failures if they do not hold.

// Ten losses of small models of each kind equal those of the reference backend in double precision, and have
// the same bits with and without graphs.
void expect_losses_of_the_cpu(const TestDevice& device);
// The same bits twenty times, each after reseed(seed), which changes the order in which the device's streams
// take their turns.
void expect_the_same_losses_in_any_order(const TestDevice& device,
                                         const std::function<void(std::uint64_t)>& reseed);
// The same ten steps with bfloat16 activations, or products of TF32 operands (which the device must be made
// for), within the accuracy of these.
void expect_narrow_losses(const TestDevice& device);
void expect_tf32_losses(const TestDevice& rounded, const TestDevice& exact);
// Gradients of models of many kinds with bfloat16 activations, tensor by tensor.
void expect_narrow_gradients(const TestDevice& device);
// Ten losses of a small DLRM, dense and tensorized, equal those of the reference backend in double precision,
// and have the same bits with and without graphs; with bfloat16 activations, within their accuracy.
void expect_click_losses(const TestDevice& device);
// The three ways to look up an embedding agree.
void expect_every_lookup_to_agree(const TestDevice& device);
// A model's logits at masked positions, with float32 and bfloat16 activations, equal those in double
// precision on the CPU.
void expect_logits_of_the_cpu(const TestDevice& device);
// Blocks arrive in order, and the host's memory of one is left alone until the device has it.
void expect_blocks_in_order(const TestDevice& device);

// A whole run: two phases of other sizes, accumulation, warm-up, dropout, evaluation, checkpoints.
class RunFixture : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, const Processor& processor, TrainingOptions options = {},
                        std::vector<std::string> overrides = {}) const;
  std::vector<double> losses(const std::string& run) const;  // of its metrics.jsonl

  void expect_to_learn_as_the_cpu_does(const TestDevice& device) const;
  // Replayed, not replayed, and stopped after each of these steps and resumed.
  void expect_the_same_bits_each_way(const TestDevice& device, const std::vector<std::string>& overrides = {},
                                     const std::vector<int>& stops = {1, 9}) const;
  // The same of a run whose ranks shrink, with compactions on the way; it ends at its target.
  void expect_to_adapt_ranks(const TestDevice& device, const std::vector<std::string>& overrides = {}) const;
};

}  // namespace comera::test
