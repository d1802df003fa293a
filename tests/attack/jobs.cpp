// Jobs whose processes are killed, stopped or given different arguments, and runs that start at once in one
// folder.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "tests/attack/files.h"
#include "tests/attack/kinds.h"
#include "tests/attack/run_folder.h"
#include "tests/attack/sample.h"

namespace comera::attack {

namespace {

const std::vector<std::string>& recipes() {
  static const std::vector<std::string> all = {"plain", "adapting", "finetune", "dense"};
  return all;
}

bool has_ranks(Try& own) {
  const bool has = !two_ranks({}).empty();
  if (!has) own.skip("mpirun was not found");
  return has;
}

Call job_of(const Try& own, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), own.sample().program());
  Call call{.words = two_ranks(arguments), .folder = own.folder(), .environment = settings_of_ranks()};
  call.limits = {.seconds = 60, .memory = 0};
  return call;
}

Call training_job(const Try& own, const std::string& recipe) {
  std::vector<std::string> arguments = own.sample().training(recipe);
  arguments.insert(arguments.end(), {"--resume", "auto"});
  return job_of(own, arguments);
}

// The processes of the job, which mpirun's have started.
std::vector<pid_t> processes_of(const Try& own, const Child& job) {
  std::vector<pid_t> processes;
  std::error_code code;
  for (const pid_t process : job.descendants())
    if (fs::read_symlink(fmt::format("/proc/{}/exe", process), code) == own.sample().program())
      processes.push_back(process);
  return processes;
}

void wait_for_steps(Child& job, const fs::path& run, std::int64_t steps) {
  const std::int64_t wanted = std::max<std::int64_t>(last_metrics_step(run), 0) + steps;
  while (last_metrics_step(run) < wanted && !job.wait_for(0.002)) {
  }
}

// mpirun prints its own messages, so only ours are checked.
void expect_sentence(Try& own, const Call& call, const Ending& ending,
                     const std::vector<std::string>& parts) {
  own.note(fmt::format("$ {}\n# exit code {}, signal {}, {:.1f} s\n{}", text_of(call), ending.code,
                       ending.signal, ending.seconds, ending.err));
  if (ending.late) return own.fail(fmt::format("the job did not end within {:.0f} s", ending.seconds));
  if (ending.code == 0) return own.fail("the job was accepted");
  own.refused();
  const std::string start = "comera: error: ";
  const std::size_t at = ending.err.find(start);
  if (at == ending.err.npos) return own.fail("no sentence");
  if (ending.err.find(start, at + 1) != ending.err.npos) return own.fail("more than one sentence");
  const std::string sentence = ending.err.substr(at, ending.err.find('\n', at) - at);
  if (sentence.find("unexpected:") != sentence.npos) own.fail(sentence);
  for (const std::string& part : parts)
    if (sentence.find(part) == sentence.npos)
      own.fail(fmt::format("the sentence lacks '{}': {}", part, sentence));
}

void expect_success(Try& own, const Call& call) {
  const Ending ending = run(call);
  own.note(fmt::format("$ {}\n# exit code {}, signal {}, {:.1f} s\n{}", text_of(call), ending.code,
                       ending.signal, ending.seconds, ending.err));
  if (ending.code != 0) own.fail(fmt::format("exit code {}: {}", ending.code, sentence_of(ending.err)));
}

void go_on(Try& own, const std::string& recipe) {
  if (!own.failure().empty()) return;
  const fs::path run = own.folder() / "run";
  if (const std::string damage = damage_in(run); !damage.empty()) return own.fail(damage);
  expect_success(own, training_job(own, recipe));
  if (!own.failure().empty()) return;
  if (const std::string found = difference(run, own.sample().finished_by_two(recipe).run); !found.empty())
    own.fail(found);
}

// One process, once or twice in a run.
void killed_ranks(Try& own) {
  if (!has_ranks(own)) return;
  const std::string recipe = own.chance.pick(recipes());
  const fs::path run = own.folder() / "run";
  const int blows = static_cast<int>(own.chance.between(1, 2));
  for (int i = 0; i < blows && own.failure().empty(); ++i) {
    const Call call = training_job(own, recipe);
    Child job(call);
    wait_for_steps(job, run, own.chance.between(0, 6));
    job.wait_for(0.03 * own.chance.share());
    const std::vector<pid_t> processes = processes_of(own, job);
    if (!processes.empty()) kill(own.chance.pick(processes), SIGKILL);
    const Ending ending = job.end();
    own.note(fmt::format("killed at step {}: exit code {}, {:.1f} s\n{}", last_metrics_step(run), ending.code,
                         ending.seconds, ending.err));
    if (ending.late) own.fail("the job did not end when one of its processes was killed");
  }
  go_on(own, recipe);
}

// SIGTERM to all processes, as Slurm does it, or SIGUSR1 to mpirun.
void stopped_jobs(Try& own) {
  if (!has_ranks(own)) return;
  const std::string recipe = own.chance.pick(recipes());
  const fs::path run = own.folder() / "run";
  const Call call = training_job(own, recipe);
  Child job(call);
  wait_for_steps(job, run, own.chance.between(1, 6));
  const bool by_mpirun = own.chance.one_in(2);
  if (by_mpirun)
    job.send(SIGUSR1);
  else
    for (const pid_t process : processes_of(own, job)) kill(process, SIGTERM);
  const Ending ending = job.end();
  own.note(fmt::format("{}: exit code {}, {:.1f} s\n{}{}",
                       by_mpirun ? "SIGUSR1 to mpirun" : "SIGTERM to all processes", ending.code,
                       ending.seconds, ending.out, ending.err));
  if (ending.code != 0) own.fail(fmt::format("a job that was asked to stop ended with {}", ending.code));
  if (last_metrics_step(run) > newest_step(run)) own.fail("a step was done and not saved");
  go_on(own, recipe);
}

// A hanging process is named, and the job ends; a job that is suspended as a whole continues.
void silent_ranks(Try& own) {
  if (!has_ranks(own)) return;
  const std::string recipe = own.chance.pick(recipes());
  const fs::path run = own.folder() / "run";
  const bool all = own.chance.one_in(3);
  const Call call = training_job(own, recipe);
  Child job(call);
  wait_for_steps(job, run, own.chance.between(1, 5));
  const std::vector<pid_t> processes = processes_of(own, job);
  if (processes.size() != 2) {
    own.note("the job had ended before");
  } else if (all) {
    for (const pid_t process : processes) kill(process, SIGSTOP);
    job.wait_for(0.5 + own.chance.share());
    for (const pid_t process : processes) kill(process, SIGCONT);
    const Ending ending = job.end();
    own.note(fmt::format("suspended: exit code {}\n{}", ending.code, ending.err));
    if (ending.code != 0) own.fail(fmt::format("a job that was suspended ended with {}", ending.code));
  } else {
    kill(own.chance.pick(processes), SIGSTOP);
    const Ending ending = job.end();
    if (ending.late || ending.code == 0)
      own.fail(fmt::format("a job of which a process hangs {}", ending.late ? "did not end" : "ended well"));
    own.note(
        fmt::format("a process hangs: exit code {}, {:.1f} s\n{}", ending.code, ending.seconds, ending.err));
  }
  go_on(own, recipe);
}

// Each process has its own folder with files of the same names.
void different_ranks(Try& own) {
  if (!has_ranks(own)) return;
  const Sample& sample = own.sample();
  for (const char* name : {"a", "b"}) {
    const fs::path folder = own.folder() / name;
    fs::create_directories(folder);
    fs::copy(sample.file("shards"), folder / "shards");
    fs::copy_file(sample.file("plain.toml"), folder / "recipe.toml");
    fs::copy_file(sample.file("tok.model"), folder / "tok.model");
  }
  const fs::path other = own.folder() / "b";
  std::vector<std::string> parts;
  std::string text = read_text(other / "recipe.toml");
  const std::size_t way = own.chance.below(4);
  if (way == 0) {
    text.replace(text.find("steps = 9"), 9, "steps = 8");
    parts = {"steps"};
  } else if (way == 1) {
    text.replace(text.find("[run]\n"), 6, "[run]\nseed = 2\n");
    parts = {"seed"};
  } else if (way == 2) {  // as many documents, of another order
    fs::remove_all(other / "shards");
    const Ending made = run(own.comera({"data", "--input", sample.file("source").string(), "--tokenizer",
                                        sample.file("tok.model").string(), "--output",
                                        (other / "shards").string(), "--held-out", "0.4", "--threads", "1"}));
    if (made.code != 0) return own.fail("no other shards could be made");
  } else {
    std::string bytes = read_text(other / "shards" / "train-00000.h5");
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(other / "shards" / "train-00000.h5", bytes);
    parts = {"train-00000.h5"};
  }
  write_text(other / "recipe.toml", text);
  own.note(fmt::format("{}", way == 0   ? "other steps"
                             : way == 1 ? "another seed"
                             : way == 2 ? "other data"
                                        : "a damaged shard"));
  const std::vector<std::string> train = {sample.program(),
                                          "pretrain",
                                          "recipe.toml",
                                          "--set",
                                          "data.train=shards",
                                          "--set",
                                          "data.validation=shards",
                                          "--set",
                                          "data.tokenizer=tok.model",
                                          "--output",
                                          (own.folder() / "run").string()};
  Call call = job_of(own, {});
  call.words = {call.words[0], "--bind-to", "none"};
  for (const char* name : {"a", "b"}) {
    if (call.words.size() > 3) call.words.emplace_back(":");
    call.words.insert(call.words.end(), {"-np", "1", "-wdir", (own.folder() / name).string()});
    call.words.insert(call.words.end(), train.begin(), train.end());
  }
  expect_sentence(own, call, run(call), parts);
  if (newest_step(own.folder() / "run") >= 0) own.fail("processes of different minds have trained");
}

// One of two has the folder; the other is refused, or comes after it.
void two_runs_at_once(Try& own) {
  const std::string recipe = own.chance.pick(recipes());
  std::vector<std::string> arguments = own.sample().training(recipe);
  const bool resumes = own.chance.one_in(2);
  if (resumes) arguments.insert(arguments.end(), {"--resume", "auto"});
  const Call call = own.comera(arguments);
  Child first(call);
  if (own.chance.one_in(2)) first.wait_for(0.1 * own.chance.share());
  Child second(call);
  const Ending one = first.end(), other = second.end();
  for (const Ending& ending : {one, other}) own.check(call, ending, {.names = {"run: "}});
  if (one.code != 0 && other.code != 0) own.fail("neither of two runs had the folder");
  if (one.code == 0 && other.code == 0 && !resumes) own.fail("both runs had the folder");
  if (!own.failure().empty()) return;
  if (const std::string found = difference(own.folder() / "run", own.sample().finished(recipe).run);
      !found.empty())
    own.fail(found);
}

}  // namespace

void attempt_job(Try& own) {
  constexpr void (*ways[])(Try&) = {two_runs_at_once, killed_ranks, different_ranks, stopped_jobs,
                                    two_runs_at_once, killed_ranks, silent_ranks};
  ways[own.number() % std::size(ways)](own);
}

}  // namespace comera::attack
