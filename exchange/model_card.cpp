#include "exchange/model_card.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "storage/folder.h"
#include "training/json.h"
#include "training/run_state.h"

namespace comera::exchange {

namespace {

std::string millions(std::int64_t count) {
  const auto number = static_cast<double>(count);
  return count < 1'000'000 ? fmt::format("{:.1f} thousand", number / 1e3)
                           : fmt::format("{:.1f} million", number / 1e6);
}

// The last evaluation up to a step that a run has written.
std::optional<Json> last_evaluation(const std::filesystem::path& metrics, std::int64_t step) {
  std::ifstream file(metrics);
  std::optional<Json> found;
  for (std::string line; std::getline(file, line);) {
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object() || object.contains("learning_rate")) continue;
    const auto at = object.find("step");
    if (at == object.end() || !at->is_number_integer() || at->get<std::int64_t>() > step) continue;
    if (object.contains("validation_loss") || object.contains("validation")) found = object;
  }
  return found;
}

// A row for each number, those within objects behind the objects' names.
void add_numbers(std::string& rows, const std::string& before, const Json& object) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) add_numbers(rows, before + key + ", ", value);
    if (value.is_number() && key != "step")
      rows += fmt::format("| {}{} | {:.6g} |\n", before, key, value.get<double>());
  }
}

std::string scores(const LoadedModel& loaded, const std::filesystem::path& run, std::int64_t step) {
  if (run.empty()) return "";
  const auto evaluation = last_evaluation(run / "metrics.jsonl", step);
  if (!evaluation) return "";
  std::string text = fmt::format("\n## Scores\nOn held-out data after step {}:\n\n| | |\n|---|---|\n",
                                 evaluation->at("step").get<std::int64_t>());
  add_numbers(text, "", *evaluation);
  if (loaded.model.config().head == HeadKind::mlm)
    text +=
        "\nLosses are in nats per masked token; `unigram_loss` is that of the tokens' frequencies alone.\n";
  return text;
}

std::string data_text(const Recipe& recipe) {
  if (!recipe.task.name.empty()) return fmt::format("the task `{}`", recipe.task.name);
  std::string text;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) text += (text.empty() ? "" : ", ") + fmt::format("`{}`", name);
  };
  const auto last_part = [](const std::string& path) {
    const std::filesystem::path full(path);
    return (full.has_filename() ? full.filename() : full.parent_path().filename()).string();
  };
  if (recipe.data.sources.empty()) add(last_part(recipe.data.train));
  for (const DataSource& source : recipe.data.sources) add(source.name());
  return text.empty() ? "data that its recipe does not name" : "shards " + text;
}

std::string architecture(const EncoderConfig& config) {
  constexpr const char* positions[] = {"learned", "rotary", "relative"};
  return fmt::format("{} layers of {} ({} heads, feed-forward {}), {}-norm, {} positions, a vocabulary of {}",
                     config.layers, config.hidden, config.heads, config.ffn,
                     config.norm == NormPlacement::pre ? "pre" : "post",
                     positions[static_cast<int>(config.positions)], config.vocabulary);
}

std::string usage(const EncoderConfig& config, const Exported& exported) {
  const bool mlm = config.head == HeadKind::mlm;
  const char* kind = mlm ? "AutoModelForMaskedLM" : "AutoModelForSequenceClassification";
  const char* trusted = exported.form == Form::comera ? ", trust_remote_code=True" : "";
  return fmt::format(
      "```python\nfrom transformers import AutoTokenizer, {0}\n\n"
      "tokenizer = AutoTokenizer.from_pretrained(\"THIS_FOLDER\")\n"
      "model = {0}.from_pretrained(\"THIS_FOLDER\"{1}).eval()\n"
      "logits = model(**tokenizer(\"{2}\", return_tensors=\"pt\")).logits\n```\n",
      kind, trusted, mlm ? "for i in [MASK](10):" : "A text.");
}

}  // namespace

std::string model_card(const LoadedModel& loaded, const std::filesystem::path& run,
                       const Exported& exported) {
  const EncoderConfig& config = loaded.model.config();
  const bool mlm = config.head == HeadKind::mlm;
  const RunState state = RunState::load(CheckpointReader(loaded.trained.checkpoint));
  std::string text = fmt::format(
      "---\nlibrary_name: transformers\npipeline_tag: {}\ntags:\n- comera\n- tensor-train\n---\n"
      "# {}\n",
      mlm ? "fill-mask" : "text-classification",
      run.empty() ? loaded.trained.checkpoint.stem().string() : storage::from_root(run).filename().string());
  text += fmt::format(
      "An encoder of comera, which trains tensor-compressed weights (CoMERA: Yang et al., NeurIPS 2024): "
      "{}.\n\n",
      architecture(config));
  const std::int64_t own = loaded.model.parameters().count();
  text += fmt::format(
      "Trained as {} numbers; with every layer dense it has {} ({:.2f} times as many). The files here have "
      "{}: "
      "{}.\n\n",
      millions(own), millions(exported.dense), static_cast<double>(exported.dense) / static_cast<double>(own),
      millions(exported.parameters),
      exported.form != Form::comera
          ? fmt::format("dense weights as a model of type `{}`", name_of(exported.form))
          : fmt::format("a model of type `comera` with a modelling file of its own, since {}",
                        exported.reason));
  text += usage(config, exported);
  text += fmt::format("\n## Training\n{} steps on {}", state.step, data_text(loaded.recipe));
  if (state.tokens > 0) text += fmt::format(", {} tokens", millions(state.tokens));
  text += ".\n" + scores(loaded, run, state.step);
  text += "\n## Recipe\n```toml\n" + to_toml(without_folders(loaded.recipe)) + "```\n";
  return text;
}

}  // namespace comera::exchange
