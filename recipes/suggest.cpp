#include "recipes/suggest.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace comera {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> distance(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      int& here = distance[i][j];
      if (i == 0 || j == 0) {
        here = static_cast<int>(i + j);
        continue;
      }
      here = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                       distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) here = std::min(here, distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  constexpr std::size_t longest = 64;  // no candidate is as long, and the work grows with both lengths
  if (word.size() > longest) return best;
  int least = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    // A word that shares no letter with the candidate is not a misspelling of it.
    if (distance < least && distance < static_cast<int>(std::max(word.size(), candidate.size()))) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  if (!best.empty()) return fmt::format("; did you mean '{}'?", best);
  return fmt::format("; expected one of {}", fmt::join(candidates, ", "));
}

}  // namespace comera
