#include "kernels/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view erase_line = "\r\033[K", usual = "\033[0m";

std::mutex mutex;                // of what follows: a thread may draw while another one prints
std::FILE* status_on = nullptr;  // the terminal with a status line
std::string status_line;         // what it shows
bool within_line = false;        // the text on the terminal has no line end yet
Clock::time_point last_seen = Clock::now();

int put(std::FILE* to, std::string_view text) noexcept {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), to) == text.size()) return 0;
  return errno != 0 ? errno : EIO;
}

void draw() {
  put(status_on, erase_line);
  put(status_on, status_line);
  std::fflush(status_on);
}

void forget_status() {
  status_on = nullptr;
  status_line.clear();
}

std::string_view code_of(Style style) {
  switch (style) {
    case Style::error:
      return "\033[1;31m";
    case Style::warning:
      return "\033[1;33m";
    case Style::note:
      return "\033[36m";
    case Style::good:
      return "\033[1;32m";
    case Style::heading:
      return "\033[1m";
  }
  return "";
}

// Messages say themselves how serious they are.
constexpr std::array<std::pair<std::string_view, Style>, 3> kinds = {
    {{"comera: error:", Style::error}, {"warning:", Style::warning}, {"note:", Style::note}}};

// Without memory of its own, since there may be none left.
int put_in_colour(std::FILE* to, std::string_view text) {
  for (const auto& [kind, style] : kinds)
    if (text.starts_with(kind) && shows_colours(to)) {
      put(to, code_of(style));
      put(to, kind);
      put(to, usual);
      return put(to, text.substr(kind.size()));
    }
  return put(to, text);
}

// Without colours, and each character of UTF-8 once.
std::size_t shown_width(std::string_view word) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '\033')
      i = std::min(word.find('m', i), word.size());
    else if ((static_cast<unsigned char>(word[i]) & 0xc0U) != 0x80U)
      ++width;
  }
  return width;
}

int put_fitted(std::FILE* to, std::string_view text) noexcept {
  std::string rows;
  try {
    rows = fitted(text, terminal_width(to));
  } catch (const std::bad_alloc&) {
    return put_in_colour(to, text);
  }
  return put_in_colour(to, rows);
}

}  // namespace

bool is_terminal(std::FILE* file) { return isatty(fileno(file)) == 1; }

std::size_t terminal_width(std::FILE* file) {
  constexpr std::size_t usual_width = 80;
  winsize size{};
  return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual_width;
}

std::string fitted(std::string_view text, std::size_t width) {
  std::string rows;
  std::size_t at = 0;  // the column
  for (std::size_t begin = 0; begin < text.size();) {
    if (text[begin] == '\n' || text[begin] == ' ') {
      at = text[begin] == '\n' ? 0 : (at + 1) % width;
      rows += text[begin++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t shown = shown_width(word);
    if (at > 0 && at + shown > width && shown <= width) {
      rows.append(width - at, ' ');
      at = 0;
    }
    rows += word;
    at = (at + shown) % width;
    begin = end;
  }
  return rows;
}

bool shows_colours(std::FILE* to) {
  const char* declined = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  return (declined == nullptr || *declined == '\0') && kind != nullptr && std::string_view(kind) != "dumb" &&
         is_terminal(to);
}

std::string styled(std::FILE* to, Style style, std::string_view text) {
  if (text.empty() || !shows_colours(to)) return std::string(text);
  return std::string(code_of(style)) + std::string(text) + std::string(usual);
}

std::string with_heading(std::FILE* to, std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  return styled(to, Style::heading, text.substr(0, end)) + std::string(text.substr(end));
}

void show_status(std::FILE* terminal, std::string_view line) {
  const std::scoped_lock lock(mutex);
  if (within_line) return;
  status_on = terminal;
  status_line = line;
  draw();
  last_seen = Clock::now();
}

void keep_status() {
  const std::scoped_lock lock(mutex);
  if (status_on == nullptr) return;
  put(status_on, "\n");
  std::fflush(status_on);
  forget_status();
}

void erase_status() {
  const std::scoped_lock lock(mutex);
  if (status_on == nullptr) return;
  put(status_on, erase_line);
  std::fflush(status_on);
  forget_status();
}

double silent_seconds() {
  const std::scoped_lock lock(mutex);
  return std::chrono::duration<double>(Clock::now() - last_seen).count();
}

int print_text(std::FILE* to, std::string_view text) noexcept {
  if (text.empty()) return 0;
  const std::scoped_lock lock(mutex);
  const bool terminal = is_terminal(to);
  const bool moves_status = terminal && status_on != nullptr;
  if (moves_status) {
    put(status_on, erase_line);
    std::fflush(status_on);
  }
  int lost = terminal && to != stdout ? put_fitted(to, text) : put_in_colour(to, text);
  // Standard output keeps its text until it has a page of it; a status line must not come before.
  if (to != stdout || moves_status) {
    errno = 0;
    if (std::fflush(to) != 0 && lost == 0) lost = errno != 0 ? errno : EIO;
  }
  if (terminal || to == stderr) last_seen = Clock::now();
  if (terminal) within_line = text.back() != '\n';
  if (moves_status && !within_line) draw();
  return lost;
}

}  // namespace comera
