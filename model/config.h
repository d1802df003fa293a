#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/core/dtype.h"
#include "tensorized/kinds.h"
#include "tensorized/shapes.h"

namespace comera {

enum class NormPlacement : std::uint8_t { post, pre };
enum class HeadKind : std::uint8_t { mlm, classification, regression };
// Which layers are tensor trains. Each one that is absent is dense.
struct TensorizedConfig {
  std::optional<TTShape> attention;  // Q, K, V and O
  std::optional<TTShape> ffn_up;
  std::optional<TTShape> ffn_down;
  std::optional<TTShape> head;  // the pooler of a classifier or the transform of an MLM head
  std::optional<TTMShape> embedding;
  LookupKind lookup = LookupKind::halves;
  PlanKind plan = PlanKind::automatic;
};

struct EncoderConfig {
  std::int64_t layers = 6;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t ffn = 3072;
  std::int64_t vocabulary = 30522;
  std::int64_t max_positions = 512;
  std::int64_t types = 2;
  NormPlacement norm = NormPlacement::post;
  double norm_eps = 1e-12;
  double dropout = 0.1;            // after the embedding, attention output and feed-forward
  double attention_dropout = 0.1;  // on attention probabilities
  HeadKind head = HeadKind::mlm;
  std::int64_t classes = 3;  // of a classification head
  double embedding_std = 0.02;
  TensorizedConfig tensorized;
  DType compute = DType::float32;  // float64 is the oracle's type

  // Of a head on the first token: logits per sequence, or 1 score.
  std::int64_t sequence_outputs() const { return head == HeadKind::classification ? classes : 1; }

  // Throws Error in one sentence on anything impossible, such as hidden not divisible by heads.
  void validate() const;
  // The same model with every layer dense.
  EncoderConfig dense_twin() const;
};

}  // namespace comera
