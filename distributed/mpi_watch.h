#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace comera {

// Where this process is in its job.
struct MpiPlace {
  int process = 0, world_size = 1, local_process = 0, local_processes = 1, own_cpus = 1;
  std::vector<std::string> hosts;  // of each process
};

// Whether the other processes live and come to where they are waited for, and how a job ends that cannot go
// on. Signs of life go between the first process and each of the others.
class MpiWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto interval = std::chrono::milliseconds(100);  // between two looks

  // ---- Of any thread.

  void set_patience(const Communicator::Patience& patience);
  void set_advice(const std::string& advice);
  // The next looks tell the others and end the process.
  void set_failure(int exit_code, const std::string& message);

  // ---- Of the thread that calls MPI.

  // A communicator of its own; `place` as long as this.
  void start(MPI_Comm communicator, const MpiPlace& place);
  // What this process knows of collective operations: to how many it has come, and since when it waits for
  // one to move (if it does).
  struct Progress {
    std::int64_t entered = 0;
    bool waiting = false;
    Clock::time_point since;
  };
  void look(const Progress& progress);
  void end();

 private:
  struct Failure {
    int exit_code = 0;
    std::string message;
  };
  // A sign of life: to how many collective operations the process has come.
  struct Life {
    std::int64_t entered = 0;
  };
  struct Heard {
    Clock::time_point when;
    std::int64_t entered;
  };

  std::string named(int process) const;
  void send_life(int process, std::int64_t entered);
  void receive_life(Clock::time_point now);
  void check_silence(Clock::time_point now, const Communicator::Patience& patience);
  void check_stall(const Progress& progress, Clock::time_point now, const Communicator::Patience& patience);
  void give_way() const;
  void report(const Failure& own);
  Failure received_failure();
  [[noreturn]] void end_after_collecting(const Failure& first);
  [[noreturn]] void end_job(int exit_code, std::string message, bool with_advice = true);

  mutable std::mutex mutex_;
  Communicator::Patience patience_;
  std::string advice_;
  Failure own_failure_;

  MPI_Comm comm_ = MPI_COMM_NULL;
  const MpiPlace* place_ = nullptr;
  Clock::time_point last_look_, last_sign_, awake_since_;
  std::vector<Heard> heard_;
  std::vector<MPI_Request> sending_;
  std::vector<Life> sent_;
  Life received_;
  MPI_Request receiving_ = MPI_REQUEST_NULL, reporting_ = MPI_REQUEST_NULL;
  std::map<std::string, std::set<int>> failed_;  // message: by whom
  std::string report_;
  Clock::time_point report_until_;
};

}  // namespace comera
