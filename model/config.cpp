#include "model/config.h"

#include <algorithm>

#include <cmath>

#include "kernels/core/check.h"
#include "model/encoder_step.h"

namespace comera {

std::string_view name_of(Positions positions) {
  constexpr std::string_view names[] = {"learned", "rotary", "relative"};
  return names[static_cast<int>(positions)];
}

std::string_view name_of(HeadKind head) {
  constexpr std::string_view names[] = {"mlm",         "classification",       "regression",
                                        "multi_label", "token_classification", "question_answering",
                                        "contrastive", "replaced_tokens"};
  return names[static_cast<int>(head)];
}

std::vector<TTShape> TensorizedConfig::shapes_of(const std::optional<TTShape>& kind,
                                                 const Linear::Spec& spec) const {
  std::vector<TTShape> shapes;
  if (!kind) return shapes;
  for (int i = 0; i < static_cast<int>(spec.outputs.size()); ++i) {
    shapes.push_back(*kind);
    if (const auto own = ranks.find(spec.output_name(i)); own != ranks.end()) shapes[i].ranks = own->second;
  }
  return shapes;
}

bool TensorizedConfig::any() const { return attention || ffn_up || ffn_down || head || embedding; }

std::optional<TTMShape> TensorizedConfig::embedding_shape() const {
  std::optional<TTMShape> shape = embedding;
  const auto own = ranks.find(EncoderConfig::embedding_layer);
  if (shape && own != ranks.end()) shape->ranks = own->second;
  return shape;
}

LinearForm EncoderConfig::form_of(const std::optional<TTShape>& kind, const Linear::Spec& spec) const {
  if (low_rank) return *low_rank;
  const bool of_head = spec.name.starts_with("head.");
  if (lte && !of_head) return *lte;
  if (kind) return TensorTrainForm{.shapes = tensorized.shapes_of(kind, spec), .plan = tensorized.plan};
  return DenseForm{};
}

std::vector<EncoderConfig::LinearLayer> EncoderConfig::linear_layers() const {
  std::vector<LinearLayer> list;
  const auto add = [&](const std::string& name, const char* kind, std::optional<TTShape> shape,
                       std::int64_t inputs, std::int64_t outputs) {
    if (const auto own = tensorized.ranks.find(name); shape && own != tensorized.ranks.end())
      shape->ranks = own->second;
    list.push_back({name, kind, std::move(shape), inputs, outputs});
  };
  for (std::int64_t i = 0; i < layers; ++i) {
    for (const char* part : {"query", "key", "value", "output"})
      add(fmt::format("encoder.{}.attention.{}", i, part), "attention", tensorized.attention, hidden, hidden);
    add(fmt::format("encoder.{}.ffn.up", i), "ffn_up", tensorized.ffn_up, hidden, ffn);
    add(fmt::format("encoder.{}.ffn.down", i), "ffn_down", tensorized.ffn_down, ffn, hidden);
  }
  if (head == HeadKind::mlm || head == HeadKind::replaced_tokens || reads_sequences(head))
    add(reads_sequences(head) ? "head.pooler" : "head.transform", "head", tensorized.head, hidden,
        head_outputs());
  return list;
}

namespace {

// A layer may be removed, except those that the loss needs.
void check_zeros(const std::string& key, const std::vector<std::int64_t>& ranks, bool removable) {
  const auto zeros = std::ranges::count(ranks, 0);
  if (zeros == 0) return;
  COMERA_CHECK(
      zeros == std::ssize(ranks),
      "{}: rank 0 of bond {} is impossible beside other ranks; to remove the layer, set every rank to 0", key,
      std::ranges::find(ranks, 0) - ranks.begin() + 1);
  COMERA_CHECK(removable, "{}: this layer cannot be removed; choose ranks of at least 1", key);
}

// Rejects ranks for a layer that does not exist or is dense, and impossible ranks.
void check_layer_ranks(const EncoderConfig& config) {
  const std::string key = "tensorized.ranks.";
  const std::vector<EncoderConfig::LinearLayer> linears = config.linear_layers();
  for (const auto& [name, ranks] : config.tensorized.ranks) {
    const auto linear = std::ranges::find(linears, name, &EncoderConfig::LinearLayer::name);
    const bool embeds = name == EncoderConfig::embedding_layer;
    COMERA_CHECK(embeds || linear != linears.end(),
                 "{}{}: the model has no layer of that name; names are as in encoder.0.attention.query, "
                 "encoder.0.ffn.up, {} and {}",
                 key, name, linears.back().name, EncoderConfig::embedding_layer);
    COMERA_CHECK(embeds ? config.tensorized.embedding.has_value() : linear->shape.has_value(),
                 "{}{}: the layer is dense and has no ranks; give its modes in tensorized.{}", key, name,
                 embeds ? "embedding" : linear->kind);
    check_zeros(key + name, ranks, !embeds && !name.starts_with("head."));
    if (embeds)
      config.tensorized.embedding_shape()->validate(key + name, config.vocabulary, config.table_width());
    else
      linear->shape->validate(key + name, linear->inputs, linear->outputs);
  }
}

void check_low_rank(const EncoderConfig& config) {
  const std::int64_t rank = config.low_rank->rank,
                     largest = std::min({config.hidden, config.ffn, config.head_outputs()});
  COMERA_CHECK(!config.tensorized.any(),
               "low_rank: layers are either tensor trains or products of two factors; set tensorized.enabled "
               "to false, or remove [low_rank]");
  COMERA_CHECK(rank >= 1 && rank <= largest,
               "low_rank.rank = {} is impossible with model.hidden = {} and model.ffn = {}; choose 1 to {}",
               rank, config.hidden, config.ffn, largest);
  COMERA_CHECK(!config.float8, "low_rank: does not support 8-bit operands; set precision.compute = \"bf16\"");
}

void check_lte(const EncoderConfig& config) {
  const LteForm& lte = *config.lte;
  const std::int64_t largest = std::min(config.hidden, config.ffn);
  COMERA_CHECK(!config.tensorized.any() && !config.low_rank,
               "lte: its layers are dense, neither tensor trains nor products of two factors; set "
               "tensorized.enabled to false and remove [low_rank], or remove [lte]");
  COMERA_CHECK(lte.lora_r >= 1 && lte.lora_r <= largest,
               "lte.lora_r = {} is impossible with model.hidden = {} and model.ffn = {}; choose 1 to {}",
               lte.lora_r, config.hidden, config.ffn, largest);
  COMERA_CHECK(lte.lora_alpha > 0, "lte.lora_alpha must be positive, not {}", lte.lora_alpha);
  COMERA_CHECK(lte.num_heads >= 1, "lte.num_heads must be at least 1, not {}", lte.num_heads);
  COMERA_CHECK(!config.float8, "lte: does not support 8-bit operands; set precision.compute = \"bf16\"");
}

void check_generator(const EncoderConfig& config) {
  const GeneratorConfig& generator = config.generator;
  COMERA_CHECK(generator.width > 0 && generator.width <= 1,
               "generator.width must be above 0 and at most 1, not {}", generator.width);
  COMERA_CHECK(generator.weight > 0, "generator.weight must be positive, not {}", generator.weight);
  const double hidden = generator.width * static_cast<double>(config.hidden);
  COMERA_CHECK(
      hidden >= 1 && std::abs(hidden - std::round(hidden)) < 1e-6,
      "generator.width = {} of model.hidden = {} is {}, which is no width of a generator; choose a share "
      "that gives a whole number",
      generator.width, config.hidden, hidden);
  COMERA_CHECK(
      config.positions != Positions::rotary || std::llround(hidden) % 2 == 0,
      "generator.width = {} of model.hidden = {} is {}, but model.positions = \"rotary\" rotates pairs; "
      "choose a share that gives an even number",
      generator.width, config.hidden, hidden);
  COMERA_CHECK(config.relative_buckets == 0,
               "model.relative_buckets: the generator of replaced tokens has no biases by distance; choose "
               "model.head = \"mlm\"");
  COMERA_CHECK(!config.distillation.any(),
               "distillation: a student cannot also learn from a generator; choose "
               "model.head = \"mlm\"");
}

}  // namespace

void EncoderConfig::validate() const {
  const auto positive = [](const char* key, std::int64_t value) {
    COMERA_CHECK(value > 0, "model.{} must be positive, not {}", key, value);
  };
  positive("layers", layers);
  positive("hidden", hidden);
  COMERA_CHECK(embedding_size >= 0 && embedding_size <= hidden,
               "model.embedding_size must be 1 to model.hidden = {}, or 0 for tables of that width; not {}",
               hidden, embedding_size);
  positive("heads", heads);
  positive("ffn", ffn);
  positive("vocabulary", vocabulary);
  positive("max_positions", max_positions);
  positive("types", types);
  positive("classes", classes);
  COMERA_CHECK(score_std.value_or(1) > 0, "model.score_std must be positive, not {}", *score_std);
  COMERA_CHECK(vector_size >= 0, "model.vector_size must be positive, or 0 for no layer; not {}",
               vector_size);
  COMERA_CHECK(
      distillation.width == 0 || distillation.vectors == 0 || distillation.hidden == 0 ||
          vector_width() == hidden,
      "distillation.vectors and distillation.hidden need projections of {} and {} columns, and there "
      "is only one; set one of them to 0",
      vector_width(), hidden);
  COMERA_CHECK(hidden % heads == 0, "model.hidden = {} is not divisible by model.heads = {}", hidden, heads);
  COMERA_CHECK(rotary_theta > 1, "model.rotary_theta must be larger than 1, not {}", rotary_theta);
  COMERA_CHECK(positions != Positions::rotary || hidden / heads % 2 == 0,
               "model.positions = \"rotary\" rotates pairs of values, but {} heads of {} have {} values "
               "each, which is odd; choose another number of heads",
               heads, hidden, hidden / heads);
  COMERA_CHECK(relative_buckets == 0 ||
                   (relative_buckets >= 4 && relative_buckets <= 256 && relative_buckets % 2 == 0),
               "model.relative_buckets must be an even number from 4 to 256, or 0 for none; not {}",
               relative_buckets);
  COMERA_CHECK(relative_buckets == 0 || positions == Positions::learned,
               "model.relative_buckets are for model.positions = \"learned\" only");
  COMERA_CHECK(dropout >= 0 && dropout < 1, "model.dropout must be at least 0 and less than 1, not {}",
               dropout);
  COMERA_CHECK(attention_dropout >= 0 && attention_dropout < 1,
               "model.attention_dropout must be at least 0 and less than 1, not {}", attention_dropout);
  COMERA_CHECK(contrastive.temperature > 0, "task.temperature must be positive, not {}",
               contrastive.temperature);
  COMERA_CHECK(!contrastive.symmetric || contrastive.texts == 2,
               "task.symmetric = true is for pairs of texts, not for three; set it to false");
  COMERA_CHECK(
      distillation.relations == 0 || distillation.relation_heads == 0 ||
          hidden % distillation.relation_heads == 0,
      "model.hidden = {} is not divisible by distillation.relation_heads = {}; give a divisor of both "
      "models' widths",
      hidden, distillation.relation_heads);
  COMERA_CHECK(norm_eps > 0, "model.norm_eps must be positive, not {}", norm_eps);
  COMERA_CHECK(embedding_std > 0, "model.embedding_std must be positive, not {}", embedding_std);
  const auto kind = [](const char* key, const std::optional<TTShape>& shape, std::int64_t inputs,
                       std::int64_t outputs) {
    if (!shape) return;
    shape->validate(key, inputs, outputs);
    COMERA_CHECK(!shape->removed(),
                 "{}: only single layers can be removed; give them the ranks 0 in "
                 "tensorized.ranks",
                 key);
  };
  kind("tensorized.attention", tensorized.attention, hidden, hidden);
  kind("tensorized.ffn_up", tensorized.ffn_up, hidden, ffn);
  kind("tensorized.ffn_down", tensorized.ffn_down, ffn, hidden);
  kind("tensorized.head", tensorized.head, hidden, head_outputs());
  if (tensorized.embedding) tensorized.embedding->validate("tensorized.embedding", vocabulary, table_width());
  COMERA_CHECK(!tensorized.embedding || tensorized.embedding->frequent_rows == 0 ||
                   tensorized.lookup == LookupKind::factors,
               "tensorized.embedding.frequent_rows needs tensorized.lookup = \"factors\", not \"{}\"",
               name_of(tensorized.lookup));
  COMERA_CHECK(
      compute != DType::bfloat16 || tensorized.plan != PlanKind::modewise,
      "tensorized.plan = \"modewise\" would round to bfloat16 after every mode; choose another plan or "
      "precision.compute = \"fp32\"");
  if (float8) {
    COMERA_CHECK(float8->amax_history_len >= 1 && float8->amax_history_len <= 65536,
                 "precision.amax_history_len must be 1 to 65536 steps, not {}", float8->amax_history_len);
    COMERA_CHECK(float8->margin >= 0 && float8->margin <= 8, "precision.margin must be 0 to 8, not {}",
                 float8->margin);
  }
  if (!tensorized.ranks.empty()) check_layer_ranks(*this);
  if (low_rank) check_low_rank(*this);
  if (lte) check_lte(*this);
  if (head == HeadKind::replaced_tokens) check_generator(*this);
}

EncoderConfig EncoderConfig::generator_encoder() const {
  const auto share = [&](std::int64_t size) {
    return std::max<std::int64_t>(1, std::llround(generator.width * static_cast<double>(size)));
  };
  EncoderConfig encoder = dense_baseline();
  encoder.head = HeadKind::mlm;
  encoder.embedding_size = table_width();
  encoder.hidden = share(hidden);
  // At most the share of heads, of equal width, and of an even one where pairs are rotated.
  const std::int64_t pair = positions == Positions::rotary ? 2 : 1;
  for (encoder.heads = share(heads); encoder.heads > 1; --encoder.heads)
    if (encoder.hidden % (encoder.heads * pair) == 0) break;
  encoder.ffn = share(ffn);
  encoder.float8.reset();
  encoder.distillation = {};
  encoder.place = {.prefix = "generator.", .dropout_sites = dropout_site::generator};
  return encoder;
}

EncoderConfig EncoderConfig::dense_baseline() const {
  EncoderConfig baseline = *this;
  const LookupKind lookup = tensorized.lookup;
  baseline.tensorized = {};
  baseline.tensorized.lookup = lookup;
  baseline.low_rank = {};
  baseline.lte = {};
  return baseline;
}

}  // namespace comera
