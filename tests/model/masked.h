#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "tensorized/ranked_layer.h"

namespace comera::test {

// Kills entries of gates in a float64 model on the host, by hand: with the entry go its slices of both
// neighbouring cores, and the same of the states (an optimizer's moments).
class Executioner {
 public:
  Executioner(const ParameterStore& store, const std::vector<Tensor>& states = {}) : store_(store) {
    flat_.push_back(store.values());
    flat_.insert(flat_.end(), states.begin(), states.end());
  }

  void kill(const RankedLayer& layer, std::size_t bond, std::int64_t entry) const {
    for (const Tensor& flat : flat_) {
      zero_column(flat, layer.gates[bond], entry);
      zero_column(flat, layer.cores[bond], entry);
      zero_row(flat, layer.cores[bond + 1], entry);
    }
  }
  void kill(const RankedLayer& layer) const {
    for (std::size_t bond = 0; bond < layer.gates.size(); ++bond)
      for (std::int64_t i = 0; i < rank(layer, bond); ++i) kill(layer, bond, i);
  }
  std::int64_t rank(const RankedLayer& layer, std::size_t bond) const {
    return store_.info(layer.gates[bond]).shape[0];
  }

 private:
  double* data(const Tensor& flat, ParameterId id) const { return flat.data<double>() + store_.offset(id); }
  void zero_column(const Tensor& flat, ParameterId id, std::int64_t column) const {
    const Shape& shape = store_.info(id).shape;
    for (std::int64_t i = column; i < shape.elements(); i += shape[-1]) data(flat, id)[i] = 0;
  }
  void zero_row(const Tensor& flat, ParameterId id, std::int64_t row) const {
    const Shape& shape = store_.info(id).shape;
    const std::int64_t length = shape.elements() / shape[0];
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i) data(flat, id)[i] = 0;
  }

  const ParameterStore& store_;
  std::vector<Tensor> flat_;
};

// Gates as training might leave them, but none of them 0.
inline void spread_gates(const ParameterStore& store) {
  for (ParameterId id = 0; id < store.size(); ++id) {
    if (store.info(id).role != ParameterRole::gate) continue;
    std::vector<double> gate(store.value(id).elements());
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = 0.6 + 0.2 * static_cast<double>(i % 4);
    write_tensor(store.value(id), gate);
  }
}

// ‖a - b‖ / ‖b‖, where a gradient that is nothing but rounding counts as 0.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    squares += (a.at(i) - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(squares) / std::max(std::sqrt(norm), 1e-2);
}

}  // namespace comera::test
