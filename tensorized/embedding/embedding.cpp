#include "tensorized/embedding/embedding.h"

#include "tensorized/embedding/dense_embedding.h"
#include "tensorized/embedding/projected_embedding.h"
#include "tensorized/embedding/ttm_embedding.h"

namespace comera {

std::unique_ptr<Embedding> make_embedding(ParameterStore& store, const std::string& name,
                                          std::int64_t vocabulary, std::int64_t width, double deviation,
                                          const std::optional<TTMShape>& shape, LookupKind lookup,
                                          DecoderKind decoder) {
  if (!shape) return std::make_unique<DenseEmbedding>(store, name, vocabulary, width, deviation);
  shape->validate(name, vocabulary, width);
  auto train = std::make_unique<TTMEmbedding>(store, name, vocabulary, *shape, deviation, lookup, decoder);
  if (!shape->projection) return train;
  return std::make_unique<ProjectedEmbedding>(store, name, std::move(train), shape->columns(), width);
}

}  // namespace comera
