#include "training/logging/progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/core/console.h"
#include "kernels/core/grouped.h"
#include "kernels/core/terminal.h"

namespace comera {

namespace {

std::string rate_text(double rate) {
  if (rate >= 1 || rate <= 0) return fmt::format("{:.1f} steps/s", rate);
  return fmt::format("{:.1f} s/step", 1 / rate);
}

// ", 2.5 steps/s", ", 24 s left", ", loss 5.1"
std::vector<std::string> tail(const ProgressState& state) {
  std::vector<std::string> parts;
  if (state.rate > 0) {
    parts.push_back(", " + rate_text(state.rate));
    if (state.done < state.total)
      parts.push_back(", " + duration_text(static_cast<double>(state.total - state.done) / state.rate) +
                      " left");
  }
  for (std::size_t at = 0; at < state.note.size();) {
    const std::size_t end = std::min(state.note.find(", ", at), state.note.size());
    parts.push_back(", " + state.note.substr(at, end - at));
    at = end + 2;
  }
  return parts;
}

// The innermost work is the one that is shown.
class Shown {
 public:
  void begin(const void* work) {
    const std::scoped_lock lock(mutex_);
    works_.push_back(work);
  }
  void end(const void* work) {
    const std::scoped_lock lock(mutex_);
    std::erase(works_, work);
  }
  bool is_innermost(const void* work) {
    const std::scoped_lock lock(mutex_);
    return !works_.empty() && works_.back() == work;
  }

 private:
  std::mutex mutex_;
  std::vector<const void*> works_;
};

Shown& shown() {
  static Shown all;
  return all;
}

// A thread that takes no signals: they are for the one that waits for them.
template <class Work>
std::jthread thread_without_signals(Work&& work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::jthread thread(std::forward<Work>(work));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds >= 0)) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  // Longer durations than a thousand years do not matter, but the conversion must not overflow.
  const auto whole = static_cast<std::int64_t>(std::min(std::round(seconds), 3e10));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string clock_text(double seconds_from_now) {
  const std::time_t then = std::time(nullptr) + static_cast<std::time_t>(seconds_from_now);
  std::tm local{};
  localtime_r(&then, &local);
  return fmt::format("{:%A, %H:%M}", local);
}

std::string progress_bar(const std::string& name, const ProgressState& state, int columns) {
  const auto cut = [columns](const std::string& text) {
    // The last column stays free: a full line makes some terminals wrap.
    return text.substr(0, static_cast<std::size_t>(std::max(columns - 1, 0)));
  };
  if (state.total == 0) return cut(progress_line(name, state));
  constexpr int fewest_columns = 40;  // with a bar
  std::string text = name;
  if (columns >= fewest_columns) {
    const int width = std::min(columns / 8, 20);
    const double share = static_cast<double>(state.done) / static_cast<double>(state.total);
    const int filled = std::clamp(static_cast<int>(share * width), 0, width);
    text += " [" + std::string(static_cast<std::size_t>(filled), '#') +
            std::string(static_cast<std::size_t>(width - filled), '.') + "]";
  }
  text += fmt::format(" {}/{}", grouped(state.done), grouped(state.total));
  for (const std::string& part : tail(state)) {
    if (static_cast<int>(text.size() + part.size()) > columns - 1) break;
    text += part;
  }
  return cut(text);
}

std::string progress_line(const std::string& name, const ProgressState& state) {
  if (state.total == 0) return fmt::format("{}: {}", name, state.note);
  return fmt::format("{}: step {} of {}", name, grouped(state.done), grouped(state.total)) +
         fmt::format("{}", fmt::join(tail(state), ""));
}

ProgressBar::ProgressBar(std::string name, std::int64_t total, std::int64_t done, std::FILE* out)
    : name_(std::move(name)), out_(out), terminal_(is_terminal(out)), next_draw_(last_update_) {
  state_.total = total;
  state_.done = done;
  if (total == 0) next_draw_ += interval();
  shown().begin(this);
}

ProgressBar::Clock::duration ProgressBar::interval() const {
  return terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
}

ProgressBar::~ProgressBar() {
  shown().end(this);
  if (open_ && !note_.empty()) {  // what was announced is over
    state_.note = note_;
    draw();
  }
  if (open_) keep_status();
}

void ProgressBar::update(std::int64_t done, std::string_view note) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last_update_).count();
  const std::int64_t steps = done - state_.done;
  if (steps > 0 && seconds > 0) {
    // An average over the last half minute, however long a step is.
    constexpr double memory_seconds = 30;
    const double keep = state_.rate > 0 ? std::exp(-seconds / memory_seconds) : 0.0;
    state_.rate = keep * state_.rate + (1 - keep) * static_cast<double>(steps) / seconds;
    last_update_ = now;
  }
  state_.done = done;
  state_.note = note_ = note;
  if (now < next_draw_ && (state_.total == 0 || done < state_.total)) return;
  next_draw_ = now + interval();
  draw();
}

void ProgressBar::announce(std::string_view note) {
  if (terminal_) {
    state_.note = note;
    draw(true);
  } else {
    print(fmt::format("{}: {}", name_, note));
  }
}

void ProgressBar::print(std::string_view line) { log_to(out_, "{}\n", line); }

void ProgressBar::draw(bool only_note) {
  ProgressState state = state_;
  if (only_note) state.rate = 0;  // so that there is room
  if (terminal_)
    show_status(out_, progress_bar(name_, state, static_cast<int>(terminal_width(out_))));
  else
    log_to(out_, "{}\n", progress_line(name_, state_));
  open_ = terminal_;
}

Ticker::Ticker(std::string name, std::FILE* out) : name_(std::move(name)), out_(out) {
  shown().begin(this);
  try {
    thread_ = thread_without_signals([this](const std::stop_token& stop) { tick(stop); });
  } catch (const std::system_error&) {
    // Where the system has no thread left, the work goes on without a word.
  }
}

Ticker::~Ticker() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  shown().end(this);
}

void Ticker::tick(const std::stop_token& stop) {
  constexpr double first_seconds = 2, later_seconds = 60;  // of silence before a line
  const bool terminal = is_terminal(out_);
  const auto start = std::chrono::steady_clock::now();
  bool drawn = false;
  double patience = first_seconds;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (
      !stopped.wait_for(lock, stop, std::chrono::milliseconds(200), [&] { return stop.stop_requested(); })) {
    const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!shown().is_innermost(this)) {
      drawn = false;
    } else if (terminal && (drawn || silent_seconds() >= first_seconds)) {
      show_status(out_, fmt::format("{}: {}", name_, duration_text(taken)));
      drawn = true;
    } else if (!terminal && std::min(taken, silent_seconds()) >= patience) {
      log_to(out_, "{}: still at work after {}\n", name_, duration_text(taken));
      patience = later_seconds;
    }
  }
  if (drawn && shown().is_innermost(this)) erase_status();
}

}  // namespace comera
