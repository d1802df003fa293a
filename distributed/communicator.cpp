#include "distributed/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "kernels/core/check.h"
#include "kernels/core/machine.h"

namespace comera {

namespace {

class OneProcess final : public Communicator {
 public:
  OneProcess() : Communicator(0, 1) {}
  void begin_sum(const Tensor&, const Stream&) override {}
  void begin_max(const Tensor&, const Stream&) override {}
  void finish(const Stream&) override {}
  void sum(std::span<double>) override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  void fail(int, const std::string& message) override { throw_error(message); }
};

}  // namespace

int Communicator::own_cpus() const { return comera::own_cpus(); }

void Communicator::fail_with_exception() {
  try {
    throw;
  } catch (const UsageError& error) {
    fail(2, error.what());
  } catch (const std::bad_alloc&) {
    fail(1, "not enough memory; use smaller batches, a smaller model, or fewer processes here");
  } catch (const std::exception& error) {
    fail(1, error.what());
  } catch (...) {
    fail(1, "an exception of an unknown kind");
  }
  std::abort();  // fail() does not return, but the compiler cannot know that of a virtual function
}

Communicator& one_process() {
  static OneProcess alone;
  return alone;
}

void require_same_recording(Communicator& communicator, const std::string& fault) {
  double faults[] = {fault.empty() ? 0. : 1.};
  communicator.sum(faults);
  if (faults[0] == 0 || faults[0] == communicator.world_size()) return;
  const std::vector<std::string> all = communicator.gather(fault);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  throw_error(fmt::format(
      "process {} could not record its step as a graph, and others could: {}; all must do the same, "
      "so train without graphs: --graph off",
      first - all.begin(), *first));
}

std::string on_first(Communicator& communicator, const std::function<std::string()>& call) {
  if (communicator.alone()) return call();
  // The first letter tells how it ended.
  constexpr char ended = '.', failed = 'e', misused = 'u';
  std::string result;
  if (communicator.first()) {
    try {
      result = ended + call();
    } catch (const UsageError& error) {
      result = misused + std::string(error.what());
    } catch (const Error& error) {
      result = failed + std::string(error.what());
    }
  }
  result = communicator.broadcast(result);
  std::string text = result.substr(1);
  if (result[0] == misused) throw UsageError(text);
  if (result[0] == failed) throw Error(text);
  return text;
}

}  // namespace comera
