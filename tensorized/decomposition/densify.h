#pragma once

#include <vector>

#include "tensorized/decomposition/tt_chain.h"
#include "tensorized/embedding/ttm_chain.h"

namespace comera {

// The matrices that tensor trains represent, gates included, computed on the host in double, row-major: for
// consumers that cannot use cores.

// a (rows, inner) b (inner, columns).
std::vector<double> matrix_product(const std::vector<double>& a, const std::vector<double>& b,
                                   std::int64_t rows, std::int64_t inner, std::int64_t columns);

// (inputs, outputs); zeros if the layer is removed.
std::vector<double> densify(const ParameterStore& store, const TTCores& train);
// The first `rows` rows of the table (rows, columns).
std::vector<double> densify(const ParameterStore& store, const TTMCores& train, std::int64_t rows);

// The cores with each gate multiplied into the last axis of the core before it: the same matrix without
// gates.
std::vector<std::vector<double>> cores_with_gates(const ParameterStore& store,
                                                  const std::vector<ParameterId>& cores,
                                                  const std::vector<ParameterId>& gates);

}  // namespace comera
