// Outputs through dangling links, and inputs that are not files.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/attack/files.h"
#include "tests/attack/products.h"
#include "tests/attack/scene.h"
#include "tests/attack/trees.h"

namespace comera::attack {

namespace {

using Words = std::vector<std::string>;

// The words with the output, or with that of the recipe, in another folder.
Words made_at(Words words, const std::string& output, const std::string& place) {
  const auto found = std::ranges::find(words, output);
  if (found != words.end())
    *found = place;
  else
    words.insert(words.end(), {"--output", place});
  return words;
}

void lay_odd(const fs::path& place, const std::string& sort) {
  fs::remove_all(place);
  if (sort == "pipe") mkfifo(place.c_str(), 0666);
  if (sort == "folder") fs::create_directories(place / "within");
  if (sort == "empty file") write_text(place, "");
  if (sort == "link to nothing") fs::create_symlink("nothing", place);
  if (sort == "link to itself") fs::create_symlink(place.filename(), place);
}

}  // namespace

// An unmounted disk: its name is a link, which is kept, and nothing is created elsewhere.
void output_beyond_link(Try& own) {
  const fs::path link = own.folder() / "runs", nothing = own.folder() / "disk" / "runs";
  fs::create_symlink(nothing, link);
  const bool direct = own.chance.one_in(3);
  Words words;
  if (own.chance.one_in(3)) {
    words = own.sample().training(own.chance.pick(Sample::recipes()));
    words.insert(words.end(), {"--output", direct ? "runs" : "runs/first"});
    if (own.chance.one_in(2))
      words.insert(words.end(), {"--resume", own.chance.one_in(3) ? "always" : "auto"});
  } else {
    const Product product = own.chance.pick(products());
    const bool folder = product.output.find('.') == std::string::npos;
    const Words made =
        making(own.sample(), product, static_cast<int>(own.chance.below(2)), own.chance.one_in(3));
    words = made_at(made, product.output, direct && folder ? "runs" : "runs/" + product.output);
  }
  for (int i = 0; i < 2; ++i) own.check(own.comera(words), {.success = false, .names = {"runs"}});
  if (!fs::is_symlink(link)) own.fail("the link is gone");
  if (fs::exists(own.folder() / "disk")) own.fail("the folder that the link leads to was made");
  for (const std::string& name : names_below(own.folder()))
    if (name != "runs" && name != "commands.txt") own.fail(name + " is left over");
}

// A named pipe, a folder or a link in place of an input file: nothing blocks, and the message names it.
void odd_input(Try& own) {
  const std::string sort =
      own.chance.pick(Words{"pipe", "pipe", "folder", "empty file", "link to nothing", "link to itself"});
  if (own.chance.one_in(3)) {
    fs::copy(own.sample().finished(own.chance.pick(Words{"plain", "finetune", "clicks"})).run,
             own.folder() / "run", fs::copy_options::recursive);
    const std::string name = own.chance.pick(Words{"metrics.jsonl", "recipe.toml"});
    own.note(sort + " in place of " + name);
    lay_odd(own.folder() / "run" / name, sort);
    const Ending ending = own.check(
        own.comera({"report", "run", "--output", "report.html", "--examples", "1"}), {.names = {"run"}});
    if (ending.code == 0 && name == "metrics.jsonl" && sort != "empty file" &&
        ending.err.find(name) == ending.err.npos)
      own.fail("a report without curves and without a word");
    return;
  }
  const std::string base = own.chance.pick(Sample::exchanges());
  const fs::path folder = own.folder() / "model";
  fs::copy(own.sample().exchange(base), folder);
  const Words needed = {"model.safetensors", "config.json",
                        base == "pieces"     ? "vocab.txt"
                        : base == "bytes"    ? "merges.txt"
                        : base == "sentence" ? "tokenizer.model"
                                             : "tokenizer.json"};
  const Words others = {"tokenizer_config.json", "added_tokens.json", "special_tokens_map.json",
                        "vocab.json"};
  const bool must_refuse = own.chance.one_in(2);
  const std::string name = own.chance.pick(must_refuse ? needed : others);
  own.note(sort + " in place of " + name);
  lay_odd(folder / name, sort);
  own.check(own.comera({"import", "model", "--output", "imported.h5"}),
            {.success = !must_refuse, .names = {"model"}});
}

// checkpoints/latest of more bytes than a name can have.
void long_latest(Try& own) {
  Scene scene(own, own.folder());
  scene.stand_half_way();
  const fs::path latest = scene.run() / "checkpoints" / "latest";
  const std::string sound = read_text(latest);
  write_text(latest, own.chance.one_in(2) ? std::string(4097 + own.chance.below(9000), 'x')
                                          : sound + std::string(5000, own.chance.one_in(2) ? '\n' : '\0'));
  own.check(own.comera({own.chance.one_in(2) ? "inspect" : "eval", scene.run().string()}),
            {.names = {"latest"}});
  own.check(scene.training(), {.names = {"latest"}});
  if (read_text(latest).size() > 4096) {
    Call call = scene.training();
    call.words.emplace_back("--use-older-checkpoint");
    scene.train(call, {.refusal = false});
  }
  scene.go_on();
}

}  // namespace comera::attack
