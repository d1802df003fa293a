#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/check.h"
#include "recipes/recipe.h"

namespace comera::recipe_detail {

// The position of each key in a recipe, so that later errors can refer to it.
class Places {
 public:
  explicit Places(std::string file = "") : file_(std::move(file)) {}
  void add(const std::string& key, std::string place) { places_[key] = std::move(place); }
  // The position of "phase.0.steps", or of the nearest enclosing section that is written down, followed by ":
  // ". Empty for a recipe without a file.
  std::string of(std::string key) const;

  // Throws UsageError about `key`: the position, then the sentence.
  [[noreturn]] void fail(const std::string& key, const std::string& sentence) const;

 private:
  std::string file_;
  std::map<std::string, std::string> places_;
};

// Throws UsageError if it cannot be read.
std::string read_recipe_file(const std::filesystem::path& file);

// A recipe's TOML tree with the overrides applied.
class Source {
 public:
  // Overrides are applied after the base.
  // user: `include` at the top completes it with another recipe's keys.
  // checkpoint: keys that a phase does not use are dropped.
  enum class Origin : std::uint8_t { user, checkpoint };
  Source(std::string_view text, std::string file, const std::vector<std::string>& overrides,
         const BaseRecipe& base = {}, Origin origin = Origin::user);

  const toml::table& root() const { return root_; }
  // "recipe.toml:12:3" or "--set model.layers=two".
  std::string place(const toml::node& node) const;
  std::string place(const toml::key& key, const toml::node& value) const;
  const std::string& file() const { return file_; }
  // "phase.0.micro_batches_per_step is micro_batches_per_step", for each old name found.
  const std::vector<std::string>& old_names() const { return old_names_; }

 private:
  struct Includers {
    std::vector<std::string> files;  // whose `include` led here, outermost first
  };
  Source(std::string_view text, const std::string& file, Includers includers);

  void include();
  void take_model(const toml::table& base);
  void override_with(const std::string& assignment);
  void drop(toml::table& table, const std::string& key) const;
  void drop_idle(toml::table& phase) const;
  void drop_all_idle();
  void keep_precision();
  void renew();  // converts keys of older resolved recipes to their current form
  // Renames old keys and values in a table at `section`, whose position in the tree is `path`.
  void rename_old(toml::table& table, const std::string& section, const std::string& path);
  void rename_old(toml::node& value, const std::string& section, const std::string& path);
  void drop_replaced(toml::table& table, const std::string& key);
  std::string place(const toml::source_region& region) const;

  std::string file_;
  toml::table root_;
  std::map<const toml::node*, std::string> overridden_;
  std::vector<std::string> old_names_;
  Includers includers_;
  std::set<std::string> included_;  // files that keys of root_ come from
};

// The value as quoted in a message: "'six'", "1.5", "a list", "a table", and for a long string its length.
std::string quote(const toml::node& node);

}  // namespace comera::recipe_detail
