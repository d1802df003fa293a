// The keys of [model], [tensorized], [low_rank] and [lte], with their ranges and meanings.

#include "recipes/schema/schema.h"

namespace comera::recipe_detail {

template <>
const std::vector<Key<DlrmSection>>& keys_of() {
  using S = DlrmSection;
  static const std::vector<Key<S>> keys = {
      value("dense_features", &S::dense_features, count(0),
            "dense features of an example; default: those of the data"),
      value("tables", &S::tables, sizes(), "rows of each embedding table; empty: those of the data"),
      required(value("width", &S::width, from_to(1, 65536), "of a row of the tables")),
      value("bottom", &S::bottom, sizes(),
            "widths of the layers between the dense features and their vector, which is as wide as a row"),
      value("top", &S::top, sizes(), "widths of the layers between the dot products and the answer"),
      value("table_rank", &S::table_rank, count(0),
            "ranks of the tables that are smaller as a tensor-train matrix; 0: all are dense"),
      value("table_cores", &S::table_cores, from_to(2, 6), "cores of such a table"),
      value("layer_rank", &S::layer_rank, count(0),
            "ranks of the layers, but the last one, that are smaller as a tensor train; 0: all are dense"),
      value("embedding_std", &S::embedding_std, at_least(0),
            "standard deviation of the tables' entries at the start; 0: one over the root of three times the "
            "table's rows"),
      value(
          "sparse_updates", &S::sparse_updates,
          "whether a step changes only the rows of dense tables that it looks up, as SparseAdam does, or all "
          "of them; not used by `lamb`"),
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
      required(value("heads", &S::heads, from_to(1, 1048576), "attention heads")),
      required(value("ffn", &S::ffn, from_to(1, 1048576), "inner width of the feed-forward layers")),
      value("vocabulary", &S::vocabulary, count(0), "token ids; 0: those of the tokenizer"),
      value("max_positions", &S::max_positions, count(1),
            "longest sequence that the model is trained with, tokens; with `learned` positions also the "
            "longest "
            "that it can ever take"),
      value("positions", &S::positions,
            "how attention knows where tokens are: a `learned` row for each position (BERT's), `rotary` "
            "turns of "
            "queries and keys, or `relative`: scores that fall with distance, by slopes of the head and the "
            "side"),
      value("rotary_theta", &S::rotary_theta, above(1),
            "`rotary` positions: in a head of `size` values the slowest pair turns by rotary_theta^(2 / "
            "size - 1) per token"),
      value("types", &S::types, count(1), "segment types"),
      value("activation", &S::activation,
            "of the feed-forward layers and of an MLM head's transform; `gelu_tanh` is GELU's approximation "
            "(`gelu_new` in other programs)"),
      value("norm", &S::norm, "layer norm after (`post`) or before (`pre`) each sublayer"),
      value("norm_eps", &S::norm_eps, above(0), "added to the variance in a layer norm"),
      value("dropout", &S::dropout, from_to_below(0, 1),
            "after the embedding, the attention output and the feed-forward layers"),
      value("attention_dropout", &S::attention_dropout, from_to_below(0, 1), "of attention probabilities"),
      value("head", &S::head,
            "masked language model, or a classifier or regression on the sequence's vector (`finetune` sets "
            "it by "
            "its task)"),
      value("classes", &S::classes, count(1), "classes of a classification head"),
      value("pooling", &S::pooling,
            "input of a classification or regression head: the `first` token's hidden state, or the "
            "`mean` of all"),
      value("pairs", &S::pairs,
            "how a task with two texts is put to the encoder: as one sequence, or each text by itself, so "
            "that the "
            "head compares two vectors"),
      value("embedding_std", &S::embedding_std, above(0),
            "standard deviation of the token embedding's entries at the start"),
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
  };
  return keys;
}

template <>
const std::vector<Key<TTMShape>>& keys_of() {
  using S = TTMShape;
  static const std::vector<Key<S>> keys = {
      required(value("row_modes", &S::row_modes, modes(),
                     "their product is at least the vocabulary; further rows are padding")),
      required(value("column_modes", &S::column_modes, modes(), "their product is `model.hidden`")),
      required(value("ranks", &S::ranks, ranks(), "one per bond: one fewer than there are row modes")),
  };
  return keys;
}

template <>
const std::vector<Key<TensorizedSection>>& keys_of() {
  using S = TensorizedSection;
  using Base = TensorizedConfig;
  static const std::vector<Key<S>> keys = {
      value("enabled", &S::enabled, "`false` makes every layer dense: the dense baseline of the same model"),
      inherited<S>(
          value("lookup", &Base::lookup,
                "how rows of the embedding are computed: per token, per unique id, or from the left and "
                "right factors (`factors`)")),
      inherited<S>(value("plan", &Base::plan,
                         "how a TT layer is computed: the cheapest way, through the left and right factors "
                         "(`factors`), with the contracted matrix (`dense`), or mode by mode")),
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
      inherited<S>(layer_ranks(
          "ranks", &Base::ranks,
          "Ranks of single layers, instead of those of their kind. A checkpoint's recipe has them when "
          "its layers' ranks differ.")),
  };
  return keys;
}

template <>
const std::vector<Key<LowRankSection>>& keys_of() {
  using S = LowRankSection;
  static const std::vector<Key<S>> keys = {
      required(value("rank", &S::rank, count(1),
                     "of W = U V, of each of query, key and value by itself; at most the smaller one of "
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
      inherited<S>(required(
          value("lora_alpha", &Base::lora_alpha, above(0),
                "adapters are multiplied by `lora_alpha` / `lora_r`; 1024 to 8192 in the paper's runs"))),
      inherited<S>(
          required(value("num_heads", &Base::num_heads, from_to(1, 1048576),
                         "adapters of each layer; each sees its part of a micro-batch's tokens; must divide "
                         "`tokens_per_micro_batch`"))),
      required(
          value("merge_steps", &S::merge_steps, count(1),
                "steps between merges of all adapters into the weights; the end of each phase merges too")),
  };
  return keys;
}

}  // namespace comera::recipe_detail
