#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "tests/faults/faults.h"

namespace comera::faults {
namespace {

// Work and fault → outcome → how often.
std::map<std::pair<std::string, std::string>, std::map<std::string, int>>& table() {
  static std::map<std::pair<std::string, std::string>, std::map<std::string, int>> rows;
  return rows;
}

// Printed after the last test.
class Report : public testing::Environment {
 public:
  void TearDown() override {
    std::set<std::string> outcomes;
    int all = 0;
    for (const auto& [row, counts] : table())
      for (const auto& [outcome, count] : counts) {
        outcomes.insert(outcome);
        all += count;
      }
    if (all == 0) return;
    std::printf("\n%-11s %-22s", "work", "fault");
    for (const std::string& outcome : outcomes) std::printf("  %s", outcome.c_str());
    std::printf("\n");
    for (const auto& [row, counts] : table()) {
      std::printf("%-11s %-22s", row.first.c_str(), row.second.c_str());
      for (const std::string& outcome : outcomes) {
        const auto found = counts.find(outcome);
        std::printf("  %*d", static_cast<int>(outcome.size()), found == counts.end() ? 0 : found->second);
      }
      std::printf("\n");
    }
    std::printf("%d faults in all\n\n", all);
  }
};
const auto* const report = testing::AddGlobalTestEnvironment(new Report);  // owned by GoogleTest

}  // namespace

void record(const std::string& work, const std::string& fault, const std::string& outcome) {
  ++table()[{work, fault}][outcome];
}

int rounds(int all) {
  const char* wanted = std::getenv("COMERA_FAULTS");
  return wanted && std::string_view(wanted) == "all" ? all : (all + 3) / 4;
}

Ended run_forked(const std::function<int()>& work) {
  int ends[2];
  Ended ended;
  if (pipe(ends) != 0) return {-1, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    int status = 70;
    try {
      status = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "thrown: %s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }
  ::close(ends[1]);
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    ended.errors.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

int open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

}  // namespace comera::faults

// libhdf5 leaks a small block when a write fails that it postponed to the closing of a dataset. Leaked
// handles of ours would show as open descriptors.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:libhdf5";
}
