#pragma once

#include <vector>

#include "kernels/ops/processor.h"
#include "model/dlrm/config.h"
#include "optim/optimizer.h"

namespace comera::test {

// The losses of steps of two micro-batches each of a DLRM with the tables and numeric features of
// small_dlrm(), on batches that depend on nothing else.
std::vector<double> click_trace(const DlrmConfig& config, const Processor& processor, int steps = 10,
                                const OptimizerOptions& optimizer = {});

}  // namespace comera::test
