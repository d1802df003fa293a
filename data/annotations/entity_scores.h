#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace comera::data {

// A named entity, or another chunk of words.
struct Entity {
  std::string type;
  std::int64_t first = 0, last = 0;  // words, both included
  friend bool operator==(const Entity&, const Entity&) = default;
};

// The entities that labels mean, as seqeval's default mode finds them, and the conlleval script before it:
// one begins at B- or S-, at I- or E- after O, and where the type changes; it ends before the next and before
// O, and behind E- and S-. So IOB1, IOB2 and IOBES are all understood.
std::vector<Entity> entities_in(std::span<const std::string> labels);

struct EntityCounts {
  std::int64_t right = 0, predicted = 0, wanted = 0;
  // 0 where nothing is divided.
  double precision() const;
  double recall() const;
  double f1() const;
};

// Of a set of sentences: an entity is right if its type, first and last word are.
struct EntityScores {
  EntityCounts all;
  std::map<std::string, EntityCounts> types;  // that are wanted or predicted
};

// As seqeval's precision_score, recall_score and f1_score of a list of sentences, and its
// classification_report for the types. Both: labels of the same words; sentences: the end of each.
EntityScores entity_scores(std::span<const std::string> wanted, std::span<const std::string> predicted,
                           std::span<const std::int64_t> sentence_ends);

}  // namespace comera::data
