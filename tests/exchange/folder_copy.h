#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "exchange/import_model.h"
#include "exchange/probe.h"
#include "exchange/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "training/trained_model.h"

namespace comera::exchange {

// Small models made by Hugging Face's transformers (tests/oracle/make_transformers_models.py), with their
// outputs.
inline const std::filesystem::path models = TRANSFORMERS_MODELS;

struct Said {
  std::vector<data::Sample> samples;
  std::vector<std::vector<double>> logits;
};

inline Said said_of(const std::filesystem::path& folder) {
  std::ifstream file(folder / "cases.json");
  Said said;
  for (const nlohmann::json& entry : nlohmann::json::parse(file)) {
    data::Sample sample;
    sample.ids = entry["ids"].get<std::vector<std::int32_t>>();
    sample.type_ids = entry["types"].get<std::vector<std::int32_t>>();
    sample.targets.positions.resize(sample.ids.size());
    std::iota(sample.targets.positions.begin(), sample.targets.positions.end(), 0);
    sample.targets.ids.resize(sample.ids.size());
    said.samples.push_back(std::move(sample));
    said.logits.push_back(entry["said"].get<std::vector<double>>());
  }
  return said;
}

struct Weight {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};
using Weights = std::map<std::string, Weight>;

// A copy of a model's folder, to be changed.
class Copy {
 public:
  explicit Copy(const std::filesystem::path& model) {
    std::filesystem::copy(model, folder_.path(), std::filesystem::copy_options::recursive);
  }
  explicit Copy(const char* name) : Copy(models / name) {}

  const std::filesystem::path& path() const { return folder_.path(); }
  const test::TemporaryFolder& folder() const { return folder_; }

  void change_config(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json config = nlohmann::json::parse(test::read_text(path() / "config.json"));
    change(config);
    folder_.write("config.json", config.dump());
  }
  void change_weights(const std::function<void(Weights&)>& change) const {
    Weights weights;
    {
      const SafetensorsReader reader(path());
      for (const std::string& name : reader.names()) weights[name] = {reader.shape(name), reader.read(name)};
    }
    change(weights);
    std::vector<TensorToWrite> tensors;
    for (const auto& entry : weights)
      tensors.push_back({entry.first, entry.second.shape, [&entry] { return entry.second.values; }});
    write_safetensors(path() / "model.safetensors", tensors);
  }
  // Under another name, or, `also`, under both.
  void rename(const std::string& from, const std::string& to, bool also = false) const {
    change_weights([&](Weights& weights) {
      weights[to] = weights.at(from);
      if (!also) weights.erase(from);
    });
  }

  std::string error() const {
    std::string error = test::error_of([&] { import_model(path(), {}, path() / "out.h5"); });
    EXPECT_FALSE(std::filesystem::exists(path() / "out.h5"));
    return error;
  }
  Imported import() const { return import_model(path(), {}, path() / "out.h5"); }
  // The difference between the outputs of the imported model and those of the original in transformers.
  double difference() const {
    import();
    const LoadedModel loaded(path() / "out.h5", {}, {}, "cpu");
    const Said said = said_of(path());
    return largest_difference(
        answers(loaded.model, loaded.processor, loaded.tokenizer.special(), said.samples), said.logits);
  }

 private:
  test::TemporaryFolder folder_;
};

constexpr double rounding = 3e-5;  // float32, in another order on each kind of CPU

}  // namespace comera::exchange
