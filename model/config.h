#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/tensors/dtype.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/linear/linear.h"

namespace comera {

enum class NormPlacement : std::uint8_t { post, pre };
enum class HeadKind : std::uint8_t {
  mlm,  // pieces at masked positions
  classification,
  regression,
  multi_label,
  token_classification,  // a class of each labelled token
  question_answering,    // the first and the last token of a span
  contrastive,           // vectors that are near each other where texts belong together
  replaced_tokens,       // which tokens a generator has replaced
};
// Whether the head has layers that read one vector per sequence.
constexpr bool reads_sequences(HeadKind head) {
  return head == HeadKind::classification || head == HeadKind::regression || head == HeadKind::multi_label;
}
// Whether it reads the vectors of tokens.
constexpr bool reads_tokens(HeadKind head) {
  return head == HeadKind::mlm || head == HeadKind::token_classification ||
         head == HeadKind::question_answering;
}
// Whether it is trained on masked sequences of tokens alone: pretraining.
constexpr bool is_pretraining(HeadKind head) {
  return head == HeadKind::mlm || head == HeadKind::replaced_tokens;
}
std::string_view name_of(HeadKind head);
// How the encoder encodes token positions.
enum class Positions : std::uint8_t {
  learned,   // a row per position, added to the token's row (Devlin et al., 2019)
  rotary,    // RoPE: queries and keys are rotated by position-dependent angles (Su et al., 2021)
  relative,  // scores fall with distance, with a slope per head and side (after Press et al., 2022)
};
std::string_view name_of(Positions positions);

// How the encoder's output becomes one vector per sequence.
enum class Pooling : std::uint8_t {
  first,  // the vector of [CLS]
  mean,   // the mean over all tokens, including [CLS] and [SEP]
};

// How the encoder reads a task with two texts.
enum class PairEncoding : std::uint8_t {
  joint,     // one sequence: [CLS] first [SEP] second [SEP]
  separate,  // two sequences; the head compares their vectors (Reimers and Gurevych, 2019)
};

// Which layers are tensor trains. Absent kinds are dense.
struct TensorizedConfig {
  std::optional<TTShape> attention;  // Q, K, V and O
  std::optional<TTShape> ffn_up;
  std::optional<TTShape> ffn_down;
  std::optional<TTShape> head;  // the pooler of a classifier or the transform of an MLM head
  std::optional<TTMShape> embedding;
  LookupKind lookup = LookupKind::factors;
  PlanKind plan = PlanKind::automatic;
  // Ranks of single layers, instead of the kind's ranks; the modes are always the kind's. Every layer may
  // have its own ranks, including each of a group (Q, K and V). All 0: the layer is removed (not possible for
  // the head and the embedding).
  LayerRanks ranks = {};

  // A shape for each output of a layer of this kind; empty if the kind is dense.
  std::vector<TTShape> shapes_of(const std::optional<TTShape>& kind, const Linear::Spec& spec) const;
  std::optional<TTMShape> embedding_shape() const;
  bool any() const;  // whether anything is a tensor train
  friend bool operator==(const TensorizedConfig&, const TensorizedConfig&) = default;
};

// What a contrastive head learns from (model/layers/contrastive_head.h).
struct ContrastiveConfig {
  std::int64_t texts = 2;     // sequences of an example: query, document and, with 3, a hard negative
  double temperature = 0.05;  // cosines are divided by it
  bool symmetric = false;     // whether documents also look for their queries; with 2 texts

  // The number of examples in a micro-batch of `sequences`, and of the documents that each query is compared
  // with.
  std::int64_t examples(std::int64_t sequences) const { return sequences / texts; }
  std::int64_t documents(std::int64_t sequences) const { return (texts - 1) * examples(sequences); }
  friend bool operator==(const ContrastiveConfig&, const ContrastiveConfig&) = default;
};

// The generator beside an encoder that learns to find replaced tokens (model/model.h). It has the encoder's
// embedding and number of layers; all its own layers are dense.
struct GeneratorConfig {
  double width = 0.25;  // its hidden size, heads and feed-forward size relative to the encoder's
  double weight = 50;   // of the mean loss of all tokens beside the generator's, which has 1
  friend bool operator==(const GeneratorConfig&, const GeneratorConfig&) = default;
};

// Where a network stands in a model.
struct NetworkPlace {
  std::string prefix;               // of its parameters' names
  std::uint32_t dropout_sites = 0;  // is added to dropout_site (model/encoder_step.h)
  friend bool operator==(const NetworkPlace&, const NetworkPlace&) = default;
};

// What a student learns from a teacher's answers to the same micro-batch (model/layers/teacher_losses.h), by
// the weight of each loss; 0: not learned.
struct DistillationConfig {
  double vectors = 0;       // 1 - cosine of the vectors of sequences
  double similarities = 0;  // squared distance of the cosines between them
  double hidden = 0;        // squared distance of the hidden states of tokens
  bool all_layers = false;  // of those behind each block, in the mean, instead of the last ones alone
  double relations = 0;    // divergence of relations between tokens in the last block's queries, keys, values
  double logits = 0;       // divergence of the head's distributions; squared distance of its scores
  double temperature = 1;  // of the distributions
  bool targets = true;     // whether the head's own targets are learned, too
  std::int64_t relation_heads = 0;  // that queries, keys and values are divided into; 0: the student's heads
  // Columns of a learned projection of the student's vectors and hidden states to those of the teacher's; 0:
  // none, they are equally wide.
  std::int64_t width = 0;

  bool of_vectors() const { return vectors > 0 || similarities > 0; }
  bool of_encoder() const { return of_vectors() || hidden > 0 || relations > 0; }
  bool any() const { return of_encoder() || logits > 0; }
  friend bool operator==(const DistillationConfig&, const DistillationConfig&) = default;
};

// The [model] section of a recipe.
struct EncoderArchitecture {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  // Width of the embedding's tables; if it is less than `hidden`, a linear layer leads from there to
  // `hidden`. 0: `hidden`.
  std::int64_t embedding_size = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;  // in a recipe 0: the tokenizer's vocabulary size
  std::int64_t max_positions = 512;
  Positions positions = Positions::learned;
  double rotary_theta = 10000;  // for rotary positions
  // With learned positions, attention scores also get a bias for each head and bucket of distances (Raffel et
  // al., 2020, section 2.1; Song et al., 2020: MPNet), which is not trained. Even; 0: none.
  std::int64_t relative_buckets = 0;
  std::int64_t types = 2;
  Activation activation = Activation::gelu;  // of feed-forward layers and a masked-language head's transform
  NormPlacement norm = NormPlacement::post;
  double norm_eps = 1e-12;
  double dropout = 0.1;            // after the embedding, attention output and feed-forward
  double attention_dropout = 0.1;  // on attention probabilities
  HeadKind head = HeadKind::mlm;
  std::int64_t classes = 3;                  // for a classification, token or multi-label head
  Pooling pooling = Pooling::first;          // for a classification or regression head
  PairEncoding pairs = PairEncoding::joint;  // for a classification or regression head
  // A regression head's scores are score_mean + score_std × its output, so that it learns standardised
  // scores. Absent: 0 and 1.
  std::optional<double> score_mean, score_std;
  // Outputs of a dense layer behind the pooling of a contrastive head (Dense of sentence-transformers), with
  // or without tanh; 0: none.
  std::int64_t vector_size = 0;
  bool vector_tanh = false;
  double embedding_std = 0.02;

  // Columns of the tables, and of a masked-language head's decoder.
  std::int64_t table_width() const { return embedding_size > 0 ? embedding_size : hidden; }
  bool has_narrow_tables() const { return table_width() != hidden; }
  // Outputs of the head's first layer: a pooler, or the transform before the decoder.
  std::int64_t head_outputs() const { return head == HeadKind::mlm ? table_width() : hidden; }
  double score_of(double output) const { return score_mean.value_or(0) + score_std.value_or(1) * output; }
  double output_of(double score) const { return (score - score_mean.value_or(0)) / score_std.value_or(1); }
  bool has_vector_layer() const { return head == HeadKind::contrastive && vector_size > 0; }
  // Of the vectors of sequences.
  std::int64_t vector_width() const { return has_vector_layer() ? vector_size : hidden; }

  friend bool operator==(const EncoderArchitecture&, const EncoderArchitecture&) = default;
};

struct EncoderConfig : EncoderArchitecture {
  TensorizedConfig tensorized;
  // Instead of tensor trains: linear layers of attention, feed-forward, pooler and transform have two
  // factors.
  std::optional<LowRankForm> low_rank = {};
  // Instead of either: dense layers of attention and feed-forward are trained through adapters. Pooler and
  // transform stay dense, because they process a row for each sequence or masked position instead of the
  // tokens that heads divide among themselves.
  std::optional<LteForm> lte = {};
  DType compute = DType::float32;  // of activations and products; float64 is used by the oracle
  // Whether a step multiplies the losses of a classification head by PackedBatch::scores.
  bool weighted = false;
  ContrastiveConfig contrastive = {};    // of a contrastive head
  DistillationConfig distillation = {};  // of a student
  GeneratorConfig generator = {};        // beside a head for replaced tokens
  NetworkPlace place = {};
  std::optional<Float8Config> float8 = {};  // 8-bit operands of products in linear layers, where possible

  // For a head that reads tokens: its logits for each.
  std::int64_t token_outputs() const {
    if (head == HeadKind::replaced_tokens) return 1;
    return head == HeadKind::mlm ? vocabulary : head == HeadKind::question_answering ? 2 : classes;
  }
  // For a head on a sequence's vector: its logits per sequence, or 1 score.
  std::int64_t sequence_outputs() const {
    return head == HeadKind::classification || head == HeadKind::multi_label ? classes : 1;
  }
  // MicroBatchCapacity::scores. sequences: the capacity of the micro-batch.
  std::int64_t scores_per_example(std::int64_t sequences) const {
    if (head == HeadKind::contrastive && distillation.targets) return contrastive.documents(sequences);
    return head == HeadKind::multi_label ? classes : 1;
  }

  // Columns of the embedding's tensor-train matrix, or of the table if it is dense.
  std::int64_t token_columns() const {
    return tensorized.embedding ? tensorized.embedding->columns() : table_width();
  }
  std::int64_t classifier_inputs() const { return pairs == PairEncoding::separate ? 4 * hidden : hidden; }

  // The representation of a layer's weights, where `kind` is its member of TensorizedConfig.
  LinearForm form_of(const std::optional<TTShape>& kind, const Linear::Spec& spec) const;

  // Throws Error in one sentence on impossible values, for instance if hidden is not divisible by heads.
  void validate() const;
  // The same model with every layer dense.
  EncoderConfig dense_baseline() const;

  // The generator beside this encoder, which uses the encoder's embedding tables: a masked-language encoder.
  EncoderConfig generator_encoder() const;

  // A linear layer that may be a tensor train.
  struct LinearLayer {
    std::string name;
    const char* kind;              // the member of TensorizedConfig, by its recipe key: "attention"
    std::optional<TTShape> shape;  // with the layer's own ranks, if given
    std::int64_t inputs = 0, outputs = 0;
  };
  // All of them, in forward order, without the token embedding (see embedding_layer) and the layer of a head
  // that gives scores, which is always dense.
  std::vector<LinearLayer> linear_layers() const;
  static constexpr const char* embedding_layer = "embedding.tokens";
};

}  // namespace comera
