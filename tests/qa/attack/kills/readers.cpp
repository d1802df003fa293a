// A run that saves at every step and keeps one checkpoint, while other commands read its folder.
#include <fmt/format.h>

#include "tests/qa/attack/kinds.h"
#include "tests/qa/attack/samples/run_folder.h"
#include "tests/qa/attack/samples/sample.h"

namespace comera::attack {

namespace {

using Words = std::vector<std::string>;

Words reader(Try& own, const std::string& recipe, int number) {
  const bool task = recipe == "finetune" || recipe == "pretrained";
  const auto input = [&](const char* name) { return own.sample().file(name).string(); };
  const std::string output = fmt::format("read-{}", number);
  if (recipe == "clicks")
    return own.chance.pick(
        std::vector<Words>{{"inspect", "run"},
                           {"clicks", "eval", "run"},
                           {"clicks", "predict", "run", input("clicks.log"), "--output", output + ".jsonl"},
                           {"report", "run", "--output", output + ".html"}});
  switch (own.chance.below(7)) {
    case 0:
      return {"eval", "run", "--threads", "1"};
    case 1:
      return {"inspect", "run", "--ranks"};
    case 2:
      return {"report", "run", "--output", output + ".html", "--examples", "1"};
    case 3:
      return {"export", "run", "--to", output, "--threads", "1"};
    case 4:
      if (task)
        return {"predict", "run", "--input", input("dev.tsv"), "--output", output + ".tsv", "--threads", "1"};
      return {"fill-mask", "run", "return [MASK]", "--threads", "1"};
    case 5:
      return {"inspect", "run"};
    default:
      return {"embed", "run", "--input", input("lines.txt"), "--output", output + ".h5", "--threads", "1"};
  }
}

}  // namespace

void read_while_written(Try& own) {
  const std::string recipe = own.chance.pick(
      Words{"plain", "adapting", "dense", "float8", "finetune", "pretrained", "clicks", "masked"});
  Words arguments = own.sample().training(recipe);
  arguments.insert(arguments.end(),
                   {"--set", "run.checkpoint_interval=1", "--set", "run.keep_checkpoints=1"});
  const Call call = own.comera(arguments);
  Child child(call);
  int reads = 0;
  bool ended = false;
  // One more when it has ended.
  while (!ended && reads < 12 && own.failure().empty()) {
    ended = !child.running();
    const Ending ending = own.check(
        own.comera(reader(own, recipe, reads++)),
        {.names = {"no checkpoint", "no such", "without checkpoints", "neither metrics nor checkpoints"}});
    if (ending.code != 0 && newest_step(own.folder() / "run") >= 0 && ended)
      own.fail("a run that has ended cannot be read");
  }
  own.check(call, child.end(), {.refusal = false});
  if (const std::string damage = damage_in(own.folder() / "run"); !damage.empty()) own.fail(damage);
}

}  // namespace comera::attack
