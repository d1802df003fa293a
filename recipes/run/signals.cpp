#include "recipes/run/signals.h"

#include <unistd.h>

#include <atomic>
#include <string_view>

#include "kernels/core/check.h"

namespace comera {

namespace {

std::atomic<int> received = 0;
std::atomic<bool> begun = false, ending = false, silent = false;
bool exists = false;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

// As if nobody had waited for it.
[[noreturn]] void end_by(int number) {
  const sigset_t set = stop_signals();
  std::signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
  _exit(128 + number);
}

void watch() {
  const sigset_t set = stop_signals();
  while (true) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (ending) return;
    if (!begun) end_by(number);
    if (received != 0) _exit(128 + number);
    received = number;
    if (silent) continue;
    constexpr std::string_view message = "\nstopping after this step; once more to stop at once\n";
    if (write(STDERR_FILENO, message.data(), message.size()) < 0) continue;
  }
}

}  // namespace

StopSignals::StopSignals() {
  COMERA_CHECK(!exists, "signals are waited for already");
  received = 0;
  begun = ending = silent = false;
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, &previous_);
  watcher_ = std::thread(watch);
  exists = true;
}

StopSignals::~StopSignals() {
  ending = true;
  pthread_kill(watcher_.native_handle(), SIGINT);  // which it waits for
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  exists = false;
}

void StopSignals::begin() { begun = true; }

void StopSignals::silence() { silent = true; }

int StopSignals::number() const { return received; }

}  // namespace comera
