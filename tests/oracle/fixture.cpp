#include "tests/oracle/fixture.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "data/batching/batch.h"
#include "storage/hdf5.h"

namespace comera::test {
namespace {

using storage::hdf5::File;

TTShape read_train(const File& file, const std::string& path) {
  return {file.int64_list_attribute(path, "input_modes"), file.int64_list_attribute(path, "output_modes"),
          file.int64_list_attribute(path, "ranks"), file.int64_attribute(path, "diagonal") != 0};
}

EncoderConfig read_config(const File& file, const std::string& path) {
  EncoderConfig config;
  config.layers = file.int64_attribute(path, "layers");
  config.hidden = file.int64_attribute(path, "hidden");
  config.embedding_size = file.int64_attribute(path, "embedding_size");
  config.heads = file.int64_attribute(path, "heads");
  config.ffn = file.int64_attribute(path, "ffn");
  config.vocabulary = file.int64_attribute(path, "vocabulary");
  config.max_positions = file.int64_attribute(path, "max_positions");
  config.types = file.int64_attribute(path, "types");
  config.classes = file.int64_attribute(path, "classes");
  config.norm = file.string_attribute(path, "norm") == "post" ? NormPlacement::post : NormPlacement::pre;
  config.head = file.string_attribute(path, "head") == "mlm" ? HeadKind::mlm : HeadKind::classification;
  config.norm_eps = file.double_attribute(path, "norm_eps");
  const std::string positions = file.string_attribute(path, "positions");
  config.positions = positions == "rotary"     ? Positions::rotary
                     : positions == "relative" ? Positions::relative
                                               : Positions::learned;
  config.rotary_theta = file.double_attribute(path, "rotary_theta");
  config.dropout = 0;
  config.attention_dropout = 0;
  if (!file.exists(path + "/embedding")) return config;
  config.tensorized.attention = read_train(file, path + "/attention");
  config.tensorized.ffn_up = read_train(file, path + "/ffn_up");
  config.tensorized.ffn_down = read_train(file, path + "/ffn_down");
  config.tensorized.head = read_train(file, path + "/head");
  const std::string table = path + "/embedding";
  config.tensorized.embedding = TTMShape{
      file.int64_list_attribute(table, "row_modes"), file.int64_list_attribute(table, "column_modes"),
      file.int64_list_attribute(table, "ranks"), file.int64_attribute(table, "projection") != 0};
  return config;
}

OracleCase::Sequences read_sequences(const File& file, const std::string& path) {
  const auto read = [&](const char* name) { return file.read<std::int32_t>(path + "/" + name); };
  return {.lengths = read("lengths"),
          .ids = read("ids"),
          .types = read("types"),
          .positions = read("positions"),
          .masked_rows = read("masked_rows"),
          .masked_targets = read("masked_targets"),
          .labels = read("labels")};
}

}  // namespace

OracleCase read_oracle(const std::string& name) {
  const File file = File::open(ORACLE_FIXTURE);
  const std::string path = "/" + name, optimizer = path + "/optimizer";
  OracleCase oracle;
  oracle.config = read_config(file, path + "/config");
  oracle.sequences = read_sequences(file, path + "/batch");
  std::istringstream table(file.string_attribute(path, "parameters"));
  for (OracleCase::Parameter parameter; table >> parameter.name >> parameter.role >> parameter.shape;)
    oracle.parameters.push_back(parameter);
  oracle.optimizer = {.beta1 = file.double_attribute(optimizer, "beta1"),
                      .beta2 = file.double_attribute(optimizer, "beta2"),
                      .eps = file.double_attribute(optimizer, "eps"),
                      .weight_decay = file.double_attribute(optimizer, "weight_decay"),
                      .decay_cores = file.int64_attribute(optimizer, "decay_cores") != 0};
  oracle.rates = {.cores = file.double_attribute(optimizer, "rate_core"),
                  .gates = file.double_attribute(optimizer, "rate_gate"),
                  .other = file.double_attribute(optimizer, "rate_dense")};
  oracle.max_norm = file.double_attribute(optimizer, "max_norm");
  oracle.initial = file.read<double>(path + "/initial");
  oracle.hidden = file.read<double>(path + "/hidden");
  oracle.logits = file.read<double>(path + "/logits");
  oracle.loss_sum = file.double_attribute(path, "loss_sum");
  oracle.correct = file.int64_attribute(path, "correct");
  oracle.gradient = file.read<double>(path + "/gradient");
  oracle.gradient_norms = file.read<double>(optimizer + "/gradient_norms");
  const storage::hdf5::Dataset steps = file.dataset(path + "/after_steps");
  for (std::int64_t step = 0; step < steps.rows(); ++step)
    oracle.after_steps.push_back(steps.read_rows<double>(step, 1));
  return oracle;
}

PackedBatch micro_batch(const OracleCase& oracle, std::int64_t right_rows) {
  const OracleCase::Sequences& from = oracle.sequences;
  const auto tokens = static_cast<std::int64_t>(from.ids.size());
  const auto sequences = static_cast<std::int64_t>(from.lengths.size());
  const auto masked = static_cast<std::int64_t>(from.masked_rows.size());
  const MicroBatchCapacity capacity{.tokens = tokens + 3,
                                    .sequences = sequences + 2,
                                    .longest = *std::ranges::max_element(from.lengths) + 1,
                                    .masked = masked + 2,
                                    .unique_ids = tokens + 3};
  data::Batch host(capacity);
  std::int32_t row = 0;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int32_t length = from.lengths[s];
    std::vector<std::int32_t> places, targets;
    for (std::int64_t i = 0; i < masked; ++i)
      if (from.masked_rows[i] >= row && from.masked_rows[i] < row + length) {
        places.push_back(from.masked_rows[i] - row);
        targets.push_back(from.masked_targets[i]);
      }
    host.add_sequence(&from.ids[row], &from.types[row], length, places, targets, from.labels[s]);
    row += length;
  }
  finish_batch(host, right_rows);
  std::ranges::copy(from.positions, host.position_ids.begin());  // one sequence does not start at 0

  PackedBatch batch(host_allocator(), capacity);
  std::memcpy(batch.block(), host.block().data(), host.block().size());
  return batch;
}

}  // namespace comera::test
