#include "reports/page/pictures.h"

#include <algorithm>

namespace comera {

namespace {

using Json = nlohmann::ordered_json;

bool ends_with_any(const std::string& name, const std::vector<const char*>& ends) {
  return std::ranges::any_of(ends, [&](const char* end) { return name.ends_with(end); });
}

}  // namespace

std::vector<Picture> pictures_of(const std::vector<Story>& stories) {
  Picture tasks{.title = "Scores on the validation sets", .curves = {}, .own_colours = true};
  Picture task_losses{.title = "Loss of the task", .curves = {}};
  Picture losses{.title = "Loss, nats",
                 .curves = {{"validation_loss", "held out"},
                            {"loss", "training", "thin"},
                            {"unigram_loss", "unigram", "dashed", true}}};
  std::vector<std::string> seen;
  for (const Story& story : stories)
    for (const auto& [name, points] : story.series) {
      if (!name.starts_with("validation/") || std::ranges::find(seen, name) != seen.end()) continue;
      seen.push_back(name);
      const std::string shown = name.substr(std::string("validation/").size());
      if (name.ends_with("/loss")) task_losses.curves.push_back({name, shown});
      if (ends_with_any(name,
                        {"/accuracy", "/f1", "/micro_f1", "/macro_f1", "/matthews", "/pearson", "/spearman"}))
        tasks.curves.push_back({name, shown});
    }
  task_losses.curves.push_back({"task/loss", "training", "thin"});
  std::vector<Picture> all = {losses,
                              task_losses,
                              {"Accuracy, held out", {{"validation_accuracy", "accuracy"}}},
                              {"AUC, held out", {{"validation_auc", "AUC"}}},
                              tasks,
                              {"Size of the tensor trains relative to the start",
                               {{"ranks/size", "size"}, {"ranks/target", "target", "dashed"}},
                               true},
                              {"Live ranks", {{"ranks/live", "live ranks"}}, true},
                              {"Learning rates",
                               {{"learning_rate/cores", "cores"},
                                {"learning_rate/embedding", "embedding"},
                                {"learning_rate/gates", "gates"},
                                {"learning_rate/other", "other"},
                                {"learning_rate", "all"}},
                               true,
                               true},
                              {"Gradient norm", {{"gradient_norm", "norm", "thin"}}, true},
                              {"Tokens a second", {{"tokens_per_second", "tokens/s", "thin"}}, true},
                              {"Examples a second", {{"examples_per_second", "examples/s", "thin"}}, true}};
  const auto known = [&](const WantedCurve& curve) {
    return std::ranges::any_of(stories,
                               [&](const Story& story) { return story.series.contains(curve.series); });
  };
  for (Picture& picture : all)
    std::erase_if(picture.curves, [&](const WantedCurve& curve) { return !known(curve); });
  std::erase_if(all, [](const Picture& picture) { return picture.curves.empty(); });
  return all;
}

Json charts_json(const std::vector<Picture>& pictures) {
  Json charts = Json::array();
  for (const Picture& picture : pictures) {
    Json curves = Json::array();
    for (const WantedCurve& curve : picture.curves)
      curves.push_back({{"series", curve.series},
                        {"name", curve.name},
                        {"kind", curve.kind},
                        {"baseline", curve.baseline}});
    charts.push_back({{"title", picture.title},
                      {"from_zero", picture.from_zero},
                      {"one_each", picture.one_each},
                      {"own_colours", picture.own_colours},
                      {"curves", curves}});
  }
  return charts;
}

}  // namespace comera
