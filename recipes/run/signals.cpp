#include "recipes/run/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "kernels/core/check.h"

namespace comera {

namespace {

std::atomic<int> received = 0;  // a handler may touch nothing but lock-free atomics
static_assert(std::atomic<int>::is_always_lock_free);
bool installed = false;

struct sigaction previous_int, previous_term;

void handle(int number) {
  int none = 0;
  if (!received.compare_exchange_strong(none, number)) _exit(128 + number);
  constexpr std::string_view message = "\nstopping after this step; once more to stop at once\n";
  if (write(STDERR_FILENO, message.data(), message.size()) < 0) return;
}

}  // namespace

StopSignals::StopSignals() {
  COMERA_CHECK(!installed, "signals are handled already");
  received = 0;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;  // reading and writing files goes on
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
  installed = true;
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
  installed = false;
}

int StopSignals::number() const { return received; }

}  // namespace comera
