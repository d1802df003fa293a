#pragma once

#include <memory>
#include <vector>

#include "batches/click_batch.h"
#include "model/dlrm/config.h"
#include "model/step.h"
#include "model/trainable.h"
#include "tensorized/embedding/embedding.h"
#include "tensorized/linear/linear.h"

namespace comera {

class Dlrm final : public Trainable {
 public:
  // Allocates the parameters, not initialised.
  Dlrm(const DlrmConfig& config, Allocator& allocator, bool gradients);

  using Layers = std::vector<std::unique_ptr<Linear>>;

  const DlrmConfig& config() const { return config_; }
  const Layers& bottom() const { return bottom_; }
  const Layers& top() const { return top_; }
  const std::vector<std::unique_ptr<Embedding>>& tables() const { return tables_; }
  std::vector<RankedLayer> ranked_layers() const override;

  // Forward, loss and, with `gradient`, backward of one batch (MicroBatch::run).
  // logits (B, 1) in the master type: written without `gradient`, if they have data.
  void run_micro_batch(const Step& step, const ClickBatch& batch, bool gradient,
                       const Tensor& logits = {}) const;

  // For each table, for LookupIds::right_order; 0 where that order is not needed.
  std::vector<std::int64_t> right_rows() const;

 private:
  struct Passed {
    std::vector<Linear::Saved> bottom, top;
    Tensor first;    // (B, width): from the numeric features
    Tensor vectors;  // (tables, B, width)
    Tensor features;
    Tensor answer() const { return top.back().output(); }
  };
  Layers make_layers(std::string (*name)(std::size_t), const std::vector<DlrmConfig::Layer>& layers,
                     std::int64_t inputs, bool scores);
  static std::vector<Linear::Saved> run_layers(const Step& step, const Layers& layers, Tensor x,
                                               bool answers);
  static void run_layers_backward(const Step& step, const Layers& layers,
                                  const std::vector<Linear::Saved>& saved, const Tensor& dy,
                                  const Tensor& dx);
  Passed forward(const Step& step, const ClickBatch& batch) const;
  void pass_numbers(const Step& step, const ClickBatch& batch, Passed& passed) const;
  void backward(const Step& step, const ClickBatch& batch, const Passed& passed) const;
  void pool(const Step& step, const ClickBatch& batch, std::size_t table, const Tensor& vectors) const;

  DlrmConfig config_;
  Layers bottom_, top_;
  std::vector<std::unique_ptr<Embedding>> tables_;
  std::vector<std::vector<ParameterRange>> blocks_;  // bottom, each table, top
};

}  // namespace comera
