// Drives the program from outside, from a seed, while its surroundings fail: docs/developer/testing.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <thread>

#include "tests/attack/kinds.h"
#include "tests/attack/record.h"
#include "tests/attack/sample.h"
#include "tests/attack/sandbox.h"

namespace comera::attack {

namespace {

constexpr const char* usage =
    R"(attack [options]: ends comera in many ways, gives it bad input and bad surroundings, and sees that nothing is lost
  --kind KIND     kills, faults, mutants, command-lines or jobs; may be repeated (default: all)
  --seed S        of everything random (default: 1)
  --tries N       of each kind (default: a few; with COMERA_ATTACK=all in the environment, many)
  --only NUMBER   this try of the kind alone; its files are kept
  --jobs J        tries at a time (default: 1)
  --minutes M     begin no try after so long; goes on with the same --record
  --record FILE   a line for every try; those that it has are not done again (default: with COMERA_ATTACK=all
                  attack-KIND-SEED.tsv in the working folder, empty again when all is done)
  --folder DIR    where tries have their files (default: a new one among the temporary files)
  --program FILE  what is attacked (default: the comera that this was built with)
)";

struct Options {
  std::vector<std::string> kinds;
  std::uint64_t seed = 1;
  std::int64_t tries = 0, only = -1;
  int jobs = 1;
  double minutes = 1e9;
  std::string record, folder, program = COMERA_PROGRAM;
};

bool asked_for_all() {
  const char* wish = std::getenv("COMERA_ATTACK");
  return wish != nullptr && std::string_view(wish) == "all";
}

std::int64_t wanted_of(const Kind& kind, const Options& options) {
  return options.tries > 0 ? options.tries : asked_for_all() ? kind.many : kind.few;
}

[[noreturn]] void misused(const std::string& why) {
  fmt::print(stderr, "attack: {}\n{}", why, usage);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      fmt::print("{}", usage);
      std::exit(0);
    }
    if (i + 1 == argc) misused(name + " needs a value");
    const std::string value = argv[++i];
    try {
      if (name == "--kind")
        options.kinds.push_back(value);
      else if (name == "--seed")
        options.seed = std::stoull(value);
      else if (name == "--tries")
        options.tries = std::stoll(value);
      else if (name == "--only")
        options.only = std::stoll(value);
      else if (name == "--jobs")
        options.jobs = std::stoi(value);
      else if (name == "--minutes")
        options.minutes = std::stod(value);
      else if (name == "--record")
        options.record = value;
      else if (name == "--folder")
        options.folder = value;
      else if (name == "--program")
        options.program = value;
      else
        misused("there is no option " + name);
    } catch (const std::logic_error&) {
      misused(fmt::format("{} is no number for {}", value, name));
    }
  }
  return options;
}

// Ends running programs and removes their files when the attack ends.
void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupt(); };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

fs::path own_folder(const Options& options) {
  if (!options.folder.empty()) {
    fs::create_directories(options.folder);
    return fs::canonical(options.folder);
  }
  std::string pattern = (fs::temp_directory_path() / "comera-attack-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error(pattern + ": no folder can be made");
  return fs::canonical(pattern);
}

class Attack {
 public:
  Attack(Options options, fs::path folder, Record& record, const Sample& sample)
      : options_(std::move(options)), folder_(std::move(folder)), record_(record), sample_(sample) {}

  void of(const Kind& kind) {
    const std::int64_t wanted = wanted_of(kind, options_);
    if (options_.only >= 0) return attempt(kind, static_cast<std::uint64_t>(options_.only));
    std::atomic<std::uint64_t> next = 0;
    const auto work = [&] {
      while (!interrupted() && minutes() < options_.minutes && record_.attacks(kind.name) < wanted) {
        const std::uint64_t number = next++;
        if (!record_.has(kind.name, number)) attempt(kind, number);
      }
    };
    const auto begin = std::chrono::steady_clock::now();
    const int before = record_.attacks(kind.name);
    std::vector<std::thread> workers;
    for (int i = 1; i < options_.jobs; ++i) workers.emplace_back(work);
    work();
    for (std::thread& worker : workers) worker.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const int made = record_.attacks(kind.name) - before;
    fmt::print("{}: {} tries in {:.0f} s, {:.0f} a minute\n", kind.name, made, seconds, made * 60 / seconds);
    std::fflush(stdout);
  }

  bool keeps_files() const { return kept_; }

 private:
  double minutes() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() / 60;
  }

  void attempt(const Kind& kind, std::uint64_t number) {
    Try own(kind.name, options_.seed, number, folder_ / fmt::format("{}-{}", kind.name, number), sample_);
    try {
      kind.attempt(own);
    } catch (const Interrupted&) {
      return clean(own);
    } catch (const std::exception& error) {
      own.fail(std::string("the attack itself failed: ") + error.what());
    }
    record_.add({kind.name, number, own.attacks(), own.was_refused(), own.failure(), own.skipped()});
    if (own.failure().empty() && options_.only < 0) return clean(own);
    kept_ = true;
    fmt::print("{} {}: {}\n  files: {}\n  again: {} --kind {} --seed {} --only {} --folder {}\n", kind.name,
               number,
               !own.failure().empty()   ? "FAILED: " + own.failure()
               : !own.skipped().empty() ? "skipped: " + own.skipped()
               : own.was_refused()      ? "was refused"
                                        : "ended well",
               own.folder().string(), fs::read_symlink("/proc/self/exe").string(), kind.name, options_.seed,
               number, folder_.string());
    std::fflush(stdout);
  }

  static void clean(const Try& own) {
    std::error_code ignored;
    fs::permissions(own.folder(), fs::perms::owner_all, ignored);
    fs::remove_all(own.folder(), ignored);
  }

  Options options_;
  fs::path folder_;
  Record& record_;
  const Sample& sample_;
  std::atomic<bool> kept_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

int attack(const Options& options) {
  std::vector<Kind> chosen;
  for (const std::string& name : options.kinds) {
    const auto found = std::ranges::find(kinds(), name, &Kind::name);
    if (found == kinds().end()) misused("there is no kind " + name);
    chosen.push_back(*found);
  }
  if (chosen.empty()) chosen = kinds();
  if (options.only >= 0 && chosen.size() != 1) misused("--only needs one --kind");
  const bool goes_on = options.record.empty() && options.only < 0 && asked_for_all() && chosen.size() == 1;
  Record record(goes_on ? fmt::format("attack-{}-{}.tsv", chosen[0].name, options.seed) : options.record,
                options.seed);
  const fs::path folder = own_folder(options);
  enter_private_mounts(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  bool keeps_files = false;
  try {
    const fs::path sample_folder = folder / "sample";
    fs::remove_all(sample_folder);
    const Sample sample(sample_folder, fs::canonical(options.program).string());
    Attack own(options, folder, record, sample);
    for (const Kind& kind : chosen) own.of(kind);
    keeps_files = own.keeps_files();
  } catch (const Interrupted&) {
    fmt::print("interrupted\n");
  }
  end_orphans();
  fmt::print("\n{}", record.table());
  const bool complete = std::ranges::all_of(
      chosen, [&](const Kind& kind) { return record.attacks(kind.name) >= wanted_of(kind, options); });
  if (goes_on && complete) record.clear_file();
  if (!keeps_files && options.folder.empty()) remove_own_folder(folder);
  if (record.failed() || interrupted()) return 1;
  return record.only_skipped() ? 77 : 0;  // which CTest takes for skipped
}

}  // namespace

}  // namespace comera::attack

int main(int argc, char** argv) {
  using namespace comera::attack;
  const Options options = parse(argc, argv);
  stop_on_signals();
  try {
    return attack(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "attack: {}\n", error.what());
    end_orphans();
    return 1;
  }
}
