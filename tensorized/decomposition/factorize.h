#pragma once

#include <optional>

#include "tensorized/decomposition/shapes.h"

namespace comera {

// A shape with the given number of cores for a table of any height; rows beyond the table are padding. The
// column modes are as equal as the width's factors allow. Among all row modes with equal middle ones, the
// shape with the fewest parameters is chosen. Middle cores have rank² parameters for each row and column and
// outer cores only rank, so outer modes are larger. Ranks are `rank`, or the largest possible ones where that
// is too many. None if the dense table has no more parameters. Cores must be from 2 to 6.
std::optional<TTMShape> factorize_table(std::int64_t rows, std::int64_t width, int cores, std::int64_t rank);

// The same for a linear layer: two modes on each side, as equal as its factors allow, or one mode where the
// size cannot be factored.
std::optional<TTShape> factorize_layer(std::int64_t inputs, std::int64_t outputs, std::int64_t rank);

}  // namespace comera
