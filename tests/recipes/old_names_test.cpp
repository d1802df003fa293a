// Recipes with the names of earlier versions.
#include "recipes/schema/old_names.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "recipes/recipe.h"
#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

using recipe_detail::old_keys;
using recipe_detail::old_values;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// As version 0.1.0 wrote them.
constexpr const char* encoder = R"(
[model]
layers = 1
hidden = 16
heads = 2
ffn = 32
vocabulary = 50
[tensorized]
enabled = true
plan = "halves"
lookup = "halves"
[tensorized.attention]
input_modes = [4, 4]
output_modes = [4, 4]
ranks = [3, 4, 3]
[tensorized.ffn_up]
input_modes = [4, 4]
output_modes = [4, 8]
ranks = [3, 4, 3]
[tensorized.ffn_down]
input_modes = [4, 8]
output_modes = [4, 4]
ranks = [3, 4, 3]
[tensorized.head]
input_modes = [4, 4]
output_modes = [4, 4]
ranks = [3, 4, 3]
[tensorized.embedding]
row_modes = [5, 10]
column_modes = [4, 4]
ranks = [3]
[data]
train = "shards"
tokenizer = "shards/tokenizer.model"
[run]
output = "runs/old"
[[phase]]
name = "first"
length = 16
tokens_per_pack = 64
sequences_per_pack = 8
packs_per_step = 2
steps = 5
learning_rate = {cores = 1e-3, gates = 1e-3, rest = 2e-3}
objective = "early"
[[phase]]
name = "second"
length = 16
tokens_per_pack = 64
steps = 5
learning_rate = 1e-3
objective = "late"
[phase.adaptation]
target_ratio = 0.5
target_of = "late_start"
)";
constexpr const char* click_model = R"(
[dlrm]
width = 4
top = [8]
numbers = 2
tables = [10, 20]
[data]
train = "shards"
[run]
output = "runs/old"
[[phase]]
name = "only"
examples_per_pack = 16
steps = 5
learning_rate = 1e-3
)";

std::string with_names_of_now(std::string text) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  for (const auto& key : old_keys())
    replace(fmt::format("{} =", key.old_name), fmt::format("{} =", key.name));
  for (const auto& value : old_values())
    replace(fmt::format("\"{}\"", value.old_value), fmt::format("\"{}\"", value.value));
  return text;
}

TEST(OldNames, OfEveryKeyAndValueWork) {
  const std::string both = std::string(encoder) + click_model;
  for (const auto& key : old_keys())
    EXPECT_THAT(both, HasSubstr(fmt::format("{} =", key.old_name))) << "is tried below";
  for (const auto& value : old_values())
    EXPECT_THAT(both, HasSubstr(fmt::format("\"{}\"", value.old_value))) << "is tried below";
  for (const std::string text : {encoder, click_model}) {
    const Recipe old = parse_recipe(text, "old.toml"),
                 now = parse_recipe(with_names_of_now(text), "new.toml");
    EXPECT_EQ(old, now);
    EXPECT_EQ(to_toml(old), to_toml(now));
    Recipe stored = now;
    stored.precision.compute = Compute::fp32;  // what recipes without the key were when they were stored
    EXPECT_EQ(parse_stored_recipe(text, "checkpoint"), stored);
    EXPECT_THAT(now.old_names.met, IsEmpty());
    EXPECT_EQ(note_of_old_names(now), std::nullopt);
  }
  EXPECT_THAT(*note_of_old_names(parse_recipe(encoder, "old.toml")),
              testing::AllOf(HasSubstr("phase.0.packs_per_step is micro_batches_per_step"),
                             HasSubstr("phase.0.learning_rate.rest is other"),
                             HasSubstr("phase.1.objective = \"late\" is \"compress\"")));
  EXPECT_THAT(parse_recipe(click_model, "old.toml").old_names.met, SizeIs(2));
}

TEST(OldNames, WorkInOverrides) {
  const std::string text = with_names_of_now(encoder);
  const Recipe recipe = parse_recipe(
      text, "r.toml",
      {"phase.0.packs_per_step=3", "phase.0.learning_rate.rest=0.5", "phase.1.tokens_per_pack=128",
       "phase.0.objective=fixed", "phase.1.learning_rate={cores=1, gates=2, rest=3}"});
  EXPECT_EQ(recipe.phases[0].micro_batches_per_step, 3);
  EXPECT_EQ(recipe.phases[0].learning_rate.other, 0.5);
  EXPECT_EQ(recipe.phases[1].tokens_per_micro_batch, 128);
  EXPECT_EQ(recipe.phases[1].learning_rate.other, 3);
  EXPECT_EQ(parse_recipe(text, "r.toml", {"phase.0.objective=early"}).phases[0].objective,
            PhaseObjective::regularize);
  // Of a file that has the old name.
  EXPECT_EQ(
      parse_recipe(encoder, "r.toml", {"phase.0.micro_batches_per_step=4"}).phases[0].micro_batches_per_step,
      4);
}

// Of the checkpoint that a fine-tuning begins with.
TEST(OldNames, WorkInABase) {
  const std::string own = R"(
[data]
tokenizer = "tokenizer.model"
[run]
output = "runs/new"
[[phase]]
name = "only"
length = 16
tokens_per_micro_batch = 64
steps = 5
learning_rate = 1e-3
)";
  const Recipe recipe = parse_recipe(own, "own.toml", {}, {.toml = encoder, .name = "old.h5"});
  EXPECT_EQ(recipe.tensorized.plan, PlanKind::factors);
  EXPECT_EQ(recipe.tensorized.lookup, LookupKind::factors);
  EXPECT_EQ(recipe.model.hidden, 16);
  EXPECT_THAT(recipe.old_names.met, IsEmpty()) << "they are not the user's";
}

TEST(OldNames, BesideTheNewOneAreRefused) {
  std::string text = encoder;
  text.insert(text.find("packs_per_step"), "micro_batches_per_step = 3\n");
  EXPECT_THAT([&] { static_cast<void>(parse_recipe(text, "r.toml")); },
              testing::ThrowsMessage<UsageError>(
                  testing::MatchesRegex("r.toml:[0-9]+:1: phase.0.packs_per_step is the old name of "
                                        "micro_batches_per_step, which is also there; remove one of them")));
}

// An old name at another place is no key at all.
TEST(OldNames, AreThoseOfTheirSectionOnly) {
  EXPECT_THAT([] { static_cast<void>(parse_recipe(encoder, "r.toml", {"model.packs_per_step=3"})); },
              testing::ThrowsMessage<UsageError>(HasSubstr("packs_per_step")));
}

}  // namespace
}  // namespace comera::test
