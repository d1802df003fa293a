// One process of a job on the emulated GPU: nccl_worker CASE [ARGUMENTS].
#include <fmt/format.h>

#include <string>
#include <vector>

#include "kernels/core/check.h"
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
  if (host.first())
    fmt::print("{} sums in {} launches of NCCL\n", fake_nccl().all_reduces, fake_nccl().launches);
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

void run_case(Communicator& host, const std::vector<std::string>& words) {
  emulation::machine().late = true;
  fake_nccl();
  const Fault fault{words.at(1), host.world_size() - 1};
  if (words.at(0) == "train") return train(host, words.at(2), {words.begin() + 3, words.end()}, fault);
  if (words.at(0) == "sum") return sum(host, fault);
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
