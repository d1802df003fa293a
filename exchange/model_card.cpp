#include "exchange/model_card.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "reports/metrics_file.h"
#include "reports/model_report.h"
#include "storage/folder.h"
#include "training/logging/json.h"
#include "training/resume/run_state.h"
#include "training/vectors/contrastive_task.h"

namespace comera::exchange {

namespace {

std::string millions(std::int64_t count) {
  const auto number = static_cast<double>(count);
  return count < 1'000'000 ? fmt::format("{:.1f} thousand", number / 1e3)
                           : fmt::format("{:.1f} million", number / 1e6);
}

// The last evaluation up to a step in a run's metrics; nothing if they are missing.
std::optional<Json> last_evaluation(const std::filesystem::path& metrics, std::int64_t step) {
  std::optional<Json> found;
  std::error_code code;
  if (!std::filesystem::exists(metrics, code)) return found;
  for (const Json& line : read_metrics(metrics).lines)
    if (is_evaluation(line) && line["step"].get<double>() <= static_cast<double>(step)) found = line;
  return found;
}

std::string scores(const LoadedModel& loaded, const Recipe& trained, const std::filesystem::path& run,
                   std::int64_t step) {
  if (run.empty()) return "";
  const auto evaluation = last_evaluation(run / "metrics.jsonl", step);
  if (!evaluation) return "";
  std::string text = fmt::format("\n## Scores\nOn held-out data after step {}:\n\n| | |\n|---|---|\n",
                                 evaluation->at("step").get<std::int64_t>());
  for_each_number(*evaluation, [&](const std::string& name, double value) {
    text += fmt::format("| {} | {:.6g} |\n", name, value);
  });
  if (compares_with_teacher(trained))
    text +=
        "\n`spearman` says how like the teacher's the cosines of pairs of held-out texts are, not how people "
        "judge these.\n";
  if (loaded.model.config().head == HeadKind::mlm)
    text +=
        "\nLosses are in nats per masked token; `unigram_loss` is that of the tokens' frequencies alone.\n";
  return text;
}

std::string data_text(const Recipe& recipe) {
  if (!recipe.task.name.empty()) return fmt::format("the task `{}`", recipe.task.name);
  std::vector<std::string> names;
  for (const DataSource& source : recipe.data.sources) names.push_back(source.name());
  if (names.empty() && !recipe.data.train.empty()) names.push_back(storage::last_part(recipe.data.train));
  return names.empty() ? "data that its recipe does not name"
                       : fmt::format("shards `{}`", fmt::join(names, "`, `"));
}

// Whether these are the weights of an imported model, as they were.
bool is_imported(const CheckpointReader& reader, const RunState& state) {
  return state.step == 0 && reader.attributes("/import").contains("form");
}

std::string origin(const CheckpointReader& reader, const RunState& state) {
  if (!is_imported(reader, state))
    return "An encoder of comera, which trains tensor-compressed weights (CoMERA: Yang et al., NeurIPS 2024)";
  return fmt::format("An encoder of type `{}` that comera has imported from `{}`",
                     reader.text("/import", "form"), storage::last_part(reader.text("/import", "folder")));
}

bool is_compacted(const CheckpointReader& reader) {
  return reader.attributes("/compaction").contains("fingerprint");  // which no run's checkpoint has
}

std::string sizes(const Exported& exported, bool is_trained) {
  const std::string files =
      exported.form != Form::comera
          ? fmt::format("dense weights as a model of type `{}`", name_of(exported.form))
          : fmt::format("a model of type `comera` with its own modelling file, since {}", exported.reason);
  if (exported.own == exported.dense && exported.own == exported.parameters)
    return fmt::format("It has {} parameters: {}.\n\n", millions(exported.own), files);
  return fmt::format(
      "{} {} parameters; with every layer dense it has {} ({:.2f} times as many). These files hold "
      "{}: {}.\n\n",
      is_trained ? "Trained with" : "It has", millions(exported.own), millions(exported.dense),
      static_cast<double>(exported.dense) / static_cast<double>(exported.own), millions(exported.parameters),
      files);
}

// On what it was trained, and how long.
std::string training(const CheckpointReader& reader, const RunState& state, const Recipe& recipe) {
  if (is_imported(reader, state)) return "None by comera";
  if (is_compacted(reader)) return "None since the weights of a dense model were compacted";
  std::string text = fmt::format("{} steps on {}", state.step, data_text(recipe));
  if (state.units > 0) text += fmt::format(", {} tokens", millions(state.units));
  return text;
}

// "owner/name" of models--owner--name/snapshots/VERSION, as huggingface_hub keeps models; else the last part.
std::string name_of_folder(const std::filesystem::path& folder) {
  constexpr std::string_view prefix = "models--", between = "--";
  const std::filesystem::path versions = folder.parent_path();
  std::string name = versions.parent_path().filename().string();
  if (versions.filename() != "snapshots" || !name.starts_with(prefix)) return storage::last_part(folder);
  name.erase(0, prefix.size());
  if (const std::size_t at = name.find(between); at != name.npos) name.replace(at, between.size(), "/");
  return name;
}

// A teacher that was imported for the run alone is named by the folder that it was imported from.
std::string teacher_text(const DistillationSection& distillation, const std::filesystem::path& run) {
  if (distillation.teacher != "teacher.h5") return fmt::format("`{}`", distillation.teacher);
  const std::filesystem::path file = run / "teacher.h5";
  if (run.empty() || !storage::exists(file)) return "a teacher";
  try {
    return fmt::format("`{}`", name_of_folder(CheckpointReader(file).text("/import", "folder")));
  } catch (const Error&) {  // damaged, or another file of that name: the student needs it no more
    return "a teacher";
  }
}

// transformers' names for models with this head.
struct HeadNames {
  const char* model;
  const char* pipeline;
};

HeadNames names_of(const LoadedModel& loaded, const Exported& exported) {
  if (exported.without_head) return {"AutoModel", "feature-extraction"};
  switch (loaded.model.config().head) {
    case HeadKind::mlm:
      return {"AutoModelForMaskedLM", "fill-mask"};
    case HeadKind::token_classification:
      return {"AutoModelForTokenClassification", "token-classification"};
    case HeadKind::question_answering:
      return {"AutoModelForQuestionAnswering", "question-answering"};
    case HeadKind::classification:
    case HeadKind::regression:
    case HeadKind::multi_label:
    case HeadKind::contrastive:
    case HeadKind::replaced_tokens:
      break;
  }
  return {"AutoModelForSequenceClassification", "text-classification"};
}

std::string usage(const LoadedModel& loaded, const Exported& exported) {
  const EncoderConfig& config = loaded.model.config();
  const bool mlm = config.head == HeadKind::mlm;
  if (exported.sentence_vectors)
    return fmt::format(
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        "model = SentenceTransformer(\"THIS_FOLDER\"{})\n"
        "vectors = model.encode([\"A text.\", \"Another.\"])\n"
        "print(model.similarity(vectors, vectors))\n```\n",
        exported.form == Form::comera ? ", trust_remote_code=True" : "");
  const bool two_sequences =
      !exported.without_head && reads_sequences(config.head) && config.pairs == PairEncoding::separate;
  const char* kind = names_of(loaded, exported).model;
  const char* trusted = exported.form == Form::comera ? ", trust_remote_code=True" : "";
  std::string call = R"(logits = model(**tokenizer("A text.", return_tensors="pt")).logits)";
  if (exported.without_head)
    call = R"(states = model(**tokenizer("A text.", return_tensors="pt")).last_hidden_state)";
  else if (mlm)
    call = fmt::format(R"(logits = model(**tokenizer("for i in {}(10):", return_tensors="pt")).logits)",
                       loaded.tokenizer.piece(loaded.tokenizer.special().mask));
  if (config.head == HeadKind::question_answering && !exported.without_head)
    call =
        "answer = model(**tokenizer(\"A question?\", \"A text.\", return_tensors=\"pt\"))\n"
        "start, end = answer.start_logits, answer.end_logits";
  if (two_sequences)
    call =
        "first, second = (tokenizer(text, return_tensors=\"pt\") for text in (\"A text.\", \"Another.\"))\n"
        "logits = model(**first, second_input_ids=second[\"input_ids\"], "
        "second_attention_mask=second[\"attention_mask\"]).logits";
  return fmt::format(
      "```python\nfrom transformers import AutoTokenizer, {0}\n\n"
      "tokenizer = AutoTokenizer.from_pretrained(\"THIS_FOLDER\"{1})\n"
      "model = {0}.from_pretrained(\"THIS_FOLDER\"{1}).eval()\n{2}\n```\n",
      kind, trusted, call);
}

// transformers divides losses by the tokens of a step if forward() takes keyword arguments; these classes
// take them, but do not divide.
std::string accumulation(const Exported& exported) {
  if (exported.form == Form::comera || exported.without_head) return "";
  return fmt::format(
      "\n## Training it further\ntransformers' `Trainer` with `gradient_accumulation_steps=N` makes losses "
      "and "
      "gradients of its models of type `{}` N times too large (seen in transformers 5.24). Set "
      "`model.accepts_loss_kwargs = False` before training.\n",
      name_of(exported.form));
}

}  // namespace

std::string model_card(const LoadedModel& loaded, const std::filesystem::path& run,
                       const Exported& exported) {
  const EncoderConfig& config = loaded.model.config();
  const CheckpointReader& reader = *loaded.trained.reader;
  const RunState state = RunState::load(reader);
  std::string text = fmt::format(
      "---\nlibrary_name: {}\npipeline_tag: {}\ntags:\n{}\n- tensor-train\n---\n# {}\n",
      exported.sentence_vectors ? "sentence-transformers" : "transformers",
      exported.sentence_vectors ? "sentence-similarity" : names_of(loaded, exported).pipeline, model_card_tag,
      run.empty() ? loaded.trained.checkpoint.stem().string() : storage::last_part(run));
  text += fmt::format("{}: {}, a vocabulary of {}.\n\n", origin(reader, state), architecture_text(config),
                      config.vocabulary) +
          sizes(exported, !is_compacted(reader));
  if (!exported.tokenizer_note.empty()) text += fmt::format("Note: {}.\n\n", exported.tokenizer_note);
  text += usage(loaded, exported) + accumulation(exported);
  text += "\n## Training\n" + training(reader, state, loaded.recipe);
  // As it was trained: what is loaded has no teacher, and the number format of the files.
  const Recipe trained =
      without_folders(parse_stored_recipe(loaded.trained.recipe, loaded.trained.checkpoint.string(), {}));
  if (trained.distillation)
    text += fmt::format(", by the answers of {}", teacher_text(*trained.distillation, run));
  text += ".\n" + scores(loaded, trained, run, state.step);
  text += "\n## Recipe\n```toml\n" + to_toml(trained) + "```\n";
  return text;
}

}  // namespace comera::exchange
