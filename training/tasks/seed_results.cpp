#include "training/tasks/seed_results.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/batching/batch.h"
#include "kernels/core/grouped.h"
#include "recipes/changes.h"
#include "reports/text/text_table.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/json_file.h"
#include "storage/seal.h"
#include "storage/small_file.h"
#include "training/distillation/trained_teacher.h"
#include "training/inference/inference_engine.h"
#include "training/inference/trained_model.h"
#include "training/tasks/annotated_task.h"
#include "training/tasks/sequence_task.h"
#include "training/vectors/contrastive_task.h"
#include "training/vectors/vector_scores.h"

namespace comera {

namespace {

constexpr std::int64_t largest_seed_result = 4 << 20;

// Keys that do not affect results.
bool is_of_place(const std::string& key) {
  for (const char* name :
       {"run.output", "run.device", "run.threads", "run.initial_checkpoint", "run.graphs", "run.log_interval",
        "run.tensorboard", "run.checkpoint_minutes", "run.keep_checkpoints", "run.use_older_checkpoint",
        "data.tokenizer", "task.folder", "distributed."})
    if (key.starts_with(name)) return true;
  return false;
}

const std::vector<data::TaskMetric>& kept_metrics(const data::TaskScores& scores) {
  using enum data::TaskMetric;
  static const std::vector<data::TaskMetric> of_classes = {accuracy, f1, matthews},
                                             of_scores = {pearson, spearman},
                                             of_labels = {micro_f1, macro_f1, accuracy},
                                             of_retrieval = {mrr, recall_at_1, recall_at_10},
                                             of_words = {f1, accuracy}, of_answers = {exact_match, f1};
  switch (scores.kind) {
    case data::TaskKind::regression:
      return of_scores;
    case data::TaskKind::multi_label:
      return of_labels;
    case data::TaskKind::contrastive:
      return scores.documents > 0 ? of_retrieval : of_scores;
    case data::TaskKind::token_classification:
      return of_words;
    case data::TaskKind::question_answering:
      return of_answers;
    case data::TaskKind::classification:
      break;
  }
  return of_classes;
}

std::vector<double> values_of(const std::vector<SeedResult>& results, std::size_t set,
                              data::TaskMetric metric) {
  std::vector<double> values;
  for (const SeedResult& result : results) values.push_back(result.sets[set].value(metric));
  return values;
}

std::string percent(double value) { return fmt::format("{:.2f}", 100 * value); }

double& value_in(data::TaskScores& scores, data::TaskMetric metric) {
  switch (metric) {
    case data::TaskMetric::accuracy:
      return scores.accuracy;
    case data::TaskMetric::f1:
      return scores.f1;
    case data::TaskMetric::matthews:
      return scores.matthews;
    case data::TaskMetric::pearson:
      return scores.pearson;
    case data::TaskMetric::spearman:
      return scores.spearman;
    case data::TaskMetric::micro_f1:
      return scores.micro_f1;
    case data::TaskMetric::macro_f1:
      return scores.macro_f1;
    case data::TaskMetric::mrr:
      return scores.mrr;
    case data::TaskMetric::recall_at_1:
      return scores.recall_at_1;
    case data::TaskMetric::recall_at_10:
      return scores.recall_at_10;
    case data::TaskMetric::exact_match:
      return scores.exact_match;
  }
  throw Error("a score without a place");
}

}  // namespace

std::string fingerprint_of_files(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> contents;
  for (const std::filesystem::path& path : files) {
    const storage::FileDescriptor file = storage::FileDescriptor::open_to_read(path);
    contents.push_back(fmt::format("{} {:08x}", file.size(), storage::checksum(file, 0, file.size())));
  }
  return fmt::format("{}", fmt::join(contents, ", "));
}

std::string fingerprint_of_task(const Recipe& recipe) {
  const data::Task task = task_of(recipe.task);
  std::vector<std::filesystem::path> files;
  for (const auto* sets : {&task.train, &task.validation})
    for (const data::Task::Set& set : *sets) files.push_back(set.file);
  files.insert(files.end(), recipe.task.similarity.begin(), recipe.task.similarity.end());
  return fingerprint_of_files(files);
}

void require_settings(const std::filesystem::path& run, const Recipe& before, const std::string& data_before,
                      const Recipe& recipe, const std::string& data) {
  if (!data_before.empty() && data_before != data)
    throw UsageError(fmt::format(
        "{}: is a run with other data than {} holds now; give the same files, or another --output",
        run.string(),
        recipe.task.folder.empty() ? fmt::format("{}", fmt::join(recipe.task.train, ", "))
                                   : recipe.task.folder));
  for (const RecipeChange& change : recipe_changes(before, recipe))
    if (!is_of_place(change.key))
      throw UsageError(
          fmt::format("{}: is a run with other settings: {}; give the same ones, or another "
                      "--output",
                      run.string(), to_string(change)));
}

namespace {

// What require_begun_settings() has noted of a run that has checkpoints.
struct BegunSettings {
  Recipe recipe;
  std::string data;
};
std::optional<BegunSettings> begun_settings(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "settings.json";
  if (!storage::exists(file) || !storage::exists(run / "checkpoints")) return std::nullopt;
  const nlohmann::json begun = storage::parse_json(
      storage::read_small_file(file, largest_seed_result, "a run's settings, a JSON file"),
      file.string() + ":");
  if (!begun.is_object() || !begun.value("recipe", nlohmann::json()).is_string() ||
      !begun.value("data", nlohmann::json()).is_string())
    throw Error(fmt::format("{}: is damaged; remove it to continue the run as it is", file.string()));
  return BegunSettings{parse_stored_recipe(begun["recipe"].get<std::string>(), file.string()),
                       begun["data"].get<std::string>()};
}

}  // namespace

std::vector<std::string> begun_score_settings(const std::filesystem::path& run) {
  const auto begun = begun_settings(run);
  return begun ? score_settings(begun->recipe.model) : std::vector<std::string>();
}

void require_begun_settings(const std::filesystem::path& run, const Recipe& recipe, const std::string& data) {
  if (const auto begun = begun_settings(run))
    return require_settings(run, begun->recipe, begun->data, recipe, data);
  storage::create_directories_durably(run);
  const Json now = {{"data", data}, {"recipe", to_toml(recipe)}};
  storage::write_file_durably(run / "settings.json", json_text(now) + "\n");
}

void keep_origin(const std::filesystem::path& folder, const std::filesystem::path& from, bool scratch) {
  const std::filesystem::path file = folder / "from.json";
  Json now = Json::object();
  std::string name = "random weights";
  if (!from.empty()) {
    const std::filesystem::path checkpoint = find_trained_model(from).checkpoint;
    const storage::FileDescriptor model = storage::FileDescriptor::open_to_read(checkpoint);
    now = {{"bytes", model.size()}, {"crc32", storage::checksum(model, 0, model.size())}};
    name = checkpoint.string();
  }
  if (scratch) now["scratch"] = true;
  if (!storage::exists(file)) {
    storage::write_file_durably(file, json_text(now) + "\n");
    return;
  }
  const auto begun = storage::parse_json(storage::read_small_file(file, 1 << 20, "a note about a model"),
                                         file.string() + ":");
  if (begun != nlohmann::json(now))
    throw UsageError(
        fmt::format("{}: its runs started from another model than {}, or with --scratch unlike this call; "
                    "choose another --output",
                    folder.string(), name));
}

std::vector<data::TaskScores> score_model(const std::filesystem::path& checkpoint, const Recipe& recipe) {
  const LoadedModel loaded(checkpoint, {}, {}, recipe.run.device);
  const data::Task task = task_of(recipe.task);
  const EncoderConfig& config = loaded.model.config();
  std::int64_t length = 0;
  for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
  const MicroBatchCapacity capacity =
      data::capacity_for(std::max<std::int64_t>(4096, length), length, 0, config.vocabulary);
  std::vector<data::TaskScores> scores;
  if (task.kind == data::TaskKind::contrastive) {
    InferenceEngine engine(loaded.model, output_of(config.pooling), loaded.processor);
    const bool compares = compares_with_teacher(recipe);
    std::vector<VectorSet> sets =
        compares ? read_texts(task, loaded.tokenizer, length) : read_pairs(task, loaded.tokenizer, length);
    if (compares) {
      TrainedTeacher teacher(recipe, loaded.tokenizer, config, loaded.processor);
      const data::Examples learned =
          data::Examples::read(task, task.train, loaded.tokenizer, !task.label.empty(), length);
      for (VectorSet& set : sets)
        ask_teacher(set, learned, {teacher.teacher(), loaded.processor, {}, one_process()}, length);
    }
    for (VectorSet& set : read_similarity(recipe.task.similarity, loaded.tokenizer, length))
      sets.push_back(std::move(set));
    for (const VectorSet& set : sets)
      scores.push_back(*score_vectors(engine, set, capacity, config.contrastive.temperature));
    return scores;
  }
  if (data::is_annotation(task.kind)) {
    InferenceEngine engine(loaded.model, InferenceEngine::Output::logits, loaded.processor);
    for (const data::Task::Set& set : task.validation) {
      const auto examples = data::read_annotated(task, {set}, loaded.tokenizer, true, length);
      scores.push_back(
          scores_of(*examples, task.kind, *annotate(engine, *examples, capacity, config.types), set.name));
    }
    return scores;
  }
  InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
  for (const data::Task::Set& set : task.validation) {
    const auto examples = data::Examples::read(task, {set}, loaded.tokenizer, true, length);
    scores.push_back(*score(engine, task, examples, set.name, capacity, config));
  }
  return scores;
}

MeanAndDeviation mean_and_deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  MeanAndDeviation of{.mean = std::accumulate(values.begin(), values.end(), 0.0) / count};
  if (values.size() < 2) return of;
  double squares = 0;
  for (const double value : values) squares += (value - of.mean) * (value - of.mean);
  of.deviation = std::sqrt(squares / (count - 1));
  return of;
}

void write_seed_result(const std::filesystem::path& run, const SeedResult& result) {
  Json sets = Json::array();
  for (const data::TaskScores& scores : result.sets) {
    Json entry = {{"set", scores.set}, {"examples", scores.examples}};
    if (scores.documents > 0) entry["documents"] = scores.documents;
    for (const data::TaskMetric metric : kept_metrics(scores))
      entry[std::string(data::name_of(metric))] = scores.value(metric);
    sets.push_back(entry);
  }
  const Json json = {{"seed", result.seed},   {"sets", sets},        {"best_step", result.best_step},
                     {"steps", result.steps}, {"data", result.data}, {"recipe", to_toml(result.recipe)}};
  storage::write_file_durably(run / "result.json", json_text(json) + "\n");
}

std::optional<SeedResult> read_seed_result(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "result.json";
  if (!storage::exists(file)) return std::nullopt;
  SeedResult result;
  try {
    const Json json =
        Json::parse(storage::read_small_file(file, largest_seed_result, "a result, a JSON file"));
    result.seed = json.at("seed").get<std::int64_t>();
    result.best_step = json.at("best_step").get<std::int64_t>();
    result.steps = json.at("steps").get<std::int64_t>();
    result.data = json.at("data").get<std::string>();
    result.recipe = parse_stored_recipe(json.at("recipe").get<std::string>(), file.string());
    for (const Json& entry : json.at("sets")) {
      data::TaskScores& scores = result.sets.emplace_back();
      scores.kind = result.recipe.task.kind;
      scores.set = entry.at("set").get<std::string>();
      scores.examples = entry.at("examples").get<std::int64_t>();
      scores.documents = entry.value("documents", std::int64_t{0});
      for (const data::TaskMetric metric : kept_metrics(scores))
        value_in(scores, metric) = entry.at(std::string(data::name_of(metric))).get<double>();
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is damaged; remove it to have the run scored again", file.string()));
  }
  COMERA_CHECK(!result.sets.empty(), "{}: is damaged; remove it to have the run scored again", file.string());
  return result;
}

namespace {

bool is_correlation(data::TaskMetric metric) {
  using enum data::TaskMetric;
  return metric == matthews || metric == pearson || metric == spearman;
}

}  // namespace

std::string seed_table(const std::vector<SeedResult>& results) {
  std::string text;
  for (std::size_t set = 0; set < results.at(0).sets.size(); ++set) {
    const data::TaskScores& first = results[0].sets[set];
    const std::vector<data::TaskMetric>& metrics = kept_metrics(first);
    std::vector<std::string> titles = {fmt::format("{}, seed", first.set)}, means = {"mean ± deviation"};
    for (const data::TaskMetric metric : metrics)
      titles.push_back(fmt::format("{}{}", data::name_of(metric), is_correlation(metric) ? " x 100" : ", %"));
    titles.emplace_back("best step");
    TextTable table(titles);
    table.align_right(1);
    for (const SeedResult& result : results) {
      std::vector<std::string> row = {std::to_string(result.seed)};
      for (const data::TaskMetric metric : metrics) row.push_back(percent(result.sets[set].value(metric)));
      row.push_back(fmt::format("{} of {}", grouped(result.best_step), grouped(result.steps)));
      table.add(std::move(row));
    }
    for (const data::TaskMetric metric : metrics) {
      const MeanAndDeviation value = mean_and_deviation(values_of(results, set, metric));
      means.push_back(fmt::format("{} ± {}", percent(value.mean), percent(value.deviation)));
    }
    means.emplace_back("");
    if (results.size() > 1) table.add(std::move(means));
    text += table.text();
  }
  return text;
}

Json seed_json(const std::vector<SeedResult>& results) {
  Json json = {{"scores", Json::array()}, {"seeds", Json::array()}};
  for (std::size_t set = 0; set < results.at(0).sets.size(); ++set)
    for (const data::TaskMetric metric : kept_metrics(results[0].sets[set])) {
      const std::vector<double> values = values_of(results, set, metric);
      const MeanAndDeviation value = mean_and_deviation(values);
      json["scores"].push_back({{"set", results[0].sets[set].set},
                                {"metric", data::name_of(metric)},
                                {"mean", value.mean},
                                {"deviation", value.deviation},
                                {"values", values}});
    }
  for (const SeedResult& result : results)
    json["seeds"].push_back(
        {{"seed", result.seed}, {"best_step", result.best_step}, {"steps", result.steps}});
  json["recipe"] = to_toml(results[0].recipe);
  return json;
}

}  // namespace comera
