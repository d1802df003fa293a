// Names that are missing, taken by something else, or go while they are used.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/attack/files.h"
#include "tests/attack/scene.h"

namespace comera::attack {

namespace {

constexpr const char* in_the_way = "in the way\n";

// Puts something of that sort where nothing is.
void lay(const fs::path& place, const std::string& sort, const fs::path& folder) {
  fs::create_directories(place.parent_path());
  if (sort == "file") write_text(place, in_the_way);
  if (sort == "empty file") write_text(place, "");
  if (sort == "folder") {
    fs::create_directories(place / "within");
    write_text(place / "within" / "file", in_the_way);
  }
  if (sort == "link to nothing") fs::create_symlink(folder / "nothing", place);
  if (sort == "link to itself") fs::create_symlink(place.filename(), place);
  if (sort == "pipe") mkfifo(place.c_str(), 0666);
  if (sort == "link to /dev/full") fs::create_symlink("/dev/full", place);
}

const std::vector<std::string>& sorts() {
  static const std::vector<std::string> all = {
      "file", "empty file", "folder", "link to nothing", "link to itself", "pipe", "link to /dev/full"};
  return all;
}

const std::vector<std::string>& parts() {
  static const std::vector<std::string> all = {"",
                                               "checkpoints",
                                               "metrics.jsonl",
                                               "recipe.toml",
                                               "tokenizer.model",
                                               "lock",
                                               "best.h5",
                                               "checkpoints/latest",
                                               "checkpoints/step-00000012.h5",
                                               "checkpoints/step-00000010.h5",
                                               "checkpoints/step-00000099.h5",
                                               "recipe.toml.tmp",
                                               "tokenizer.model.tmp",
                                               "best.h5.tmp",
                                               "checkpoints/latest.tmp",
                                               "checkpoints/step-00000012.h5.tmp"};
  return all;
}

void clear(const fs::path& place) {
  std::error_code ignored;
  fs::remove_all(place, ignored);
}

}  // namespace

void something_in_the_way(Try& own) {
  Scene scene(own, own.folder());
  const bool half = !own.chance.one_in(3);
  if (half) scene.stand_half_way();
  std::string part = own.chance.pick(parts());
  const std::string sort = own.chance.pick(sorts());
  if (part.empty() && half) part = "lock";
  const fs::path place = part.empty() ? scene.run() : scene.run() / part;
  own.note(fmt::format("{} in place of {}, {}", sort, part.empty() ? "run" : part,
                       half ? "half-way" : "before the beginning"));
  const fs::path aside = own.folder() / "aside";
  const bool displaced = fs::exists(place);
  if (displaced) fs::rename(place, aside);
  lay(place, sort, own.folder());
  const Ending ending = own.check(scene.training(), {.names = {place.filename().string(), "run"}});
  if (const std::string damage = damage_in(scene.run());
      !damage.empty() && damage.find(place.filename().string()) == damage.npos)
    own.fail(damage);
  // If it was tolerated, the content now there belongs to the run.
  if (sort == "folder") clear(place / "within");
  std::error_code none;
  const fs::file_type now = fs::symlink_status(place, none).type();
  const bool is_its_own = now == fs::file_type::not_found ||
                          (now == fs::file_type::regular && read_text(place) != in_the_way) ||
                          (part == "checkpoints" && now == fs::file_type::directory);
  const bool taken_over = ending.code == 0 && is_its_own && !part.ends_with(".tmp");
  if (!taken_over) {
    clear(place);
    if (displaced) fs::rename(aside, place);
  }
  const bool metrics = part != "metrics.jsonl" || !half;
  scene.go_on({.metrics = metrics});
}

void missing_part(Try& own) {
  Scene scene(own, own.folder());
  scene.stand_half_way();
  static const std::vector<std::string> all = {
      "",     "checkpoints",        "metrics.jsonl", "recipe.toml", "tokenizer.model",
      "lock", "checkpoints/latest", "best.h5"};
  const std::string part = own.chance.pick(all);
  own.note(fmt::format("without {}", part.empty() ? "run" : part));
  clear(part.empty() ? scene.run() : scene.run() / part);
  const Ending ending = own.check(scene.training(), {.names = {"run"}});
  if (ending.code != 0) return;
  // The best model so far cannot be made again.
  if (part == "best.h5") return;
  const std::string found = difference(scene.run(), own.sample().finished(scene.recipe()).run,
                                       {.metrics = part != "metrics.jsonl"});
  if (!found.empty()) own.fail(fmt::format("without {}: {}", part, found));
}

namespace {

constexpr const char* untouched = "what someone else needs\n";

void check_victim(Try& own, const fs::path& victim) {
  if (!fs::is_regular_file(fs::symlink_status(victim)) || read_text(victim) != untouched)
    own.fail("a file that a link at a temporary name led to was changed");
}

}  // namespace

void links_at_temporary_names(Try& own) {
  Scene scene(own, own.folder());
  const fs::path victim = own.folder() / "victim";
  write_text(victim, untouched);
  const bool trains = own.chance.one_in(2);
  const Call call = trains ? scene.training() : scene.reading();
  if (trains && own.chance.one_in(2)) scene.stand_half_way();
  for (const char* name : {"run/recipe.toml", "run/tokenizer.model", "run/best.h5", "run/checkpoints/latest",
                           "run/checkpoints/step-00000012.h5", "p.tsv", "v.h5", "t.model", "small.h5",
                           "shards/train-00000.h5", "pairs/train.jsonl", "pairs/validation.jsonl"}) {
    const fs::path place = own.folder() / name;
    if (!trains == std::string_view(name).starts_with("run/")) continue;
    for (const char* end : {".tmp", ".partial"}) lay(place.string() + end, "none", own.folder());
    for (const char* end : {".tmp", ".partial"}) fs::create_symlink(victim, place.string() + end);
  }
  own.check(call, {});
  check_victim(own, victim);
  for (const auto& entry : fs::recursive_directory_iterator(own.folder()))
    if (entry.is_symlink()) clear(entry.path());
  if (trains) scene.go_on();
}

// Checkpoints' temporary files are removed when a run begins: these links come later.
void links_laid_meanwhile(Try& own) {
  Scene scene(own, own.folder());
  scene.stand_half_way();
  const fs::path victim = own.folder() / "victim";
  write_text(victim, untouched);
  const Call call = scene.training();
  Child child(call);
  const std::int64_t before = last_metrics_step(scene.run());
  while (last_metrics_step(scene.run()) == before && !child.wait_for(0.0005)) {
  }
  std::error_code ignored;
  const std::string process = std::to_string(child.pid());
  for (const std::string name :
       {"step-00000012.h5", "step-00000015.h5", "step-00000016.h5", "step-00000018.h5", "latest"}) {
    const fs::path folder = scene.run() / "checkpoints";
    fs::create_symlink(victim, folder / (name + ".tmp"), ignored);
    fs::create_symlink(victim, folder / ("." + name + "." + process + ".comera-tmp"), ignored);
  }
  own.check(call, child.end(), {});
  check_victim(own, victim);
  for (const auto& entry : fs::recursive_directory_iterator(own.folder()))
    if (entry.is_symlink()) clear(entry.path());
  if (const std::string damage = damage_in(scene.run()); !damage.empty()) own.fail(damage);
  scene.go_on();
}

// The run itself, its parts or its data are removed or renamed during training.
void vanishing(Try& own) {
  const Sample& sample = own.sample();
  Scene scene(own, own.folder());
  fs::copy(sample.file("shards"), own.folder() / "shards");
  fs::copy_file(sample.file("tok.model"), own.folder() / "tok.model");
  Call call = own.comera({"pretrain", sample.file("plain.toml").string(), "--resume", "auto", "--set",
                          "data.train=shards", "--set", "data.validation=shards", "--set",
                          "data.tokenizer=tok.model"});
  static const std::vector<std::string> all = {"run",       "run/checkpoints", "run/metrics.jsonl",
                                               "run/lock",  "shards",          "shards/train-00000.h5",
                                               "tok.model", "run/recipe.toml"};
  const fs::path place = own.folder() / own.chance.pick(all);
  const int how = static_cast<int>(own.chance.below(3));
  Child child(call);
  const std::int64_t steps = own.chance.between(0, 8);
  while (last_metrics_step(scene.run()) < steps && !child.wait_for(0.0005)) {
  }
  own.note(fmt::format("{} {} at step {}", place.filename().string(),
                       how == 0   ? "removed"
                       : how == 1 ? "renamed"
                                  : "truncated",
                       steps));
  std::error_code code;
  if (how == 0) fs::remove_all(place, code);
  if (how == 1 || fs::is_directory(place)) fs::rename(place, own.folder() / "elsewhere", code);
  if (how == 2 && fs::is_regular_file(place)) fs::resize_file(place, fs::file_size(place) / 2, code);
  own.check(call, child.end(), {});
  if (const std::string damage = damage_in(scene.run()); !damage.empty()) own.fail(damage);
  // Nothing is promised about removed parts, but resuming must give a run or one sentence.
  own.check(call, {});
}

}  // namespace comera::attack
