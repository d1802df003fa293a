#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace comera::test {

// A terminal to write to, and what it was sent.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0)
      throw std::runtime_error("no pseudo-terminal");
    file_ = std::fopen(ptsname(master_), "w");
    if (file_ == nullptr) throw std::runtime_error("no pseudo-terminal");
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(fileno(file_), TIOCSWINSZ, &size);
    fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~PseudoTerminal() {
    std::fclose(file_);
    close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  std::FILE* file() const { return file_; }

  // All bytes so far.
  const std::string& text() {
    char bytes[4096];
    for (ssize_t count = 0; (count = read(master_, bytes, sizeof bytes)) > 0;)
      text_.append(bytes, static_cast<std::size_t>(count));
    return text_;
  }

  // The lines that a user sees, without colours: a carriage return begins a line again, "\033[K" erases its
  // rest.
  std::vector<std::string> screen() {
    std::vector<std::string> lines(1);
    std::size_t at = 0;
    const std::string& all = text();
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::string& line = lines.back();
      if (all[i] == '\n') {
        lines.emplace_back();
        at = 0;
      } else if (all[i] == '\r') {
        at = 0;
      } else if (all[i] == '\033') {
        while (++i < all.size() && (all[i] < '@' || all[i] == '[')) {
        }
        if (i < all.size() && all[i] == 'K') line.resize(at);
      } else {
        if (at == line.size()) line += ' ';
        line[at++] = all[i];
      }
    }
    if (lines.back().empty()) lines.pop_back();
    return lines;
  }

 private:
  int master_;
  std::FILE* file_ = nullptr;
  std::string text_;
};

}  // namespace comera::test
