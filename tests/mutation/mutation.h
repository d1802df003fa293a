#pragma once

// Mistakes in the kernels of this program (tests/mutation/mutate.awk), at most one at a time.
namespace comera::mutation {

inline constexpr int most_places = 4096;
extern int barrier, bound, distance;        // the index of the mistake, -1: none; how far the bound is moved
extern bool listing, reached[most_places];  // which indices are reached, for listing

// Whether the barrier with this index is kept.
inline bool kept(int place) {
  if (listing) reached[place] = true;
  return place != barrier;
}
// By how much the bound with this index is moved.
inline int shift(int place) {
  if (listing) reached[place] = true;
  return place == bound ? distance : 0;
}

}  // namespace comera::mutation
