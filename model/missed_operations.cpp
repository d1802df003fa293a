#include "model/missed_operations.h"

#include <functional>
#include <optional>
#include <utility>

#include "model/model.h"

namespace comera {

std::vector<MissedOperation> Model::missed_operations(const MachineModel& gpu,
                                                      const MicroBatchCapacity& micro_batch) const {
  const std::int64_t tokens = micro_batch.tokens, longest = micro_batch.longest;
  const std::optional<RowSubset> read = head().reads(PackedBatch::measuring(micro_batch));
  const auto rows_read_of = [&](std::size_t block) {
    const RowSubset* early = network_.rows_of(block, read && network_.reads_early() ? &*read : nullptr);
    return early ? early->most : tokens;
  };
  using Reason = std::function<std::optional<std::string>(const EncoderBlock&, std::int64_t rows)>;
  const std::pair<const char*, Reason> operations[] = {
      {"attention between the factors",
       [&](const EncoderBlock& block, std::int64_t rows) {
         return block.attention().why_not_between_factors(gpu, tokens, longest, rows);
       }},
      {"feed-forward network in one pass",
       [&](const EncoderBlock& block, std::int64_t rows) {
         return block.ffn().why_not_in_one_pass(gpu, rows);
       }},
      {"inner tensor of the feed-forward network in registers",
       [&](const EncoderBlock& block, std::int64_t rows) {
         return block.ffn().why_inner_is_stored(gpu, rows);
       }},
  };
  std::vector<MissedOperation> missed;
  for (const auto& [operation, why] : operations)
    for (std::size_t i = 0; i < network_.blocks().size(); ++i)
      if (const std::optional<std::string> reason = why(*network_.blocks()[i], rows_read_of(i)))
        missed.push_back({operation, static_cast<std::int64_t>(i), *reason});
  return missed;
}

}  // namespace comera
