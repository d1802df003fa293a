#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/tensors/dtype.h"
#include "model/rank_sizes.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/linear/kinds.h"

namespace comera {

enum class BagPooling : std::uint8_t { sum, mean };

// A deep learning recommendation model (DLRM: Naumov et al., 2019). The bottom layers turn an example's
// numeric features into a vector as wide as the tables' rows. From each table, the rows of a bag of ids are
// pooled into a vector. The products of all pairs of these vectors, together with the first vector, enter the
// top layers, whose only output is the logit of a click. All layers but the last have ReLU.
struct DlrmConfig {
  struct Table {
    std::int64_t rows = 0;
    std::optional<TTMShape> train;  // dense if there is none
    friend bool operator==(const Table&, const Table&) = default;
  };
  struct Layer {
    std::int64_t outputs = 0;
    std::optional<TTShape> train;  // dense if there is none
    friend bool operator==(const Layer&, const Layer&) = default;
  };

  std::int64_t dense_features = 13;  // numeric features per example; 0: the first vector is 0
  std::int64_t width = 16;           // of table rows, and of the last bottom layer's output
  std::vector<Layer> bottom;         // the last layer's outputs are `width`; empty without numeric features
  std::vector<Layer> top;            // the last layer has 1 output
  std::vector<Table> tables;
  BagPooling pooling = BagPooling::sum;
  LookupKind lookup = LookupKind::factors;
  PlanKind plan = PlanKind::automatic;
  // Initial standard deviation of rows. 0: 1 / √(3 rows) of each table, that of the published program's
  // uniform distribution between ± 1 / √rows.
  double embedding_deviation = 0;
  // A step updates only the rows of dense tables that it looks up, as SparseAdam does, instead of all rows.
  bool sparse_updates = false;
  DType compute = DType::float32;

  std::int64_t features() const;  // inputs of the top layers
  double deviation_of(const Table& table) const;
  // Throws Error with a sentence that names the inconsistency.
  void validate() const;
  friend bool operator==(const DlrmConfig&, const DlrmConfig&) = default;
};

// The same model with dense tables and layers.
DlrmConfig dense_baseline(DlrmConfig config);

// Rows of each table.
std::vector<std::int64_t> rows_of(const DlrmConfig& config);

// "table.3", "bottom.0", "top.2": prefixes of the parameters' names.
std::string table_name(std::size_t table);
std::string bottom_name(std::size_t layer);
std::string top_name(std::size_t layer);

// A table or a linear layer, described without constructing the model.
struct DlrmLayer {
  std::string name;
  std::int64_t inputs = 0, outputs = 0;  // of a table: its rows and width
  bool is_table = false;
  std::string shape = {};                // of a tensor train, as text
  std::vector<std::int64_t> modes = {};  // of its cores; for a table, row mode times column mode
  std::vector<std::int64_t> ranks = {};

  std::int64_t parameters() const;  // without gates, with the bias
  std::int64_t dense_parameters() const;
};
// All of them, in forward order: bottom, tables, top.
std::vector<DlrmLayer> layers_of(const DlrmConfig& config);

// Tables always stay; all top layers are needed to reach the output.
ModelTensorTrains trains_of(const DlrmConfig& config);
// Elements of all parameters of the dense baseline.
std::int64_t dense_parameters(const DlrmConfig& config);

}  // namespace comera
