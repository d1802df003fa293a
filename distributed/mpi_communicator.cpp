#include "distributed/mpi_communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <thread>

#include "distributed/mpi_watch.h"
#include "kernels/core/check.h"
#include "kernels/core/machine.h"

// One thread makes all MPI calls, so that any MPI library works, sums proceed while the model computes, and a
// wait can end when another process has died. It starts operations in order without blocking, and watches
// them and the other processes. MPI's own error handler ends the job.

namespace comera {

namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 28;  // per call: counts are int

struct Operation {
  std::function<MPI_Request(MPI_Comm)> begin;
  bool done = false;
};

}  // namespace

class MpiCommunicator final : public Communicator {
 public:
  static std::unique_ptr<Communicator> start() {
    auto service = std::make_unique<Service>();
    const MpiPlace place = service->start();
    return std::unique_ptr<Communicator>(new MpiCommunicator(place, std::move(service)));
  }

  ~MpiCommunicator() override {
    // Others may still be working: no process leaves before all are done.
    service_->wait(enter([](MPI_Comm comm) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Ibarrier(comm, &request);
      return request;
    }));
    service_->end();
  }

  int local_process() const override { return place_.local_process; }
  int local_processes() const override { return place_.local_processes; }
  int own_cpus() const override { return place_.own_cpus; }
  std::string name() const override { return "MPI"; }

  void begin_sum(const Tensor& values, const Stream&) override {
    const bool wide = values.dtype() == DType::float64;
    COMERA_CHECK(wide || values.dtype() == DType::float32, "processes sum float32 and float64, not {}",
                 name_of(values.dtype()));
    begin_reduction(values, wide ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM);
  }
  void begin_max(const Tensor& words, const Stream&) override {
    COMERA_CHECK(words.bytes() % 4 == 0, "processes compare words of 4 bytes, not {} bytes", words.bytes());
    begin_reduction(Tensor(words.raw(), {static_cast<std::int64_t>(words.bytes() / 4)}, DType::float32),
                    MPI_UINT32_T, MPI_MAX);
  }
  void finish(const Stream&) override {
    for (const auto& operation : begun_) service_->wait(operation);
    begun_.clear();
  }

  void sum(std::span<double> values) override {
    constexpr std::size_t most = std::size_t{1} << 27;  // MPI counts in int
    for (std::size_t begin = 0; begin < values.size(); begin += most) {
      const std::span<double> some = values.subspan(begin, std::min(most, values.size() - begin));
      service_->wait(enter([some](MPI_Comm comm) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(MPI_IN_PLACE, some.data(), static_cast<int>(some.size()), MPI_DOUBLE, MPI_SUM, comm,
                       &request);
        return request;
      }));
    }
  }

  std::string broadcast(const std::string& text) override { return broadcast_from(0, text); }

  std::vector<std::string> gather(const std::string& text) override {
    std::vector<std::string> all;
    for (int of = 0; of < world_size(); ++of) all.push_back(broadcast_from(of, text));
    return all;
  }

  void set_patience(const Patience& patience) override { service_->watch().set_patience(patience); }
  void set_advice(const std::string& advice) override { service_->watch().set_advice(advice); }
  void fail(int exit_code, const std::string& message) override { service_->fail(exit_code, message); }

 private:
  using Ticket = std::shared_ptr<Operation>;

  // The thread that calls MPI, and the data it shares with the computing thread.
  class Service {
   public:
    MpiPlace start() {
      thread_ = std::thread([this] { work(); });
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return started_; });
      if (!problem_.empty()) {
        lock.unlock();
        thread_.join();
        throw_error(problem_);
      }
      return place_;
    }

    Ticket enter(std::function<MPI_Request(MPI_Comm)> begin) {
      auto operation = std::make_shared<Operation>();
      operation->begin = std::move(begin);
      {
        const std::scoped_lock lock(mutex_);
        queue_.push_back(operation);
        ++entered_;
      }
      changed_.notify_all();
      return operation;
    }

    void wait(const Ticket& operation) {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.wait(lock, [&] { return operation->done; });
      --waiting_;
    }

    void end() {
      {
        const std::scoped_lock lock(mutex_);
        ending_ = true;
      }
      changed_.notify_all();
      thread_.join();
    }

    MpiWatch& watch() { return watch_; }

    [[noreturn]] void fail(int exit_code, const std::string& message) {
      watch_.set_failure(exit_code, message);
      for (;;) pause();  // the other thread ends the process
    }

   private:
    void work() {
      if (!initialize()) return;
      auto next_look = MpiWatch::Clock::now();
      while (true) {
        std::deque<Ticket> fresh;
        bool computing = false;
        MpiWatch::Progress progress;
        {
          std::unique_lock lock(mutex_);
          if (running_.empty())
            changed_.wait_for(lock, MpiWatch::interval, [this] { return !queue_.empty() || ending_; });
          fresh.swap(queue_);
          if (fresh.empty() && running_.empty() && ending_) break;
          computing = waiting_ == 0;
          progress.entered = entered_;
        }
        for (Ticket& operation : fresh) {
          requests_.push_back(operation->begin(comm_));
          running_.push_back(std::move(operation));
          if (running_.size() == 1) oldest_began_ = MpiWatch::Clock::now();
        }
        const bool moved = test();
        if (const auto now = MpiWatch::Clock::now(); now >= next_look) {
          next_look = now + MpiWatch::interval;
          progress.waiting = !running_.empty();
          progress.since = oldest_began_;
          watch_.look(progress);
        }
        // While the model computes, it needs the processor more than this thread does.
        if (!running_.empty() && !moved) {
          if (computing)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
          else
            sched_yield();
        }
      }
      watch_.end();
      MPI_Finalize();
    }

    bool initialize() {
      int provided = 0;
      const bool ok = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS &&
                      provided >= MPI_THREAD_FUNNELED;
      MpiPlace place;
      MPI_Comm of_watch = MPI_COMM_NULL;
      if (ok) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        MPI_Comm_dup(MPI_COMM_WORLD, &of_watch);
        MPI_Comm_rank(comm_, &place.process);
        MPI_Comm_size(comm_, &place.world_size);
        find_neighbours(place);
      }
      const std::scoped_lock lock(mutex_);
      place_ = place;
      if (ok) watch_.start(of_watch, place_);
      if (!ok)
        problem_ = "MPI could not be started in a separate thread; use an MPI with MPI_THREAD_FUNNELED";
      started_ = true;
      changed_.notify_all();
      return ok;
    }

    // Processes of this machine, and how they share its CPUs: those with the same set of CPUs share it.
    static void find_neighbours(MpiPlace& place) {
      MPI_Comm local = MPI_COMM_NULL;
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
      MPI_Comm_rank(local, &place.local_process);
      MPI_Comm_size(local, &place.local_processes);
      cpu_set_t own;
      CPU_ZERO(&own);
      sched_getaffinity(0, sizeof own, &own);
      std::vector<cpu_set_t> sets(place.local_processes);
      MPI_Allgather(&own, sizeof own, MPI_BYTE, sets.data(), sizeof own, MPI_BYTE, local);
      const auto sharing =
          std::ranges::count_if(sets, [&](const cpu_set_t& set) { return CPU_EQUAL(&set, &own); });
      place.own_cpus = std::max(1, comera::own_cpus() / static_cast<int>(std::max<std::int64_t>(sharing, 1)));
      MPI_Comm_free(&local);
      using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;
      Name name{};
      int length = 0;
      MPI_Get_processor_name(name.data(), &length);
      std::vector<Name> names(place.world_size);
      MPI_Allgather(name.data(), name.size(), MPI_CHAR, names.data(), name.size(), MPI_CHAR, MPI_COMM_WORLD);
      for (const Name& host : names) place.hosts.emplace_back(host.data());
    }

    // Whether anything has ended.
    bool test() {
      if (requests_.empty()) return false;
      int ended = 0;
      indices_.resize(requests_.size());
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &ended, indices_.data(),
                   MPI_STATUSES_IGNORE);
      // Requests that completed immediately are null, and are not counted.
      if (ended == 0 && std::ranges::find(requests_, MPI_REQUEST_NULL) == requests_.end()) return false;
      {
        const std::scoped_lock lock(mutex_);
        std::size_t left = 0;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
          if (requests_[i] == MPI_REQUEST_NULL) {
            running_[i]->done = true;
            continue;
          }
          requests_[left] = requests_[i];
          running_[left++] = running_[i];
        }
        requests_.resize(left);
        running_.resize(left);
      }
      oldest_began_ = MpiWatch::Clock::now();
      changed_.notify_all();
      return true;
    }

    MpiWatch watch_;

    // Shared by both threads, under the mutex.
    std::mutex mutex_;
    std::condition_variable changed_;
    bool started_ = false, ending_ = false;
    std::string problem_;
    MpiPlace place_;
    std::deque<Ticket> queue_;
    std::int64_t entered_ = 0;
    int waiting_ = 0;

    // Used only by MPI's thread.
    std::thread thread_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::vector<Ticket> running_;
    std::vector<MPI_Request> requests_;
    std::vector<int> indices_;
    MpiWatch::Clock::time_point oldest_began_ = MpiWatch::Clock::now();
  };

  MpiCommunicator(MpiPlace place, std::unique_ptr<Service> service)
      : Communicator(place.process, place.world_size),
        place_(std::move(place)),
        service_(std::move(service)) {}

  Ticket enter(std::function<MPI_Request(MPI_Comm)> begin) { return service_->enter(std::move(begin)); }

  void begin_reduction(const Tensor& values, MPI_Datatype type, MPI_Op op) {
    COMERA_CHECK(values.device().kind == DeviceKind::cpu, "MPI sums the host's memory only");
    for (std::int64_t at = 0; at < values.elements(); at += most_elements) {
      const std::int64_t count = std::min(most_elements, values.elements() - at);
      void* data =
          static_cast<std::byte*>(values.raw()) + at * static_cast<std::int64_t>(size_of(values.dtype()));
      begun_.push_back(enter([data, count, type, op](MPI_Comm comm) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), type, op, comm, &request);
        return request;
      }));
    }
  }

  std::string broadcast_from(int of, const std::string& text) {
    std::string copy = text;
    auto bytes = static_cast<std::int64_t>(text.size());
    const auto send = [&](void* data, std::int64_t count) {
      service_->wait(enter([data, count, of](MPI_Comm comm) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Ibcast(data, static_cast<int>(count), MPI_BYTE, of, comm, &request);
        return request;
      }));
    };
    send(&bytes, sizeof bytes);
    copy.resize(static_cast<std::size_t>(bytes));
    send(copy.data(), bytes);
    return copy;
  }

  MpiPlace place_;
  std::unique_ptr<Service> service_;
  std::vector<Ticket> begun_;
};

bool has_mpi() { return true; }

std::unique_ptr<Communicator> start_mpi() { return MpiCommunicator::start(); }

}  // namespace comera
