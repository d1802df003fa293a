// One process of a job on the emulated GPU: nccl_worker CASE [ARGUMENTS].
#include <fmt/format.h>

#include <string>
#include <vector>

#include "distributed/gradient_sum.h"
#include "kernels/core/check.h"
#include "kernels/core/graph.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "kernels/emulation/streams.h"
#include "recipes/recipe.h"
#include "tests/distributed/emulated_nccl.h"
#include "training/run/training_run.h"

namespace comera::test {
namespace {

// A GPU works on while its host waits for other processes; emulated streams only work when they are asked to.
class Host final : public Communicator {
 public:
  explicit Host(Communicator& job) : Communicator(job.process(), job.world_size()), job_(job) {}
  int local_process() const override { return job_.local_process(); }
  int local_processes() const override { return job_.local_processes(); }
  int own_cpus() const override { return job_.own_cpus(); }
  std::string name() const override { return job_.name(); }
  void begin_sum(const Tensor&, const Stream&) override { throw_error("the host sums no memory of GPUs"); }
  void begin_max(const Tensor&, const Stream&) override { throw_error("the host sums no memory of GPUs"); }
  void finish(const Stream&) override {}
  void sum(std::span<double> values) override {
    emulation::drain_all();
    job_.sum(values);
  }
  std::string broadcast(const std::string& text) override {
    emulation::drain_all();
    return job_.broadcast(text);
  }
  std::vector<std::string> gather(const std::string& text) override {
    emulation::drain_all();
    return job_.gather(text);
  }
  void set_patience(const Patience& patience) override { job_.set_patience(patience); }
  void set_advice(const std::string& advice) override { job_.set_advice(advice); }
  void fail(int exit_code, const std::string& message) override { job_.fail(exit_code, message); }

 private:
  Communicator& job_;
};

struct Gpu {
  std::unique_ptr<Allocator> allocator = cuda_emulated::make_allocator(0);
  Processor processor{cuda_emulated::backend(), *allocator, true};
};

// What goes wrong, and on which process; "none".
struct Fault {
  std::string what;
  int process = 0;
  bool is(std::string_view name, const Communicator& here) const {
    return what == name && here.process() == process;
  }
};

void print_launches(const Communicator& host) {
  if (host.first())
    fmt::print("{} sums in {} launches of NCCL\n", fake_nccl().all_reduces, fake_nccl().launches);
}

void train(Communicator& host, const std::string& recipe, const std::vector<std::string>& overrides,
           const Fault& fault) {
  const Gpu gpu;
  TrainingOptions options;
  options.communicator = &host;
  options.processor = &gpu.processor;
  options.start_nccl = start_emulated_nccl;
  options.after_step = [&](std::int64_t step) {
    if (step == 3 && fault.is("error", host)) throw Error("this process's disk has gone");
  };
  emulation::machine().refuses_captures = fault.is("capture", host) || fault.what == "all captures";
  emulation::machine().seed = fault.what == "order" ? 7 + host.process() : 1 + host.process();
  TrainingRun(load_recipe(recipe, overrides), options).run();
  print_launches(host);
}

// A sum over all processes of which one breaks a rule.
void sum(Communicator& host, const Fault& fault) {
  const Gpu gpu;
  Allocator& allocator = *gpu.allocator;
  const Stream stream = allocator.stream();
  const Buffer memory(allocator, 64, MemoryKind::workspace);
  std::unique_ptr<Communicator> nccl = start_emulated_nccl(host, allocator.device());
  if (fault.is("end", host)) {
    nccl.reset();
    host.broadcast("");  // where the others do not come
  }
  const Tensor values = memory.tensor({fault.is("count", host) ? 15 : 16}, DType::float32);
  const auto begin = [&] {
    nccl->begin_sum(values, stream);
    nccl->finish(stream);
  };
  std::unique_ptr<Recording> recording;
  if (fault.is("capture", host)) {
    recording = allocator.record(stream, begin);
    recording->launch(stream);
  } else if (fault.is("type", host)) {
    nccl->begin_max(values, stream);
    nccl->finish(stream);
  } else {
    begin();
  }
  nccl->wait(stream);
}

// Gradients that are large enough to be summed during a pass, which is run twice.
void buckets(Communicator& host) {
  const Gpu gpu;
  Allocator& allocator = *gpu.allocator;
  const Stream stream = allocator.stream();
  const Buffer memory(allocator, GradientSum::least_overlapping, MemoryKind::gradients);
  std::vector<float> values(memory.bytes() / sizeof(float), 1.F + static_cast<float>(host.process()));
  const auto count = static_cast<std::int64_t>(values.size()), part = count / 8;
  allocator.upload(memory.data(), values.data(), memory.bytes(), stream);
  const std::unique_ptr<Communicator> nccl = start_emulated_nccl(host, allocator.device());
  GradientSum sum(*nccl, memory.tensor({count}, DType::float32), 1);
  COMERA_CHECK(sum.overlaps(), "they are not summed during the pass");
  Graph graph(allocator, stream, [&] {
    sum.begin_pass();
    for (std::int64_t block = 4; block-- > 0;)
      sum.ready({{.begin = block * part, .count = part}, {.begin = count / 2 + block * part, .count = part}},
                stream);
    sum.flush(stream);
    nccl->finish(stream);
  });
  for (int pass = 0; pass < 2; ++pass) graph.launch();
  nccl->wait(stream);
  allocator.download(values.data(), memory.data(), memory.bytes(), stream);
  allocator.synchronize(stream);
  const auto processes = static_cast<float>(host.world_size());
  const float expected = processes * (processes + 1) / 2 * processes;
  for (const float value : values) COMERA_CHECK(value == expected, "{} is not {}", value, expected);
  print_launches(host);
}

void run_case(Communicator& host, const std::vector<std::string>& words) {
  emulation::machine().late = true;
  fake_nccl();
  const Fault fault{words.at(1), host.world_size() - 1};
  if (words.at(0) == "train") return train(host, words.at(2), {words.begin() + 3, words.end()}, fault);
  if (words.at(0) == "sum") return sum(host, fault);
  if (words.at(0) == "buckets") return buckets(host);
  throw UsageError(fmt::format("there is no case {}", words.at(0)));
}

}  // namespace
}  // namespace comera::test

int main(int argc, char** argv) {
  const std::unique_ptr<comera::Communicator> job = comera::join_job();
  if (!job || argc < 3) return 3;
  comera::test::Host host(*job);
  try {
    comera::test::run_case(host, {argv + 1, argv + argc});
  } catch (...) {
    job->fail_with_exception();
  }
  if (job->first()) fmt::print("done\n");
  return 0;
}
