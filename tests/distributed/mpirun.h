#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "distributed/communicator.h"
#include "tests/training/training_fixture.h"

namespace comera::test {

// mpirun of this machine, for several processes on few cores. Sanitizers find leaks in MPI's library that are
// not ours.
class Mpirun {
 public:
  static std::string missing() {
    if (!has_mpi()) return "built without MPI";
    return access(COMERA_MPIRUN, X_OK) == 0 ? "" : "mpirun was not found";
  }

  Mpirun(int processes, const std::vector<std::string>& command)
      : Mpirun({COMERA_MPIRUN, "-np", std::to_string(processes), "--bind-to", "none"}, command) {}

  // With something else before the command of each process.
  Mpirun(std::vector<std::string> words, const std::vector<std::string>& command) {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
      setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
      setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
      setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);  // not allowed in all containers
      // A separate folder: mpirun removes the default one when it ends, even while another mpirun starts.
      setenv("OMPI_MCA_orte_tmpdir_base", folder_.c_str(), 1);
      setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
      words.insert(words.end(), command.begin(), command.end());
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    reader_ = std::thread([this, end = ends[0]] {
      char buffer[4096];
      for (ssize_t got; (got = read(end, buffer, sizeof buffer)) > 0;)
        result_.output.append(buffer, static_cast<std::size_t>(got));
      close(end);
    });
  }
  ~Mpirun() {
    if (reader_.joinable()) wait();
  }
  Mpirun(const Mpirun&) = delete;
  Mpirun& operator=(const Mpirun&) = delete;

  const ProgramResult& wait() {
    reader_.join();
    int status = 0;
    waitpid(child_, &status, 0);
    result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    return result_;
  }
  pid_t pid() const { return child_; }

 private:
  std::string folder_ = "/tmp/comera-mpi-XXXXXX";
  pid_t child_ = -1;
  std::thread reader_;
  ProgramResult result_;
};

inline ProgramResult run_processes(int processes, const std::vector<std::string>& command) {
  return Mpirun(processes, command).wait();
}

}  // namespace comera::test
