#include "exchange/transformers/transformers_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "exchange/transformers/class_labels.h"
#include "exchange/transformers/config_members.h"
#include "kernels/core/check.h"
#include "model/layers/positions.h"
#include "storage/folder.h"
#include "storage/json_file.h"
#include "storage/small_file.h"

namespace comera::exchange {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t largest_config = 16 << 20;

std::string class_prefix(Form form) {
  switch (form) {
    case Form::bert:
      return "Bert";
    case Form::megatron_bert:
      return "MegatronBert";
    case Form::roformer:
      return "RoFormer";
    case Form::electra:
      return "Electra";
    case Form::roberta:
      return "Roberta";
    case Form::albert:
      return "Albert";
    case Form::distilbert:
      return "DistilBert";
    case Form::mpnet:
      return "MPNet";
    case Form::comera:
      return "Comera";
  }
  return "";
}

// Which side of a matrix comes first in files of type `comera`; files without the key have inputs first.
constexpr const char* outputs_first = "outputs_inputs";

Json shapes_json(const EncoderConfig& model) {
  Json shapes = Json::object();
  const auto table = model.tensorized.embedding_shape();
  if (table)
    shapes[EncoderConfig::embedding_layer] = {
        {"row_modes", table->row_modes}, {"column_modes", table->column_modes}, {"ranks", table->ranks}};
  if (table && table->projection) shapes[EncoderConfig::embedding_layer]["projection"] = true;
  if (table && table->frequent_rows > 0)
    shapes[EncoderConfig::embedding_layer]["frequent_rows"] = table->frequent_rows;
  for (const EncoderConfig::LinearLayer& layer : model.linear_layers())
    if (layer.shape) {
      shapes[layer.name] = {{"input_modes", layer.shape->input_modes},
                            {"output_modes", layer.shape->output_modes},
                            {"ranks", layer.shape->ranks}};
      if (layer.shape->diagonal) shapes[layer.name]["diagonal"] = true;
    }
  return shapes;
}

void add_comera_keys(Json& json, const EncoderConfig& model) {
  json["positions"] = name_of(model.positions);
  if (model.positions == Positions::rotary) json["rotary_theta"] = model.rotary_theta;
  if (model.positions == Positions::relative)
    for (const HeadSlopes& slopes : head_slopes(model.heads))
      json["slopes"].push_back({slopes.before, slopes.behind});
  if (model.relative_buckets > 0) json["relative_buckets"] = model.relative_buckets;
  json["norm"] = model.norm == NormPlacement::pre ? "pre" : "post";
  json["pooling"] = model.pooling == Pooling::mean ? "mean" : "first";
  json["pairs"] = model.pairs == PairEncoding::separate ? "separate" : "joint";
  json["tensor_trains"] = shapes_json(model);
  json["matrices"] = outputs_first;
  const std::string file = "modeling_comera.Comera";
  json["auto_map"] = {{"AutoConfig", file + "Config"},
                      {"AutoModel", file + "Model"},
                      {"AutoModelForMaskedLM", file + "ForMaskedLM"},
                      {"AutoModelForSequenceClassification", file + "ForSequenceClassification"},
                      {"AutoModelForTokenClassification", file + "ForTokenClassification"},
                      {"AutoModelForQuestionAnswering", file + "ForQuestionAnswering"}};
}

// The end of the names of transformers' classes with this head.
const char* class_suffix(HeadKind head) {
  switch (head) {
    case HeadKind::mlm:
      return "ForMaskedLM";
    case HeadKind::token_classification:
      return "ForTokenClassification";
    case HeadKind::question_answering:
      return "ForQuestionAnswering";
    case HeadKind::contrastive:
    case HeadKind::replaced_tokens:
      return "Model";
    case HeadKind::classification:
    case HeadKind::regression:
    case HeadKind::multi_label:
      break;
  }
  return "ForSequenceClassification";
}

// As transformers calls it.
std::string hidden_act(Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh:
      return "gelu_pytorch_tanh";
    case Activation::gelu:
    case Activation::relu:
    case Activation::silu:
      return traits_of(activation).name;
    case Activation::none:
    case Activation::tanh:
      break;
  }
  throw Error(
      fmt::format("an encoder with the activation {} cannot be exported", traits_of(activation).name));
}

// Those of transformers' functions that are the same formula.
constexpr std::pair<std::string_view, Activation> hidden_acts[] = {
    {"gelu", Activation::gelu},           {"gelu_python", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh}, {"relu", Activation::relu},
    {"silu", Activation::silu},           {"swish", Activation::silu}};

Activation read_activation(const ConfigMembers& members, Form form) {
  const char* key = form == Form::distilbert ? "activation" : "hidden_act";
  const auto name = members.get<std::string>(key, form == Form::albert ? "gelu_new" : "gelu");
  const auto* const found = std::ranges::find(hidden_acts, name, [](const auto& act) { return act.first; });
  if (found != std::end(hidden_acts)) return found->second;
  std::string known;
  for (const auto& act : hidden_acts) known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", act.first);
  throw Error(
      fmt::format("{}: {} = \"{}\" cannot be imported; only {} can", members.file(), key, name, known));
}

}  // namespace

std::string config_json(const TransformersConfig& config, const data::SpecialIds& special) {
  const EncoderConfig& model = config.model;
  Json json = {{"model_type", name_of(config.form)},
               {"architectures", {class_prefix(config.form) + class_suffix(model.head)}},
               {"vocab_size", model.vocabulary},
               {"hidden_size", model.hidden},
               {"num_hidden_layers", model.layers},
               {"num_attention_heads", model.heads},
               {"intermediate_size", model.ffn},
               {"hidden_act", hidden_act(model.activation)},
               {"max_position_embeddings", model.max_positions},
               {"type_vocab_size", model.types},
               {"layer_norm_eps", model.norm_eps},
               {"hidden_dropout_prob", model.dropout},
               {"attention_probs_dropout_prob", model.attention_dropout},
               {"initializer_range", model.embedding_std},
               {"pad_token_id", special.pad},
               {"dtype", "float32"}};
  if (config.form == Form::roformer || config.form == Form::electra || model.has_narrow_tables())
    json["embedding_size"] = model.table_width();
  if (config.form == Form::roformer) {
    json["rotary_value"] = false;
    json["rotary_theta"] = model.rotary_theta;
  }
  if (config.form == Form::comera) add_comera_keys(json, model);
  const bool sequences = reads_sequences(model.head);
  if (!sequences && model.head != HeadKind::token_classification) return json.dump(2) + "\n";
  if (sequences)
    json["problem_type"] = model.head == HeadKind::regression    ? "regression"
                           : model.head == HeadKind::multi_label ? "multi_label_classification"
                                                                 : "single_label_classification";
  const std::int64_t outputs = sequences ? model.sequence_outputs() : model.token_outputs();
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::string label = i < std::ssize(config.labels) ? config.labels[static_cast<std::size_t>(i)]
                                                            : fmt::format("LABEL_{}", i);
    json["id2label"][std::to_string(i)] = label;
    json["label2id"][label] = i;
  }
  return json.dump(2) + "\n";
}

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Form form_in(const ConfigMembers& members) {
  const auto type = members.get<std::string>("model_type");
  for (const Form form : {Form::bert, Form::megatron_bert, Form::roformer, Form::electra, Form::roberta,
                          Form::albert, Form::distilbert, Form::mpnet, Form::comera})
    if (type == name_of(form)) return form;
  throw Error(
      fmt::format("{}: a model of type {} cannot be imported; bert, megatron-bert, roberta, distilbert, "
                  "electra, albert, mpnet, and what comera has exported can",
                  members.file(), type));
}

void read_head(const ConfigMembers& members, TransformersConfig& config) {
  const auto architectures = members.get<std::vector<std::string>>("architectures", {});
  const std::string name = architectures.empty() ? "" : architectures.front();
  const auto is = [&](HeadKind head) { return name.ends_with(class_suffix(head)); };
  const bool known = name.empty() || name.ends_with("Model") || name.ends_with("ForPreTraining") ||
                     is(HeadKind::mlm) || is(HeadKind::classification) ||
                     is(HeadKind::token_classification) || is(HeadKind::question_answering);
  COMERA_CHECK(known,
               "{}: {} has a head that cannot be imported; masked-language models, classifiers of sequences "
               "or tokens, and question answering can",
               members.file(), joined(architectures));
  const bool has_own_gelu =
      (config.form == Form::roberta || config.form == Form::mpnet || config.form == Form::electra) &&
      (name.empty() || name.ends_with("ForMaskedLM"));
  COMERA_CHECK(!has_own_gelu || config.model.activation == Activation::gelu,
               "{}: architectures = [{}] cannot be imported: the head of {}'s masked language model has "
               "GELU whatever hidden_act is; only hidden_act = \"gelu\" can",
               members.file(), name, class_prefix(config.form));
  if (is(HeadKind::question_answering)) config.model.head = HeadKind::question_answering;
  if (is(HeadKind::token_classification)) {
    config.model.head = HeadKind::token_classification;
    config.labels = read_token_labels(members);
    config.model.classes = std::ssize(config.labels);
  }
  if (!is(HeadKind::classification)) return;
  COMERA_CHECK(
      config.form != Form::roformer && config.form != Form::electra && config.form != Form::distilbert,
      "{}: architectures = {} cannot be imported: the head of {}'s classifier has another "
      "activation than tanh; write \"{}Model\" there to import the encoder alone",
      members.file(), name, class_prefix(config.form), class_prefix(config.form));
  const SequenceAnswers answers = read_answers(members);
  config.model.head = answers.regression ? HeadKind::regression
                      : answers.several  ? HeadKind::multi_label
                                         : HeadKind::classification;
  config.model.classes = answers.count;
  config.labels = answers.labels;
}

void read_shapes(const ConfigMembers& members, EncoderConfig& model) {
  const auto shapes = members.get<nlohmann::json>("tensor_trains", nlohmann::json::object());
  for (const auto& [name, value] : shapes.items()) {
    const ConfigMembers of(value, members.file() + ": tensor_trains." + name);
    using Numbers = std::vector<std::int64_t>;
    if (name == EncoderConfig::embedding_layer) {
      model.tensorized.embedding = TTMShape{.row_modes = of.get<Numbers>("row_modes"),
                                            .column_modes = of.get<Numbers>("column_modes"),
                                            .ranks = of.get<Numbers>("ranks"),
                                            .projection = of.get<bool>("projection", false),
                                            .frequent_rows = of.get<std::int64_t>("frequent_rows", 0)};
      continue;
    }
    const TTShape shape{.input_modes = of.get<Numbers>("input_modes"),
                        .output_modes = of.get<Numbers>("output_modes"),
                        .ranks = of.get<Numbers>("ranks"),
                        .diagonal = of.get<bool>("diagonal", false)};
    TensorizedConfig& trains = model.tensorized;
    std::optional<TTShape>& kind = name.starts_with("head.")              ? trains.head
                                   : name.find(".ffn.up") < name.size()   ? trains.ffn_up
                                   : name.find(".ffn.down") < name.size() ? trains.ffn_down
                                                                          : trains.attention;
    if (!kind || kind->removed()) kind = shape;
    trains.ranks[name] = shape.ranks;
  }
}

// The kind's own ranks must be valid, even if every layer of it is removed.
void make_possible(std::optional<TTShape>& kind) {
  if (kind && kind->removed()) std::ranges::fill(kind->ranks, 1);
}

// Slopes are derived from the number of heads here.
void require_own_slopes(const ConfigMembers& members, const EncoderConfig& model) {
  using Slopes = std::vector<std::array<double, 2>>;
  Slopes own;
  for (const HeadSlopes& slopes : head_slopes(model.heads)) own.push_back({slopes.before, slopes.behind});
  const auto found = members.get<Slopes>("slopes", own);
  bool same = found.size() == own.size();
  for (std::size_t head = 0; same && head < own.size(); ++head)
    for (std::size_t side = 0; side < 2; ++side)
      same = same && std::abs(found[head][side] - own[head][side]) <= 1e-6 * std::abs(own[head][side]);
  COMERA_CHECK(same, "{}: its slopes differ from those of {} heads in comera and cannot be imported",
               members.file(), model.heads);
}

void read_embedding_size(const ConfigMembers& members, EncoderConfig& model, std::int64_t otherwise) {
  const auto size = members.get<std::int64_t>("embedding_size", otherwise);
  model.embedding_size = size == model.hidden ? 0 : size;
}

void read_comera_keys(const ConfigMembers& members, EncoderConfig& model) {
  const auto choose = [&](const char* key, std::initializer_list<const char*> names) {
    const auto name = members.get<std::string>(key);
    int i = 0;
    for (const char* known : names) {
      if (name == known) return i;
      ++i;
    }
    throw Error(fmt::format("{}: {} = {} is unknown", members.file(), key, name));
  };
  model.positions = static_cast<Positions>(choose("positions", {"learned", "rotary", "relative"}));
  model.norm = static_cast<NormPlacement>(choose("norm", {"post", "pre"}));
  model.pooling = static_cast<Pooling>(choose("pooling", {"first", "mean"}));
  model.pairs = static_cast<PairEncoding>(choose("pairs", {"joint", "separate"}));
  model.rotary_theta = members.get<double>("rotary_theta", model.rotary_theta);
  if (model.positions == Positions::relative) require_own_slopes(members, model);
  model.relative_buckets = members.get<std::int64_t>("relative_buckets", 0);
  read_embedding_size(members, model, model.hidden);
  read_shapes(members, model);
  for (auto* kind : {&model.tensorized.attention, &model.tensorized.ffn_up, &model.tensorized.ffn_down,
                     &model.tensorized.head})
    make_possible(*kind);
}

}  // namespace

TransformersConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  COMERA_CHECK(storage::exists(file), "{}: has no config.json, so it is no folder of a model",
               folder.string());
  const std::string text = storage::read_small_file(file, largest_config, "a model's config.json");
  const nlohmann::json json = storage::parse_json(text, file.string() + ":");
  COMERA_CHECK(json.is_object(), "{}: is damaged: it is not a JSON object", file.string());
  const ConfigMembers members(json, file.string());
  TransformersConfig config{.model = {}, .form = form_in(members)};
  EncoderConfig& model = config.model;
  const bool distilled = config.form == Form::distilbert;  // whose keys have names of their own
  model.layers = members.get<std::int64_t>(distilled ? "n_layers" : "num_hidden_layers");
  model.hidden = members.get<std::int64_t>(distilled ? "dim" : "hidden_size");
  model.heads = members.get<std::int64_t>(distilled ? "n_heads" : "num_attention_heads");
  model.ffn = members.get<std::int64_t>(distilled ? "hidden_dim" : "intermediate_size");
  model.vocabulary = members.get<std::int64_t>("vocab_size");
  model.max_positions = members.get<std::int64_t>("max_position_embeddings");
  model.types = has_types(config.form) ? members.get<std::int64_t>("type_vocab_size", 2) : 1;
  model.norm_eps = members.get<double>("layer_norm_eps", 1e-12);
  const double usual_dropout = config.form == Form::albert ? 0 : 0.1;
  model.dropout = members.get<double>(distilled ? "dropout" : "hidden_dropout_prob", usual_dropout);
  model.attention_dropout =
      members.get<double>(distilled ? "attention_dropout" : "attention_probs_dropout_prob", usual_dropout);
  model.embedding_std = members.get<double>("initializer_range", 0.02);
  model.activation = read_activation(members, config.form);
  members.require<std::string>("position_embedding_type", "absolute");
  members.require<bool>("is_decoder", false);
  members.require<bool>("add_cross_attention", false);
  members.require<bool>("rotary_value", false);
  config.tied = members.get<bool>("tie_word_embeddings", true);
  if (config.form == Form::comera) members.require<bool>("tie_word_embeddings", true);
  switch (config.form) {
    case Form::bert:
    case Form::distilbert:
      break;
    case Form::megatron_bert:
      model.norm = NormPlacement::pre;
      break;
    case Form::electra:
      read_embedding_size(members, model, 128);
      break;
    case Form::albert:
      read_embedding_size(members, model, 128);
      members.require<std::int64_t>("num_hidden_groups", 1);
      members.require<std::int64_t>("inner_group_num", 1);
      COMERA_CHECK(
          model.has_narrow_tables(),
          "{}: embedding_size = {} is hidden_size, which cannot be imported: ALBERT has a linear layer "
          "between them even then",
          members.file(), model.hidden);
      break;
    case Form::roformer:
      model.positions = Positions::rotary;
      model.rotary_theta = members.get<double>("rotary_theta", model.rotary_theta);
      read_embedding_size(members, model, model.hidden);
      break;
    case Form::roberta:
      members.require<std::int64_t>("pad_token_id", 1);
      model.max_positions -= place_of("embedding.positions", Form::roberta).skipped_rows;
      break;
    case Form::mpnet:
      members.require<std::int64_t>("pad_token_id", 1);
      members.require<std::int64_t>("relative_attention_num_buckets", 32);  // all that transformers has
      model.max_positions -= place_of("embedding.positions", Form::mpnet).skipped_rows;
      model.relative_buckets = 32;
      break;
    case Form::comera:
      read_comera_keys(members, model);
      config.inputs_first = !members.has("matrices");
      members.require<std::string>("matrices", outputs_first);
      break;
  }
  read_head(members, config);
  try {
    model.validate();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file.string(), error.what()));
  }
  return config;
}

}  // namespace comera::exchange
