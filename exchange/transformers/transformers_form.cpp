#include "exchange/transformers/transformers_form.h"

#include <array>
#include <map>

#include "kernels/core/check.h"

namespace comera::exchange {

const char* name_of(Form form) {
  constexpr std::array names{"bert",   "megatron-bert", "roformer", "electra", "roberta",
                             "albert", "distilbert",    "mpnet",    "comera"};
  return names[static_cast<std::size_t>(form)];
}

std::string base_prefix(Form form) {
  constexpr std::array prefixes{"bert.",   "bert.",       "roformer.", "electra.", "roberta.",
                                "albert.", "distilbert.", "mpnet.",    "comera."};
  return prefixes[static_cast<std::size_t>(form)];
}

bool has_types(Form form) { return form != Form::distilbert && form != Form::mpnet; }

FormChoice form_of(const EncoderConfig& config) {
  const bool post = config.norm == NormPlacement::post, sequences = reads_sequences(config.head);
  if (config.positions == Positions::relative) return {Form::comera, "its positions are relative"};
  if (config.relative_buckets > 0) return {Form::comera, "its scores have biases by distance"};
  if (sequences && config.pooling == Pooling::mean)
    return {Form::comera, "its head takes the mean over a sequence's tokens"};
  if (sequences && config.pairs == PairEncoding::separate)
    return {Form::comera, "its head compares two texts that are encoded separately"};
  if (config.positions == Positions::learned && config.has_narrow_tables()) {
    const bool own_gelu = config.head == HeadKind::mlm && config.activation != Activation::gelu;
    if (post && !sequences && !own_gelu) return {Form::electra};
    return {Form::comera, "its tables are narrower than its layers"};
  }
  if (config.positions == Positions::learned) return {post ? Form::bert : Form::megatron_bert};
  if (!post) return {Form::comera, "it is pre-norm with rotary positions"};
  if (sequences) return {Form::comera, "RoFormer's classifier has another activation than its pooler"};
  return {Form::roformer};
}

namespace {

// Layers by our names, after "encoder.N." for those of a block.
using LayerNames = std::map<std::string, std::string, std::less<>>;

LayerNames block_names(Form form) {
  LayerNames names{{"attention.query", "attention.self.query"},
                   {"attention.key", "attention.self.key"},
                   {"attention.value", "attention.self.value"},
                   {"attention.output", "attention.output.dense"},
                   {"ffn.up", "intermediate.dense"},
                   {"ffn.down", "output.dense"}};
  if (form == Form::distilbert)
    return {{"attention.query", "attention.q_lin"},
            {"attention.key", "attention.k_lin"},
            {"attention.value", "attention.v_lin"},
            {"attention.output", "attention.out_lin"},
            {"ffn.up", "ffn.lin1"},
            {"ffn.down", "ffn.lin2"},
            {"norm1", "sa_layer_norm"},
            {"norm2", "output_layer_norm"}};
  if (form == Form::albert)
    return {{"attention.query", "attention.query"},
            {"attention.key", "attention.key"},
            {"attention.value", "attention.value"},
            {"attention.output", "attention.dense"},
            {"ffn.up", "ffn"},
            {"ffn.down", "ffn_output"},
            {"norm1", "attention.LayerNorm"},
            {"norm2", "full_layer_layer_norm"}};
  if (form == Form::mpnet)
    for (const auto& [ours, theirs] : {std::pair("attention.query", "q"), std::pair("attention.key", "k"),
                                       std::pair("attention.value", "v"), std::pair("attention.output", "o")})
      names[ours] = std::string("attention.attn.") + theirs;
  const bool pre = form == Form::megatron_bert;
  names["norm1"] = pre                   ? "attention.ln"
                   : form == Form::mpnet ? "attention.LayerNorm"
                                         : "attention.output.LayerNorm";
  names["norm2"] = pre ? "ln" : "output.LayerNorm";
  return names;
}

// The masked-language head: its transform, the norm behind it, and what its bias belongs to.
struct HeadNames {
  std::string transform, norm, decoder;
};

HeadNames head_names(Form form) {
  switch (form) {
    case Form::roberta:
    case Form::mpnet:
      return {"lm_head.dense", "lm_head.layer_norm", "lm_head"};
    case Form::electra:
      return {"generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"};
    case Form::distilbert:
      return {"vocab_transform", "vocab_layer_norm", "vocab_projector"};
    case Form::albert:
      return {"predictions.dense", "predictions.LayerNorm", "predictions"};
    case Form::bert:
    case Form::megatron_bert:
    case Form::roformer:
    case Form::comera:
      break;
  }
  const std::string predictions = "cls.predictions";
  return {predictions + ".transform.dense", predictions + ".transform.LayerNorm", predictions};
}

LayerNames other_names(Form form) {
  const bool roberta = form == Form::roberta || form == Form::mpnet, albert = form == Form::albert;
  const std::string base = base_prefix(form);
  const HeadNames head = head_names(form);
  return {{"embedding.tokens", base + "embeddings.word_embeddings"},
          {"embedding.norm", base + "embeddings.LayerNorm"},
          {"embedding.projection",
           base + (albert ? "encoder.embedding_hidden_mapping_in" : "embeddings_project")},
          {"encoder.norm", base + "encoder.ln"},
          {"head.transform", head.transform},
          {"head.norm", head.norm},
          {"head", head.decoder},
          {"head.pooler", roberta ? "classifier.dense" : base + (albert ? "pooler" : "pooler.dense")},
          {"head.classifier", roberta ? "classifier.out_proj" : "classifier"},
          {"head.labels", "classifier"},
          {"head.spans", "qa_outputs"}};
}

bool is_linear(std::string_view layer) {
  return layer.find(".attention.") != std::string_view::npos ||
         layer.find(".ffn.") != std::string_view::npos || layer == "embedding.projection" ||
         layer == "head.transform" || layer == "head.pooler" || layer == "head.classifier" ||
         layer == "head.labels" || layer == "head.spans";
}

}  // namespace

TensorPlace place_of(const std::string& parameter, Form form) {
  TensorPlace place{.ours = parameter, .theirs = {}};
  if (form == Form::comera) {
    place.theirs = parameter.starts_with("head.") ? parameter : base_prefix(form) + parameter;
    const std::size_t end = parameter.rfind('.');
    place.transposed = is_linear(parameter.substr(0, end)) && parameter.substr(end) == ".weight";
    return place;
  }
  const std::string base = base_prefix(form);
  if (parameter == "embedding.positions" || parameter == "embedding.types") {
    const bool positions = parameter.ends_with("positions");
    place.theirs = base + "embeddings." + (positions ? "position" : "token_type") + "_embeddings.weight";
    const bool padded = form == Form::roberta || form == Form::mpnet;
    if (positions && padded) place.skipped_rows = 2;  // of the padding, and one before it
    return place;
  }
  if (parameter == "embedding.relative_bias") {
    place.theirs = base + "encoder.relative_attention_bias.weight";
    return place;
  }
  const std::size_t dot = parameter.rfind('.');
  const std::string layer = parameter.substr(0, dot), end = parameter.substr(dot);
  const LayerNames others = other_names(form);
  if (const auto found = others.find(layer); found != others.end()) {
    place.theirs = found->second + end;
  } else {
    COMERA_CHECK(layer.starts_with("encoder."), "{}: has no place in a {} model", parameter, name_of(form));
    const std::size_t begin = layer.find('.', 8);
    const LayerNames blocks = block_names(form);
    const auto in_block = blocks.find(layer.substr(begin + 1));
    COMERA_CHECK(in_block != blocks.end(), "{}: has no place in a {} model", parameter, name_of(form));
    const std::string block = form == Form::albert ? ".albert_layer_groups.0.albert_layers.0"
                                                   : ".layer" + layer.substr(7, begin - 7);
    place.theirs =
        base + (form == Form::distilbert ? "transformer" : "encoder") + block + "." + in_block->second + end;
  }
  place.transposed = is_linear(layer) && end == ".weight";
  place.interleaved =
      form == Form::roformer && (layer.ends_with("attention.query") || layer.ends_with("attention.key"));
  return place;
}

std::vector<std::int64_t> shape_of_theirs(const Shape& shape, const TensorPlace& place) {
  std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  if (place.transposed) std::swap(sizes[0], sizes[1]);
  sizes[0] += place.skipped_rows;
  return sizes;
}

namespace {

// Calls visit(index in ours, index in theirs) for every element.
template <class Visit>
void for_each(const Shape& shape, const TensorPlace& place, std::int64_t heads, const Visit& visit) {
  const std::int64_t columns = shape.dims() == 1 ? shape[0] : shape.elements() / shape[0],
                     rows = shape.elements() / columns;
  const std::int64_t size = columns / heads, half = size / 2;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      std::int64_t to = column;
      if (place.interleaved) {
        const std::int64_t head = column / size, at = column % size;
        to = head * size + (at < half ? 2 * at : 2 * (at - half) + 1);
      }
      const std::int64_t theirs = place.transposed ? to * rows + row : row * columns + to;
      visit(row * columns + column, theirs + place.skipped_rows * columns);
    }
}

}  // namespace

std::vector<double> to_theirs(const std::vector<double>& values, const Shape& shape, const TensorPlace& place,
                              std::int64_t heads) {
  COMERA_CHECK(place.skipped_rows == 0, "{}: the meaning of its first rows is unknown", place.theirs);
  std::vector<double> theirs(values.size());
  for_each(shape, place, heads, [&](std::int64_t ours, std::int64_t to) { theirs[to] = values[ours]; });
  return theirs;
}

std::vector<double> to_ours(const std::vector<double>& values, const Shape& shape, const TensorPlace& place,
                            std::int64_t heads) {
  std::vector<double> ours(static_cast<std::size_t>(shape.elements()));
  for_each(shape, place, heads, [&](std::int64_t to, std::int64_t theirs) { ours[to] = values[theirs]; });
  return ours;
}

}  // namespace comera::exchange
