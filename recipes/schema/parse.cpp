#include "recipes/schema/schema.h"
#include "recipes/validate.h"

namespace comera {

using namespace recipe_detail;

namespace {

Recipe read(const Source& source, Source::Origin origin) {
  Reader reader(source);
  Recipe recipe;
  read_table(recipe, source.root(), Path(), reader);
  if (recipe.model.head == HeadKind::replaced_tokens && !recipe.generator) recipe.generator.emplace();
  validate(recipe, reader.places());
  if (origin == Source::Origin::user) {
    validate_training(recipe, reader.places());
    recipe.old_names.met = source.old_names();
  }
  return recipe;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides,
                    const BaseRecipe& base) {
  return read(Source(text, name, overrides, base), Source::Origin::user);
}

Recipe parse_stored_recipe(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides) {
  const auto origin = Source::Origin::checkpoint;
  Recipe recipe = read(Source(text, name, overrides, {}, origin), origin);
  if (recipe.model.head == HeadKind::regression) {  // before scores were standardised
    recipe.model.score_mean = recipe.model.score_mean.value_or(0);
    recipe.model.score_std = recipe.model.score_std.value_or(1);
  }
  return recipe;
}

Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const BaseRecipe& base) {
  return parse_recipe(read_recipe_file(file), file.string(), overrides, base);
}

std::string run_output(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  const Source source(read_recipe_file(file), file.string(), overrides);
  const auto* run = source.root().get_as<toml::table>("run");
  return run != nullptr ? (*run)["output"].value_or(std::string()) : std::string();
}

}  // namespace comera
