#include "model/densify.h"

#include "kernels/core/check.h"

namespace comera {

EncoderConfig densified(const EncoderConfig& config) {
  EncoderConfig dense = config.dense_baseline();
  dense.compute = master_of(config.compute);
  dense.float8.reset();
  return dense;
}

void densify(const Model& model, const Model& dense) {
  const ParameterStore &from = model.parameters(), &to = dense.parameters();
  const auto write = [&](const std::string& name, const std::vector<double>& values) {
    const auto id = to.find(name);
    COMERA_CHECK(id, "the dense model has no {}", name);
    write_tensor(to.value(*id), values, to.allocator());
  };
  write(std::string(EncoderConfig::embedding_layer) + ".weight", model.token_embedding().table());
  for (const Linear* linear : model.linears())
    for (int i = 0; i < linear->outputs(); ++i) write(linear->output_name(i) + ".weight", linear->matrix(i));
  for (ParameterId id = 0; id < from.size(); ++id) {
    const std::string& name = from.info(id).name;
    if (const auto same = to.find(name); same && from.info(id).shape == to.info(*same).shape)
      write(name, read_tensor(from.value(id), from.allocator()));
  }
}

}  // namespace comera
