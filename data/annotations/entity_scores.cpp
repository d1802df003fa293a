#include "data/annotations/entity_scores.h"

#include <algorithm>
#include <set>

#include "kernels/core/check.h"

namespace comera::data {

namespace {

struct Tag {
  char letter = 'O';
  std::string type = {};
};

// "B-PER" is B of PER; without a hyphen the type is what follows the letter.
Tag tag_of(const std::string& label) {
  if (label.empty()) return {};
  Tag tag{.letter = label[0], .type = label.substr(1)};
  if (const std::size_t hyphen = tag.type.find('-'); hyphen != label.npos) tag.type.erase(0, hyphen + 1);
  if (tag.type.empty()) tag.type = "_";
  return tag;
}

bool is_one_of(char letter, std::string_view letters) { return letters.find(letter) != letters.npos; }

bool ends(const Tag& before, const Tag& now) {
  if (is_one_of(before.letter, "ES")) return true;
  if (is_one_of(before.letter, "BI") && is_one_of(now.letter, "BSO")) return true;
  return !is_one_of(before.letter, "O.") && before.type != now.type;
}

bool begins(const Tag& before, const Tag& now) {
  if (is_one_of(now.letter, "BS")) return true;
  if (is_one_of(before.letter, "ESO") && is_one_of(now.letter, "EI")) return true;
  return !is_one_of(now.letter, "O.") && before.type != now.type;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// The labels of all sentences with an O behind each, so that no entity spans two of them.
std::vector<std::string> joined(std::span<const std::string> labels, std::span<const std::int64_t> ends) {
  std::vector<std::string> all;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const auto sentence = labels.subspan(begin, end - begin);
    all.insert(all.end(), sentence.begin(), sentence.end());
    all.emplace_back("O");
    begin = end;
  }
  return all;
}

using Places = std::set<std::pair<std::int64_t, std::int64_t>>;

std::map<std::string, Places> places_of(const std::vector<std::string>& labels) {
  std::map<std::string, Places> places;
  for (const Entity& entity : entities_in(labels)) places[entity.type].emplace(entity.first, entity.last);
  return places;
}

}  // namespace

std::vector<Entity> entities_in(std::span<const std::string> labels) {
  std::vector<Entity> entities;
  Tag before;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i <= std::ssize(labels); ++i) {
    const Tag now = tag_of(i < std::ssize(labels) ? labels[static_cast<std::size_t>(i)] : "O");
    if (ends(before, now)) entities.push_back({before.type, first, i - 1});
    if (begins(before, now)) first = i;
    before = now;
  }
  return entities;
}

double EntityCounts::precision() const { return share(right, predicted); }
double EntityCounts::recall() const { return share(right, wanted); }
double EntityCounts::f1() const { return share(2 * right, predicted + wanted); }

EntityScores entity_scores(std::span<const std::string> wanted, std::span<const std::string> predicted,
                           std::span<const std::int64_t> sentence_ends) {
  COMERA_CHECK(wanted.size() == predicted.size(), "{} labels are wanted, but {} predicted", wanted.size(),
               predicted.size());
  const auto truth = places_of(joined(wanted, sentence_ends)),
             found = places_of(joined(predicted, sentence_ends));
  EntityScores scores;
  for (const auto& [type, places] : truth) scores.types[type].wanted = std::ssize(places);
  for (const auto& [type, places] : found) {
    EntityCounts& counts = scores.types[type];
    counts.predicted = std::ssize(places);
    const auto same = truth.find(type);
    if (same == truth.end()) continue;
    counts.right =
        std::ranges::count_if(places, [&](const auto& place) { return same->second.contains(place); });
  }
  for (const auto& [type, counts] : scores.types) {
    scores.all.right += counts.right;
    scores.all.predicted += counts.predicted;
    scores.all.wanted += counts.wanted;
  }
  return scores;
}

}  // namespace comera::data
