#pragma once

#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "tensorized/decomposition/tt_chain.h"
#include "tensorized/embedding/ttm_chain.h"

namespace comera::test {

// Every entry of a tensor train's matrix straight from the definition: the product of the cores' slices, each
// followed by its gate. (inputs, outputs), row-major.
inline std::vector<double> by_definition(const ParameterStore& store, const TTCores& train) {
  const TTShape& shape = train.shape;
  if (shape.removed()) return std::vector<double>(shape.input_size() * shape.output_size(), 0);
  std::vector<double> matrix;
  for (std::int64_t entry = 0; entry < shape.input_size() * shape.output_size(); ++entry) {
    std::int64_t rest = entry;
    std::vector<std::int64_t> index(shape.order());
    for (int k = shape.order() - 1; k >= 0; --k) {
      index[k] = rest % shape.mode(k);
      rest /= shape.mode(k);
    }
    std::vector<double> row{1};
    for (int k = 0; k < shape.order(); ++k) {
      std::vector<double> next(shape.rank(k + 1), 0);
      const double* core = store.value(train.cores[k]).data<double>();
      for (std::int64_t a = 0; a < shape.rank(k); ++a)
        for (std::int64_t b = 0; b < shape.rank(k + 1); ++b)
          next[b] += row[a] * core[(a * shape.mode(k) + index[k]) * shape.rank(k + 1) + b];
      if (k + 1 < shape.order())
        for (std::int64_t b = 0; b < shape.rank(k + 1); ++b)
          next[b] *= store.value(train.gates[k]).data<double>()[b];
      row = next;
    }
    matrix.push_back(row[0]);
  }
  return matrix;
}

// The same for a tensor-train matrix: (rows, columns).
inline std::vector<double> by_definition(const ParameterStore& store, const std::string& name,
                                         const TTMShape& shape) {
  std::vector<double> table;
  for (std::int64_t id = 0; id < shape.rows(); ++id)
    for (std::int64_t column = 0; column < shape.columns(); ++column) {
      std::vector<std::int64_t> i(shape.order()), j(shape.order());
      std::int64_t rest_i = id, rest_j = column;
      for (int k = shape.order() - 1; k >= 0; --k) {
        i[k] = rest_i % shape.row_modes[k];
        rest_i /= shape.row_modes[k];
        j[k] = rest_j % shape.column_modes[k];
        rest_j /= shape.column_modes[k];
      }
      std::vector<double> row{1};
      for (int k = 0; k < shape.order(); ++k) {
        std::vector<double> next(shape.rank(k + 1), 0);
        const double* core = store.value(*store.find(fmt::format("{}.core.{}", name, k))).data<double>();
        for (std::int64_t a = 0; a < shape.rank(k); ++a)
          for (std::int64_t b = 0; b < shape.rank(k + 1); ++b)
            next[b] +=
                row[a] *
                core[((a * shape.row_modes[k] + i[k]) * shape.column_modes[k] + j[k]) * shape.rank(k + 1) +
                     b];
        if (k + 1 < shape.order()) {
          const double* gate = store.value(*store.find(fmt::format("{}.gate.{}", name, k))).data<double>();
          for (std::int64_t b = 0; b < shape.rank(k + 1); ++b) next[b] *= gate[b];
        }
        row = next;
      }
      table.push_back(row[0]);
    }
  if (shape.frequent_rows > 0)
    std::ranges::copy(read_tensor(store.value(*store.find(name + ".frequent"))), table.begin());
  return table;
}

// Gates as training might leave them: different from one another, one of them zero.
inline void disturb_gates(ParameterStore& store) {
  for (ParameterId id = 0; id < store.size(); ++id) {
    if (store.info(id).role != ParameterRole::gate) continue;
    double* gate = store.value(id).data<double>();
    for (std::int64_t i = 0; i < store.value(id).elements(); ++i)
      gate[i] = 0.5 + 0.3 * static_cast<double>(i % 4);
    if (store.value(id).elements() > 2) gate[1] = 0;
  }
}

}  // namespace comera::test
