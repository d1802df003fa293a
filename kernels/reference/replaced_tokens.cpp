#include "kernels/ops/lookups/replaced_tokens.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

std::span<std::int32_t> ints(const Tensor& tensor) {
  return {tensor.data<std::int32_t>(), static_cast<std::size_t>(tensor.elements())};
}

void replace_tokens(const ReplaceTokens& op, const KernelContext&) {
  const std::span<std::int32_t> y = ints(op.y);
  std::ranges::copy(ints(op.token_ids), y.begin());
  std::fill_n(op.replaced.data<float>(), y.size(), 0.F);
  for (std::int32_t p = 0; p < *op.count.data<std::int32_t>(); ++p) {
    const std::int32_t row = ints(op.positions)[p], drawn = ints(op.drawn)[p];
    y[row] = drawn;
    op.replaced.data<float>()[row] = drawn == ints(op.targets)[p] ? 0.F : 1.F;
  }
}

void order_ids(const OrderIds& op, const KernelContext&) {
  const std::span<std::int32_t> ids = ints(op.ids), order = ints(op.unique_order),
                                index = ints(op.unique_index), unique_ids = ints(op.unique_ids),
                                offsets = ints(op.unique_offsets), right = ints(op.right_order);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (const std::span<std::int32_t> out : {order, index, unique_ids, right}) std::ranges::fill(out, 0);
  std::ranges::fill(offsets, count);
  const std::span<std::int32_t> real = order.first(count);
  std::iota(real.begin(), real.end(), 0);
  std::ranges::stable_sort(real, {}, [&](std::int32_t row) { return ids[row]; });
  std::int32_t unique = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t id = ids[order[i]];
    if (i == 0 || id != unique_ids[unique - 1]) {
      offsets[unique] = i;
      unique_ids[unique++] = id;
    }
    index[order[i]] = unique - 1;
  }
  const std::span<std::int32_t> some = right.first(unique);
  std::iota(some.begin(), some.end(), 0);
  if (op.right_rows > 0)
    std::ranges::stable_sort(some, {}, [&](std::int32_t i) { return unique_ids[i] % op.right_rows; });
  *op.unique_count.data<std::int32_t>() = unique;
}

}  // namespace

void register_replaced_tokens(Backend& backend) {
  for (const DType type : {DType::float32, DType::float64}) {
    backend.set<ReplaceTokens>(type, replace_tokens);
    backend.set<OrderIds>(type, order_ids);
  }
}

}  // namespace comera::reference
