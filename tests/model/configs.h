#pragma once

#include "model/config.h"

namespace comera::test {

// Small models that have every part of the large ones.
inline EncoderConfig small_config(bool tensorized, HeadKind head = HeadKind::mlm,
                                  NormPlacement norm = NormPlacement::post) {
  EncoderConfig config;
  config.layers = 2;
  config.hidden = 12;
  config.heads = 3;
  config.ffn = 24;
  config.vocabulary = 29;
  config.max_positions = 16;
  config.norm = norm;
  config.head = head;
  if (head == HeadKind::regression) config.pooling = Pooling::mean;
  config.dropout = 0.2;
  config.attention_dropout = 0.2;
  config.embedding_std = 0.5;
  config.compute = DType::float64;
  if (!tensorized) return config;
  config.tensorized.attention = TTShape{{3, 4}, {4, 3}, {3, 6, 3}};
  config.tensorized.ffn_up = TTShape{{3, 4}, {4, 6}, {3, 7, 5}};
  config.tensorized.ffn_down = TTShape{{4, 6}, {4, 3}, {4, 7, 3}};
  config.tensorized.head = TTShape{{3, 4}, {4, 3}, {3, 5, 3}};
  config.tensorized.embedding = TTMShape{{4, 2, 4}, {2, 2, 3}, {5, 6}};
  return config;
}

// The same with tables of 8 columns.
inline EncoderConfig narrow_config(bool tensorized = true, HeadKind head = HeadKind::mlm,
                                   NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(tensorized, head, norm);
  config.embedding_size = 8;
  if (!tensorized) return config;
  if (head == HeadKind::mlm) config.tensorized.head = TTShape{{3, 4}, {4, 2}, {3, 5, 2}};
  config.tensorized.embedding = TTMShape{{4, 2, 4}, {2, 2, 2}, {5, 6}};
  return config;
}

// The same as small_config with a projection behind the embedding's train, which has 8 columns.
inline EncoderConfig projected_config(HeadKind head = HeadKind::mlm,
                                      NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(true, head, norm);
  config.tensorized.embedding =
      TTMShape{.row_modes = {4, 2, 4}, .column_modes = {2, 2, 2}, .ranks = {5, 6}, .projection = true};
  return config;
}

// The same as small_config with rows of their own for 9 of the 29 ids.
inline EncoderConfig frequent_config(HeadKind head = HeadKind::mlm,
                                     NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(true, head, norm);
  config.tensorized.embedding->frequent_rows = 9;
  return config;
}

// The same as small_config with a diagonal beside every train.
inline EncoderConfig diagonal_config(HeadKind head = HeadKind::mlm,
                                     NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(true, head, norm);
  for (auto* shape : {&config.tensorized.attention, &config.tensorized.ffn_up, &config.tensorized.ffn_down,
                      &config.tensorized.head})
    (*shape)->diagonal = true;
  return config;
}

// The same as small_config without some of its layers: of one block K, V and the first feed-forward layer, of
// the other all that anybody sees.
inline EncoderConfig removed_config(HeadKind head = HeadKind::mlm, NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(true, head, norm);
  for (const char* layer : {"encoder.0.attention.key", "encoder.0.attention.value", "encoder.0.ffn.up",
                            "encoder.1.attention.output", "encoder.1.ffn.down"})
    config.tensorized.ranks[layer] = {0, 0, 0};
  return config;
}

// The other way round: the last block attends without K and V and has no first feed-forward layer.
inline EncoderConfig removed_from_last(HeadKind head = HeadKind::mlm,
                                       NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(true, head, norm);
  for (const char* layer : {"encoder.1.attention.key", "encoder.1.attention.value", "encoder.1.ffn.up"})
    config.tensorized.ranks[layer] = {0, 0, 0};
  return config;
}

// Dense but for its linear layers, each a product of two factors.
inline EncoderConfig low_rank_config() {
  EncoderConfig config = small_config(false);
  config.low_rank = LowRankForm{.rank = 4};
  return config;
}

// Frozen linear layers with adapters. Micro-batches must have a multiple of four tokens.
inline EncoderConfig lte_config(HeadKind head = HeadKind::mlm, NormPlacement norm = NormPlacement::post) {
  EncoderConfig config = small_config(false, head, norm);
  config.lte = LteForm{.lora_r = 3, .lora_alpha = 6, .num_heads = 4};
  return config;
}

// The six-encoder of CoMERA's MNLI experiments.
inline EncoderConfig six_encoder() {
  EncoderConfig config;
  config.layers = 6, config.hidden = 768, config.heads = 12, config.ffn = 3072;
  config.vocabulary = 30522;
  config.head = HeadKind::classification;
  config.norm_eps = 1e-9;
  config.embedding_std = 1;
  const TTShape square{{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
  config.tensorized.attention = square;
  config.tensorized.head = square;
  config.tensorized.ffn_up = TTShape{{12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16}};
  config.tensorized.ffn_down = TTShape{{16, 16, 12}, {8, 8, 12}, {16, 30, 30, 30, 12}};
  config.tensorized.embedding = TTMShape{{16, 20, 10, 10}, {4, 4, 8, 6}, {32, 32, 32}};
  return config;
}

}  // namespace comera::test
