#pragma once

#include <string>
#include <vector>

namespace comera::test {

// For the fixture's recipe: widths that are multiples of 16, evaluated by left and right factors however few
// tokens there are, in 8 bits with these scales ("current", "delayed").
inline std::vector<std::string> in_float8(const std::string& scaling,
                                          const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {
      "model.hidden=32",
      "tensorized.attention={input_modes=[4, 8], output_modes=[8, 4], ranks=[4, 6, 4]}",
      "tensorized.ffn_up={input_modes=[4, 8], output_modes=[6, 8], ranks=[4, 7, 6]}",
      "tensorized.embedding={row_modes=[8, 8, 8], column_modes=[2, 4, 4], ranks=[6, 7]}",
      "tensorized.plan=halves",
      "run.threads=1",
      "precision.compute=fp8",
      "precision.amax_history_len=3",
      "precision.fp8_recipe=" + scaling};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace comera::test
