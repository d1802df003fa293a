#pragma once

#include "data/clicks/click_batch.h"
#include "model/dlrm/dlrm.h"

namespace comera::test {

// Three tables of widths of 4, two layers at the bottom and at the top; in double precision.
DlrmConfig small_dlrm(bool tensorized, BagPooling pooling = BagPooling::sum);

// Bags of 0 to 4 ids, some of them twice. The batch has room for two more.
data::Clicks some_clicks(const DlrmConfig& config, const std::vector<std::int64_t>& right_rows, int examples,
                         std::uint32_t seed = 3);

}  // namespace comera::test
