#include "exchange/transformers/weight_names.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/check.h"

namespace comera::exchange {

namespace {

void add_spellings(const std::string& name, Form form, std::vector<std::string>& names) {
  const std::string base = base_prefix(form), norm = "LayerNorm.";
  for (const std::string& spelling :
       {name, name.starts_with(base) ? name.substr(base.size()) : std::string()}) {
    if (spelling.empty()) continue;
    names.push_back(spelling);
    if (const std::size_t at = spelling.rfind(norm); at != std::string::npos)
      names.push_back(spelling.substr(0, at + norm.size()) +
                      (spelling.ends_with(".weight") ? "gamma" : "beta"));
  }
}

}  // namespace

WeightNames names_of(const TensorPlace& place, Form form) {
  WeightNames names;
  add_spellings(place.theirs, form, names.own);
  if (form == Form::comera) return names;
  const std::string decoder = place_of("head.bias", form).theirs;           // "cls.predictions.bias"
  const bool is_layer = form == Form::electra || form == Form::distilbert;  // with a bias of its own
  const std::string of_decoder = decoder.substr(0, decoder.rfind('.')) + (is_layer ? "." : ".decoder.");
  if (place.ours == "embedding.tokens.weight") names.tied.push_back(of_decoder + "weight");
  if (place.ours == "head.bias" && !is_layer) names.tied.push_back(of_decoder + "bias");
  return names;
}

std::vector<std::string> present(const SafetensorsReader& reader, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [&](const std::string& name) { return reader.has(name); });
  return found;
}

void require_equal(const SafetensorsReader& reader, const std::vector<std::string>& names,
                   const std::string& why) {
  if (names.size() < 2) return;
  const std::vector<double> first = reader.read(names[0]);
  for (std::size_t i = 1; i < names.size(); ++i) {
    COMERA_CHECK(reader.shape(names[i]) == reader.shape(names[0]),
                 "{}: {} and {} have different shapes, but {}", reader.file_of(names[i]).string(), names[0],
                 names[i], why);
    const std::vector<double> other = reader.read(names[i]);
    double difference = 0;
    for (std::size_t k = 0; k < first.size(); ++k)
      difference = std::max(difference, std::abs(first[k] - other[k]));
    COMERA_CHECK(difference == 0,
                 "{}: {} and {} differ by up to {:.3g}, but {}; a model that needs both cannot be imported",
                 reader.file_of(names[i]).string(), names[0], names[i], difference, why);
  }
}

}  // namespace comera::exchange
