#pragma once

// Mistakes in the kernels of this program (tests/qa/mutation/mutate.awk), at most one at a time.
namespace comera::mutation {

inline constexpr int most_places = 4096;
extern int barrier, bound, distance;        // the place of the mistake, -1: none; how far the bound is moved
extern bool listing, reached[most_places];  // which places are come by, if they are to be listed

// Whether the barrier at that place is there.
inline bool kept(int place) {
  if (listing) reached[place] = true;
  return place != barrier;
}
// What the bound at that place is moved by.
inline int shift(int place) {
  if (listing) reached[place] = true;
  return place == bound ? distance : 0;
}

}  // namespace comera::mutation
