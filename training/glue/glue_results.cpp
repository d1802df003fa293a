#include "training/glue/glue_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/tables/glue.h"
#include "reports/text/text_table.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/small_file.h"

namespace comera {

namespace {

constexpr std::int64_t largest_result = 4 << 20;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::string in_percent(const MeanAndDeviation& value, bool several) {
  return several ? fmt::format("{:.1f} ± {:.1f}", 100 * value.mean, 100 * value.deviation)
                 : fmt::format("{:.1f}", 100 * value.mean);
}

// "accuracy", or "accuracy mismatched" if there are several sets.
std::string name_of(const data::GlueNumber& number) {
  const std::string_view metric = data::name_of(number.metric);
  return number.set == "dev" ? std::string(metric) : fmt::format("{} {}", metric, number.set.substr(4));
}

// The settings of a fine-tuning run, in a few words.
std::string settings_of(const GlueResult& result) {
  const PhaseSection& phase = result.recipe.phases.at(0);
  return fmt::format("{}, {}, {} tokens a step, {} steps", name_of(result.recipe.optim.kind),
                     phase.learning_rate.text(), phase.tokens_per_micro_batch * phase.micro_batches_per_step,
                     result.steps);
}

}  // namespace

double GlueResult::score() const { return mean_of(numbers); }

void write_result(const std::filesystem::path& run, const GlueResult& result) {
  const Json json = {{"task", result.task},
                     {"seed", result.seed},
                     {"numbers", result.numbers},
                     {"best_step", result.best_step},
                     {"steps", result.steps},
                     {"examples", result.examples},
                     {"data", result.data},
                     {"majority", result.majority ? Json(*result.majority) : Json()},
                     {"recipe", to_toml(result.recipe)}};
  storage::write_file_durably(run / "result.json", json_text(json) + "\n");
}

bool has_result(const std::filesystem::path& run) { return storage::exists(run / "result.json"); }

GlueResult read_result(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "result.json";
  GlueResult result;
  try {
    const Json json = Json::parse(storage::read_small_file(file, largest_result, "a result, a JSON file"));
    result.task = json.at("task").get<std::string>();
    result.seed = json.at("seed").get<std::int64_t>();
    result.numbers = json.at("numbers").get<std::vector<double>>();
    result.best_step = json.at("best_step").get<std::int64_t>();
    result.steps = json.at("steps").get<std::int64_t>();
    result.examples = json.at("examples").get<std::int64_t>();
    result.data = json.value("data", "");
    if (json.contains("majority") && json["majority"].is_number()) result.majority = json["majority"];
    result.recipe = parse_stored_recipe(json.at("recipe").get<std::string>(), file.string());
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is damaged; remove it to have the run scored again", file.string()));
  }
  COMERA_CHECK(result.numbers.size() == data::glue_numbers(result.task).size(),
               "{}: is damaged; remove it to have the run scored again", file.string());
  return result;
}

std::vector<std::string> GlueTable::tasks() const {
  std::vector<std::string> tasks = data::glue_tasks_by_size();
  std::erase_if(tasks, [&](const std::string& task) {
    return std::ranges::find(results_, task, &GlueResult::task) == results_.end();
  });
  return tasks;
}

std::vector<const GlueResult*> GlueTable::of_task(const std::string& task) const {
  std::vector<const GlueResult*> found;
  for (const GlueResult& result : results_)
    if (result.task == task) found.push_back(&result);
  std::ranges::sort(found, {}, &GlueResult::seed);
  return found;
}

const GlueResult& GlueTable::best_of(const std::string& task) const {
  const std::vector<const GlueResult*> results = of_task(task);
  return **std::ranges::max_element(results, {}, [](const GlueResult* result) { return result->score(); });
}

std::optional<double> GlueTable::average() const {
  std::vector<double> scores;
  for (const std::string& task : tasks()) {
    if (!data::counts_in_average(task)) continue;
    std::vector<double> of_seeds;
    for (const GlueResult* result : of_task(task)) of_seeds.push_back(result->score());
    scores.push_back(mean_of(of_seeds));
  }
  if (scores.empty()) return std::nullopt;
  return mean_of(scores);
}

std::string GlueTable::text() const {
  TextTable table({"task", "metric", "%, mean ± deviation", "majority %", "seeds"});
  for (const std::string& task : tasks()) {
    const std::vector<const GlueResult*> results = of_task(task);
    const std::vector<data::GlueNumber> numbers = data::glue_numbers(task);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::vector<double> of_seeds;
      for (const GlueResult* result : results) of_seeds.push_back(result->numbers[i]);
      const std::optional<double>& majority = results.front()->majority;
      const bool beside = numbers[i].metric == data::TaskMetric::accuracy &&
                          numbers[i].set == numbers.front().set && majority;
      table.add({i == 0 ? task : "", name_of(numbers[i]),
                 in_percent(mean_and_deviation(of_seeds), results.size() > 1),
                 beside ? fmt::format("{:.1f}", 100 * *majority) : "",
                 i == 0 ? std::to_string(results.size()) : ""});
    }
  }
  std::string text = table.text();
  if (const auto mean = average())
    text += fmt::format("average {:.1f} over {} tasks{}; a task with two scores counts with their mean\n",
                        100 * *mean, std::ranges::count_if(tasks(), data::counts_in_average),
                        std::ranges::count(tasks(), "wnli") > 0 ? " (WNLI is left out)" : "");
  text += settings();
  for (const auto& [task, reason] : left_out_) text += fmt::format("left out: {}, {}\n", task, reason);
  return text;
}

// A line for each set of settings, with the tasks that have it.
std::string GlueTable::settings() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> of_tasks;
  for (const std::string& task : tasks()) {
    const std::string settings = settings_of(*of_task(task).front());
    const auto same =
        std::ranges::find(of_tasks, settings, &std::pair<std::string, std::vector<std::string>>::first);
    if (same == of_tasks.end())
      of_tasks.push_back({settings, {task}});
    else
      same->second.push_back(task);
  }
  std::string text;
  for (const auto& [settings, names] : of_tasks)
    text += fmt::format("{}: {}\n", fmt::join(names, ", "), settings);
  return text;
}

Json GlueTable::json() const {
  Json json = {{"tasks", Json::array()}};
  for (const std::string& task : tasks()) {
    const std::vector<const GlueResult*> results = of_task(task);
    const std::vector<data::GlueNumber> numbers = data::glue_numbers(task);
    Json entry = {{"task", task}, {"numbers", Json::array()}, {"seeds", Json::array()}};
    if (results.front()->majority) entry["majority"] = *results.front()->majority;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::vector<double> of_seeds;
      for (const GlueResult* result : results) of_seeds.push_back(result->numbers[i]);
      const MeanAndDeviation value = mean_and_deviation(of_seeds);
      entry["numbers"].push_back({{"set", numbers[i].set},
                                  {"metric", data::name_of(numbers[i].metric)},
                                  {"mean", value.mean},
                                  {"deviation", value.deviation}});
    }
    for (const GlueResult* result : results)
      entry["seeds"].push_back({{"seed", result->seed},
                                {"numbers", result->numbers},
                                {"best_step", result->best_step},
                                {"steps", result->steps},
                                {"examples", result->examples}});
    entry["recipe"] = to_toml(results.front()->recipe);
    json["tasks"].push_back(entry);
  }
  if (const auto mean = average()) json["average"] = *mean;
  for (const auto& [task, reason] : left_out_) json["left_out"][task] = reason;
  return json;
}

}  // namespace comera
