#include "reports/page/run_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "reports/metrics_file.h"
#include "reports/model_report.h"
#include "reports/number_text.h"
#include "reports/page/pictures.h"
#include "reports/page/report_template.h"
#include "reports/page/run_story.h"

namespace comera {

namespace {

using Json = nlohmann::ordered_json;

std::string rates_text(const LearningRates& rates) {
  const bool one = rates.cores == rates.other && rates.gates == rates.other &&
                   rates.embedding.value_or(rates.other) == rates.other;
  return one ? fmt::format("{:g}", rates.other) : rates.text(" ");
}

Json phases_of(const Recipe& recipe) {
  Json rows = Json::array();
  for (const PhaseSection& phase : recipe.phases)
    rows.push_back(
        {phase.name, recipe.dlrm ? Json("") : Json(phase.length),
         phase.micro_batch_size() * phase.micro_batches_per_step,
         phase.steps ? Json(*phase.steps) : Json(fmt::format("{:g} passes", phase.epochs.value_or(0))),
         phase.objective == PhaseObjective::fixed        ? "fixed ranks"
         : phase.objective == PhaseObjective::regularize ? "regularize"
                                                         : "compress",
         rates_text(phase.learning_rate)});
  return rows;
}

std::string data_text(const Recipe& recipe) {
  if (!recipe.task.name.empty()) return fmt::format("the task {}", recipe.task.name);
  std::vector<std::string> names;
  for (const DataSource& source : recipe.data.sources) names.push_back(source.name());
  return recipe.data.sources.empty() ? recipe.data.train : fmt::format("{}", fmt::join(names, ", "));
}

std::string click_model_text(const Recipe& recipe) {
  const DlrmSection& dlrm = *recipe.dlrm;
  return fmt::format("click model of {} tables of width {}, {}", dlrm.tables.size(), dlrm.width,
                     recipe.tensorized.enabled && dlrm.table_rank > 0
                         ? fmt::format("tensor trains of ranks {}", dlrm.table_rank)
                         : "dense");
}

std::string model_text(const Recipe& recipe) {
  if (recipe.dlrm) return click_model_text(recipe);
  return fmt::format("{}, {}", architecture_text(recipe.model),
                     recipe.tensorized.enabled ? "tensor trains"
                     : recipe.low_rank         ? "low-rank layers"
                     : recipe.lte              ? "adapters (LTE)"
                                               : "dense");
}

Json table_json(const std::string& title, Json titles, Json rows) {
  return {{"title", title}, {"titles", std::move(titles)}, {"rows", std::move(rows)}};
}

// The scores of each validation set or source of held-out data.
void add_sets(Json& tables, const Json& evaluation, const char* key, const std::string& title) {
  const Json* sets = object_in(evaluation, key);
  if (sets == nullptr || sets->empty()) return;
  std::vector<std::string> names;
  for (const auto& [set, numbers] : sets->items())
    for (const auto& [name, value] : numbers.items())
      if (value.is_number() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  Json titles = Json::array({""}), rows = Json::array();
  for (std::string name : names) {
    std::ranges::replace(name, '_', ' ');
    titles.push_back(name);
  }
  for (const auto& [set, numbers] : sets->items()) {
    Json row = Json::array({set});
    for (const std::string& name : names) row.push_back(numbers.contains(name) ? numbers[name] : Json(""));
    rows.push_back(row);
  }
  tables.push_back(table_json(title, titles, rows));
}

std::int64_t step_of(const Json& line) { return std::llround(number_in(line, "step").value_or(0)); }

Json tables_of(const ReportedRun& run, const Story& story) {
  Json tables = Json::array();
  if (story.evaluation != nullptr) {
    const bool has_score = number_in(*story.best, "score").has_value();
    add_sets(tables, *story.best, "validation",
             has_score ? fmt::format("Best scores, step {}", grouped(step_of(*story.best)))
                       : std::string("Scores of the last model"));
    add_sets(tables, *story.evaluation, "sources", "Held out, by source");
  }
  if (run.recipe && !run.recipe->phases.empty())
    tables.push_back(table_json("Phases",
                                {"", "length", run.recipe->dlrm ? "examples a step" : "tokens a step",
                                 "steps", "ranks", "learning rates"},
                                phases_of(*run.recipe)));
  if (!story.peak_memory.empty()) {
    Json rows = Json::array();
    for (const auto& [kind, bytes] : story.peak_memory)
      rows.push_back({kind, fmt::format("{:.1f} MiB", bytes / 1048576)});
    tables.push_back(table_json("Peak memory", {"", ""}, rows));
  }
  return tables;
}

Json facts_of(const ReportedRun& run) {
  Json facts = Json::array();
  for (const auto& [name, value] : run.facts) facts.push_back({name, value});
  if (!run.recipe) return facts;
  const Recipe recipe = without_folders(*run.recipe);
  facts.push_back({"model", model_text(recipe)});
  facts.push_back({"data", data_text(recipe)});
  facts.push_back({"optimizer", name_of(recipe.optim.kind)});
  facts.push_back({"precision", name_of(recipe.precision.compute)});
  if (!recipe.run.initial_checkpoint.empty()) facts.push_back({"begun with", recipe.run.initial_checkpoint});
  facts.push_back({"seed", std::to_string(recipe.run.seed)});
  return facts;
}

Json layers_of(const CheckpointRanks& ranks) {
  Json layers = Json::array();
  const LayerRanks none;
  const LayerRanks& start = ranks.history.stages.empty() ? none : ranks.history.stages.front().ranks;
  for (const ReportedLayer& layer : ranks.layers) {
    const std::vector<std::int64_t> first =
        !layer.tensorized() || start.empty() ? layer.held : layer.ranks_in(start);
    layers.push_back({{"name", layer.name},
                      {"matrix", layer.matrix},
                      {"size", layer.tensorized() ? layer.size() : layer.matrix},
                      {"first", first},
                      {"live", layer.removed() ? std::vector<std::int64_t>(first.size(), 0) : layer.live},
                      {"removed", layer.tensorized() && layer.removed()}});
  }
  return layers;
}

Json fillings_of(const ReportedRun& run) {
  Json list = Json::array();
  for (const ReportedFilling& filling : run.fillings) {
    Json guesses = Json::array();
    for (const auto& [piece, probability] : filling.guesses) guesses.push_back({piece, rounded(probability)});
    list.push_back({{"before", filling.before},
                    {"behind", filling.behind},
                    {"truth", filling.truth ? Json(*filling.truth) : Json()},
                    {"rank", filling.rank},
                    {"guesses", guesses}});
  }
  return list;
}

std::string hours_text(double hours) {
  return hours < 1 ? fmt::format("{:.1f} min", 60 * hours) : fmt::format("{:.2f} h", hours);
}

// Values for comparing runs: a name, and a number, a text or nothing.
std::vector<std::pair<std::string, Json>> results_of(const ReportedRun& run, const Story& story) {
  const auto of = [](const Json* line, const char* key) {
    const auto value = line != nullptr ? number_in(*line, key) : std::nullopt;
    return value ? Json(rounded(*value)) : Json();
  };
  std::vector<std::pair<std::string, Json>> results = {
      {"held-out loss", of(story.evaluation, "validation_loss")},
      {"best held-out loss", story.best_loss ? Json(rounded(*story.best_loss)) : Json()},
      {"unigram loss", of(story.evaluation, "unigram_loss")},
      {run.recipe && run.recipe->dlrm ? "accuracy" : "masked accuracy",
       of(story.evaluation, "validation_accuracy")},
      {"generator's loss", of(story.evaluation, "generator_loss")},
      {"discriminator's loss", of(story.evaluation, "detection_loss")},
      {"share of replaced tokens found", of(story.evaluation, "replaced_found")},
      {"AUC", of(story.evaluation, "validation_auc")},
      {"normalised cross-entropy", of(story.evaluation, "validation_normalised_entropy")}};
  if (const Json* sets = story.best != nullptr ? object_in(*story.best, "validation") : nullptr)
    for (const auto& [set, numbers] : sets->items())
      for (const char* metric : {"accuracy", "f1", "micro_f1", "macro_f1", "matthews", "pearson", "spearman",
                                 "mrr", "recall_at_1", "recall_at_10", "exact_match", "best_f1", "recognised",
                                 "answerable_f1", "answerable_exact_match"})
        if (const auto value = number_in(numbers, metric))
          results.emplace_back(fmt::format("{}, {}", set, metric), rounded(*value));
  results.emplace_back("training loss of the last steps", of(story.training, "loss"));
  results.emplace_back("steps", story.steps);
  results.emplace_back("training time", hours_text(story.hours));
  results.emplace_back("tokens", of(story.training, "tokens"));
  results.emplace_back("tokens a second", of(story.training, "tokens_per_second"));
  results.emplace_back("examples", of(story.training, "examples"));
  results.emplace_back("examples a second", of(story.training, "examples_per_second"));
  if (run.ranks) {
    results.emplace_back("parameters", run.ranks->live_parameters());
    results.emplace_back("parameters of the dense baseline", run.ranks->dense_baseline);
    results.emplace_back("size", times_text(run.ranks->dense_baseline,
                                            std::max<std::int64_t>(run.ranks->live_parameters(), 1)));
  }
  if (run.checkpoint_bytes > 0)
    results.emplace_back("checkpoint", fmt::format("{:.1f} MiB", run.checkpoint_bytes / 1048576));
  results.emplace_back("skipped steps", of(story.training, "skipped_steps"));
  std::erase_if(results, [](const auto& result) { return result.second.is_null(); });
  return results;
}

std::vector<std::string> summary_of(const ReportedRun& run, const Story& story) {
  std::vector<std::string> lines;
  if (story.evaluation != nullptr)
    if (const auto unigram = number_in(*story.evaluation, "unigram_loss"))
      lines.push_back(fmt::format("unigram {:.3f}; masked accuracy {:.1f} %", *unigram,
                                  100 * number_in(*story.evaluation, "validation_accuracy").value_or(0)));
  if (story.evaluation != nullptr)
    if (const auto auc = number_in(*story.evaluation, "validation_auc"))
      lines.push_back(fmt::format("AUC {:.4f}", *auc));
  if (run.ranks) {
    const std::int64_t own = run.ranks->live_parameters(), dense = run.ranks->dense_baseline;
    lines.push_back(own == dense ? fmt::format("{} parameters, all dense", grouped(own))
                                 : fmt::format("{} parameters, {} than its dense baseline", grouped(own),
                                               times_text(dense, own)));
  }
  if (story.steps > 0)
    lines.push_back(fmt::format("{} steps in {}", grouped(static_cast<std::int64_t>(story.steps)),
                                hours_text(story.hours)));
  return lines;
}

Json headline_of(const Story& story) {
  if (story.evaluation == nullptr) return nullptr;
  if (const auto loss = number_in(*story.evaluation, "validation_loss"))
    return Json::array({"held-out loss, nats", rounded(*loss)});
  if (const Json* sets = object_in(*story.best, "validation"))
    for (const auto& [set, numbers] : sets->items())
      for (const char* metric : {"exact_match", "mrr", "micro_f1", "accuracy", "pearson"})
        if (const auto value = number_in(numbers, metric))
          return Json::array({fmt::format("{}, {}", metric, set), rounded(*value)});
  return nullptr;
}

// "phase.0.steps" and its value, for every key.
std::vector<std::pair<std::string, std::string>> keys_of(const Recipe& recipe) {
  std::vector<std::pair<std::string, std::string>> keys;
  std::istringstream text(to_toml(without_folders(recipe)));
  std::string section;
  std::map<std::string, int> counted;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("[[")) {
      const std::string name = line.substr(2, line.find(']') - 2);
      section = fmt::format("{}.{}", name, counted[name]++);
    } else if (line.starts_with("[")) {
      section = line.substr(1, line.find(']') - 1);
      // For the table within the last entry of a list, such as [phase.adaptation].
      const std::string list = section.substr(0, section.find('.'));
      if (const auto last = counted.find(list); last != counted.end() && section != list)
        section = fmt::format("{}.{}{}", list, last->second - 1, section.substr(list.size()));
    } else if (const std::size_t equals = line.find(" = "); equals != std::string::npos) {
      keys.emplace_back(fmt::format("{}.{}", section, line.substr(0, equals)), line.substr(equals + 3));
    }
  }
  return keys;
}

Json differences_of(const std::vector<ReportedRun>& runs) {
  std::vector<std::string> order;
  std::vector<std::map<std::string, std::string>> values(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].recipe) continue;
    for (const auto& [key, value] : keys_of(*runs[i].recipe)) {
      if (std::ranges::find(order, key) == order.end()) order.push_back(key);
      values[i][key] = value;
    }
  }
  Json rows = Json::array();
  std::int64_t layers = 0;
  for (const std::string& key : order) {
    if (key == "run.output") continue;
    Json row = Json::array({key});
    bool differs = false;
    for (const auto& of_run : values) {
      const auto found = of_run.find(key);
      row.push_back(found == of_run.end() ? "" : found->second);
      differs = differs || row.back() != row[1];
    }
    if (!differs) continue;
    if (key.starts_with("tensorized.ranks."))
      ++layers;
    else
      rows.push_back(row);
  }
  // A row for each layer would hide the others.
  if (layers > 0) {
    Json row = Json::array({"tensorized.ranks"});
    for (std::size_t i = 0; i < runs.size(); ++i) row.push_back(fmt::format("of {} layers", layers));
    rows.push_back(row);
  }
  return rows;
}

Json side_by_side(const std::vector<std::vector<std::pair<std::string, Json>>>& results) {
  std::vector<std::string> order;
  for (const auto& of_run : results)
    for (const auto& [name, value] : of_run)
      if (std::ranges::find(order, name) == order.end()) order.push_back(name);
  Json rows = Json::array();
  for (const std::string& name : order) {
    Json row = Json::array({name});
    for (const auto& of_run : results) {
      const auto found = std::ranges::find(of_run, name, &std::pair<std::string, Json>::first);
      row.push_back(found == of_run.end() ? Json("") : found->second);
    }
    rows.push_back(row);
  }
  return rows;
}

// A script must not contain "</script>" or the start of a comment, whatever a run's name is.
std::string within_script(const Json& data) {
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace), safe;
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string report_page(const std::vector<ReportedRun>& runs, const std::vector<ReportedTable>& tables,
                        const std::string& made) {
  std::vector<Story> stories;
  for (const ReportedRun& run : runs) stories.push_back(story_of(run.metrics));
  const std::vector<Picture> pictures = pictures_of(stories);
  Json list = Json::array();
  std::vector<std::vector<std::pair<std::string, Json>>> results;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ReportedRun& run = runs[i];
    const Story& story = stories[i];
    Json series = Json::object();
    for (const Picture& picture : pictures)
      for (const WantedCurve& curve : picture.curves)
        if (const auto found = story.series.find(curve.series); found != story.series.end())
          series[curve.series] = points_of(found->second);
    results.push_back(results_of(run, story));
    Json of_run = tables_of(run, story);
    Json rows = Json::array();
    for (const auto& [name, value] : results.back()) rows.push_back({name, value});
    of_run.insert(of_run.begin(), table_json("Results", {"", ""}, rows));
    list.push_back({{"name", run.name},
                    {"notes", run.notes},
                    {"headline", headline_of(story)},
                    {"summary", summary_of(run, story)},
                    {"facts", facts_of(run)},
                    {"tables", of_run},
                    {"series", series},
                    {"layers", run.ranks ? layers_of(*run.ranks) : Json::array()},
                    {"fillings", fillings_of(run)}});
  }
  Json more = Json::array();
  for (const ReportedTable& table : tables) more.push_back(table_json(table.title, table.titles, table.rows));
  const Json data = {{"made", made},
                     {"runs", list},
                     {"charts", charts_json(pictures)},
                     {"results", side_by_side(results)},
                     {"differences", runs.size() > 1 ? differences_of(runs) : Json::array()},
                     {"tables", more}};
  std::string page(report_template());
  page.replace(page.find(report_data_mark), report_data_mark.size(), within_script(data));
  return page;
}

}  // namespace comera
