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

// The key of a recipe for what other programs call `word` ("lr", "batch_size"), or what sits in another
// section: "phase.0.learning_rate". Empty for other words.
std::string usual_key(std::string_view word);

}  // namespace comera
