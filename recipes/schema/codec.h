#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "recipes/recipe.h"
#include "recipes/source.h"

// The TOML form of each C++ type.
namespace comera::recipe_detail {

// "phase.0.steps"; empty at the root.
class Path {
 public:
  Path operator/(const std::string& key) const {
    Path longer = *this;
    longer.parent_ = text();
    longer.name_ = key;
    return longer;
  }
  std::string text() const { return parent_.empty() ? name_ : parent_ + "." + name_; }
  const std::string& name() const { return name_; }
  const std::string& parent() const { return parent_; }

 private:
  std::string parent_;
  std::string name_;
};

// The range of a key's numbers. NaN and infinity are never allowed.
struct Rule {
  std::string text = "";  // "of at least 1"; describes the whole rule
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
  bool above_low = false;                   // low itself is excluded
  bool below_high = false;                  // high itself is excluded
  std::optional<double> largest_product{};  // of a list's entries

  bool allows(double value) const;
};

Rule at_least(double low);
Rule count(double low);  // at least low and below 2^31
Rule modes();            // of a TT or TTM layer, whose sizes are the products of these lists
Rule sizes();
Rule ranks();
Rule ranks_or_zeros();  // of a single layer: zeros remove it
Rule above(double low);
Rule from_to(double low, double high);
Rule from_to_below(double low, double high);
Rule above_to(double low, double high);

// Raises the errors of reading and remembers every key's position.
class Reader {
 public:
  explicit Reader(const Source& source) : source_(source), places_(source.file()) {}
  void note(const Path& path, const toml::node& node) { places_.add(path.text(), source_.place(node)); }
  const Places& places() const { return places_; }

  [[noreturn]] void wrong_value(const toml::node& node, const Path& path, const std::string& expected) const;
  [[noreturn]] void unknown_key(const toml::key& key, const toml::node& value, const Path& section,
                                const std::vector<std::string>& known) const;
  [[noreturn]] void missing_key(const toml::node& section, const Path& key) const;
  [[noreturn]] void idle_key(const toml::node& value, const Path& key) const;
  [[noreturn]] void not_a_layer(const toml::node& node, const Path& path) const;

 private:
  const Source& source_;
  Places places_;
};

class Writer {
 public:
  void section(const std::string& heading);
  // The following lines belong to this entry of a list of sections.
  void entry(const Path& list, std::size_t index);
  // Writes nothing for an absent optional value (empty text).
  void line(const Path& path, const std::string& value);
  void comment(const std::string& lines);
  const std::string& text() const { return text_; }
  // The arguments of line(), {"phase.0.steps", "100"}, in that order.
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

 private:
  std::string text_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::string list_, entry_;  // "phase", "phase.0"
};

// The tables of docs/reference/recipes.md.
class Reference {
 public:
  void section(const std::string& heading, const std::string& doc);
  void row(const Path& path, const std::string& type, const std::string& initial, const std::string& doc);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Codec<T>::read: false if the node does not hold what T and the rule require. Codec<T>::write: the value as
// TOML, which reads back as the same bits; empty for an absent optional. Codec<T>::expected: "an integer of
// at least 1".
template <class T>
struct Codec;

template <>
struct Codec<std::int64_t> {
  static bool read(std::int64_t& out, const toml::node& node, const Rule& rule);
  static std::string write(std::int64_t value);
  static std::string expected(const Rule& rule);
};

template <>
struct Codec<double> {
  static bool read(double& out, const toml::node& node, const Rule& rule);
  static std::string write(double value);
  static std::string expected(const Rule& rule);
};

template <>
struct Codec<bool> {
  static bool read(bool& out, const toml::node& node, const Rule& rule);
  static std::string write(bool value);
  static std::string expected(const Rule& rule);
};

template <>
struct Codec<std::string> {
  static bool read(std::string& out, const toml::node& node, const Rule& rule);
  static std::string write(const std::string& value);
  static std::string expected(const Rule& rule);
};

template <>
struct Codec<std::vector<std::int64_t>> {
  static bool read(std::vector<std::int64_t>& out, const toml::node& node, const Rule& rule);
  static std::string write(const std::vector<std::int64_t>& value);
  static std::string expected(const Rule& rule);
};

template <>
struct Codec<std::vector<std::string>> {
  static bool read(std::vector<std::string>& out, const toml::node& node, const Rule& rule);
  static std::string write(const std::vector<std::string>& value);
  static std::string expected(const Rule& rule);
};

// One number for all three, or {cores = ..., gates = ..., other = ...}.
template <>
struct Codec<LearningRates> {
  static bool read(LearningRates& out, const toml::node& node, const Rule& rule);
  static std::string write(const LearningRates& value);
  static std::string expected(const Rule& rule);
};

// A list of numbers, or "balanced".
template <>
struct Codec<ClassWeights> {
  static bool read(ClassWeights& out, const toml::node& node, const Rule& rule);
  static std::string write(const ClassWeights& value);
  static std::string expected(const Rule& rule);
};

template <class T>
struct Codec<std::optional<T>> {
  static bool read(std::optional<T>& out, const toml::node& node, const Rule& rule) {
    return Codec<T>::read(out.emplace(), node, rule);
  }
  static std::string write(const std::optional<T>& value) { return value ? Codec<T>::write(*value) : ""; }
  static std::string expected(const Rule& rule) { return Codec<T>::expected(rule); }
};

// The words for an enumeration's values: words.cpp.
template <class E>
using Words = std::vector<std::pair<E, std::string>>;
template <class E>
const Words<E>& words_of();
template <>
const Words<NormPlacement>& words_of();
template <>
const Words<DataOrder>& words_of();
template <>
const Words<Positions>& words_of();
template <>
const Words<HeadKind>& words_of();
template <>
const Words<LookupKind>& words_of();
template <>
const Words<data::TargetKind>& words_of();
template <>
const Words<PlanKind>& words_of();
template <>
const Words<OptimizerKind>& words_of();
template <>
const Words<Compute>& words_of();
template <>
const Words<Float8Config::Scaling>& words_of();
template <>
const Words<Float8Config::Format>& words_of();
template <>
const Words<PhaseObjective>& words_of();
template <>
const Words<RankPreset>& words_of();
template <>
const Words<TargetBase>& words_of();
template <>
const Words<RankPenalty>& words_of();
template <>
const Words<RankOrder>& words_of();
template <>
const Words<ScheduleKind>& words_of();
template <>
const Words<Pooling>& words_of();
template <>
const Words<PairEncoding>& words_of();
template <>
const Words<data::TaskKind>& words_of();
template <>
const Words<data::TaskMetric>& words_of();
template <>
const Words<data::TableFormat>& words_of();

// "'a', 'b' or 'c'"
std::string alternatives(const std::vector<std::string>& words);

template <class E>
requires std::is_enum_v<E>
struct Codec<E> {
  static bool read(E& out, const toml::node& node, const Rule&) {
    const auto* text = node.as_string();
    if (!text) return false;
    for (const auto& [value, word] : words_of<E>()) {
      if (word != text->get()) continue;
      out = value;
      return true;
    }
    return false;
  }
  static std::string write(E value) {
    for (const auto& [other, word] : words_of<E>())
      if (other == value) return Codec<std::string>::write(word);
    throw Error("a recipe cannot say this value in words");
  }
  static std::string expected(const Rule&) {
    std::vector<std::string> words;
    for (const auto& [value, word] : words_of<E>()) words.push_back(word);
    return alternatives(words);
  }
};

}  // namespace comera::recipe_detail
