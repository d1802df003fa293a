// The keys of [model], [tensorized], [low_rank] and [lte], with their ranges and meanings.

#include "recipes/schema/schema.h"

namespace comera::recipe_detail {

template <>
const std::vector<Key<DlrmSection>>& keys_of() {
  using S = DlrmSection;
  static const std::vector<Key<S>> keys = {
      value("dense_features", &S::dense_features, count(0),
            "number of dense features per example (default: that of the data)"),
      value("tables", &S::tables, sizes(), "rows of each embedding table; empty: as in the data"),
      required(value("width", &S::width, from_to(1, 65536), "width of a table's row")),
      value("bottom", &S::bottom, sizes(),
            "widths of the hidden layers between the dense features and their vector, which has the width of "
            "a row"),
      value("top", &S::top, sizes(), "widths of the hidden layers between the dot products and the output"),
      value("table_rank", &S::table_rank, count(0),
            "rank of each table that is smaller as a tensor-train matrix; 0: all tables are dense"),
      value("table_cores", &S::table_cores, from_to(2, 6), "number of cores of such a table"),
      value(
          "layer_rank", &S::layer_rank, count(0),
          "rank of each layer, except the last, that is smaller as a tensor train; 0: all layers are dense"),
      value("embedding_std", &S::embedding_std, at_least(0),
            "standard deviation of the tables' initial entries; 0: 1 / sqrt(3 x rows)"),
      value("sparse_updates", &S::sparse_updates,
            "update only the rows of dense tables that a step looks up, as SparseAdam does, instead of all; "
            "not used by `lamb`"),
  };
  return keys;
}

template <>
const std::vector<Key<ModelSection>>& keys_of() {
  using S = ModelSection;
  static const std::vector<Key<S>> keys = {
      required(value("layers", &S::layers, from_to(1, 1024), "encoder blocks")),
      required(value("hidden", &S::hidden, from_to(1, 1048576),
                     "width of the residual stream; divisible by `heads`")),
      value(
          "embedding_size", &S::embedding_size, count(0),
          "width of the embedding's tables and of the decoder, as in ALBERT and ELECTRA: if it is less than "
          "`hidden`, a linear layer leads from one to the other; 0: `hidden`"),
      required(value("heads", &S::heads, from_to(1, 1048576), "attention heads")),
      required(value("ffn", &S::ffn, from_to(1, 1048576), "inner width of the feed-forward layers")),
      value("vocabulary", &S::vocabulary, count(0), "vocabulary size; 0: that of the tokenizer"),
      value("max_positions", &S::max_positions, count(1),
            "longest training sequence in tokens; with `learned` positions also the longest that the model "
            "can read"),
      value("positions", &S::positions,
            "position encoding: `learned` embeddings (as BERT), `rotary` (RoPE), or `relative`: attention "
            "scores fall with distance, with a slope for each head and side"),
      value("rotary_theta", &S::rotary_theta, above(1),
            "RoPE's base: in a head of `size` values the slowest pair rotates by rotary_theta^(2 / size - 1) "
            "per token"),
      value("relative_buckets", &S::relative_buckets, from_to(0, 256),
            "with `learned` positions: attention scores also get a bias for each head and bucket of "
            "distances, as "
            "in MPNet; imported, not trained; an even number from 4 on, or 0: none"),
      value("types", &S::types, count(1), "number of segment types"),
      value("activation", &S::activation,
            "activation of the feed-forward layers and of an MLM head's transform; `gelu_tanh` is GELU's "
            "tanh approximation (`gelu_new` in other programs)"),
      value("norm", &S::norm, "apply layer norm after (`post`) or before (`pre`) each sublayer"),
      value("norm_eps", &S::norm_eps, above(0), "added to the variance in a layer norm"),
      value("dropout", &S::dropout, from_to_below(0, 1),
            "dropout after the embedding, the attention output and the feed-forward layers"),
      value("attention_dropout", &S::attention_dropout, from_to_below(0, 1),
            "dropout of attention probabilities"),
      value("head", &S::head,
            "masked-language head, one that finds `replaced_tokens` (ELECTRA), a classification or "
            "regression head on the sequence's vector, or one for "
            "the labels of tokens or the first and last token of an answer (`finetune` sets it by the task)"),
      value("classes", &S::classes, count(1),
            "classes of a classification head or of tokens, or labels of a multi-label one"),
      value("pooling", &S::pooling,
            "input of a classification or regression head: the `first` token's hidden state, or the "
            "`mean` of all"),
      value("pairs", &S::pairs,
            "encode the two texts of a task as one sequence (`joint`), or each alone (`separate`), so that "
            "the head compares two vectors"),
      value(
          "score_mean", &S::score_mean,
          "of a regression, which learns standardised scores: these are `score_mean` + `score_std` x the "
          "head's "
          "output (`finetune` sets both to the mean and the standard deviation of those to learn from; 0 and "
          "1: scores are learned as they are)"),
      value("score_std", &S::score_std, above(0), "see `score_mean`"),
      value("vector_size", &S::vector_size, count(0),
            "outputs of a dense layer behind the pooling of vectors (`Dense` in sentence-transformers); 0: "
            "none"),
      value("vector_tanh", &S::vector_tanh, "apply tanh to its outputs"),
      value("embedding_std", &S::embedding_std, above(0),
            "standard deviation of the token embedding's initial entries"),
  };
  return keys;
}

template <>
const std::vector<Key<GeneratorSection>>& keys_of() {
  using S = GeneratorSection;
  static const std::vector<Key<S>> keys = {
      value("width", &S::width, from_to(0, 1),
            "hidden size, heads and feed-forward size of the generator relative to the model's, at most 1; "
            "its layers are "
            "dense, and as many; the embedding is shared"),
      value("weight", &S::weight, above(0),
            "weight of the mean loss of all tokens, beside the generator's mean over the masked ones"),
  };
  return keys;
}

template <>
const std::vector<Key<TTShape>>& keys_of() {
  using S = TTShape;
  static const std::vector<Key<S>> keys = {
      required(value("input_modes", &S::input_modes, modes(), "their product is the layer's input width")),
      required(value("output_modes", &S::output_modes, modes(), "their product is the layer's output width")),
      required(value("ranks", &S::ranks, ranks(), "one per bond: one fewer than there are modes")),
      value("diagonal", &S::diagonal,
            "a diagonal beside the tensor train: each input is also passed on, times a number of its own, to "
            "the "
            "outputs of the same index modulo the smaller width"),
  };
  return keys;
}

template <>
const std::vector<Key<TTMShape>>& keys_of() {
  using S = TTMShape;
  static const std::vector<Key<S>> keys = {
      required(value("row_modes", &S::row_modes, modes(),
                     "their product is at least the vocabulary; extra rows are padding")),
      required(value("column_modes", &S::column_modes, modes(),
                     "their product is `model.embedding_size`, or `model.hidden` if that is 0; with "
                     "`projection` less")),
      required(value("ranks", &S::ranks, ranks(), "one per bond: one fewer than there are row modes")),
      value(
          "projection", &S::projection,
          "the table is the tensor train times a dense matrix from its columns to the width, for lookups and "
          "decoder: a decoder then multiplies by as few columns as the train has"),
      value("frequent_rows", &S::frequent_rows, count(0),
            "this many first ids, the most frequent ones of WordPiece and of `comera tokenizer`, have rows "
            "of their own, as wide as the train, which learn at the rate of `other`; the tensor train has "
            "the other ids. At most half of a vocabulary that the tokenizer decides"),
  };
  return keys;
}

template <>
const std::vector<Key<TensorizedSection>>& keys_of() {
  using S = TensorizedSection;
  using Base = TensorizedConfig;
  static const std::vector<Key<S>> keys = {
      value("enabled", &S::enabled, "`false` makes every layer dense (the dense baseline)"),
      inherited<S>(value("lookup", &Base::lookup,
                         "method that computes the embedding's rows: per token, per unique id, or from the "
                         "left and right factors (`factors`)")),
      inherited<S>(value("plan", &Base::plan,
                         "method that evaluates a TT layer: the cheapest one, through the left and right "
                         "factors (`factors`), with the contracted matrix (`dense`), or mode by mode")),
      inherited<S>(
          optional_section("attention", &Base::attention,
                           "Tensor train of the query, key, value and output layers; dense when absent.")),
      inherited<S>(optional_section("ffn_up", &Base::ffn_up,
                                    "Tensor train of the first feed-forward layer; dense when absent.")),
      inherited<S>(optional_section("ffn_down", &Base::ffn_down,
                                    "Tensor train of the second feed-forward layer; dense when absent.")),
      inherited<S>(optional_section(
          "head", &Base::head,
          "Tensor train of a classifier's pooler or an MLM head's transform; dense when absent.")),
      inherited<S>(optional_section("embedding", &Base::embedding,
                                    "Tensor-train matrix of the token embedding; dense when absent.")),
      inherited<S>(layer_ranks("ranks", &Base::ranks,
                               "Ranks of single layers, instead of those of their kind. The recipe of a "
                               "checkpoint has them if its layers have different ranks.")),
  };
  return keys;
}

template <>
const std::vector<Key<LowRankSection>>& keys_of() {
  using S = LowRankSection;
  static const std::vector<Key<S>> keys = {
      required(value("rank", &S::rank, count(1),
                     "rank of W = U V; query, key and value have factors each; at most the smaller of "
                     "`model.hidden` and `model.ffn`")),
  };
  return keys;
}

template <>
const std::vector<Key<LteSection>>& keys_of() {
  using S = LteSection;
  using Base = LteForm;
  static const std::vector<Key<S>> keys = {
      inherited<S>(required(value("lora_r", &Base::lora_r, count(1), "rank of an adapter"))),
      inherited<S>(
          required(value("lora_alpha", &Base::lora_alpha, above(0),
                         "adapters are multiplied by `lora_alpha` / `lora_r`; the paper uses 1024 to 8192"))),
      inherited<S>(required(value("num_heads", &Base::num_heads, from_to(1, 1048576),
                                  "adapters per layer; each sees its share of a micro-batch's tokens; must "
                                  "divide `tokens_per_micro_batch`"))),
      required(
          value("merge_steps", &S::merge_steps, count(1),
                "merge all adapters into the weights every this many steps, and at the end of each phase")),
  };
  return keys;
}

}  // namespace comera::recipe_detail
