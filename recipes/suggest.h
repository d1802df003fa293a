#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera {

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, or nothing if none is near enough to be a misspelling.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'layers'?" or, if nothing is near, "; expected one of layers, hidden".
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace comera
