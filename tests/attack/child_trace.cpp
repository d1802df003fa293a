// Programs that are struck at a call to the system of our choice.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tests/attack/child.h"

namespace comera::attack {

namespace {

using Info = __ptrace_syscall_info;

bool changes_files(const Info& info) {
  static const std::vector<std::uint64_t> always = {
#ifdef SYS_rename
      SYS_rename,
#endif
#ifdef SYS_unlink
      SYS_unlink,    SYS_rmdir,    SYS_mkdir,    SYS_link,  SYS_symlink,
#endif
      SYS_renameat2, SYS_unlinkat, SYS_mkdirat,  SYS_fsync, SYS_fdatasync,
      SYS_ftruncate, SYS_linkat,   SYS_pwrite64, SYS_flock, SYS_fchmod,
  };
  const std::uint64_t number = info.entry.nr;
  if (number == SYS_openat) return (info.entry.args[2] & O_CREAT) != 0;
  if (number == SYS_write || number == SYS_writev) return info.entry.args[0] > STDERR_FILENO;
  return std::ranges::find(always, number) != always.end();
}

}  // namespace

Ending Child::end_struck(const Strike& strike, int* changes) {
  int count = 0, idle = 0;
  bool struck = false, tracing = false;
  pid_t striking = -1;  // the thread whose call is waited for
  const auto hit = [&] {
    struck = true;
    kill(pid_, strike.signal);
  };
  while (!ended_) {
    int status = 0;
    const pid_t thread = waitpid(-pid_, &status, WNOHANG | __WALL);
    if (thread <= 0) {
      const double used = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
      if (interrupted()) throw Interrupted();
      if (used > limits_.seconds) {
        ending_.late = true;
        end_all();
        break;
      }
      if (++idle % 100 == 0) read_streams(0);
      usleep(20);
      continue;
    }
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread == pid_) ended(status);
      continue;
    }
    if (!tracing) {
      ptrace(PTRACE_SETOPTIONS, thread, nullptr,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
      tracing = true;
    }
    int passed_on = WSTOPSIG(status);
    if (passed_on == (SIGTRAP | 0x80)) {
      passed_on = 0;
      Info info = {};
      ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_files(info) && ++count == strike.change) {
        if (strike.after)
          striking = thread;
        else
          hit();
      } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && thread == striking && !struck) {
        hit();
      }
    } else if (status >> 16 != 0 || passed_on == SIGTRAP || passed_on == SIGSTOP) {
      passed_on = 0;  // new threads, and events that report them
    }
    ptrace(struck ? PTRACE_CONT : PTRACE_SYSCALL, thread, nullptr, passed_on);
  }
  if (changes != nullptr) *changes = count;
  return ending_;
}

}  // namespace comera::attack
