#include "tests/qa/attack/samples/scene.h"

#include <fmt/format.h>

namespace comera::attack {

Scene::Scene(Try& own, const fs::path& place)
    : own_(own), place_(place), recipe_(own.chance.pick(Sample::recipes())) {
  fs::create_directories(place_);
}

void Scene::stand_half_way() {
  fs::copy(own_.sample().half(recipe_), run(),
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

Call Scene::training() const {
  std::vector<std::string> arguments = own_.sample().training(recipe_);
  arguments.insert(arguments.end(), {"--resume", "auto"});
  Call call = own_.comera(arguments);
  call.folder = place_;
  return call;
}

Call Scene::reading() {
  const Sample& sample = own_.sample();
  const auto name = [&](const char* file) { return sample.file(file).string(); };
  const auto out = [&](const char* file) { return (place_ / file).string(); };
  switch (own_.chance.below(8)) {
    case 0:
      return own_.comera({"inspect", sample.finished("plain").run.string()});
    case 1:
      return own_.comera({"eval", sample.finished("plain").run.string()});
    case 2:
      return own_.comera({"predict", sample.finished("finetune").run.string(), "--input", name("dev.tsv"),
                          "--output", out("p.tsv"), "--threads", "1"});
    case 3:
      return own_.comera({"embed", sample.finished("plain").run.string(), "--input", name("lines.txt"),
                          "--output", out("v.h5"), "--threads", "1"});
    case 4:
      return own_.comera({"data", "--input", name("source"), "--tokenizer", name("tok.model"), "--output",
                          out("shards"), "--threads", "1"});
    case 5:
      return own_.comera(
          {"tokenizer", "--input", name("source"), "--output", out("t.model"), "--vocabulary", "320"});
    case 6:
      return own_.comera({"pairs", "--input", name("source"), "--output", out("pairs")});
    default:
      return own_.comera({"compact", sample.finished("adapting").run.string(), "--output", out("small.h5")});
  }
}

Call Scene::any() { return own_.chance.one_in(2) ? training() : reading(); }

Ending Scene::train(const Call& call, const Allowed& allowed) {
  const std::int64_t saved = newest_step(run());
  Ending ending = own_.check(call, allowed);
  if (newest_step(run()) < saved)
    own_.fail(
        fmt::format("the checkpoint of step {} was lost: now the last is {}", saved, newest_step(run())));
  if (const std::string damage = damage_in(run()); !damage.empty()) own_.fail(damage);
  return ending;
}

void Scene::go_on(const Compared& compared) {
  if (!own_.failure().empty()) return;
  const bool refused = own_.was_refused();
  own_.check(training(), {.refusal = false});
  if (!own_.failure().empty()) return;
  if (const std::string found = difference(run(), own_.sample().finished(recipe_).run, compared);
      !found.empty())
    own_.fail(found);
  if (refused) own_.refused();
}

}  // namespace comera::attack
