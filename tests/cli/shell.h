#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/support/temporary_folder.h"

namespace comera::test {

// Runs the program in the environment of a shell: "$C inspect r.toml > /dev/full". Descriptor 9 is a pipe
// without a reader.
class Shell {
 protected:
  Shell() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    dup2(ends[1], 9);
    // One of them may have been 9 itself.
    for (const int end : ends)
      if (end != 9) close(end);
    // Whatever the test was started with.
    for (const int number : {SIGPIPE, SIGHUP}) std::signal(number, SIG_DFL);
    setenv("C", COMERA_PROGRAM, 1);
  }
  ~Shell() { close(9); }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  struct Ended {
    int code = 0;  // 128 + the signal that ended it
    std::string output, errors;
  };
  Ended shell(const std::string& command) {
    const std::filesystem::path out = scratch_ / "out", err = scratch_ / "err";
    const std::string whole =
        "{ " + command + "\n} > '" + out.string() + "' 2> '" + err.string() + "' < /dev/null";
    const int status = std::system(whole.c_str());
    Ended ended{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out),
                read_text(err)};
    return ended;
  }

 private:
  TemporaryFolder scratch_;
};

}  // namespace comera::test
