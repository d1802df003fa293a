#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/page/run_story.h"

namespace comera {

struct WantedCurve {
  std::string series, name;
  const char* kind = "";
  bool baseline = false;  // the score of an untrained model
};
struct Picture {
  std::string title;
  std::vector<WantedCurve> curves;
  bool from_zero = false;
  bool one_each = false;     // for several runs, only the first curve of each
  bool own_colours = false;  // curves of a run have different colours: they are different scores
};

// The plots for which at least one run has a curve.
std::vector<Picture> pictures_of(const std::vector<Story>& stories);

nlohmann::ordered_json charts_json(const std::vector<Picture>& pictures);

}  // namespace comera
