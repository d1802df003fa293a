#pragma once

#include <cstdint>

#include "batches/lookup_ids.h"

namespace comera::data {

// Fills unique_*, right_order and unique_count of a lookup on the host from ids [0, count), and the entries
// after them as LookupIds requires. unique_order has indices of ids, sorted stably by id. right_rows: of a
// TTM (id % right_rows is the index of the right row); 0: right_order is the identity. `what` names the ids
// in errors: Error if one is negative, or if more distinct ids occur than fit. Returns the number of distinct
// ids.
std::int32_t order_ids(const LookupIds& lookup, std::int64_t count, std::int64_t right_rows,
                       const char* what);

}  // namespace comera::data
