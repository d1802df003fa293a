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

// A deep learning recommendation model (DLRM: Naumov et al., 2019). Numbers go through the bottom layers and
// become a vector as wide as the rows of the tables; of each table the rows of a bag of ids are pooled; the
// products of all pairs of these vectors go with the first one through the top layers, whose only output is
// the logit of a click. All layers but the last have ReLU.
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

  std::int64_t numbers = 13;  // of an example; 0: the first vector is 0 for all of them
  std::int64_t width = 16;    // of rows, and of the last bottom layer's output
  std::vector<Layer> bottom;  // the last one's outputs are `width`; none without numbers
  std::vector<Layer> top;     // the last one's output is 1
  std::vector<Table> tables;
  BagPooling pooling = BagPooling::sum;
  LookupKind lookup = LookupKind::factors;
  PlanKind plan = PlanKind::automatic;
  // Standard deviation of rows at the start. 0: 1 / √(3 rows) of each table, as the published program's
  // uniform numbers between ± 1 / √rows have.
  double embedding_deviation = 0;
  // A step changes only the rows of dense tables that it looks up, as SparseAdam does, instead of all of
  // them.
  bool sparse_updates = false;
  DType compute = DType::float32;

  std::int64_t features() const;  // inputs of the top layers
  double deviation_of(const Table& table) const;
  // Throws Error with a sentence that says what does not fit.
  void validate() const;
  friend bool operator==(const DlrmConfig&, const DlrmConfig&) = default;
};

// The same model with dense tables and layers.
DlrmConfig dense_baseline(DlrmConfig config);

// Of each table.
std::vector<std::int64_t> rows_of(const DlrmConfig& config);

// "table.3", "bottom.0", "top.2": the parameters' names begin so.
std::string table_name(std::size_t table);
std::string bottom_name(std::size_t layer);
std::string top_name(std::size_t layer);

// A table or a linear layer of a model that need not be there.
struct DlrmLayer {
  std::string name;
  std::int64_t inputs = 0, outputs = 0;  // of a table: its rows and their width
  bool is_table = false;
  std::string shape = {};                // of a tensor train, as text
  std::vector<std::int64_t> modes = {};  // of its cores; row and column mode of a table multiplied
  std::vector<std::int64_t> ranks = {};

  std::int64_t parameters() const;  // without gates, with the bias
  std::int64_t dense_parameters() const;
};
// In forward order: bottom, tables, top.
std::vector<DlrmLayer> layers_of(const DlrmConfig& config);

// Tables stay, and the only way to the answer is through all top layers.
ModelTensorTrains trains_of(const DlrmConfig& config);
// Elements of all parameters of the dense baseline.
std::int64_t dense_parameters(const DlrmConfig& config);

}  // namespace comera
