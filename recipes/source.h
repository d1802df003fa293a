#pragma once

#include <toml++/toml.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/check.h"
#include "recipes/recipe.h"

namespace comera::recipe_detail {

// Where each key of a recipe was written, so that a value that turns out wrong later can still be pointed at.
class Places {
 public:
  explicit Places(std::string file = "") : file_(std::move(file)) {}
  void add(const std::string& key, std::string place) { places_[key] = std::move(place); }
  // The place of "phase.0.steps", or of the nearest section around it that is written down, with ": " behind
  // it. Empty for a recipe that has no file.
  std::string of(std::string key) const;

  // Throws UsageError about `key`: the place, then the sentence.
  [[noreturn]] void fail(const std::string& key, const std::string& sentence) const;

 private:
  std::string file_;
  std::map<std::string, std::string> places_;
};

// A recipe's TOML tree with the overrides already put in.
class Source {
 public:
  // Overrides come after the base.
  // checkpoint: what a phase never looks at is dropped.
  enum class Origin : std::uint8_t { user, checkpoint };
  Source(std::string_view text, std::string file, const std::vector<std::string>& overrides,
         const BaseRecipe& base = {}, Origin origin = Origin::user);

  const toml::table& root() const { return root_; }
  // "recipe.toml:12:3" or "--set model.layers=two".
  std::string place(const toml::node& node) const;
  std::string place(const toml::key& key, const toml::node& value) const;
  const std::string& file() const { return file_; }
  // "phase.0.micro_batches_per_step is micro_batches_per_step", for each old name that was met.
  const std::vector<std::string>& old_names() const { return old_names_; }

 private:
  void take_model(const toml::table& base);
  void override_with(const std::string& assignment);
  void drop(toml::table& table, const std::string& key) const;
  void drop_idle(toml::table& phase) const;
  void drop_all_idle();
  void renew();  // what resolved recipes of earlier versions have, as it is written now
  // Old names of keys and values in a table that lies at `section`, whose place in the tree is `path`.
  void rename_old(toml::table& table, const std::string& section, const std::string& path);
  void rename_old(toml::node& value, const std::string& section, const std::string& path);
  void drop_replaced(toml::table& table, const std::string& key);
  std::string place(const toml::source_region& region) const;

  std::string file_;
  toml::table root_;
  std::map<const toml::node*, std::string> overridden_;
  std::vector<std::string> old_names_;
};

// The value as a message quotes it: "'six'", "1.5", "a list", "a table", and of a
// long string how long it is.
std::string quote(const toml::node& node);

}  // namespace comera::recipe_detail
