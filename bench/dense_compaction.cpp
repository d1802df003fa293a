// The effect of TT-SVD's error on a trained model: for each allowed error per layer, the size of the
// compacted model, its held-out loss, and the time; next to them, the size when all bonds share the error
// equally. One row of a Markdown table each, the dense model first.
//
//   comera_bench_compaction CHECKPOINT ERROR...
//
// The held-out set, the masks and the micro-batches are those of the checkpoint's recipe (data.validation,
// phase 0).
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "model/encoder_micro_batches.h"
#include "recipes/encoder_config.h"
#include "training/inference/inference_engine.h"
#include "training/ranks/dense_compaction.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/tasks/masked_language_task.h"

namespace comera {

namespace {

Evaluation evaluate_checkpoint(const std::filesystem::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  const Recipe recipe = checkpoint_recipe(reader);
  const EncoderConfig config = encoder_config(recipe, reader.integer("/data", "vocabulary"));
  const PhaseSection& phase = recipe.phases[0];
  const Processor processor = cpu_processor();
  Model model(config, processor.allocator, false);
  load_parameters(reader, model.parameters());
  StepEngine engine(model, processor);
  data::LoaderOptions options;
  const data::Tokenizer tokenizer = load_tokenizer(recipe.data.tokenizer);
  MaskedLanguageTask task(recipe.data, tokenizer, config);
  options.masking = task.masking();
  options.capacity = data::capacity_for(phase.tokens_per_micro_batch, phase.length,
                                        options.masking.probability, config.vocabulary);
  options.right_modulus = model.token_embedding().right_rows();
  engine.set_micro_batches(EncoderMicroBatches(model, options.capacity));
  return *task.evaluate(engine, model, options, recipe.run.evaluation_batches, {}, one_process());
}

void row(const std::string& error, std::int64_t numbers, std::int64_t dense, const Evaluation& evaluation,
         const std::string& largest, const std::string& seconds, const std::string& equal) {
  print_out("| {} | {} | {:.2f} | {:.2f} | {} | {:.4f} | {:.2f} % | {} | {} |\n", error, numbers,
            static_cast<double>(numbers) * 4 / 1048576,
            static_cast<double>(dense) / static_cast<double>(numbers), largest, evaluation.loss,
            100 * evaluation.accuracy, seconds, equal);
  flush_output();
}

void measure(const std::filesystem::path& checkpoint, const std::vector<double>& errors) {
  prepare_threads(0);
  const CheckpointReader dense(checkpoint);
  const Recipe recipe = dense_compaction_recipe(dense, {}, {});
  const Evaluation before = evaluate_checkpoint(checkpoint);
  const std::int64_t numbers =
      Model(encoder_config(checkpoint_recipe(dense), dense.integer("/data", "vocabulary")), host_allocator(),
            false)
          .parameters()
          .count();
  print_out("{} targets; unigram {:.4f}, uniform {:.4f}\n\n", before.targets,
            before.details_as<MaskedLanguageDetails>().baselines.unigram,
            before.details_as<MaskedLanguageDetails>().baselines.uniform);
  print_out(
      "| error allowed | parameters | MiB | times fewer | largest error | held-out loss | accuracy | s | "
      "equal shares |\n");
  print_out("|---|---|---|---|---|---|---|---|---|\n");
  row("dense", numbers, numbers, before, "", "", "");
  const std::filesystem::path output =
      std::filesystem::temp_directory_path() / fmt::format("comera-compaction-{}.h5", getpid());
  for (const double error : errors) {
    const auto start = std::chrono::steady_clock::now();
    const DenseCompaction done = compact_dense(dense, recipe, {.error = error}, output);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    double largest = 0;
    for (const CompactedLayer& layer : done.layers) largest = std::max(largest, layer.error);
    const Evaluation after = evaluate_checkpoint(output);
    const std::int64_t equal =
        compact_dense(dense, recipe, {.error = error, .shares = ErrorShares::equal}, output).after;
    row(fmt::format("{}", error), done.after, numbers, after, fmt::format("{:.3g}", largest),
        fmt::format("{:.1f}", seconds), std::to_string(equal));
  }
  std::filesystem::remove(output);
}

}  // namespace

}  // namespace comera

int main(int argc, char** argv) {
  if (argc < 3) {
    comera::log_info("usage: comera_bench_compaction CHECKPOINT ERROR...\n");
    return 2;
  }
  std::vector<double> errors;
  for (int i = 2; i < argc; ++i) errors.push_back(std::atof(argv[i]));
  try {
    comera::measure(argv[1], errors);
  } catch (const comera::Error& error) {
    comera::log_info("comera_bench_compaction: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
