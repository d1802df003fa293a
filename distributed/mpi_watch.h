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

// The position of this process in its job.
struct MpiPlace {
  int process = 0, world_size = 1, local_process = 0, local_processes = 1, own_cpus = 1;
  std::vector<std::string> hosts;  // of each process
};

// Checks that the other processes live and reach the collective operations, and ends a job that cannot
// continue. Signs of life are exchanged between process 0 and each of the others.
class MpiWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto interval = std::chrono::milliseconds(100);  // between two checks

  // ---- Called by any thread.

  void set_patience(const Communicator::Patience& patience);
  void set_advice(const std::string& advice);
  // The next checks inform the others and end the process.
  void set_failure(int exit_code, const std::string& message);

  // ---- Called by the thread that calls MPI.

  // Takes a dedicated communicator; `place` must live as long as this.
  void start(MPI_Comm communicator, const MpiPlace& place);
  // This process's progress in collective operations: how many it has reached, and since when it has been
  // waiting for one to proceed (if it does).
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
  // A sign of life: the number of collective operations that the process has reached.
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
  std::map<std::string, std::set<int>> failed_;  // message: processes that sent it
  std::string report_;
  Clock::time_point report_until_;
};

}  // namespace comera
