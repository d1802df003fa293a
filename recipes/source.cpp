#include "recipes/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "recipes/adaptation.h"
#include "recipes/files/include.h"
#include "recipes/schema/nesting.h"
#include "recipes/schema/old_names.h"
#include "storage/small_file.h"

namespace comera::recipe_detail {

std::string Places::of(std::string key) const {
  while (true) {
    if (const auto found = places_.find(key); found != places_.end()) return found->second + ": ";
    const auto dot = key.rfind('.');
    if (dot == std::string::npos) break;
    key.resize(dot);
  }
  return file_.empty() ? "" : file_ + ": ";
}

void Places::fail(const std::string& key, const std::string& sentence) const {
  throw UsageError(of(key) + sentence);
}

namespace {

toml::table parse(std::string_view text, const std::string& file) {
  check_nesting(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    std::string reason(error.description());
    if (const auto prefix = reason.find(": "); reason.starts_with("Error while") && prefix != reason.npos)
      reason.erase(0, prefix + 2);
    throw UsageError(fmt::format("{}:{}:{}: not valid TOML: {}", file, error.source().begin.line,
                                 error.source().begin.column, reason));
  }
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool is_bare_word(std::string_view text) {
  return text.find_first_of(" \t\r\n\"'[]{}#=,") == std::string_view::npos;
}

// A table {"value": ...}: toml++ has no function that parses a value alone.
toml::table parse_value(const std::string& assignment, const std::string& text) {
  check_nesting(text, "--set " + assignment);
  try {
    toml::table table = toml::parse("value = " + text, "--set " + assignment);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
    if (!text.empty() && is_bare_word(text)) {
      toml::table table;
      table.insert("value", text);
      return table;
    }
  }
  throw UsageError(fmt::format(
      "--set {}: '{}' is not a TOML value; write it as 3, 0.1, true, [8, 8], or a word without spaces",
      assignment, text));
}

// The element of the list with this index.
toml::node& element(toml::array& list, const std::string& index, const std::string& assignment,
                    const std::string& path) {
  const bool numeric =
      !index.empty() && index.size() < 6 && index.find_first_not_of("0123456789") == index.npos;
  const std::size_t at = numeric ? std::stoul(index) : list.size();
  if (at < list.size()) return list[at];
  throw UsageError(fmt::format("--set {}: '{}' is not an entry of {}; expected 0 to {}", assignment, index,
                               path, static_cast<std::int64_t>(list.size()) - 1));
}

}  // namespace

std::string read_recipe_file(const std::filesystem::path& file) {
  constexpr std::int64_t limit = std::int64_t{4} << 20;
  try {
    return storage::read_small_file(file, limit, "a recipe, a TOML file");
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

Source::Source(std::string_view text, std::string file, const std::vector<std::string>& overrides,
               const BaseRecipe& base, Origin origin)
    : file_(std::move(file)), root_(parse(text, file_)) {
  renew();
  if (origin == Origin::user) include();
  if (origin == Origin::checkpoint) {
    drop_all_idle();
    keep_precision();
  }
  if (!base.toml.empty()) {
    toml::table of_base = parse(base.toml, base.name);
    const std::vector<std::string> own = old_names_;
    rename_old(of_base, "", "");
    old_names_ = own;  // the base's are not the user's
    take_model(of_base);
  }
  for (const auto& assignment : overrides) override_with(assignment);
}

// An included recipe: it is part of another one.
Source::Source(std::string_view text, const std::string& file, Includers includers)
    : file_(file), root_(parse(text, file)), includers_(std::move(includers)) {
  renew();
  include();
}

void Source::include() {
  const toml::node* given = root_.get("include");
  if (given == nullptr) return;
  const std::string at = place(*given);
  if (!given->is_string())
    throw UsageError(fmt::format("{}: include = {}: give one name or path as a string", at, quote(*given)));
  const std::filesystem::path file = included_file(given->as_string()->get(), file_, at);
  Includers chain = includers_;
  chain.files.push_back(file_);
  std::error_code code;
  for (const std::string& above : chain.files)
    if (std::filesystem::equivalent(above, file, code))
      throw UsageError(
          fmt::format("{}: include = \"{}\": leads back to {}; recipes cannot include each other in "
                      "a circle",
                      at, given->as_string()->get(), above));
  Source base(read_recipe_file(file), file.lexically_normal().string(), std::move(chain));
  root_.erase("include");
  complete_with(root_, std::move(base.root_));
  old_names_.insert(old_names_.end(), base.old_names_.begin(), base.old_names_.end());
  included_ = std::move(base.included_);
  included_.insert(base.file_);
}

void Source::drop_all_idle() {
  if (toml::array* phases = root_.get_as<toml::array>("phase"); phases != nullptr)
    for (toml::node& phase : *phases)
      if (phase.is_table()) drop_idle(*phase.as_table());
}

void Source::rename_old(toml::node& value, const std::string& section, const std::string& path) {
  if (toml::table* table = value.as_table()) return rename_old(*table, section, path);
  if (toml::array* list = value.as_array()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      rename_old((*list)[i], section, fmt::format("{}.{}", path, i));
    return;
  }
  toml::value<std::string>* text = value.as_string();
  if (text == nullptr) return;
  const auto old = std::ranges::find_if(
      old_values(), [&](const OldValue& a) { return a.key == section && a.old_value == text->get(); });
  if (old == old_values().end()) return;
  old_names_.push_back(fmt::format("{} = \"{}\" is \"{}\"", path, old->old_value, old->value));
  text->get() = old->value;
}

void Source::rename_old(toml::table& table, const std::string& section, const std::string& path) {
  const std::string before = path.empty() ? "" : path + ".";
  for (const OldKey& old : old_keys()) {
    if (old.section != section) continue;
    const auto found = table.find(old.old_name);
    if (found == table.end()) continue;
    if (table.contains(old.name))
      throw UsageError(fmt::format("{}: {}{} is the old name of {}, which is also there; remove one of them",
                                   place(found->first, found->second), before, old.old_name, old.name));
    old_names_.push_back(fmt::format("{}{} is {}", before, old.old_name, old.name));
    const toml::key key(old.name, toml::source_region(found->first.source()));
    found->second.visit([&](auto& node) { table.insert(key, std::move(node)); });
    table.erase(old.old_name);
  }
  for (auto&& [key, value] : table) {
    const std::string name(key.str());
    rename_old(value, section.empty() ? name : section + "." + name, before + name);
  }
}

void Source::renew() {
  rename_old(root_, "", "");
  toml::table* precision = root_.get_as<toml::table>("precision");
  if (precision == nullptr) return;
  // Was a separate key, besides compute = "fp32". The reader rejects anything else.
  const toml::value<bool>* tf32 = precision->get_as<bool>("tf32");
  if (tf32 == nullptr) return;
  const toml::node* compute = precision->get("compute");
  if (tf32->get() && compute != nullptr && compute->value<std::string>() != "fp32") return;
  if (tf32->get()) precision->insert_or_assign("compute", "tf32");
  precision->erase("tf32");
}

// A stored recipe without the key is older than it, and computed in fp32.
void Source::keep_precision() {
  if (!root_.contains("precision")) root_.insert("precision", toml::table{});
  toml::table* precision = root_.get_as<toml::table>("precision");
  if (precision != nullptr && !precision->contains("compute")) precision->insert("compute", "fp32");
}

void Source::take_model(const toml::table& base) {
  if (const toml::table* model = base.get_as<toml::table>("model")) {
    if (!root_.contains("model")) root_.insert("model", toml::table{});
    toml::table* own = root_.get_as<toml::table>("model");
    if (own == nullptr) return;  // reading the tree reports this, with the position
    // A layer behind the pooling belongs to that pooling, whatever the recipe would have.
    const std::int64_t layer = (*model)["vector_size"].value_or(std::int64_t{0});
    if (layer > 0 && !own->contains("vector_size")) own->erase("pooling");
    for (const auto& [key, value] : *model)
      if (!own->contains(key)) value.visit([&, name = key](const auto& node) { own->insert(name, node); });
  }
  if (root_.contains("tensorized") || root_.contains("low_rank")) return;
  for (const char* form : {"tensorized", "low_rank"})
    if (const toml::table* given = base.get_as<toml::table>(form)) root_.insert(form, *given);
}

void Source::override_with(const std::string& assignment) {
  const auto equals = assignment.find('=');
  std::vector<std::string> path = split_path(assignment.substr(0, equals));
  const bool complete = std::ranges::all_of(path, [](const auto& part) { return !part.empty(); });
  if (equals == std::string::npos || !complete)
    throw UsageError(fmt::format("--set {}: expected section.key=value", assignment));
  if (path.size() > most_nested)
    throw UsageError(fmt::format("--set {}: the key has {} names, but no key of a recipe has more than {}",
                                 assignment, path.size(), most_nested));
  toml::table value = parse_value(assignment, assignment.substr(equals + 1));
  std::string section;
  for (std::string& part : path) {
    const bool number = part.find_first_not_of("0123456789") == part.npos;
    if (const std::string_view now = name_now(section, part); now != part) {
      old_names_.push_back(fmt::format("{} is {}", part, now));
      part = now;
    }
    if (!number) section += (section.empty() ? "" : ".") + part;
  }
  rename_old(*value.get("value"), section, assignment.substr(0, equals));

  // Whether a key exists is not checked here: reading the tree afterwards reports it, with the position.
  toml::node* here = &root_;
  std::string walked;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (toml::array* list = here->as_array()) {
      here = &element(*list, path[i], assignment, walked);
    } else {
      toml::table& table = *here->as_table();
      if (!table.contains(path[i])) {
        const auto added = table.insert(path[i], toml::table{}).first;
        overridden_[&added->second] = assignment;
      }
      here = table.get(path[i]);
    }
    walked += (walked.empty() ? "" : ".") + path[i];
    if (!here->is_table() && !here->is_array())
      throw UsageError(
          fmt::format("--set {}: {} is {} in the recipe and has no keys within; set it as a whole",
                      assignment, walked, quote(*here)));
  }
  toml::node* target = nullptr;
  if (here->is_array()) {
    // Only whole values can be exchanged; an entry of a list of numbers is not addressed by itself.
    throw UsageError(
        fmt::format("--set {}: {} is a list; set it as a whole, or name a key of one of its entries",
                    assignment, walked));
  }
  toml::table& table = *here->as_table();
  overridden_.erase(table.get(path.back()));
  value.get("value")->visit(
      [&](auto& node) { target = &table.insert_or_assign(path.back(), std::move(node)).first->second; });
  overridden_[target] = assignment;
  drop_replaced(table, path.back());
}

// Drops what the file says, but not what an override sets: that is kept and checked.
void Source::drop(toml::table& table, const std::string& key) const {
  if (const toml::node* node = table.get(key); node != nullptr && !overridden_.contains(node))
    table.erase(key);
}

// Drops keys that a phase with its objective does not use.
void Source::drop_idle(toml::table& phase) const {
  toml::table* adaptation = phase.get_as<toml::table>("adaptation");
  if (adaptation == nullptr) return;
  const std::string objective = phase["objective"].value_or(std::string("fixed"));
  const auto is_overridden = [this](const auto& entry) { return overridden_.contains(&entry.second); };
  if (objective == "fixed") {
    if (std::ranges::none_of(*adaptation, is_overridden)) phase.erase("adaptation");
  } else if (objective == "regularize" || objective == "compress") {
    const PhaseObjective which =
        objective == "regularize" ? PhaseObjective::regularize : PhaseObjective::compress;
    for (const std::string& idle : idle_adaptation_keys(which)) drop(*adaptation, idle);
  }
}

// Drops keys of the file that an override makes meaningless: the alternative way to give a length or a
// target, keys that a phase with another objective does not use, an urgency without time to rise.
void Source::drop_replaced(toml::table& table, const std::string& key) {
  if (key != "held_out" || is_given(table, key))  // a share of 0 holds out nothing
    for (const std::string_view other : alternatives_of(key)) drop(table, std::string(other));
  if (key == "target_size") drop(table, "target_of");
  if (key == "shrink_share" && table[key].value_or(1.0) == 0) drop(table, "urgency");
  if (key == "preset" && !table.contains("shrink_share")) drop(table, "urgency");
  if (key == "objective") drop_idle(table);
}

std::string Source::place(const toml::source_region& region) const {
  const bool is_own = !region.path || *region.path == file_;
  if (!is_own && !included_.contains(*region.path)) return *region.path;  // within an override's value
  const std::string& file = is_own ? file_ : *region.path;
  if (region.begin.line == 0) return file;
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

std::string Source::place(const toml::node& node) const {
  const auto found = overridden_.find(&node);
  return found != overridden_.end() ? "--set " + found->second : place(node.source());
}

std::string Source::place(const toml::key& key, const toml::node& value) const {
  const auto found = overridden_.find(&value);
  return found != overridden_.end() ? "--set " + found->second : place(key.source());
}

std::string quote(const toml::node& node) {
  constexpr std::size_t longest = 80;
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  if (const auto* text = node.as_string())
    return text->get().size() <= longest ? fmt::format("'{}'", text->get())
                                         : fmt::format("a string of {} bytes", text->get().size());
  if (const auto* number = node.as_floating_point()) {
    const std::string written = fmt::format("{}", number->get());
    return written.find_first_of(".ein") == written.npos ? written + ".0" : written;
  }
  std::ostringstream out;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) out << value;
  });
  return out.str();
}

}  // namespace comera::recipe_detail
