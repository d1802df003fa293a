#pragma once

#include <vector>

#include "batches/packed_batch.h"

namespace comera::test {

// A batch of random tokens: sequences of the given lengths, every third token masked, labels s % classes.
// scores: of each sequence; several are 0 or 1. The capacity leaves room beyond what is used.
PackedBatch random_batch(const std::vector<int>& lengths, std::int64_t vocabulary, std::int64_t right_rows,
                         int seed = 1, std::int64_t spare_tokens = 3, std::int64_t longest = 0,
                         std::int64_t scores = 1);

}  // namespace comera::test
