// The hot operations of the six-encoder classifier (hidden 768, 12 heads, feed-forward 3072, rank 30, 32
// sequences of 128 tokens), next to the machine's ceilings: simple products with oneDNN's own threading, and
// the bandwidth of a copy.
//
//   comera_bench_kernels --benchmark_filter=TTLinear
#include <benchmark/benchmark.h>
#include <omp.h>

#include "bench/kernels/bench.h"
#include "kernels/cpu/threads.h"

int main(int argc, char** argv) {
  comera::cpu::prepare_threads(omp_get_max_threads());
  comera::add_product_benchmarks();
  comera::add_linear_benchmarks();
  comera::add_muon_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
