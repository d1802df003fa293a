#pragma once

#include <cstddef>
#include <iterator>

// The colours of all plots, distinguishable with colour vision deficiencies (Okabe and Ito, 2008).
namespace comera::plot_colours {

inline constexpr const char* blue = "#0072b2";
inline constexpr const char* orange = "#d55e00";
inline constexpr const char* green = "#009e73";
inline constexpr const char* purple = "#cc79a7";
inline constexpr const char* yellow = "#e69f00";
inline constexpr const char* sky = "#56b4e9";
inline constexpr const char* grey = "#707070";  // for curves of another kind

// For curve i of several similar ones; repeats after six curves.
inline const char* of_curve(std::size_t i) {
  constexpr const char* all[] = {blue, orange, green, purple, yellow, sky};
  return all[i % std::size(all)];
}
// The same without blue, which belongs to another curve of the panel; repeats after five curves.
inline const char* beside_blue(std::size_t i) {
  constexpr const char* all[] = {orange, green, purple, yellow, sky};
  return all[i % std::size(all)];
}

}  // namespace comera::plot_colours
