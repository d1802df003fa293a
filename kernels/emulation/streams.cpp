// Streams, events and graphs. On a machine with deferred streams, work waits until something waits for it;
// then streams are interleaved in a random order that events allow, which exposes missing waits and memory
// that is reused too early.

#include "kernels/emulation/streams.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

namespace comera::emulation {

struct EventState {
  std::uint64_t recorded = 0, done = 0;  // number of records
  std::chrono::steady_clock::time_point done_at;
  GraphState* captured_by = nullptr;  // by the last record, during that capture
};

namespace {

using SharedEvent = std::shared_ptr<EventState>;

class Replay;

// An entry in a queue: work, an event that is recorded or waited for, or a graph. Records of an event are
// numbered from 1, and a wait refers to a record's number.
struct Item {
  enum class Kind : std::uint8_t { work, record, wait, graph } kind = Kind::work;
  std::function<void()> work = {};
  std::function<bool()> ready = {};  // of work that other processes have a part in; empty: always
  SharedEvent event = {};
  std::uint64_t number = 0;
  std::shared_ptr<Replay> graph = {};
};

// Whether the item at the head of a queue can run now.
enum class Turn : std::uint8_t { none, waits_for_event, waits_for_processes, now };

}  // namespace

struct StreamState {
  std::deque<Item> queue;
  GraphState* capturing = nullptr;
};

// The work captured from each participating stream. Events within it are numbered separately.
struct GraphState {
  std::vector<std::pair<StreamState*, std::vector<Item>>> streams;
  cudaError_t fault = cudaSuccess;  // why it cannot become a graph
  int owners = 1;                   // the graph and its instances

  std::vector<Item>* items_of(const StreamState* stream) {
    for (auto& [captured, items] : streams)
      if (captured == stream) return &items;
    return nullptr;
  }
};

namespace {

// Never freed: destructors of other objects may run later.
StreamState& default_stream = *new StreamState;
std::vector<StreamState*>& streams = *new std::vector<StreamState*>{&default_stream};  // in order of creation
std::map<EventState*, SharedEvent>& events = *new std::map<EventState*, SharedEvent>;
int capturing_streams = 0;
cudaError_t last_error = cudaSuccess;
std::vector<std::string>* call_log = nullptr;

StreamState& state_of(cudaStream_t stream) { return stream == nullptr ? default_stream : *stream; }

std::mt19937_64& chance() {
  static std::mt19937_64 random(1);
  static std::uint64_t seed = 1;
  if (seed != machine().seed) random.seed(seed = machine().seed);
  return random;
}

// A random stream whose next item can run; null if there is none.
template <class Stream, class TurnOf>
Stream* one_of(const std::vector<Stream*>& all, const TurnOf& turn_of) {
  std::vector<Stream*> ready;
  for (Stream* stream : all)
    if (turn_of(*stream) == Turn::now) ready.push_back(stream);
  return ready.empty() ? nullptr : ready[chance()() % ready.size()];
}

// Of work and of waits for an event of which `done` records have been reached.
Turn turn_of(const Item& item, std::uint64_t done) {
  if (item.kind == Item::Kind::wait) return done >= item.number ? Turn::now : Turn::waits_for_event;
  return !item.ready || item.ready() ? Turn::now : Turn::waits_for_processes;
}

// A launched graph, whose streams are interleaved in a random order with one another and with the others.
class Replay {
 public:
  explicit Replay(std::shared_ptr<const GraphState> graph) : graph_(std::move(graph)) {
    for (const auto& [stream, items] : graph_->streams) places_.push_back({&items});
    for (Place& place : places_) all_.push_back(&place);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // None: nothing is left, or nothing that could ever run.
  Turn turn() {
    Turn most = Turn::none;
    for (const Place& place : places_) most = std::max(most, turn_in(place));
    return most == Turn::waits_for_event ? Turn::none : most;
  }
  void step() {
    Place* place = one_of(all_, [this](const Place& each) { return turn_in(each); });
    if (place == nullptr) return;
    const Item& item = (*place->items)[place->next++];
    if (item.kind == Item::Kind::work) item.work();
    if (item.kind == Item::Kind::record) done_[item.event.get()] = item.number;
  }

 private:
  struct Place {
    const std::vector<Item>* items;
    std::size_t next = 0;
  };
  Turn turn_in(const Place& place) {
    if (place.next == place.items->size()) return Turn::none;
    const Item& item = (*place.items)[place.next];
    return turn_of(item, done_[item.event.get()]);
  }

  std::shared_ptr<const GraphState> graph_;
  std::vector<Place> places_;
  std::vector<Place*> all_;
  std::map<const EventState*, std::uint64_t> done_;
};

Turn turn_of(const StreamState& stream) {
  if (stream.queue.empty()) return Turn::none;
  const Item& first = stream.queue.front();
  if (first.kind == Item::Kind::graph) return first.graph->turn();
  return turn_of(first, first.event ? first.event->done : 0);
}

// Nothing can run until other processes have done their part.
void wait_for_processes() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point since, last;
  const auto now = Clock::now();
  if (now - last > std::chrono::seconds(1)) since = now;  // it is another wait
  last = now;
  if (now - since > machine().patience)
    throw EmulationError("other processes have not done their part of the work on a stream");
  std::this_thread::sleep_for(std::chrono::microseconds(100));
}

// Runs the first item of some stream, or a step of a graph there. False if nothing is left.
bool do_one() {
  StreamState* stream = one_of(streams, [](const StreamState& each) { return turn_of(each); });
  if (stream == nullptr) {
    bool waits = false, left = false;
    for (const StreamState* each : streams) {
      left |= !each->queue.empty();
      waits |= turn_of(*each) >= Turn::waits_for_processes;  // or did until now
    }
    if (waits) wait_for_processes();
    if (left && !waits) throw EmulationError("streams wait for each other, and none can run");
    return left;
  }
  if (Item& first = stream->queue.front(); first.kind == Item::Kind::graph) {
    const std::shared_ptr<Replay> graph = first.graph;
    graph->step();
    if (graph->turn() == Turn::none) stream->queue.pop_front();
    return true;
  }
  Item item = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (item.kind == Item::Kind::work) item.work();
  if (item.kind == Item::Kind::record) {
    item.event->done = std::max(item.event->done, item.number);
    item.event->done_at = std::chrono::steady_clock::now();
  }
  return true;
}

template <class Done>
void drain_until(const Done& done) {
  while (!done() && do_one()) {
  }
}

void drain(const StreamState& stream) {
  drain_until([&] { return stream.queue.empty(); });
}

void put_item(StreamState& stream, Item item) {
  if (stream.capturing != nullptr) return stream.capturing->items_of(&stream)->push_back(std::move(item));
  stream.queue.push_back(std::move(item));
  if (!machine().late) drain_all();
}

// Whether all work of other streams precedes the last work of the first one: each has recorded an event after
// its work that a joined stream waits for.
bool is_joined(GraphState& graph) {
  std::set<const StreamState*> joined{graph.streams.front().first};
  const auto is_waited_for = [&](const Item& record) {
    for (const auto& [stream, items] : graph.streams)
      if (joined.contains(stream))
        for (const Item& item : items)
          if (item.kind == Item::Kind::wait && item.event == record.event && item.number >= record.number)
            return true;
    return false;
  };
  for (bool more = true; more;) {
    more = false;
    for (const auto& [stream, items] : graph.streams) {
      if (joined.contains(stream)) continue;
      bool ends_joined = false;
      for (const Item& item : items) {
        if (item.kind == Item::Kind::record)
          ends_joined = ends_joined || is_waited_for(item);
        else
          ends_joined = false;
      }
      if (ends_joined) more = joined.insert(stream).second || more;
    }
  }
  return joined.size() == graph.streams.size();
}

void release(GraphState* graph) {
  if (--graph->owners == 0) delete graph;
}

}  // namespace

void log_calls(std::vector<std::string>* to) { call_log = to; }
void log_call(std::string call) {
  if (call_log != nullptr) call_log->push_back(std::move(call));
}

cudaError_t result_of(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t not_while_capturing() {
  return result_of(capturing_streams > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

void drain_all() {
  while (do_one()) {
  }
}

bool is_capturing() { return capturing_streams > 0; }

// ---- Streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (machine().devices == 0) return result_of(cudaErrorInsufficientDriver);
  *stream = new StreamState;
  streams.push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  drain(*stream);
  std::erase(streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  log_call("synchronize");
  drain(state_of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  const StreamState& state = state_of(stream);
  if (!state.queue.empty()) do_one();  // time passes
  return state.queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

namespace {
void put_always(std::string name, cudaStream_t stream, std::function<void()> work) {
  StreamState& state = state_of(stream);
  if (state.capturing == nullptr) log_call(std::move(name));
  if (stream == nullptr) return work();  // the default stream does not wait for others
  put_item(state, {.work = std::move(work)});
}
}  // namespace

void put_when(std::function<bool()> ready, cudaStream_t stream, std::function<void()> work) {
  put_item(state_of(stream), {.work = std::move(work), .ready = std::move(ready)});
}
bool captures(cudaStream_t stream) { return state_of(stream).capturing != nullptr; }

void put(std::string name, cudaStream_t stream, std::function<void()> work) {
  if (!machine().computes) work = [] {};
  put_always(std::move(name), stream, std::move(work));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const char* const names[] = {"", "copy to device", "copy to host", "copy within the device"};
  const std::string name = fmt::format("{} {}", names[kind], bytes);
  const bool captured = state_of(stream).capturing != nullptr;
  // Pageable host memory is read or written before the call returns.
  if (!captured && kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    auto read = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(read->data(), from, bytes);
    put_always(name, stream, [=] { std::memcpy(to, read->data(), bytes); });
    return cudaSuccess;
  }
  put_always(name, stream, [=] { std::memmove(to, from, bytes); });
  if (!captured && kind == cudaMemcpyDeviceToHost && !is_pinned(to)) drain(state_of(stream));
  return cudaSuccess;
}

// ---- Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  auto made = std::make_shared<EventState>();
  *event = made.get();
  events.emplace(made.get(), made);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  events.erase(event);  // shared by items that still record it or wait for it
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  StreamState& state = state_of(stream);
  event->captured_by = state.capturing;
  put_item(state, {.kind = Item::Kind::record, .event = events.at(event), .number = ++event->recorded});
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  StreamState& state = state_of(stream);
  if (event->recorded == 0) return cudaSuccess;
  GraphState* const graph = event->captured_by;
  if (state.capturing != nullptr && state.capturing != graph) {
    state.capturing->fault = cudaErrorStreamCaptureIsolation;  // it would depend on work outside the capture
    return result_of(cudaErrorStreamCaptureIsolation);
  }
  if (graph != nullptr && state.capturing == nullptr) {  // the stream participates from now on
    state.capturing = graph;
    graph->streams.emplace_back(&state, std::vector<Item>());
    ++capturing_streams;
  }
  put_item(state, {.kind = Item::Kind::wait, .event = events.at(event), .number = event->recorded});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  if (event->recorded > 0) log_call("synchronize");  // nothing to wait for otherwise
  drain_until([&] { return event->done >= event->recorded; });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(to->done_at - from->done_at).count();
  return result_of(from->done > 0 && to->done > 0 ? cudaSuccess : cudaErrorInvalidValue);
}

// ---- Graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  StreamState& state = state_of(stream);
  if (stream == nullptr || state.capturing != nullptr) return result_of(cudaErrorStreamCaptureUnsupported);
  if (machine().refuses_captures) return result_of(cudaErrorStreamCaptureUnsupported);
  state.capturing = new GraphState;
  state.capturing->streams.emplace_back(&state, std::vector<Item>());
  ++capturing_streams;
  log_call("begin capture");
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  GraphState* const captured = state_of(stream).capturing;
  if (captured == nullptr) return result_of(cudaErrorStreamCaptureUnsupported);
  if (captured->streams.front().first != stream) return result_of(cudaErrorStreamCaptureWrongThread);
  for (const auto& [each, items] : captured->streams) each->capturing = nullptr;
  capturing_streams -= static_cast<int>(captured->streams.size());
  for (const auto& [event, owned] : events)
    if (event->captured_by == captured) event->captured_by = nullptr, event->recorded = event->done = 0;
  log_call("end capture");
  cudaError_t fault = captured->fault == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
  if (fault == cudaSuccess && !is_joined(*captured)) fault = cudaErrorStreamCaptureUnjoined;
  if (fault != cudaSuccess) {
    release(captured);
    return result_of(fault);
  }
  *graph = captured;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  ++graph->owners;
  *exec = graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  ++exec->owners;
  log_call("graph launch");
  auto replay = std::make_shared<Replay>(std::shared_ptr<GraphState>(exec, release));
  if (replay->turn() == Turn::none) return cudaSuccess;  // it is empty
  put_item(state_of(stream), {.kind = Item::Kind::graph, .graph = std::move(replay)});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  release(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  release(exec);
  return cudaSuccess;
}

}  // namespace comera::emulation
