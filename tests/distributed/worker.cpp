// One process of a job that a test started: distributed_worker CASE [ARGUMENT].
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "distributed/communicator.h"
#include "kernels/core/check.h"
#include "training/training_run.h"

namespace comera::test {
namespace {

// A number determined by process, index and round.
float value_of(int process, std::int64_t at) {
  return std::sin(static_cast<float>(at % 1000 + 17 * process)) * std::ldexp(1.F, static_cast<int>(at % 7));
}

// Sums of every size, in two types, begun together and waited for together; maxima with NaN and infinity.
void sums(Communicator& processes) {
  std::vector<std::vector<float>> vectors;
  const Stream stream;
  for (const std::int64_t size : {1, 2, 3, 1000, 65537, 300001}) {
    std::vector<float>& values = vectors.emplace_back(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i)
      values[static_cast<std::size_t>(i)] = value_of(processes.process(), i);
    processes.begin_sum(Tensor(values.data(), {size}, DType::float32), stream);
  }
  std::vector<double> wide = {1e-9 * processes.process(), 1e9, -0.5};
  processes.begin_sum(Tensor(wide.data(), {3}, DType::float64), stream);
  processes.finish(stream);
  for (const auto& values : vectors)
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0, size = 0;
      for (int process = 0; process < processes.world_size(); ++process) {
        const double value = value_of(process, static_cast<std::int64_t>(i));
        sum += value;
        size += std::abs(value);
      }
      COMERA_CHECK(std::abs(values[i] - sum) <= 1e-6 * size, "element {} of {}: {} is not {}", i,
                   values.size(), values[i], sum);
    }
  COMERA_CHECK(wide[1] == 1e9 * processes.world_size() && wide[2] == -0.5 * processes.world_size(),
               "sums of double are wrong");
  // The same bits everywhere.
  std::string bytes;
  for (const auto& values : vectors)
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  for (const std::string& other : processes.gather(bytes))
    COMERA_CHECK(other == bytes, "processes have other bits");

  std::vector<float> most = {static_cast<float>(processes.process()),
                             processes.process() == 1 ? HUGE_VALF : 2.F,
                             processes.process() == 0 ? NAN : HUGE_VALF, 0.F};
  processes.begin_max(Tensor(most.data(), {16}, DType::uint8), stream);
  processes.finish(stream);
  COMERA_CHECK(most[0] == static_cast<float>(processes.world_size() - 1) &&
                   most[1] == (processes.world_size() > 1 ? HUGE_VALF : 2.F) && std::isnan(most[2]) &&
                   most[3] == 0,
               "maxima are wrong: {} {} {} {}", most[0], most[1], most[2], most[3]);
}

void texts(Communicator& processes) {
  const std::string own(static_cast<std::size_t>(1000 * processes.process()),
                        static_cast<char>('a' + processes.process()));
  const std::vector<std::string> all = processes.gather(own);
  COMERA_CHECK(all.size() == static_cast<std::size_t>(processes.world_size()), "{} texts", all.size());
  for (std::size_t process = 0; process < all.size(); ++process)
    COMERA_CHECK(all[process] == std::string(1000 * process, static_cast<char>('a' + process)),
                 "text of process {}", process);
  COMERA_CHECK(
      processes.broadcast(processes.first() ? std::string("a\0b", 3) : "other") == std::string("a\0b", 3),
      "the first process's text did not arrive");
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return std::string("result");
  };
  COMERA_CHECK(on_first(processes, call) == "result" && calls == (processes.first() ? 1 : 0), "on_first");
  try {
    on_first(processes, []() -> std::string { throw UsageError("as planned"); });
    throw_error("nothing was thrown");
  } catch (const UsageError& error) {
    COMERA_CHECK(std::string(error.what()) == "as planned", "{}", error.what());
  }
}

// A process lives, but does not come.
void stall(Communicator& processes, int late) {
  processes.set_patience({.silent_seconds = 60, .stalled_seconds = 2});
  processes.set_advice("this is the advice");
  if (processes.process() == late) std::this_thread::sleep_for(std::chrono::seconds(60));
  double one[] = {1};
  processes.sum(one);
}

// On one process something goes wrong in the middle of a run.
void hit(Communicator& processes, const std::string& recipe, const std::vector<std::string>& overrides) {
  TrainingOptions options;
  options.communicator = &processes;
  options.after_step = [&](std::int64_t step) {
    if (step == 3 && processes.process() == 1) throw Error("this process's disk has gone");
  };
  TrainingRun(load_recipe(recipe, overrides), options).run();
}

// One process's memory changes a bit of a parameter.
void drift(Communicator& processes, const std::string& recipe, const std::vector<std::string>& overrides) {
  TrainingOptions options;
  options.communicator = &processes;
  TrainingRun* current = nullptr;
  options.after_step = [&](std::int64_t step) {
    if (step != 2 || processes.process() != 1) return;
    const ParameterStore& store = current->engine().model().parameters();
    auto* values = store.values().data<float>();
    values[0] = std::nextafter(values[0], 1e9F);  // no gap between parameters
  };
  TrainingRun run(load_recipe(recipe, overrides), options);
  current = &run;
  run.run();
}

void run_case(Communicator& processes, const std::string& name, const std::vector<std::string>& arguments) {
  if (name == "sums") return sums(processes);
  if (name == "texts") return texts(processes);
  if (name == "cpus") {
    for (const std::string& cpus : processes.gather(std::to_string(processes.own_cpus())))
      if (processes.first()) fmt::print("{} CPUs\n", cpus);
    return;
  }
  if (name == "stall") return stall(processes, std::stoi(arguments.at(0)));
  if (name == "hit") return hit(processes, arguments.at(0), {arguments.begin() + 1, arguments.end()});
  if (name == "drift") return drift(processes, arguments.at(0), {arguments.begin() + 1, arguments.end()});
  if (name == "fail") {
    if (processes.process() == processes.world_size() - 1) throw UsageError("only this process has failed");
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
  throw UsageError(fmt::format("there is no case {}", name));
}

}  // namespace
}  // namespace comera::test

int main(int argc, char** argv) {
  const std::unique_ptr<comera::Communicator> job = comera::join_job();
  if (!job || argc < 2) return 3;
  try {
    comera::test::run_case(*job, argv[1], {argv + 2, argv + argc});
  } catch (...) {
    job->fail_with_exception();
  }
  if (job->first()) fmt::print("done\n");
  return 0;
}
