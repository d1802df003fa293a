#pragma once

#include "data/batch.h"
#include "kernels/core/packed_batch.h"

namespace comera {

PackCapacity pack_capacity(const data::BatchCapacity& capacity);

// Sends a batch to a device: the feed's place is the block of a PackedBatch of that capacity. Throws Error if
// it is larger.
void send_batch(const data::Batch& batch, const PackCapacity& capacity, Feed& feed);

}  // namespace comera
