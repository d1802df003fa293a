#include "training/run/signals.h"

#include <unistd.h>

#include <atomic>
#include <chrono>

#include "kernels/core/console.h"

namespace comera {

namespace {

std::atomic<int> received = 0;
std::atomic<bool> begun = false, ending = false, silent = false;
bool exists = false, takes_hangup = false;

// Under nohup, the run must outlive its terminal.
bool is_ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  if (takes_hangup) sigaddset(&set, SIGHUP);
  return set;
}

// Ends the process as the signal does by default.
[[noreturn]] void end_by(int number) {
  const sigset_t set = stop_signals();
  std::signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
  _exit(128 + number);
}

// Signals that follow the first one sooner were not sent by a user on purpose: `timeout` sends its signal to
// its child and then to the whole group.
constexpr std::chrono::milliseconds same_request(500);

void watch() {
  using Clock = std::chrono::steady_clock;
  const sigset_t set = stop_signals();
  Clock::time_point first;
  while (true) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (ending) return;
    if (!begun) {
      if (!silent) write_message(stderr, "\nstopped; repeat the command to start again\n");
      end_by(number);
    }
    // A closing terminal sends SIGHUP, and so does its shell: the second one adds nothing.
    if (received != 0 && number == SIGHUP) continue;
    // The same holds for signals that a service manager sends along with it.
    if (received == SIGHUP) {
      received = number;
      continue;
    }
    if (received != 0 && Clock::now() - first < same_request) continue;
    if (received != 0) {
      if (!silent) write_message(stderr, "stopped at once; what was saved before is kept\n");
      _exit(128 + number);
    }
    first = Clock::now();
    received = number;
    if (silent) continue;
    write_message(stderr, "stopping after this step; repeat to stop at once\n");
  }
}

}  // namespace

StopSignals::StopSignals() {
  COMERA_CHECK(!exists, "signals are already handled");
  received = 0;
  begun = ending = silent = false;
  takes_hangup = !is_ignored(SIGHUP);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, &previous_);
  watcher_ = std::thread(watch);
  exists = true;
}

StopSignals::~StopSignals() {
  ending = true;
  pthread_kill(watcher_.native_handle(), SIGINT);  // which it waits for
  watcher_.join();
  // Signals that arrived meanwhile request what has already happened. They must not end the process when
  // unblocked.
  const sigset_t set = stop_signals();
  const timespec none{};
  while (sigtimedwait(&set, nullptr, &none) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  exists = false;
}

void StopSignals::begin() { begun = true; }

void StopSignals::silence() { silent = true; }

int StopSignals::number() const { return received; }

}  // namespace comera
