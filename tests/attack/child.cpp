#include "tests/attack/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

namespace comera::attack {

namespace {

std::atomic<bool> stop_asked = false;

// Sanitizers reserve address space by the terabyte.
constexpr bool memory_can_be_limited =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

std::vector<std::string> environment_of(const Call& call) {
  std::vector<std::string> all;
  const auto replaced = [&](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    return name.starts_with("COMERA_") || name == "GOMP_SPINCOUNT=" || name == "OMP_NUM_THREADS=" ||
           std::ranges::any_of(call.environment, [&](const auto& own) { return own.starts_with(name); });
  };
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!replaced(*entry)) all.emplace_back(*entry);
  all.emplace_back("GOMP_SPINCOUNT=1000");
  all.emplace_back("OMP_NUM_THREADS=1");
  all.insert(all.end(), call.environment.begin(), call.environment.end());
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork() and execve(): nothing here may allocate.
struct Start {
  int in = -1, out = -1, err = -1;  // -1: closed
  const char* folder = nullptr;
  Limits limits;
  char** words = nullptr;
  char** environment = nullptr;
  pid_t parent = 0;
  bool traced = false;
};

void limit(int what, std::int64_t value) {
  const rlimit both = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  setrlimit(what, &both);
}

void place(int descriptor, int at) {
  if (descriptor < 0)
    close(at);
  else
    dup2(descriptor, at);
}

[[noreturn]] void become(const Start& start) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) _exit(126);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  if (!start.limits.file_signal) signal(SIGXFSZ, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  place(start.in, STDIN_FILENO);
  place(start.out, STDOUT_FILENO);
  place(start.err, STDERR_FILENO);
  if (chdir(start.folder) != 0) _exit(126);
  limit(RLIMIT_CORE, 0);
  if (start.limits.memory > 0 && memory_can_be_limited) limit(RLIMIT_AS, start.limits.memory);
  if (start.limits.file_bytes >= 0) limit(RLIMIT_FSIZE, start.limits.file_bytes);
  if (start.limits.descriptors >= 0) limit(RLIMIT_NOFILE, start.limits.descriptors);
  if (start.traced) ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  execve(start.words[0], start.words, start.environment);
  _exit(126);
}

// The child's end of a stream, and ours if it is kept.
std::pair<int, int> open_stream(Stream stream) {
  int ends[2] = {-1, -1};
  switch (stream) {
    case Stream::full:
      return {open("/dev/full", O_WRONLY | O_CLOEXEC), -1};
    case Stream::closed:
      return {-1, -1};
    case Stream::kept:
    case Stream::broken:
      break;
  }
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  if (stream == Stream::kept) return {ends[1], ends[0]};
  close(ends[0]);
  return {ends[1], -1};
}

void close_if_open(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

// False when the stream has ended.
bool drain(int descriptor, std::string& text) {
  constexpr std::size_t most = 1 << 20;
  char buffer[16384];
  while (true) {
    const ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    if (text.size() < most) text.append(buffer, static_cast<std::size_t>(got));
  }
}

// Every process by the one that started it.
std::multimap<pid_t, pid_t> children_of_all() {
  std::multimap<pid_t, pid_t> children;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc", code)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream stream(entry.path() / "stat");
    std::string text;
    if (!std::getline(stream, text)) continue;
    const std::size_t behind_name = text.rfind(')');
    if (behind_name == text.npos) continue;
    std::istringstream rest(text.substr(behind_name + 1));
    std::string state;
    pid_t parent = 0;
    if (rest >> state >> parent) children.emplace(parent, static_cast<pid_t>(std::stol(name)));
  }
  return children;
}

std::vector<pid_t> descendants_of(pid_t process) {
  const auto children = children_of_all();
  std::vector<pid_t> found, open = {process};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto at = begin; at != end; ++at) {
      found.push_back(at->second);
      open.push_back(at->second);
    }
  }
  return found;
}

}  // namespace

void interrupt() { stop_asked = true; }
bool interrupted() { return stop_asked; }

std::string text_of(const Call& call) {
  std::string text;
  for (const std::string& word : call.words) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
      return std::isalnum(c) != 0 || std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
    });
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += "$'";
    for (const unsigned char c : word) {
      constexpr const char* digits = "0123456789abcdef";
      if (c == '\'' || c == '\\')
        text += {'\\', static_cast<char>(c)};
      else if (c < 0x20 || c >= 0x7f)
        text += {'\\', 'x', digits[c >> 4], digits[c & 15]};
      else
        text += static_cast<char>(c);
    }
    text += '\'';
  }
  return text;
}

Child::Child(const Call& call) : limits_(call.limits), begin_(std::chrono::steady_clock::now()) {
  if (interrupted()) throw Interrupted();
  std::vector<std::string> words = call.words, settings = environment_of(call);
  std::vector<char*> word_pointers = pointers_to(words), setting_pointers = pointers_to(settings);
  Start start{.folder = call.folder.c_str(),
              .limits = call.limits,
              .words = word_pointers.data(),
              .environment = setting_pointers.data(),
              .parent = getpid(),
              .traced = call.traced};
  if (!call.in_closed) start.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::tie(start.out, out_) = open_stream(call.out);
  std::tie(start.err, err_) = open_stream(call.err);
  pid_ = fork();
  if (pid_ == 0) become(start);
  for (const int descriptor : {start.in, start.out, start.err}) close_if_open(descriptor);
  if (pid_ < 0) throw std::runtime_error("no process can be started");
  setpgid(pid_, pid_);  // the child does so, too; either may come first
}

Child::~Child() {
  if (!ended_) end_all();
  close_if_open(out_);
  close_if_open(err_);
}

std::vector<pid_t> Child::descendants() const { return descendants_of(pid_); }

void Child::send(int signal) const {
  if (!ended_) kill(pid_, signal);
}

void Child::read_streams(int timeout_ms) {
  pollfd ends[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};  // those of -1 are passed over
  poll(ends, 2, timeout_ms);
  const auto read_one = [](int& descriptor, std::string& text) {
    if (descriptor < 0 || drain(descriptor, text)) return;
    close(descriptor);
    descriptor = -1;
  };
  read_one(out_, ending_.out);
  read_one(err_, ending_.err);
}

bool Child::wait_for(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!ended_) {
    int status = 0;
    const bool gone = waitpid(pid_, &status, WNOHANG) == pid_;
    const double left = std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count();
    if (gone) {
      ended(status);
    } else if (left <= 0) {
      return false;
    } else {
      if (interrupted()) throw Interrupted();
      // Its end closes the streams, which wakes us, unless nothing of it is read.
      read_streams(static_cast<int>(std::clamp(left * 1e3, 1.0, out_ < 0 && err_ < 0 ? 2.0 : 20.0)));
      if (out_ < 0 && err_ < 0) usleep(500);
    }
  }
  return true;
}

void Child::ended(int status) {
  read_streams(0);
  ended_ = true;
  ending_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  ending_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ending_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Ending Child::end() {
  const double used = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (!wait_for(std::max(0.0, limits_.seconds - used))) {
    ending_.late = true;
    end_all();
  }
  return ending_;
}

void Child::end_all() {
  const std::vector<pid_t> others = descendants();
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  for (const pid_t process : others) kill(process, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ended_ = true;
  ending_.signal = SIGKILL;
  ending_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void end_orphans() {
  for (const pid_t process : descendants_of(getpid())) kill(process, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
}

}  // namespace comera::attack
