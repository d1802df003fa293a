#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exchange/onnx/onnx_graph.h"
#include "model/model.h"

namespace comera::exchange {

// The layers of a model as nodes of a graph. A value is the name of a tensor in the graph; layers are named
// as their parameters begin.
class OnnxLayers {
 public:
  using Value = std::string;

  OnnxLayers(OnnxGraph& graph, const Model& model, bool int8) : graph_(graph), model_(model), int8_(int8) {}

  // x W + bias over the last axis: dense, or a tensor train as two products, with its diagonal.
  Value linear(const std::string& layer, const Value& x);
  // Over the last axis.
  Value norm(const std::string& layer, const Value& x);
  Value activation(Activation activation, const Value& x);
  // (batch, sequence) -> (batch, sequence, table width): rows of the token table.
  Value look_up(const Value& ids);
  // (..., table width) -> (..., vocabulary): products with all rows of the token table.
  Value decode(const Value& x);
  // A parameter as it is.
  Value parameter(const std::string& name);

 private:
  struct Weight {
    OnnxGraph::Shape shape;
    std::vector<double> values;
  };
  std::optional<Weight> find(const std::string& name) const;
  Weight get(const std::string& name) const;
  // The cores of a tensor train, with their gates; none if the layer is dense or removed.
  std::vector<Weight> cores(const std::string& layer) const;
  // The cores first .. last - 1 contracted: (r, n_1, ..., n_k, s) as one weight.
  static Weight contracted(const std::vector<Weight>& cores, std::size_t first, std::size_t last);

  // x W with W (inputs, outputs).
  Value product(const Value& x, const std::string& name, const Weight& weight);
  Value int8_product(const Value& x, const std::string& name, const Weight& weight);
  Value multiply_int8(const Value& x, const Value& weight, const Value& scales);
  Value diagonal(const std::string& layer, const Value& x, std::int64_t inputs, std::int64_t outputs);
  // A tensor-train matrix as its factors: left (rows, columns, rank), right (rows, rank, columns).
  struct TableFactors {
    Weight left, right;
  };
  TableFactors table_factors() const;
  Value reshape(const Value& x, const std::vector<std::int64_t>& shape) {
    return graph_.node("Reshape", {x, graph_.integers(shape)});
  }

  OnnxGraph& graph_;
  const Model& model_;
  bool int8_;
  std::map<Value, std::vector<Value>> rounded_;  // inputs of products in 8 bits
};

}  // namespace comera::exchange
