#include "exchange/onnx/onnx_export.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "exchange/onnx/onnx_graph.h"
#include "exchange/onnx/onnx_layers.h"
#include "kernels/core/version.h"
#include "model/layers/positions.h"

namespace comera::exchange {

namespace {

using Value = std::string;
constexpr std::int64_t to_float32 = 1;

class EncoderGraph {
 public:
  EncoderGraph(const Model& model, const OnnxOptions& options)
      : config_(model.config()), options_(options), layers_(graph_, model, options.int8) {}

  std::string build() {
    const std::string vocabulary = std::to_string(config_.vocabulary),
                      hidden = std::to_string(config_.hidden);
    const bool mlm = config_.head == HeadKind::mlm;
    const bool sequences = reads_sequences(config_.head);
    separate_ = sequences && config_.pairs == PairEncoding::separate && !options_.encoder_only;
    const Text first = input("", "sequence");
    if (options_.encoder_only || config_.head == HeadKind::contrastive) {
      graph_.output(encode(first), "last_hidden_state", {"batch", "sequence", hidden});
    } else if (mlm) {
      const Value h = layers_.norm("head.norm", activation(layers_.linear("head.transform", encode(first))));
      const Value logits = graph_.node("Add", {layers_.decode(h), layers_.parameter("head.bias")});
      graph_.output(logits, "logits", {"batch", "sequence", vocabulary});
    } else if (config_.head == HeadKind::token_classification) {
      graph_.output(layers_.linear("head.labels", encode(first)), "logits",
                    {"batch", "sequence", std::to_string(config_.token_outputs())});
    } else if (config_.head == HeadKind::question_answering) {
      const std::vector<Value> ends = graph_.nodes("Split", {layers_.linear("head.spans", encode(first))}, 2,
                                                   {{"axis", std::int64_t{-1}}});
      for (const auto& [end, name] : {std::pair{ends[0], "start_logits"}, {ends[1], "end_logits"}})
        graph_.output(graph_.node("Squeeze", {end, graph_.integers({2})}), name, {"batch", "sequence"});
    } else {
      Value features = pooled(first);
      if (separate_) features = compared(features, pooled(input("second_", "second_sequence")));
      graph_.output(layers_.linear("head.classifier", features), "logits",
                    {"batch", std::to_string(config_.sequence_outputs())});
    }
    return graph_.model(version());
  }

 private:
  struct Text {
    Value ids, mask, types;  // types: empty where all have the first
  };

  Text input(const std::string& prefix, const std::string& sequence) {
    const auto add = [&](const char* name) {
      graph_.input(prefix + name, OnnxGraph::Type::int64, {"batch", sequence});
      return prefix + name;
    };
    Text text{add("input_ids"), add("attention_mask"), ""};
    if (config_.types > 1 && !separate_) text.types = add("token_type_ids");
    return text;
  }

  Value as_float(const Value& x) { return graph_.node("Cast", {x}, {{"to", to_float32}}); }
  Value unsqueezed(const Value& x, const std::vector<std::int64_t>& axes) {
    return graph_.node("Unsqueeze", {x, graph_.integers(axes)});
  }
  Value add(const Value& a, const Value& b) { return graph_.node("Add", {a, b}); }
  Value times(const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); }
  Value activation(const Value& x) { return layers_.activation(config_.activation, x); }

  // 0, 1, 2, ... of a text's positions.
  Value positions_of(const Text& text) {
    const Value length =
        graph_.node("Shape", {text.ids}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
    return graph_.node("Range", {graph_.integer(0), graph_.node("Squeeze", {length, graph_.integers({0})}),
                                 graph_.integer(1)});
  }

  Value embed(const Text& text, const Value& positions) {
    Value x = layers_.look_up(text.ids);
    const Value types = layers_.parameter("embedding.types");
    x = add(x, text.types.empty() ? graph_.node("Gather", {types, graph_.integer(0)})
                                  : graph_.node("Gather", {types, text.types}));
    if (config_.positions == Positions::learned)
      x = add(x, graph_.node("Gather", {layers_.parameter("embedding.positions"), positions}));
    if (config_.norm == NormPlacement::post) x = layers_.norm("embedding.norm", x);
    return config_.has_narrow_tables() ? layers_.linear("embedding.projection", x) : x;
  }

  // What is added to products of queries and keys: nothing for tokens and the least number for padding, and
  // the scores of relative positions or biases by distance. (batch, heads or 1, queries or 1, keys)
  Value scores_of(const Text& text, const Value& positions) {
    constexpr double least = -3.4028234663852886e38;
    const Value hidden = graph_.node("Sub", {graph_.scalar(1), as_float(text.mask)});
    Value masked = times(unsqueezed(hidden, {1, 2}), graph_.scalar(least));
    if (config_.relative_buckets > 0) return add(biases_of(positions), masked);
    if (config_.positions != Positions::relative) return masked;
    const Value distance = distances_of(as_float(positions));
    std::vector<double> before, behind;
    for (const HeadSlopes& slopes : head_slopes(config_.heads)) {
      before.push_back(-slopes.before);
      behind.push_back(-slopes.behind);
    }
    const auto slopes = [&](const char* name, const std::vector<double>& values) {
      return graph_.floats(name, {config_.heads, 1, 1}, values);
    };
    const Value is_before = graph_.node("Less", {distance, graph_.scalar(0)});
    const Value slope =
        graph_.node("Where", {is_before, slopes("slopes.before", before), slopes("slopes.behind", behind)});
    return add(times(slope, graph_.node("Abs", {distance})), masked);
  }

  // Of keys after queries, (queries, keys).
  Value distances_of(const Value& positions) {
    return graph_.node("Sub", {unsqueezed(positions, {0}), unsqueezed(positions, {1})});
  }

  // (heads, queries, keys)
  Value biases_of(const Value& positions) {
    const std::vector<std::int32_t> buckets =
        buckets_of_distances(config_.max_positions, config_.relative_buckets);
    const Value place =
        graph_.node("Add", {distances_of(positions), graph_.integer(config_.max_positions - 1)});
    const Value bucket = graph_.node("Gather", {graph_.integers({buckets.begin(), buckets.end()}), place});
    return graph_.node("Transpose",
                       {graph_.node("Gather", {layers_.parameter("embedding.relative_bias"), bucket})},
                       {{"perm", OnnxGraph::Shape{2, 0, 1}}});
  }

  // Cosines and sines of rotary positions, (sequence, half of a head's size).
  struct Turns {
    Value cos, sin;
  };
  std::optional<Turns> turns_of(const Value& positions) {
    if (config_.positions != Positions::rotary) return std::nullopt;
    const std::int64_t half = config_.hidden / config_.heads / 2;
    std::vector<double> speeds;
    for (std::int64_t i = 0; i < half; ++i)
      speeds.push_back(std::pow(config_.rotary_theta, -static_cast<double>(i) / static_cast<double>(half)));
    const Value angles =
        times(unsqueezed(as_float(positions), {1}), graph_.floats("rotary.speeds", {1, half}, speeds));
    return Turns{graph_.node("Cos", {angles}), graph_.node("Sin", {angles})};
  }
  // Numbers i and i + size / 2 of a head are a point that is turned.
  Value turned(const Value& x, const Turns& turns) {
    const std::vector<Value> parts = graph_.nodes("Split", {x}, 2, {{"axis", std::int64_t{-1}}});
    const auto &a = parts[0], &b = parts[1];
    return graph_.node("Concat",
                       {graph_.node("Sub", {times(a, turns.cos), times(b, turns.sin)}),
                        add(times(b, turns.cos), times(a, turns.sin))},
                       {{"axis", std::int64_t{-1}}});
  }

  Value attention(const std::string& name, const Value& x, const Value& scores,
                  const std::optional<Turns>& turns) {
    const std::int64_t size = config_.hidden / config_.heads;
    const auto by_heads = [&](const char* part) {
      const Value y = layers_.linear(name + part, x);
      const Value apart = graph_.node("Reshape", {y, graph_.integers({0, 0, config_.heads, size})});
      return graph_.node("Transpose", {apart}, {{"perm", OnnxGraph::Shape{0, 2, 1, 3}}});
    };
    Value q = by_heads(".query"), k = by_heads(".key");
    if (turns) q = turned(q, *turns), k = turned(k, *turns);
    const Value keys = graph_.node("Transpose", {k}, {{"perm", OnnxGraph::Shape{0, 1, 3, 2}}});
    const Value scale = graph_.scalar(1 / std::sqrt(static_cast<double>(size)));
    const Value products = times(graph_.node("MatMul", {q, keys}), scale);
    const Value shares = graph_.node("Softmax", {add(products, scores)}, {{"axis", std::int64_t{-1}}});
    const Value y = graph_.node("Transpose", {graph_.node("MatMul", {shares, by_heads(".value")})},
                                {{"perm", OnnxGraph::Shape{0, 2, 1, 3}}});
    return layers_.linear(name + ".output",
                          graph_.node("Reshape", {y, graph_.integers({0, 0, config_.hidden})}));
  }

  Value feed_forward(const std::string& name, const Value& x) {
    return layers_.linear(name + ".down", activation(layers_.linear(name + ".up", x)));
  }

  // The hidden states.
  Value encode(const Text& text) {
    const Value positions = positions_of(text);
    Value x = embed(text, positions);
    const Value scores = scores_of(text, positions);
    const std::optional<Turns> turns = turns_of(positions);
    const bool pre = config_.norm == NormPlacement::pre;
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string block = fmt::format("encoder.{}", i), attends = block + ".attention",
                        feeds = block + ".ffn", norm1 = block + ".norm1", norm2 = block + ".norm2";
      x = add(x, attention(attends, pre ? layers_.norm(norm1, x) : x, scores, turns));
      if (!pre) x = layers_.norm(norm1, x);
      x = add(x, feed_forward(feeds, pre ? layers_.norm(norm2, x) : x));
      if (!pre) x = layers_.norm(norm2, x);
    }
    return pre ? layers_.norm("encoder.norm", x) : x;
  }

  // (batch, hidden)
  Value pooled(const Text& text) {
    const Value hidden = encode(text);
    Value vector;
    if (config_.pooling == Pooling::mean) {
      const Value weights = unsqueezed(as_float(text.mask), {2});
      const auto sum = [&](const Value& of) {
        return graph_.node("ReduceSum", {of, graph_.integers({1})}, {{"keepdims", std::int64_t{0}}});
      };
      vector = graph_.node("Div", {sum(times(hidden, weights)), sum(weights)});
    } else {
      vector = graph_.node("Gather", {hidden, graph_.integer(0)}, {{"axis", std::int64_t{1}}});
    }
    // A sequence of one, as layers have it.
    const Value y = layers_.linear("head.pooler", unsqueezed(vector, {1}));
    return graph_.node("Squeeze", {graph_.node("Tanh", {y}), graph_.integers({1})});
  }

  // Reimers and Gurevych (2019): both vectors, their distance and their product.
  Value compared(const Value& a, const Value& b) {
    return graph_.node("Concat", {a, b, graph_.node("Abs", {graph_.node("Sub", {a, b})}), times(a, b)},
                       {{"axis", std::int64_t{1}}});
  }

  const EncoderConfig& config_;
  OnnxOptions options_;
  OnnxGraph graph_;
  OnnxLayers layers_;
  bool separate_ = false;
};

}  // namespace

std::string onnx_model(const Model& model, const OnnxOptions& options) {
  return EncoderGraph(model, options).build();
}

}  // namespace comera::exchange
