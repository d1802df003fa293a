#include "distributed/gradient_sum.h"

#include <algorithm>

namespace comera {

namespace {

// Bytes: tensors of a store begin at multiples of it, with zeros between them.
constexpr std::int64_t alignment = 64;

// Whether `range` is directly before `after`, with no tensor between them.
bool precedes(const ParameterRange& range, const ParameterRange& after, DType dtype) {
  const std::int64_t gap = after.begin - (range.begin + range.count);
  return gap >= 0 && gap * static_cast<std::int64_t>(size_of(dtype)) < alignment;
}

}  // namespace

bool GradientSum::overlaps() const {
  return gradients_.device().kind != DeviceKind::cuda ||
         static_cast<std::int64_t>(gradients_.bytes()) >= least_overlapping;
}

void GradientSum::ready(const std::vector<ParameterRange>& ranges, const Stream& stream) {
  for (const ParameterRange& range : ranges) {
    const auto neighbour = std::ranges::find_if(
        pending_, [&](const ParameterRange& other) { return precedes(range, other, gradients_.dtype()); });
    if (neighbour == pending_.end()) {
      pending_.push_back(range);
    } else {
      neighbour->count += neighbour->begin - range.begin;
      neighbour->begin = range.begin;
    }
  }
  std::int64_t elements = 0;
  for (const ParameterRange& range : pending_) elements += range.count;
  if (elements * static_cast<std::int64_t>(size_of(gradients_.dtype())) >= bucket_bytes_)
    communicator_.together(stream, [&] { flush(stream); });
}

void GradientSum::flush(const Stream& stream) {
  if (!overlaps()) return communicator_.begin_sum(gradients_, stream);
  for (const ParameterRange& range : pending_)
    communicator_.begin_sum(gradients_.slice(range.begin, {range.count}), stream);
  pending_.clear();
}

}  // namespace comera
