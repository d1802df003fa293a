#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace comera {

// "3.2 s", "4 min 05 s", "2 h 07 min", "3 d 04 h".
std::string duration_text(double seconds);
// "Wednesday, 14:32": the local time `seconds_from_now` later.
std::string clock_text(double seconds_from_now);

struct ProgressState {
  std::int64_t done = 0;
  std::int64_t total = 0;  // 0: the end is unknown; the note tells the progress
  double rate = 0;         // steps per second; 0: unknown yet
  std::string note;
};

// "pretrain [####......] 40/100, 2.5 steps/s, 24 s left, loss 5.1", no wider than `columns`: what does not
// fit at the end is left out. The bar's width depends on `columns` only.
std::string progress_bar(const std::string& name, const ProgressState& state, int columns);
// "pretrain: step 40 of 100, 2.5 steps/s, 24 s left, loss 5.1", or "tokenizing: 1,234 documents" without a
// total
std::string progress_line(const std::string& name, const ProgressState& state);

// Shows the progress of long work: the terminal's status line, or occasional plain lines elsewhere. While one
// lives, tickers that began before it are silent.
class ProgressBar {
 public:
  // `done` of `total` steps were done earlier, for instance before a resume, and do not count for the rate.
  // Without a total, short work shows nothing.
  ProgressBar(std::string name, std::int64_t total = 0, std::int64_t done = 0, std::FILE* out = stderr);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Cheap: draws at most ten times a second on a terminal, every ten seconds elsewhere, and at the end.
  void update(std::int64_t done, std::string_view note = "");
  // Corrects the expected length of the work.
  void set_total(std::int64_t total) { state_.total = total; }
  // Excludes the time since the last update from the rate, for instance that of an evaluation.
  void skip_time() { last_update_ = Clock::now(); }
  // Says at once what takes long beside steps.
  void announce(std::string_view note);
  // A line of its own, above the bar.
  void print(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::duration interval() const;  // between two redraws
  void draw(bool only_note = false);

  std::string name_;
  ProgressState state_;
  std::string note_;  // of the last update
  std::FILE* out_;
  bool terminal_;
  bool open_ = false;  // the bar is the terminal's status line
  Clock::time_point last_update_ = Clock::now();
  Clock::time_point next_draw_;
};

// Says that work goes on which says nothing itself, as long as the object lives: after two seconds without
// any message, a status line with the elapsed time on a terminal, or a plain line elsewhere, and then one a
// minute. Of several, only the last one speaks.
class Ticker {
 public:
  explicit Ticker(std::string name, std::FILE* out = stderr);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void tick(const std::stop_token& stop);

  std::string name_;
  std::FILE* out_;
  std::jthread thread_;
};

}  // namespace comera
