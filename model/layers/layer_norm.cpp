#include "model/layers/layer_norm.h"

namespace comera {

LayerNorm LayerNorm::add(ParameterStore& store, const std::string& name, std::int64_t width, double eps) {
  const auto one = [&](const char* part, double value) {
    return store.add({.name = name + part,
                      .role = ParameterRole::dense,
                      .shape = {width},
                      .decays = false,
                      .initializer = {Initializer::Kind::constant, value}});
  };
  LayerNorm norm;
  norm.gamma = one(".weight", 1);
  norm.beta = one(".bias", 0);
  norm.eps = eps;
  return norm;
}

}  // namespace comera
