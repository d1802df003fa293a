// The cost of a process's loader: for one process that takes all micro-batches of a step, and for one of
// many, which skips those of the others by their lengths. One thread; masks as in the recipes (15 %).
//
//   comera_bench_loader FOLDER-OF-SHARDS [PROCESSES ...]
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <exception>

#include "data/batching/loader.h"
#include "kernels/core/console.h"

namespace {

using namespace comera;

void measure(const data::ShardSet& shards, std::int64_t processes) {
  constexpr std::int64_t tokens = 4096, length = 128;
  data::LoaderOptions options;
  options.masking.probability = 0.15;
  options.capacity =
      data::capacity_for(tokens, length, options.masking.probability, shards.info().vocabulary, 1);
  options.micro_batches_per_step = options.world_size = processes;
  options.prefetch = 0;
  data::Loader loader(shards, options);
  loader.next();
  const std::clock_t start = std::clock();
  std::int64_t steps = 0;
  double seconds = 0;
  for (; seconds < 3; ++steps, seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC)
    loader.next();
  const double each = seconds / static_cast<double>(steps);
  print_out("| {} | {:.2f} | {:.1f} |\n", processes, 1e3 * each,
            1e-6 * static_cast<double>(processes * tokens) / each);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    log_info("comera_bench_loader FOLDER-OF-SHARDS [PROCESSES ...]\n");
    return 2;
  }
  try {
    const data::ShardSet shards(argv[1], "train");
    print_out(
        "| processes | ms for a process's micro-batch of 4,096 tokens | million tokens/s gone through "
        "|\n|---|---|---|\n");
    if (argc == 2)
      for (const std::int64_t processes : {1, 8, 64, 512}) measure(shards, processes);
    for (int i = 2; i < argc; ++i) measure(shards, std::atoi(argv[i]));
  } catch (const std::exception& error) {
    log_info("error: {}\n", error.what());
    return 1;
  }
}
