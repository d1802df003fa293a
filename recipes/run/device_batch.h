#pragma once

#include "data/batch.h"
#include "kernels/core/packed_batch.h"

namespace comera {

PackCapacity pack_capacity(const data::BatchCapacity& capacity);

// Copies a batch to the device. Throws Error if it is larger than the capacity.
void upload_batch(const data::Batch& from, const PackedBatch& to, Allocator& allocator, const Stream& stream);

}  // namespace comera
