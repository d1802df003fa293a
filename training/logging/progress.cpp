#include "training/logging/progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <stop_token>

#include "kernels/core/console.h"
#include "kernels/core/grouped.h"

namespace comera {

namespace {

constexpr int default_columns = 80;

int columns_of(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : default_columns;
}

std::string rate_text(double rate) {
  if (rate >= 1 || rate <= 0) return fmt::format("{:.1f} steps/s", rate);
  return fmt::format("{:.1f} s/step", 1 / rate);
}

// ", 2.5 steps/s, 24 s left, loss 5.1"
std::string tail(const ProgressState& state) {
  std::string text;
  if (state.rate > 0) {
    text += ", " + rate_text(state.rate);
    if (state.done < state.total)
      text += ", " + duration_text(static_cast<double>(state.total - state.done) / state.rate) + " left";
  }
  if (!state.note.empty()) text += ", " + state.note;
  return text;
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
  const std::string count = fmt::format(" {}/{}", grouped(state.done), grouped(state.total)) + tail(state);
  const int room = columns - 1 - static_cast<int>(name.size() + count.size()) - 3;
  const int width = std::clamp(room, 0, 20);
  std::string text = name;
  if (width >= 5) {
    const double share =
        state.total > 0 ? static_cast<double>(state.done) / static_cast<double>(state.total) : 0.0;
    const int filled = std::clamp(static_cast<int>(share * width), 0, width);
    text += " [" + std::string(static_cast<std::size_t>(filled), '#') +
            std::string(static_cast<std::size_t>(width - filled), '.') + "]";
  }
  text += count;
  return cut(text);
}

std::string progress_line(const std::string& name, const ProgressState& state) {
  if (state.total == 0) return fmt::format("{}: {}", name, state.note);
  return fmt::format("{}: step {} of {}", name, grouped(state.done), grouped(state.total)) + tail(state);
}

ProgressBar::ProgressBar(std::string name, std::int64_t total, std::int64_t done, std::FILE* out)
    : name_(std::move(name)), out_(out), terminal_(isatty(fileno(out)) == 1), next_draw_(last_update_) {
  state_.total = total;
  state_.done = done;
  if (total == 0) next_draw_ += interval();
}

ProgressBar::Clock::duration ProgressBar::interval() const {
  return terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
}

ProgressBar::~ProgressBar() {
  if (open_) log_to(out_, "\n");
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
  state_.note = note;
  if (now < next_draw_ && (state_.total == 0 || done < state_.total)) return;
  next_draw_ = now + interval();
  draw();
}

void ProgressBar::announce(std::string_view note) {
  if (terminal_) {
    state_.note = note;
    draw();
  } else {
    print(fmt::format("{}: {}", name_, note));
  }
}

void ProgressBar::print(std::string_view line) {
  log_to(out_, "{}{}\n", open_ ? "\r\033[K" : "", line);
  open_ = false;
  if (terminal_) draw();
}

void ProgressBar::draw() {
  if (terminal_)
    log_to(out_, "\r\033[K{}", progress_bar(name_, state_, columns_of(out_)));
  else
    log_to(out_, "{}\n", progress_line(name_, state_));
  open_ = terminal_;
}

Ticker::Ticker(std::string name, std::FILE* out)
    : thread_([name = std::move(name), out](const std::stop_token& stop) {
        ProgressBar bar(name, 0, 0, out);
        const auto start = std::chrono::steady_clock::now();
        std::mutex mutex;
        std::condition_variable_any stopped;
        std::unique_lock lock(mutex);
        while (!stopped.wait_for(lock, stop, std::chrono::milliseconds(100),
                                 [&] { return stop.stop_requested(); })) {
          const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
          bar.update(0, duration_text(taken.count()));
        }
      }) {}

}  // namespace comera
