#include "model/config.h"

#include "kernels/core/check.h"

namespace comera {

void EncoderConfig::validate() const {
  const auto positive = [](const char* key, std::int64_t value) {
    COMERA_CHECK(value > 0, "model.{} must be positive, not {}", key, value);
  };
  positive("layers", layers);
  positive("hidden", hidden);
  positive("heads", heads);
  positive("ffn", ffn);
  positive("vocabulary", vocabulary);
  positive("max_positions", max_positions);
  positive("types", types);
  positive("classes", classes);
  COMERA_CHECK(hidden % heads == 0, "model.hidden = {} is not divisible by model.heads = {}", hidden, heads);
  COMERA_CHECK(dropout >= 0 && dropout < 1, "model.dropout must be at least 0 and less than 1, not {}",
               dropout);
  COMERA_CHECK(attention_dropout >= 0 && attention_dropout < 1,
               "model.attention_dropout must be at least 0 and less than 1, not {}", attention_dropout);
  COMERA_CHECK(norm_eps > 0, "model.norm_eps must be positive, not {}", norm_eps);
  COMERA_CHECK(embedding_std > 0, "model.embedding_std must be positive, not {}", embedding_std);
  if (tensorized.attention) tensorized.attention->validate("tensorized.attention", hidden, hidden);
  if (tensorized.ffn_up) tensorized.ffn_up->validate("tensorized.ffn_up", hidden, ffn);
  if (tensorized.ffn_down) tensorized.ffn_down->validate("tensorized.ffn_down", ffn, hidden);
  if (tensorized.head) tensorized.head->validate("tensorized.head", hidden, hidden);
  if (tensorized.embedding) tensorized.embedding->validate("tensorized.embedding", vocabulary, hidden);
}

EncoderConfig EncoderConfig::dense_twin() const {
  EncoderConfig twin = *this;
  const LookupKind lookup = tensorized.lookup;
  twin.tensorized = {};
  twin.tensorized.lookup = lookup;
  return twin;
}

}  // namespace comera
