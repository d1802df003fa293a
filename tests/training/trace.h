#pragma once

#include <vector>

#include "kernels/ops/processor.h"
#include "model/config.h"

namespace comera::test {

// The losses of ten steps of two packs each, with dropout, on batches that depend on nothing else. The model
// must have 29 token ids and 16 positions, and the masked-language head.
std::vector<double> trace(EncoderConfig config, const Processor& processor);

}  // namespace comera::test
