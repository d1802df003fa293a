#include "recipes/recipe.h"
#include "tests/fuzz/target.h"

namespace comera::fuzz {
namespace {

// A recipe's text; after a line "#--set" follow overrides, one per line.
constexpr std::string_view divider = "\n#--set\n";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < 8) {
    const std::size_t end = text.find('\n');
    if (end != 0) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

// Reads and validates; an accepted recipe is the same when read back from its stored text, and its model can
// be described without an error.
void run(Bytes input) {
  const std::string_view all = text_of(input);
  const std::size_t at = all.find(divider);
  const std::string_view text = all.substr(0, at);
  std::vector<std::string> overrides;
  if (at != all.npos) overrides = lines_of(all.substr(at + divider.size()));
  Recipe recipe;
  // An error in an override names the override instead of the file.
  if (refuses("", [&] { recipe = parse_recipe(text, "fuzz.toml", overrides); })) return;
  refuses("", [&] { encoder_config(recipe, 30000); });
  refuses("", [&] { require_training_keys(recipe); });
  Recipe again;
  if (refuses("", [&] { again = parse_recipe(to_toml(recipe), "written.toml"); }) || !(again == recipe))
    broken("a recipe is another one after it was written and read: " + to_toml(recipe));
}

std::vector<std::string> seeds() {
  const std::string small = R"([model]
layers = 2
hidden = 24
heads = 2
ffn = 48
max_positions = 32
head = "mlm"

[tensorized.attention]
input_modes = [4, 6]
output_modes = [6, 4]
ranks = [4, 6, 4]

[tensorized.embedding]
row_modes = [8, 8, 8]
column_modes = [2, 3, 4]
ranks = [6, 7]

[data]
train = "shards"
tokenizer = "tok.model"

[run]
output = "run"

[[phase]]
name = "short"
length = 16
tokens_per_micro_batch = 96
steps = 7
learning_rate = {cores = 3e-3, gates = 1e-3, other = 2e-3}
schedule = "linear"
warmup_steps = 3
)";
  return {small, small + "#--set\nphase.0.steps=100\nmodel.norm=pre\ntensorized.enabled=false\n",
          small + "#--set\ntensorized.attention.ranks=[1,2,3]\nphase.0.epochs=1.5\n"};
}

}  // namespace

const Target recipe_target = {"recipe", run, nullptr, seeds};

}  // namespace comera::fuzz
