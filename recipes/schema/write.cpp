#include "recipes/schema/schema.h"
#include "storage/folder.h"

namespace comera {

using namespace recipe_detail;

std::string to_toml(const Recipe& recipe) {
  Writer writer;
  for (const auto& key : keys_of<Recipe>()) key.write(recipe, Path() / key.name, writer);
  return writer.text();
}

namespace {

// Of a run's checkpoint the run's.
std::string model_name(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  if (path.filename() == "best.h5" && folder.has_filename()) return folder.filename().string();
  if (folder.filename() == "checkpoints" && path.filename().string().starts_with("step-"))
    return storage::last_part(folder.parent_path());
  return storage::last_part(path);
}

}  // namespace

Recipe without_folders(const Recipe& recipe) {
  Recipe shown = recipe;
  const auto shorten = [](std::string& path) {
    if (!path.empty()) path = storage::last_part(path);
  };
  for (std::string* path : {&shown.data.train, &shown.data.validation, &shown.data.tokenizer,
                            &shown.run.output, &shown.run.initial_checkpoint, &shown.task.folder})
    shorten(*path);
  for (DataSource& source : shown.data.sources) shorten(source.folder);
  for (auto* files : {&shown.task.train, &shown.task.validation, &shown.task.similarity})
    for (std::string& file : *files) shorten(file);
  if (shown.distillation && !shown.distillation->teacher.empty())
    shown.distillation->teacher = model_name(shown.distillation->teacher);
  if (shown.distillation) shorten(shown.distillation->cache);
  return shown;
}

std::string recipe_reference() {
  Reference reference;
  for (const auto& key : keys_of<Recipe>()) key.describe(Path() / key.name, key.required, reference);
  return "# Recipe keys\n"
         "This page lists every key of a recipe, with its type, default and meaning.\n"
         "\n"
         "A recipe is a TOML file that describes a whole training run. Unknown keys are errors, and so are "
         "values out of range.\n"
         "`--set model.layers=2 --set tensorized.enabled=false` overrides keys on the command line. The "
         "resolved recipe, with\n"
         "every key, is written into the run's directory and its checkpoints. The [glossary](glossary.md) "
         "explains the words,\n"
         "and names the keys that still have an older word. `include = \"quickstart\"` at the top takes what "
         "the file "
         "does not\n"
         "say from another recipe ([commands](../guide/commands.md#recipes)).\n" +
         reference.text();
}

}  // namespace comera
