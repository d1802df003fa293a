#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

void expect_round_trip(const Recipe& recipe) {
  const std::string text = to_toml(recipe);
  EXPECT_EQ(parse_recipe(text, "written"), recipe) << text;
  EXPECT_EQ(to_toml(parse_recipe(text, "written")), text);
}

TEST(RecipeWrite, RoundTripsTheSample) { expect_round_trip(parse_recipe(sample, "r.toml")); }

TEST(RecipeWrite, RoundTripsEveryKindOfValue) {
  Recipe recipe = parse_recipe(sample, "r.toml");
  recipe.model.norm = NormPlacement::pre;
  recipe.model.head = HeadKind::classification;
  recipe.tensorized.enabled = false;
  recipe.tensorized.lookup = LookupKind::naive;
  recipe.tensorized.plan = PlanKind::modewise;
  recipe.tensorized.embedding = TTMShape{{10, 11}, {8, 8}, {7}};
  recipe.precision.compute = Compute::fp64;
  recipe.run.seed = 9007199254740993;  // no double
  recipe.run.output = "quotes \" and ' \\ tab\t newline\n bell\a and \xc3\xa9";
  recipe.phases.push_back(recipe.phases[0]);
  recipe.phases[1].name = "second # [[phase]]";
  recipe.phases[1].steps.reset();
  recipe.phases[1].epochs = 0.1;
  recipe.phases[1].schedule = ScheduleKind::polynomial;
  recipe.phases.push_back(recipe.phases[0]);
  recipe.phases[2].name = "third";
  recipe.phases[2].schedule = ScheduleKind::warmup_stable_decay;
  recipe.phases[2].decay_share = 0.35;
  recipe.phases[2].final_mask_probability = 0.05;
  recipe.optim.average_decay = 0.999;
  recipe.phases[1].learning_rate = {1e-4, 1.0 / 3, 0};
  expect_round_trip(recipe);
}

// As older versions wrote it.
TEST(RecipeWrite, TF32WasAKeyOfItsOwn) {
  const auto compute = [](const std::string& precision) {
    return parse_recipe(edited("[[phase]]", "[precision]\n" + precision + "\n[[phase]]"), "r.toml")
        .precision.compute;
  };
  EXPECT_EQ(compute("tf32 = true"), Compute::tf32);
  EXPECT_EQ(compute("compute = 'fp32'\ntf32 = true"), Compute::tf32);
  EXPECT_EQ(compute("compute = 'bf16'\ntf32 = false"), Compute::bf16);
}

TEST(RecipeWrite, DoublesKeepTheirBits) {
  Recipe recipe = parse_recipe(sample, "r.toml");
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    recipe.model.embedding_std =
        std::ldexp(1 + std::generate_canonical<double, 53>(random), static_cast<int>(random() % 2000) - 1000);
    EXPECT_EQ(parse_recipe(to_toml(recipe), "written").model.embedding_std, recipe.model.embedding_std);
  }
  for (const double value :
       {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(), 1.0, 1e22}) {
    recipe.model.embedding_std = value;
    EXPECT_EQ(parse_recipe(to_toml(recipe), "written").model.embedding_std, value);
  }
}

TEST(RecipeWrite, ReferenceIsCheckedIn) {
  const std::string path = COMERA_SOURCE_DIR "/docs/reference/recipes.md";
  if (std::getenv("COMERA_UPDATE_DOCS")) std::ofstream(path) << recipe_reference();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), recipe_reference())
      << "run this test with COMERA_UPDATE_DOCS=1 to write docs/reference/recipes.md again";
}

}  // namespace
}  // namespace comera::test
