#include "recipes/schema.h"
#include "storage/folder.h"

namespace comera {

using namespace recipe_detail;

std::string to_toml(const Recipe& recipe) {
  Writer writer;
  for (const auto& key : keys_of<Recipe>()) key.write(recipe, Path() / key.name, writer);
  return writer.text();
}

Recipe without_folders(const Recipe& recipe) {
  Recipe shown = recipe;
  const auto shorten = [](std::string& path) {
    if (!path.empty()) path = storage::last_part(path);
  };
  for (std::string* path : {&shown.data.train, &shown.data.validation, &shown.data.tokenizer,
                            &shown.run.output, &shown.run.initial_checkpoint, &shown.task.folder})
    shorten(*path);
  for (DataSource& source : shown.data.sources) shorten(source.folder);
  for (auto* files : {&shown.task.train, &shown.task.validation})
    for (std::string& file : *files) shorten(file);
  return shown;
}

std::string recipe_reference() {
  Reference reference;
  for (const auto& key : keys_of<Recipe>()) key.describe(Path() / key.name, key.required, reference);
  return "# Recipes\n"
         "A recipe is a TOML file that says everything about a training run. Keys that are not listed here "
         "are "
         "errors, and so are values out of range. Any key can be overridden on the command line: "
         "`--set model.layers=2 --set tensorized.enabled=false`. The resolved recipe, with every key, is "
         "written into the run's directory and its checkpoints.\n" +
         reference.text();
}

}  // namespace comera
