#include "distributed/mpi_watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "distributed/launcher.h"
#include "kernels/core/console.h"

namespace comera {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr int life_tag = 1, failure_tag = 2;
constexpr double life_interval = 1;         // seconds between signs of life
constexpr double failure_collection = 0.5;  // seconds process 0 waits for others to report the same
constexpr double asleep = 2;  // a longer gap between two checks means that the process was suspended

void drop(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return;
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace

void MpiWatch::set_patience(const Communicator::Patience& patience) {
  const std::scoped_lock lock(mutex_);
  patience_ = patience;
}

void MpiWatch::set_advice(const std::string& advice) {
  const std::scoped_lock lock(mutex_);
  advice_ = advice;
}

void MpiWatch::set_failure(int exit_code, const std::string& message) {
  const std::scoped_lock lock(mutex_);
  own_failure_ = {exit_code, message};
}

void MpiWatch::start(MPI_Comm communicator, const MpiPlace& place) {
  comm_ = communicator;
  place_ = &place;
  last_look_ = awake_since_ = Clock::now();
  heard_.assign(place.world_size, {last_look_, 0});
  sending_.assign(place.world_size, MPI_REQUEST_NULL);
  sent_.assign(place.world_size, Life{});
}

void MpiWatch::end() {
  for (MPI_Request& request : sending_) drop(request);
  drop(receiving_);
}

void MpiWatch::look(const Progress& progress) {
  const auto now = Clock::now();
  // A job that was suspended as a whole is as alive as before: its missing messages are no sign of failure.
  if (now - last_look_ > Seconds(asleep)) {
    awake_since_ = now;
    for (Heard& heard : heard_) heard.when = now;
  }
  last_look_ = now;
  Failure own;
  Communicator::Patience patience;
  {
    const std::scoped_lock lock(mutex_);
    own = own_failure_;
    patience = patience_;
  }
  if (own.exit_code != 0) {
    if (place_->process == 0) end_after_collecting(own);
    return report(own);
  }
  if (now - last_sign_ >= Seconds(life_interval)) {
    last_sign_ = now;
    if (place_->process == 0)
      for (int process = 1; process < place_->world_size; ++process) send_life(process, progress.entered);
    else
      send_life(0, progress.entered);
  }
  receive_life(now);
  if (place_->process == 0)
    if (const Failure other = received_failure(); other.exit_code != 0) end_after_collecting(other);
  check_silence(now, patience);
  check_stall(progress, now, patience);
}

// ---- Signs of life.

void MpiWatch::send_life(int process, std::int64_t entered) {
  int done = 1;
  if (sending_[process] != MPI_REQUEST_NULL) MPI_Test(&sending_[process], &done, MPI_STATUS_IGNORE);
  if (done == 0) return;
  sent_[process].entered = entered;
  MPI_Isend(&sent_[process], sizeof(Life), MPI_BYTE, process, life_tag, comm_, &sending_[process]);
}

void MpiWatch::receive_life(Clock::time_point now) {
  while (true) {
    if (receiving_ == MPI_REQUEST_NULL)
      MPI_Irecv(&received_, sizeof received_, MPI_BYTE, MPI_ANY_SOURCE, life_tag, comm_, &receiving_);
    int done = 0;
    MPI_Status status;
    MPI_Test(&receiving_, &done, &status);
    if (done == 0) return;
    heard_[status.MPI_SOURCE] = {now, received_.entered};
  }
}

std::string MpiWatch::named(int process) const {
  return fmt::format("process {} ({})", process, place_->hosts[process]);
}

// All others notice a problem of process 0 at once: they get time, one after the other, to report it and to
// end the rest.
void MpiWatch::give_way() const {
  if (place_->process > 1)
    std::this_thread::sleep_for(std::chrono::seconds(std::min(place_->process - 1, 30)));
}

void MpiWatch::check_silence(Clock::time_point now, const Communicator::Patience& patience) {
  const int first = place_->process == 0 ? 1 : 0, end = place_->process == 0 ? place_->world_size : 1;
  for (int process = first; process < end; ++process) {
    if (now - heard_[process].when <= Seconds(patience.silent_seconds)) continue;
    give_way();
    kill_stuck_launcher(place_->process);
    end_job(1,
            fmt::format("{} has not been heard of for {:.0f} s: it has died or the network to it is broken",
                        named(process), patience.silent_seconds));
  }
}

void MpiWatch::check_stall(const Progress& progress, Clock::time_point now,
                           const Communicator::Patience& patience) {
  if (!progress.waiting || now - std::max(progress.since, awake_since_) <= Seconds(patience.stalled_seconds))
    return;
  // Process 0 watches all others; they watch only process 0.
  const int first = place_->process == 0 ? 1 : 0, end = place_->process == 0 ? place_->world_size : 1;
  std::string who;
  for (int process = first; process < end; ++process)
    if (heard_[process].entered < progress.entered) who += (who.empty() ? "" : ", ") + named(process);
  if (place_->process != 0 && who.empty()) return;
  give_way();
  kill_stuck_launcher(place_->process);
  end_job(1, who.empty() ? fmt::format("all processes wait at the same place, but have exchanged nothing for "
                                       "{:.0f} s: the network between them is broken",
                                       patience.stalled_seconds)
                         : fmt::format("{} is alive, but has kept the others waiting for {:.0f} s", who,
                                       patience.stalled_seconds));
}

// ---- Ending the job.

// Sent to process 0, which reports for all.
void MpiWatch::report(const Failure& own) {
  if (report_.empty()) {
    report_ = std::to_string(own.exit_code) + ' ' + own.message;
    report_until_ = Clock::now() + std::chrono::seconds(10);
    MPI_Isend(report_.data(), static_cast<int>(report_.size()), MPI_CHAR, 0, failure_tag, comm_, &reporting_);
  }
  int done = 0;
  MPI_Test(&reporting_, &done, MPI_STATUS_IGNORE);
  if (Clock::now() > report_until_) end_job(own.exit_code, own.message);
}

MpiWatch::Failure MpiWatch::received_failure() {
  int there = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, comm_, &there, &status);
  if (there == 0) return {};
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  std::string text(static_cast<std::size_t>(bytes), ' ');
  MPI_Recv(text.data(), bytes, MPI_CHAR, status.MPI_SOURCE, failure_tag, comm_, MPI_STATUS_IGNORE);
  const std::size_t space = text.find(' ');
  failed_[text.substr(space + 1)].insert(status.MPI_SOURCE);
  return {std::max(std::atoi(text.c_str()), 1), text.substr(space + 1)};
}

// Reports this process's failure, or those reported by others while this one is healthy.
void MpiWatch::end_after_collecting(const Failure& first) {
  const auto until = Clock::now() + Seconds(failure_collection);
  while (Clock::now() < until) {
    received_failure();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Failure own;
  {
    const std::scoped_lock lock(mutex_);
    own = own_failure_;
  }
  std::string said;
  if (own.exit_code != 0) {
    // A message that all processes report is not attributed to any of them.
    const auto same = failed_.find(own.message);
    const bool everybody =
        same != failed_.end() && static_cast<int>(same->second.size()) == place_->world_size - 1;
    said = everybody ? own.message : named(0) + ": " + own.message;
    failed_.erase(own.message);
  }
  for (const auto& [message, processes] : failed_)
    said += fmt::format("{}{}: {}", said.empty() ? "" : "; ", named(*processes.begin()), message);
  end_job(first.exit_code, said, own.exit_code == 0);
}

void MpiWatch::end_job(int exit_code, std::string message, bool with_advice) {
  {
    const std::scoped_lock lock(mutex_);
    if (with_advice && !advice_.empty()) message += "; " + advice_;
  }
  log_info("comera: error: {}\n", message);
  // If MPI fails to end all processes, at least this one ends.
  alarm(10);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  _exit(exit_code);
}

}  // namespace comera
