#include "exchange/transformers/sentence_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "exchange/json_object.h"
#include "exchange/safetensors.h"
#include "exchange/transformers/config_members.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "tensorized/decomposition/svd.h"

namespace comera::exchange {

namespace {

bool lowers_text(const data::Tokenizer& tokenizer) {
  for (char c = 'A'; c <= 'Z'; ++c)
    if (tokenizer.encode(std::string(1, c)) !=
        tokenizer.encode(std::string(1, static_cast<char>(c - 'A' + 'a'))))
      return false;
  return true;
}

void require_text_as_it_is(const std::filesystem::path& folder, const data::Tokenizer& tokenizer) {
  const std::filesystem::path file = folder / "sentence_bert_config.json";
  const auto json = read_object(file);
  if (!json) return;
  const bool lowers = ConfigMembers(*json, file.string()).get<bool>("do_lower_case", false);
  COMERA_CHECK(
      !lowers || lowers_text(tokenizer),
      "{}: do_lower_case = true cannot be imported, since the tokenizer beside it keeps capitals; set "
      "it there (do_lower_case of tokenizer_config.json)",
      file.string());
}

// Newer files name the modes, older ones have a flag for each.
std::vector<std::string> pooling_modes(const std::filesystem::path& file) {
  const auto json = read_object(file);
  if (!json) return {"mean"};
  if (const auto named = json->find("pooling_mode"); named != json->end()) {
    if (named->is_string()) return {named->get<std::string>()};
    if (named->is_array())
      return ConfigMembers(*json, file.string()).get<std::vector<std::string>>("pooling_mode");
  }
  constexpr std::string_view prefix = "pooling_mode_";
  std::vector<std::string> modes;
  for (const auto& [key, value] : json->items()) {
    if (!key.starts_with(prefix) || !value.is_boolean() || !value.get<bool>()) continue;
    const std::string mode = key.substr(prefix.size());
    modes.push_back(mode == "mean_tokens" ? "mean" : mode == "cls_token" ? "cls" : mode);
  }
  return modes.empty() ? std::vector<std::string>{"mean"} : modes;
}

void add_pooling(const std::filesystem::path& file, std::vector<std::string>& notes) {
  const std::vector<std::string> modes = pooling_modes(file);
  if (modes == std::vector<std::string>{"mean"}) return;
  if (modes == std::vector<std::string>{"cls"})
    notes.push_back(
        fmt::format("its vectors are those of the first token ({}), as embed takes them", file.string()));
  else
    notes.push_back(
        fmt::format("its pooling is not available in embed: {} ({})", fmt::join(modes, ", "), file.string()));
}

}  // namespace

void require_encoder_in(const std::filesystem::path& folder) {
  std::error_code code;
  if (std::filesystem::exists(folder / "config.json", code)) return;
  const auto modules = read_json(folder / "modules.json");
  if (!modules || !modules->is_array() || modules->empty() || !modules->front().is_object()) return;
  const auto path =
      ConfigMembers(modules->front(), (folder / "modules.json").string()).get<std::string>("path", "");
  COMERA_CHECK(path.empty(), "{}: has no config.json; its modules.json names {}: import that",
               folder.string(), (folder / path).string());
}

namespace {

struct Module {
  std::string type;  // without the package's name
  std::filesystem::path folder;
};

// Of modules.json; empty without it.
std::vector<Module> modules_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "modules.json";
  const auto json = read_json(file);
  std::vector<Module> modules;
  if (!json || !json->is_array()) return modules;
  for (const nlohmann::json& entry : *json) {
    COMERA_CHECK(entry.is_object(), "{}: is damaged: it is not a list of modules", file.string());
    const ConfigMembers module(entry, file.string());
    const auto type = module.get<std::string>("type", "");
    modules.push_back({type.substr(type.rfind('.') + 1), folder / module.get<std::string>("path", "")});
  }
  return modules;
}

std::string pooling_word(const std::filesystem::path& folder) {
  const std::vector<std::string> modes = pooling_modes(folder / "config.json");
  return modes == std::vector<std::string>{"cls"} ? "first" : fmt::format("{}", fmt::join(modes, ", "));
}

constexpr const char *dense_weight = "linear.weight", *dense_bias = "linear.bias";

// Reads a dense layer, or tells why it is not available here. Error if its files contradict themselves.
std::string read_dense(const std::filesystem::path& folder, std::int64_t width, VectorModules& found) {
  const std::filesystem::path file = folder / "config.json";
  const auto json = read_object(file);
  if (!json || !(storage::exists(folder / "model.safetensors")))
    return fmt::format(
        "a dense layer whose config.json and model.safetensors are not in {} "
        "(SentenceTransformer(DIR).save_pretrained(DIR) writes both)",
        folder.string());
  const ConfigMembers members(*json, file.string());
  const auto function = members.get<std::string>("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = function.substr(function.rfind('.') + 1);
  const std::string sentences = "sentence_embedding";
  const auto read = members.get<std::string>("module_input_name", sentences),
             written = members.get<std::string>("module_output_name", read);
  if (name != "Tanh" && name != "Identity") return fmt::format("a dense layer with {}", name);
  if (members.get<bool>("use_residual", false)) return "a dense layer with a residual connection";
  if (read != sentences || written != sentences) return "a dense layer on other than the pooled vectors";
  const auto inputs = members.get<std::int64_t>("in_features"),
             outputs = members.get<std::int64_t>("out_features");
  COMERA_CHECK(inputs == width, "{}: in_features is {}, but the encoder is {} wide", file.string(), inputs,
               width);
  found.dense = VectorDense{.folder = folder,
                            .outputs = outputs,
                            .biased = members.get<bool>("bias", true),
                            .tanh = name == "Tanh"};
  const SafetensorsReader reader(folder);
  reader.require_shape(dense_weight, {outputs, inputs});
  if (found.dense->biased) reader.require_shape(dense_bias, {outputs});
  return {};
}

}  // namespace

VectorModules vector_modules_in(const std::filesystem::path& folder, const EncoderConfig& encoder) {
  VectorModules found;
  std::string last;  // module, but for those that do nothing in inference
  for (const Module& module : modules_in(folder)) {
    if (module.type == "Dropout") continue;
    if (module.type == "Pooling") found.pooling = pooling_word(module.folder);
    if (module.type == "Dense") {
      std::string reason =
          found.dense         ? "several dense layers behind the pooling"
          : last != "Pooling" ? fmt::format("a dense layer behind {} instead of the pooling", last)
          : encoder.head != HeadKind::mlm ? "a dense layer in the folder of a model with another head"
                                          : read_dense(module.folder, encoder.hidden, found);
      if (!reason.empty() && found.unavailable.empty()) found.unavailable = std::move(reason);
    }
    last = module.type;
  }
  if (!found.unavailable.empty() || (found.pooling != "mean" && found.pooling != "first"))
    found.dense.reset();
  return found;
}

namespace {

ParameterId parameter_of(const Model& model, const char* end) {
  const auto id = model.parameters().find(fmt::format("{}.{}", VectorLayer::name, end));
  COMERA_CHECK(id, "the model has no layer behind its pooling");
  return *id;
}

}  // namespace

void read_vector_dense(const VectorDense& dense, const Model& model) {
  const SafetensorsReader reader(dense.folder);
  const ParameterStore& store = model.parameters();
  write_tensor(store.value(parameter_of(model, "weight")),
               transposed(reader.read(dense_weight), dense.outputs, model.config().hidden));
  write_tensor(store.value(parameter_of(model, "bias")),
               dense.biased ? reader.read(dense_bias) : std::vector<double>(dense.outputs));
}

std::vector<std::string> sentence_notes(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
                                        const VectorModules& found) {
  require_text_as_it_is(folder, tokenizer);
  std::vector<std::string> notes;
  const std::filesystem::path file = folder / "modules.json";
  std::vector<std::string> others;
  for (const Module& module : modules_in(folder)) {
    if (module.type == "Pooling")
      add_pooling(module.folder / "config.json", notes);
    else if (module.type == "Normalize")
      notes.push_back(
          fmt::format("its vectors have the length 1 ({}): use embed --normalize", file.string()));
    else if (module.type == "Dense" && found.dense)
      notes.push_back(fmt::format("its vectors pass a dense layer of {} outputs ({}), as embed gives them",
                                  found.dense->outputs, module.folder.string()));
    else if (module.type != "Transformer" && module.type != "Dropout")
      others.push_back(module.type);
  }
  if (!found.unavailable.empty())
    notes.push_back(fmt::format(
        "it makes its vectors by {}, which is not available here: embed --pooling mean or first gives "
        "those of the encoder alone ({})",
        found.unavailable, file.string()));
  else if (!others.empty())
    notes.push_back(
        fmt::format("embed skips what follows the pooling: {} ({})", fmt::join(others, ", "), file.string()));
  return notes;
}

namespace {

constexpr const char *pooling_folder = "1_Pooling", *dense_folder = "2_Dense",
                     *normalize_folder = "2_Normalize", *normalize_behind_dense = "3_Normalize";

}  // namespace

std::vector<std::string> sentence_files() {
  return {"modules.json",
          "sentence_bert_config.json",
          "config_sentence_transformers.json",
          pooling_folder,
          dense_folder,
          normalize_folder,
          normalize_behind_dense};
}

VectorDense write_vector_dense(const std::filesystem::path& folder, const Model& model) {
  const EncoderConfig& config = model.config();
  const auto values_of = [&](const char* end) {
    return read_tensor(model.parameters().value(parameter_of(model, end)), model.parameters().allocator());
  };
  const std::filesystem::path to = folder / dense_folder;
  storage::create_directories_durably(to);
  write_safetensors(to / "model.safetensors",
                    {{dense_weight,
                      {config.vector_size, config.hidden},
                      [&] { return transposed(values_of("weight"), config.hidden, config.vector_size); }},
                     {dense_bias, {config.vector_size}, [&] { return values_of("bias"); }}});
  const nlohmann::ordered_json json = {
      {"in_features", config.hidden},
      {"out_features", config.vector_size},
      {"bias", true},
      {"activation_function",
       config.vector_tanh ? "torch.nn.modules.activation.Tanh" : "torch.nn.modules.linear.Identity"}};
  storage::write_file_durably(to / "config.json", json.dump(2) + "\n");
  return {.folder = to, .outputs = config.vector_size, .tanh = config.vector_tanh};
}

void write_sentence_modules(const std::filesystem::path& folder, const SentenceModules& modules) {
  using Json = nlohmann::ordered_json;
  const auto write = [&](const std::filesystem::path& file, const Json& json) {
    storage::create_directories_durably((folder / file).parent_path());
    storage::write_file_durably(folder / file, json.dump(2) + "\n");
  };
  Json list = Json::array();
  const auto add = [&](const char* path, const char* type) {
    const std::size_t number = list.size();
    list.push_back({{"idx", number},
                    {"name", std::to_string(number)},
                    {"path", path},
                    {"type", fmt::format("sentence_transformers.models.{}", type)}});
  };
  add("", "Transformer");
  add(pooling_folder, "Pooling");
  const char* normalize = modules.dense ? normalize_behind_dense : normalize_folder;
  if (modules.dense) add(dense_folder, "Dense");
  add(normalize, "Normalize");
  write("modules.json", list);
  Json encoder = {{"max_seq_length", modules.length}, {"do_lower_case", false}};
  if (modules.leaves_out_pooler) encoder["model_args"] = {{"add_pooling_layer", false}};
  write("sentence_bert_config.json", encoder);
  write("config_sentence_transformers.json",
        {{"prompts", Json::object()}, {"default_prompt_name", nullptr}, {"similarity_fn_name", "cosine"}});
  const bool mean = modules.pooling == Pooling::mean;
  write(std::filesystem::path(pooling_folder) / "config.json",
        {{"word_embedding_dimension", modules.width},
         {"pooling_mode_cls_token", !mean},
         {"pooling_mode_mean_tokens", mean},
         {"pooling_mode_max_tokens", false},
         {"pooling_mode_mean_sqrt_len_tokens", false}});
  write(std::filesystem::path(normalize) / "config.json", Json::object());
}

}  // namespace comera::exchange
