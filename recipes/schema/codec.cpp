#include "recipes/schema/codec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "data/tokenizers/text/utf8.h"
#include "recipes/suggest.h"

namespace comera::recipe_detail {

namespace {
// Sizes of layers are products of two counts up to this one and must not overflow.
constexpr double largest_count = std::numeric_limits<std::int32_t>::max();
}  // namespace

bool Rule::allows(double value) const {
  return std::isfinite(value) && value >= low && value <= high && !(above_low && value == low) &&
         !(below_high && value == high);
}

Rule at_least(double low) { return {.text = fmt::format("of at least {}", low), .low = low}; }

Rule count(double low) {
  return {.text = fmt::format("of at least {} and below 2^31", low), .low = low, .high = largest_count};
}

Rule modes() { return {.text = "with a product below 2^31", .low = 1, .largest_product = largest_count}; }

Rule sizes() { return {.text = "below 2^31", .low = 1, .high = largest_count}; }

Rule ranks() { return {.text = "of at most 65536", .low = 1, .high = 65536}; }

Rule ranks_or_zeros() { return {.text = "from 0 to 65536", .low = 0, .high = 65536}; }

Rule above(double low) {
  return {.text = fmt::format("greater than {}", low), .low = low, .above_low = true};
}

Rule from_to(double low, double high) {
  return {.text = fmt::format("from {} to {}", low, high), .low = low, .high = high};
}

Rule from_to_below(double low, double high) {
  return {.text = fmt::format("of at least {} and less than {}", low, high),
          .low = low,
          .high = high,
          .below_high = true};
}

Rule above_to(double low, double high) {
  return {.text = fmt::format("greater than {} and at most {}", low, high),
          .low = low,
          .high = high,
          .above_low = true};
}

void Reader::wrong_value(const toml::node& node, const Path& path, const std::string& expected) const {
  throw UsageError(
      fmt::format("{}: {} is {}; expected {}", source_.place(node), path.text(), quote(node), expected));
}

void Reader::unknown_key(const toml::key& key, const toml::node& value, const Path& section,
                         const std::vector<std::string>& known) const {
  const std::string name(key.str());
  const std::string where = section.text();
  const std::string usual = usual_key(name), last = usual.substr(usual.rfind('.') + 1);
  std::string advice = suggestion(name, known);
  if (std::ranges::count(known, last) > 0)
    advice = fmt::format("; did you mean '{}'?", last);
  else if (!usual.empty() && nearest(name, known).empty())
    advice = fmt::format("; did you mean {}?", usual);
  throw UsageError(fmt::format("{}: {} is not a key of {}{}", source_.place(key, value),
                               (section / name).text(), where.empty() ? "a recipe" : "[" + where + "]",
                               advice));
}

void Reader::missing_key(const toml::node& section, const Path& key) const {
  const bool is_section = key.parent().empty();
  const char* from = (is_section ? key.name() : key.parent()) == "model"
                         ? ", or be that of a trained model (--from of pretrain and finetune)"
                         : "";
  if (is_section)
    throw UsageError(
        fmt::format("{}: the recipe lacks {}; it must be given{}", source_.file(), key.name(), from));
  throw UsageError(fmt::format("{}: [{}] lacks {}; it must be given{}", source_.place(section), key.parent(),
                               key.name(), from));
}

void Reader::idle_key(const toml::node& value, const Path& key) const {
  throw UsageError(fmt::format("{}: [{}] is not for a click model ([dlrm]); remove one of them",
                               source_.place(value), key.text()));
}

void Reader::not_a_layer(const toml::node& node, const Path& path) const {
  throw UsageError(fmt::format("{}: {} does not name a layer; names are as in encoder.0.attention.query",
                               source_.place(node), path.text()));
}

void Writer::section(const std::string& heading) {
  if (!text_.empty()) text_ += '\n';
  text_ += heading + '\n';
}

void Writer::entry(const Path& list, std::size_t index) {
  list_ = list.text();
  entry_ = (list / std::to_string(index)).text();
}

void Writer::line(const Path& path, const std::string& value) {
  // The recipe, and checkpoints containing it, would be unreadable.
  if (!data::is_utf8(value))
    throw UsageError(fmt::format(
        "{} is not UTF-8, which a recipe needs; rename the file or folder, or give a link with a UTF-8 name",
        path.text()));
  if (value.empty()) return;
  text_ += fmt::format("{} = {}\n", path.name(), value);
  const std::string key = path.text();
  const bool listed = !list_.empty() && key.starts_with(list_ + ".");
  values_.emplace_back(listed ? entry_ + key.substr(list_.size()) : key, value);
}

void Writer::comment(const std::string& lines) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) text_ += "# " + line + '\n';
}

void Reference::section(const std::string& heading, const std::string& doc) {
  text_ +=
      fmt::format("\n## `{}`\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n", heading, doc);
}

void Reference::row(const Path& path, const std::string& type, const std::string& initial,
                    const std::string& doc) {
  std::string shown = initial;
  if (initial.empty())
    shown = "absent";
  else if (initial != "required")
    shown = "`" + initial + "`";
  text_ += fmt::format("| `{}` | {} | {} | {} |\n", path.name(), type, shown, doc);
}

bool Codec<std::int64_t>::read(std::int64_t& out, const toml::node& node, const Rule& rule) {
  const auto* number = node.as_integer();
  if (!number || !rule.allows(static_cast<double>(number->get()))) return false;
  out = number->get();
  return true;
}

std::string Codec<std::int64_t>::write(std::int64_t value) { return fmt::format("{}", value); }

std::string Codec<std::int64_t>::expected(const Rule& rule) {
  return rule.text.empty() ? "an integer" : "an integer " + rule.text;
}

bool Codec<double>::read(double& out, const toml::node& node, const Rule& rule) {
  const auto number = node.is_number() ? node.value<double>() : std::nullopt;
  if (!number || !rule.allows(*number)) return false;
  out = *number;
  return true;
}

// fmt writes the shortest digits that read back as the same double.
std::string Codec<double>::write(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

std::string Codec<double>::expected(const Rule& rule) {
  return rule.text.empty() ? "a number" : "a number " + rule.text;
}

bool Codec<bool>::read(bool& out, const toml::node& node, const Rule&) {
  const auto* truth = node.as_boolean();
  if (truth) out = truth->get();
  return truth != nullptr;
}

std::string Codec<bool>::write(bool value) { return value ? "true" : "false"; }

std::string Codec<bool>::expected(const Rule&) { return "true or false"; }

bool Codec<std::string>::read(std::string& out, const toml::node& node, const Rule&) {
  const auto* text = node.as_string();
  if (text) out = text->get();
  return text != nullptr;
}

std::string Codec<std::string>::write(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string Codec<std::string>::expected(const Rule&) { return "a string"; }

bool Codec<std::vector<std::int64_t>>::read(std::vector<std::int64_t>& out, const toml::node& node,
                                            const Rule& rule) {
  const auto* list = node.as_array();
  if (!list) return false;
  std::vector<std::int64_t> values;
  double product = 1;
  for (const auto& entry : *list) {
    if (!Codec<std::int64_t>::read(values.emplace_back(), entry, rule)) return false;
    product *= static_cast<double>(values.back());
  }
  if (rule.largest_product && product > *rule.largest_product) return false;
  out = std::move(values);
  return true;
}

std::string Codec<std::vector<std::int64_t>>::write(const std::vector<std::int64_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}

std::string Codec<std::vector<std::int64_t>>::expected(const Rule& rule) {
  return (rule.low > 0 ? "a list of positive integers " : "a list of integers ") + rule.text;
}

// A single string is read as a list of one.
bool Codec<std::vector<std::string>>::read(std::vector<std::string>& out, const toml::node& node,
                                           const Rule& rule) {
  std::vector<std::string> values;
  if (const auto* list = node.as_array()) {
    for (const auto& entry : *list)
      if (!Codec<std::string>::read(values.emplace_back(), entry, rule)) return false;
  } else if (!Codec<std::string>::read(values.emplace_back(), node, rule)) {
    return false;
  }
  out = std::move(values);
  return true;
}

std::string Codec<std::vector<std::string>>::write(const std::vector<std::string>& value) {
  std::vector<std::string> quoted;
  quoted.reserve(value.size());
  for (const std::string& text : value) quoted.push_back(Codec<std::string>::write(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string Codec<std::vector<std::string>>::expected(const Rule&) { return "a string or a list of strings"; }

bool Codec<LearningRates>::read(LearningRates& out, const toml::node& node, const Rule& rule) {
  double all = 0;
  if (Codec<double>::read(all, node, rule)) {
    out = {all, all, all, {}};
    return true;
  }
  const toml::table* table = node.as_table();
  if (!table) return false;
  const bool embedding = table->contains("embedding");
  if (table->size() != (embedding ? 4 : 3)) return false;
  const auto rate = [&](const char* name, double& value) {
    const toml::node* entry = table->get(name);
    return entry && Codec<double>::read(value, *entry, rule);
  };
  out.embedding.reset();
  return rate("cores", out.cores) && rate("gates", out.gates) && rate("other", out.other) &&
         (!embedding || rate("embedding", out.embedding.emplace()));
}

std::string Codec<LearningRates>::write(const LearningRates& value) {
  std::vector<std::string> rates;
  value.for_each([&](const char* name, double rate) {
    rates.push_back(fmt::format("{} = {}", name, Codec<double>::write(rate)));
  });
  return fmt::format("{{{}}}", fmt::join(rates, ", "));
}

std::string Codec<LearningRates>::expected(const Rule& rule) {
  const std::string number = Codec<double>::expected(rule);
  return fmt::format(
      "{}, or a table {{cores = ..., gates = ..., other = ...}}, to which embedding = ... may be added",
      number);
}

bool Codec<ClassWeights>::read(ClassWeights& out, const toml::node& node, const Rule& rule) {
  out = {};
  if (const auto* text = node.as_string()) {
    out.balanced = text->get() == "balanced";
    return out.balanced;
  }
  const toml::array* list = node.as_array();
  if (list == nullptr) return false;
  return std::ranges::all_of(*list, [&](const toml::node& entry) {
    return Codec<double>::read(out.values.emplace_back(), entry, rule);
  });
}

std::string Codec<ClassWeights>::write(const ClassWeights& value) {
  if (value.balanced) return Codec<std::string>::write("balanced");
  std::vector<std::string> numbers;
  for (const double number : value.values) numbers.push_back(Codec<double>::write(number));
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string Codec<ClassWeights>::expected(const Rule& rule) {
  return fmt::format("'balanced' or a list, each entry {}", Codec<double>::expected(rule));
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += "'" + words[i] + "'";
  }
  return out;
}

}  // namespace comera::recipe_detail
