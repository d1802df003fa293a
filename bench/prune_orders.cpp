// The order in which gate entries should be pruned: the loss of a trained model without its least important
// entries, by several measures of importance, before further training. One row of a Markdown table for each.
//
//   comera_bench_prune CHECKPOINT TRAINING_PACKS HELD_OUT_PACKS SHARE...
//
// Shares are the remaining sizes of the tensor trains, relative to the checkpoint. Data are those of its
// recipe.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

#include "checkpoints/model_state.h"
#include "data/batching/loader.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "model/encoder_micro_batches.h"
#include "recipes/encoder_config.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/tasks/masked_language_task.h"

namespace comera {

namespace {

// A gate entry and its statistics.
struct Entry {
  std::size_t layer = 0, bond = 0;
  std::int64_t at = 0;                      // in the parameters
  double value = 0, slope = 0, square = 0;  // mean derivative of the loss, and mean squared derivative
  double slices = 0;                        // product of the norms of its slices in both cores
  double saved = 0;                         // elements of both slices
};

class PruneOrders {
 public:
  PruneOrders(const std::filesystem::path& checkpoint, std::int64_t training_micro_batches,
              std::int64_t held_out_micro_batches)
      : reader_(checkpoint),
        recipe_(checkpoint_recipe(reader_)),
        config_(encoder_config(recipe_, reader_.integer("/data", "vocabulary"))),
        processor_(cpu_processor()),
        model_(config_, processor_.allocator, true),
        engine_(model_, recipe_.optim, processor_),
        tokenizer_(load_tokenizer(recipe_.data.tokenizer)),
        task_(recipe_.data, tokenizer_, config_),
        held_out_micro_batches_(held_out_micro_batches) {
    load_parameters(reader_, model_.parameters());
    const PhaseSection& phase = recipe_.phases[0];
    options_.masking = task_.masking();
    options_.capacity = data::capacity_for(phase.tokens_per_micro_batch, phase.length,
                                           options_.masking.probability, config_.vocabulary);
    options_.right_modulus = model_.token_embedding().right_rows();
    options_.seed = 977;
    engine_.set_micro_batches(EncoderMicroBatches(model_, options_.capacity));
    layers_ = model_.ranked_layers();
    find_entries();
    differentiate(training_micro_batches, phase.length);
  }

  double held_out_loss() {
    return task_.evaluate(engine_, model_, options_, held_out_micro_batches_, {}, one_process())->loss;
  }

  using Importance = std::function<double(const Entry&)>;
  std::vector<double> losses(const Importance& importance, const std::vector<double>& shares) {
    std::vector<std::size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::size_t i) { return importance(entries_[i]); });
    const double all = size();
    std::vector<double> losses;
    auto next = order.begin();
    for (const double share : shares) {
      for (; next != order.end() && size() > share * all; ++next) values()[entries_[*next].at] = 0;
      losses.push_back(held_out_loss());
    }
    for (const Entry& entry : entries_) values()[entry.at] = static_cast<float>(entry.value);
    return losses;
  }

 private:
  float* values() { return model_.parameters().values().data<float>(); }

  void find_entries() {
    const ParameterStore& store = model_.parameters();
    for (std::size_t l = 0; l < layers_.size(); ++l)
      for (std::size_t b = 0; b < layers_[l].gates.size(); ++b) {
        const ParameterId gate = layers_[l].gates[b];
        const Tensor before = store.value(layers_[l].cores[b]), behind = store.value(layers_[l].cores[b + 1]);
        const std::int64_t count = store.info(gate).shape[-1], rows = before.elements() / count,
                           slice = behind.elements() / count;
        for (std::int64_t i = 0; i < count; ++i) {
          double left = 0, right = 0;
          for (std::int64_t r = 0; r < rows; ++r) left += std::pow(before.data<float>()[r * count + i], 2);
          for (std::int64_t s = 0; s < slice; ++s) right += std::pow(behind.data<float>()[i * slice + s], 2);
          const std::int64_t at = store.offset(gate) + i;
          if (values()[at] != 0)
            entries_.push_back({.layer = l,
                                .bond = b,
                                .at = at,
                                .value = values()[at],
                                .slices = std::sqrt(left * right),
                                .saved = static_cast<double>(rows + slice)});
        }
      }
  }

  // Differentiates the mean loss per target over micro-batches of the training data.
  void differentiate(std::int64_t micro_batches, std::int64_t length) {
    data::Loader loader(task_.samples(length), options_);
    const Tensor gradients = model_.parameters().gradients();
    for (std::int64_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
      std::memset(gradients.raw(), 0, gradients.bytes());
      engine_.clear_results();
      engine_.load(loader.try_next()->block());
      engine_.micro(DropoutKey{});
      const double targets = engine_.results().target_count;
      for (Entry& entry : entries_) {
        const double slope = gradients.data<float>()[entry.at] / targets;
        entry.slope += slope / static_cast<double>(micro_batches);
        entry.square += slope * slope / static_cast<double>(micro_batches);
      }
    }
  }

  // Elements of the cores of layers that are not removed.
  double size() {
    const ParameterStore& store = model_.parameters();
    std::vector<double> sizes;
    for (const RankedLayer& layer : layers_) {
      std::vector<std::int64_t> live = {1};
      for (const ParameterId gate : layer.gates)
        live.push_back(std::count_if(store.value(gate).data<float>(),
                                     store.value(gate).data<float>() + store.value(gate).elements(),
                                     [](float d) { return d != 0; }));
      live.push_back(1);
      double own = 0;
      for (std::size_t k = 0; k < layer.cores.size(); ++k) {
        const Shape& shape = store.info(layer.cores[k]).shape;
        const std::int64_t modes = shape.elements() / (shape[0] * shape[-1]);
        own += static_cast<double>(live[k] * live[k + 1] * modes);
      }
      sizes.push_back(std::ranges::find(live, 0) != live.end() ? 0 : own);
    }
    double all = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      bool seen = true;
      for (int needed = static_cast<int>(l); needed >= 0;
           needed = layers_[static_cast<std::size_t>(needed)].needs)
        seen = seen && sizes[static_cast<std::size_t>(needed)] > 0;
      all += seen ? sizes[l] : 0;
    }
    return all;
  }

  CheckpointReader reader_;
  Recipe recipe_;
  EncoderConfig config_;
  Processor processor_;
  Model model_;
  StepEngine engine_;
  data::Tokenizer tokenizer_;
  MaskedLanguageTask task_;
  data::LoaderOptions options_;
  std::vector<RankedLayer> layers_;
  std::vector<Entry> entries_;
  std::int64_t held_out_micro_batches_;
};

void measure(const std::filesystem::path& checkpoint, std::int64_t training_micro_batches,
             std::int64_t held_out_micro_batches, const std::vector<double>& shares) {
  prepare_threads(1);
  PruneOrders orders(checkpoint, training_micro_batches, held_out_micro_batches);
  print_out("all entries: {:.4f}\n\n| least important first by |", orders.held_out_loss());
  for (const double share : shares) print_out(" {} |", share);
  print_out("\n|---|");
  for (std::size_t i = 0; i < shares.size(); ++i) print_out("---|");
  print_out("\n");
  const std::vector<std::pair<const char*, PruneOrders::Importance>> importances = {
      {"gate", [](const Entry& e) { return std::abs(e.value); }},
      {"gate, per number", [](const Entry& e) { return std::abs(e.value) / e.saved; }},
      {"gate times slices", [](const Entry& e) { return std::abs(e.value) * e.slices; }},
      {"gate times slices, per number",
       [](const Entry& e) { return std::abs(e.value) * e.slices / e.saved; }},
      {"first order", [](const Entry& e) { return std::abs(e.value * e.slope); }},
      {"Fisher", [](const Entry& e) { return e.value * e.value * e.square; }},
      {"Fisher, per number", [](const Entry& e) { return e.value * e.value * e.square / e.saved; }},
      {"Fisher less first order, per number",
       [](const Entry& e) { return (e.value * e.value * e.square / 2 - e.value * e.slope) / e.saved; }},
  };
  for (const auto& [name, importance] : importances) {
    print_out("| {} |", name);
    for (const double loss : orders.losses(importance, shares)) print_out(" {:.4f} |", loss);
    print_out("\n");
    flush_output();
  }
}

}  // namespace

}  // namespace comera

int main(int argc, char** argv) {
  if (argc < 5) {
    comera::log_info("usage: comera_bench_prune CHECKPOINT TRAINING_PACKS HELD_OUT_PACKS SHARE...\n");
    return 2;
  }
  std::vector<double> shares;
  for (int i = 4; i < argc; ++i) shares.push_back(std::atof(argv[i]));
  try {
    comera::measure(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), shares);
  } catch (const comera::Error& error) {
    comera::log_info("comera_bench_prune: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
