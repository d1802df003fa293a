// Runs that are killed again and again, at random moments and while a checkpoint is written, and end as if
// nothing had happened.
#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "tests/attack/files.h"
#include "tests/attack/kinds.h"
#include "tests/attack/run_folder.h"
#include "tests/attack/sample.h"

namespace comera::attack {

namespace {

// Waits until a temporary file appears in the folder for the n-th time, or the child ends.
void wait_for_temporary(Child& child, const fs::path& folder, int n) {
  while (!fs::exists(folder))
    if (child.wait_for(0.001)) return;
  const int events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  const int watched = inotify_add_watch(events, folder.c_str(), IN_CREATE);
  while (watched >= 0 && n > 0 && !child.wait_for(0.0005)) {
    alignas(inotify_event) char buffer[4096];
    const ssize_t got = read(events, buffer, sizeof buffer);
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      if (std::string_view(event->name).find("tmp") != std::string_view::npos) --n;
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  close(events);
}

void wait_for_steps(Child& child, const fs::path& run, std::int64_t steps) {
  const std::int64_t wanted = last_metrics_step(run) + steps;
  while (last_metrics_step(run) < wanted && !child.wait_for(0.001)) {
  }
}

struct Blow {
  int signal = SIGKILL;
  bool twice = false;
  std::string moment;
};

// Waits for a moment to strike.
Blow aim(Try& own, Child& child, const fs::path& run, double seconds) {
  Blow blow;
  switch (own.chance.below(4)) {
    case 0: {
      const double wait = own.chance.share() * seconds;
      child.wait_for(wait);
      blow.moment = fmt::format("after {:.3f} s", wait);
      break;
    }
    case 1: {
      const std::int64_t steps = own.chance.between(1, 6);
      wait_for_steps(child, run, steps);
      blow.moment = fmt::format("after {} steps", steps);
      break;
    }
    default: {
      const int n = static_cast<int>(own.chance.between(1, 5));
      const double wait = 0.004 * std::pow(own.chance.share(), 3);
      wait_for_temporary(child, run / "checkpoints", n);
      child.wait_for(wait);
      blow.moment = fmt::format("{:.1f} ms after a temporary file came, for the time {}", 1e3 * wait, n);
    }
  }
  if (own.chance.one_in(6)) {
    constexpr int asking[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    blow.signal = own.chance.pick(asking);
    blow.twice = own.chance.one_in(4);
  }
  return blow;
}

// What a process asked to stop may do: save and end, or end by the signal before it has begun, or after all
// is done and saved.
void check_stopped(Try& own, const fs::path& run, const Blow& blow, const Ending& ending, bool had_begun,
                   bool all_saved) {
  const std::string name = strsignal(blow.signal);
  const bool by_signal = ending.signal == blow.signal || ending.code == 128 + blow.signal;
  if (by_signal && (blow.twice || !had_begun || all_saved)) return;
  if (by_signal)
    return own.fail(fmt::format("'{}' ended a run that was on its way, and nothing was saved", name));
  if (std::string fault = fault_in(ending, {.refusal = false}); !fault.empty())
    return own.fail(fmt::format("after '{}': {}", name, fault));
  if (last_metrics_step(run) > newest_step(run))
    own.fail(fmt::format("after '{}' step {} was done, and only {} saved", name, last_metrics_step(run),
                         newest_step(run)));
}

// A run, ended until it has finished.
void attempt_run(Try& own, const std::string& recipe) {
  const Sample::Finished& expected = own.sample().finished(recipe);
  std::vector<std::string> arguments = own.sample().training(recipe);
  arguments.insert(arguments.end(), {"--resume", "auto"});
  const Call call = own.comera(arguments);
  const fs::path run = own.folder() / "run";
  own.note(fmt::format("{}: $ {}", recipe, text_of(call)));
  const int most = static_cast<int>(own.chance.between(2, 9));
  int blows = 0;
  while (blows < most && own.failure().empty()) {
    const std::int64_t saved = newest_step(run), metrics = last_metrics_step(run);
    Child child(call);
    const Blow blow = aim(own, child, run, expected.seconds);
    if (!child.running()) {
      own.check(call, child.end(), {.refusal = false});
      if (newest_step(run) == newest_step(expected.run)) break;
      continue;
    }
    const bool had_begun = last_metrics_step(run) > metrics;
    child.send(blow.signal);
    if (blow.twice) child.send(blow.signal);
    const Ending ending = child.end();
    ++blows;
    own.note(fmt::format("{}, {}: exit code {}, signal {}, checkpoint {}, metrics {}\n{}", blow.moment,
                         strsignal(blow.signal), ending.code, ending.signal, newest_step(run),
                         last_metrics_step(run), ending.err));
    if (ending.late)
      own.fail(fmt::format("'{}' did not end it within {:.0f} s", strsignal(blow.signal), ending.seconds));
    const bool all_saved = newest_step(run) == newest_step(expected.run);
    if (blow.signal != SIGKILL) check_stopped(own, run, blow, ending, had_begun, all_saved);
    if (newest_step(run) < saved)
      own.fail(
          fmt::format("the checkpoint of step {} was lost: now the last is {}", saved, newest_step(run)));
    if (const std::string damage = damage_in(run); !damage.empty()) own.fail(damage);
  }
  own.count(std::max(blows, 1));
  if (!own.failure().empty()) return;
  own.check(call, {.refusal = false});
  if (const std::string found = difference(run, expected.run); !found.empty()) own.fail(found);
}

// Shards that replace others: the result is the old set, the new one, or a refusal, and never a mixture.
void attempt_shards(Try& own) {
  const Sample& sample = own.sample();
  const fs::path shards = own.folder() / "shards";
  fs::copy(sample.file("shards"), shards);
  const Call call = own.comera({"data", "--input", sample.file("source").string(), "--tokenizer",
                                sample.file("tok.model").string(), "--output", shards.string(), "--held-out",
                                "0.3", "--tokens-per-shard", "1500", "--threads", "1", "--overwrite"});
  Ending whole = run(call);
  const int blows = static_cast<int>(own.chance.between(1, 4));
  for (int i = 0; i < blows; ++i) {
    Child child(call);
    child.wait_for(own.chance.share() * whole.seconds);
    child.send(SIGKILL);
    child.end();
  }
  own.count(blows);
  own.check(own.comera({"pretrain", sample.file("plain.toml").string(), "--stop-after", "1", "--set",
                        fmt::format("data.train=\"{}\"", shards.string()), "--set",
                        fmt::format("data.validation=\"{}\"", shards.string())}),
            {.names = {shards.string()}});
  own.check(call, {.refusal = false});
  fs::create_directories(own.folder() / "again");
  Call again = call;
  for (std::string& word : again.words)
    if (word == shards.string()) word = (own.folder() / "again").string();
  own.check(again, {.refusal = false});
  std::vector<std::string> ours, theirs;
  for (const auto& entry : fs::directory_iterator(shards)) ours.push_back(entry.path().filename());
  for (const auto& entry : fs::directory_iterator(own.folder() / "again"))
    theirs.push_back(entry.path().filename());
  std::ranges::sort(ours);
  std::ranges::sort(theirs);
  if (ours != theirs) return own.fail("other shards than without the kills");
  for (const std::string& name : ours)
    if (read_text(shards / name) != read_text(own.folder() / "again" / name))
      own.fail(name + " is another one than without the kills");
}

}  // namespace

void attempt_kill(Try& own) {
  if (own.number() % 2 == 1) return kill_product(own);
  if (own.chance.one_in(12)) return attempt_shards(own);
  attempt_run(own, own.chance.pick(Sample::recipes()));
}

}  // namespace comera::attack
