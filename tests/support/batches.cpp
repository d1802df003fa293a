#include "tests/support/batches.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace comera::test {

PackedBatch random_batch(const std::vector<int>& lengths, std::int64_t vocabulary, std::int64_t right_rows,
                         int seed, std::int64_t spare_tokens, std::int64_t longest, std::int64_t scores) {
  const int tokens = std::accumulate(lengths.begin(), lengths.end(), 0);
  const int sequences = static_cast<int>(lengths.size());
  MicroBatchCapacity capacity{.tokens = tokens + spare_tokens,
                              .sequences = sequences + 1,
                              .longest = std::max<std::int64_t>(longest, *std::ranges::max_element(lengths)),
                              .masked = (tokens + 2) / 3 + 2,
                              .unique_ids = tokens + spare_tokens,
                              .scores = scores};
  PackedBatch batch(host_allocator(), capacity);
  std::mt19937 engine(seed);
  const auto data = [](const Tensor& tensor) { return tensor.data<std::int32_t>(); };
  int row = 0, masked = 0;
  for (int s = 0; s < sequences; ++s) {
    data(batch.sequence_offsets)[s] = row;
    data(batch.labels)[s] = s % 3;
    for (std::int64_t i = 0; i < scores; ++i)
      batch.scores.data<float>()[s * scores + i] =
          scores > 1 ? static_cast<float>((s + 2 * i) % 3 == 0) : static_cast<float>(s % 4) - 1.5F;
    for (int i = 0; i < lengths[s]; ++i, ++row) {
      data(batch.token_ids)[row] = static_cast<int>(engine() % vocabulary);
      data(batch.position_ids)[row] = i;
      data(batch.type_ids)[row] = i > lengths[s] / 2;
      if (row % 3 == 0) {
        data(batch.masked_positions)[masked] = row;
        data(batch.masked_targets)[masked++] = static_cast<int>(engine() % vocabulary);
      }
    }
  }
  for (std::int64_t s = sequences; s <= capacity.sequences; ++s) data(batch.sequence_offsets)[s] = row;
  const std::set<int> ids(data(batch.token_ids), data(batch.token_ids) + tokens);
  int unique = 0, place = 0;
  for (int id : ids) {
    data(batch.unique_ids)[unique] = id;
    data(batch.unique_offsets)[unique] = place;
    for (int t = 0; t < tokens; ++t)
      if (data(batch.token_ids)[t] == id) {
        data(batch.unique_index)[t] = unique;
        data(batch.unique_order)[place++] = t;
      }
    data(batch.right_order)[unique] = unique;
    ++unique;
  }
  for (std::int64_t u = unique; u <= capacity.unique_ids; ++u) data(batch.unique_offsets)[u] = place;
  if (right_rows > 0)
    std::stable_sort(data(batch.right_order), data(batch.right_order) + unique, [&](int a, int b) {
      return data(batch.unique_ids)[a] % right_rows < data(batch.unique_ids)[b] % right_rows;
    });
  data(batch.counts)[0] = tokens;
  data(batch.counts)[1] = sequences;
  data(batch.counts)[2] = masked;
  data(batch.counts)[3] = unique;
  data(batch.counts)[4] = sequences;
  data(batch.counts)[5] = sequences * static_cast<int>(scores);
  return batch;
}

}  // namespace comera::test
