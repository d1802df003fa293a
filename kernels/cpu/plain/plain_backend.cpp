#include "kernels/cpu/plain/plain_backend.h"

namespace comera {

const Backend& plain_backend() {
  static const Backend backend = [] {
    Backend table("plain", Device{});
    plain::register_products(table);
    plain::register_attention(table);
    plain::register_norms(table);
    plain::register_embedding(table);
    plain::register_rotary(table);
    plain::register_ttm(table);
    plain::register_cross_entropy(table);
    plain::register_elementwise(table);
    plain::register_float8(table);
    plain::register_sequence(table);
    plain::register_muon(table);
    plain::register_optimizer(table);
    plain::register_ranks(table);
    return table;
  }();
  return backend;
}

}  // namespace comera
