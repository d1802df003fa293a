#include "kernels/cpu/plain/plain_backend.h"

namespace comera {

namespace plain {

void register_all(Backend& backend) {
  register_products(backend);
  register_attention(backend);
  register_norms(backend);
  register_embedding(backend);
  register_rotary(backend);
  register_ttm(backend);
  register_cross_entropy(backend);
  register_elementwise(backend);
  register_float8(backend);
  register_sequence(backend);
  register_directions(backend);
  register_muon(backend);
  register_optimizer(backend);
  register_ranks(backend);
}

}  // namespace plain

const Backend& plain_backend() {
  static const Backend backend = [] {
    Backend table("plain", Device{});
    plain::register_all(table);
    return table;
  }();
  return backend;
}

}  // namespace comera
