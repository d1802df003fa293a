#pragma once

#include <optional>

#include "tensorized/decomposition/shapes.h"

namespace comera {

// A shape of so many cores for a table of any height, with rows beyond it as padding: the column modes are as
// equal as the width's factors allow; of all row modes whose middle ones are equal, those with the fewest
// numbers. Middle cores have rank² numbers for each row and column, outer ones rank, so that outer modes are
// the larger ones. Ranks are `rank`, or the largest possible ones where that is too many. None if the dense
// table has no more numbers. Cores must be from 2 to 6.
std::optional<TTMShape> factorize_table(std::int64_t rows, std::int64_t width, int cores, std::int64_t rank);

// The same of a linear layer: two modes on each side, as equal as its factors allow, or one where it has
// none.
std::optional<TTShape> factorize_layer(std::int64_t inputs, std::int64_t outputs, std::int64_t rank);

}  // namespace comera
