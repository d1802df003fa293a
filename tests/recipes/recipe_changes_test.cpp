#include "recipes/changes.h"

#include <gmock/gmock.h>

#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Recipe with(const std::vector<std::string>& overrides) { return parse_recipe(sample, "r.toml", overrides); }

TEST(RecipeChanges, OfEqualRecipesThereAreNone) {
  EXPECT_THAT(recipe_changes(with({}), with({})), IsEmpty());
  const std::vector<std::string> adapted = {"phase.0.objective=compress",
                                            "phase.0.adaptation.target_ratio=0.5",
                                            "tensorized.ranks.encoder.0.attention.query=[0, 0, 0]"};
  EXPECT_THAT(recipe_changes(with(adapted), with(adapted)), IsEmpty());
}

TEST(RecipeChanges, AreNamedAsOverridesNameThem) {
  const std::vector<RecipeChange> changes =
      recipe_changes(with({}), with({"phase.0.steps=20", "model.dropout=0.25",
                                     "phase.0.learning_rate={cores=1e-3, gates=0, other=1}"}));
  EXPECT_THAT(changes, ElementsAre(RecipeChange{"model.dropout", "0.1", "0.25"},
                                   RecipeChange{"phase.0.steps", "10", "20"},
                                   testing::Field(&RecipeChange::key, "phase.0.learning_rate")));
  EXPECT_EQ(to_string(changes[1]), "phase.0.steps from 10 to 20");
}

TEST(RecipeChanges, AnOverrideHoldsTextsOfAnyCharacters) {
  const std::string name = "a \"quoted\" back\\slash, with a\ttab = [#]";
  const Recipe given = with({override_of("data.train", name)});
  EXPECT_EQ(given.data.train, name);
  const std::vector<std::string> labels = {"5\" disk", "a, b", "]"};
  EXPECT_EQ(with({override_of("task.labels", labels)}).task.labels, labels);
}

TEST(RecipeChanges, KeysComeAndGo) {
  const Recipe steps = with({});
  Recipe epochs = steps;
  epochs.phases[0].steps.reset();
  epochs.phases[0].epochs = 2;
  const std::vector<RecipeChange> changes = recipe_changes(steps, epochs);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(to_string(changes[0]), "phase.0.epochs from nothing to 2.0");
  EXPECT_EQ(to_string(changes[1]), "phase.0.steps from 10 to nothing");

  Recipe longer = steps;
  longer.phases.push_back(steps.phases[0]);
  for (const RecipeChange& change : recipe_changes(longer, steps)) {
    EXPECT_TRUE(change.key.starts_with("phase.1.")) << change.key;
    EXPECT_EQ(change.to, "");
  }
  const Recipe ranked = with({"tensorized.ranks.encoder.0.attention.query=[1, 2, 1]"});
  EXPECT_THAT(recipe_changes(steps, ranked),
              ElementsAre(RecipeChange{"tensorized.ranks.encoder.0.attention.query", "", "[1, 2, 1]"}));
}

}  // namespace
}  // namespace comera::test
