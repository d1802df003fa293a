// Models of every kind as ONNX, run by an interpreter of its operations. That ONNX Runtime says the same of
// these files is checked by tests/oracle/check_onnx.py, for which COMERA_ONNX_CASES names a folder.
#include "exchange/onnx/onnx_export.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "exchange/probe.h"
#include "exchange/safetensors.h"
#include "kernels/backends/processors.h"
#include "model/densify.h"
#include "storage/durable_file.h"
#include "tests/exchange/export_cases.h"
#include "tests/exchange/onnx_interpreter.h"

namespace comera::exchange {
namespace {

class OnnxExport : public testing::TestWithParam<Case> {
 protected:
  OnnxExport() : model_(GetParam().config, host_allocator(), false) {
    shake(model_);
    samples_ = probes(model_.config(), special_);
    expected_ = answers(model_, cpu_processor(), special_, samples_);
  }

  // Samples of several lengths in one batch, as a runtime gets them.
  test::OnnxTensors inputs() const {
    test::OnnxTensors inputs;
    const bool separate = samples_[0].second > 0;
    add(inputs, "", separate, false);
    if (separate) add(inputs, "second_", true, true);
    return inputs;
  }

  // Those of the beginnings and the ends of spans lie side by side here.
  static test::OnnxTensor logits_of(const test::OnnxTensors& outputs) {
    if (outputs.contains("logits")) return outputs.at("logits");
    test::OnnxTensor both = outputs.at("start_logits");
    both.values.clear();
    for (std::size_t i = 0; i < outputs.at("start_logits").values.size(); ++i)
      for (const char* end : {"start_logits", "end_logits"}) both.values.push_back(outputs.at(end).values[i]);
    return both;
  }

  // The logits of a batch as those of the samples.
  std::vector<std::vector<double>> found(const test::OnnxTensor& logits) const {
    std::vector<std::vector<double>> found;
    const std::int64_t each = std::ssize(logits.values) / std::ssize(samples_);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const auto begin = logits.values.begin() + static_cast<std::int64_t>(i) * each;
      found.emplace_back(begin, begin + std::ssize(expected_[i]));  // without those of padding
    }
    return found;
  }

  // Of the logits by the largest of them.
  double difference(const std::string& bytes) const {
    double largest = 0;
    for (const auto& logits : expected_)
      for (const double logit : logits) largest = std::max(largest, std::abs(logit));
    EXPECT_GT(largest, 0.1);
    return largest_difference(expected_, found(logits_of(test::run_onnx(bytes, inputs())))) / largest;
  }

  // For the oracle.
  void keep(const std::string& name, const std::string& bytes) const {
    const char* folder = std::getenv("COMERA_ONNX_CASES");
    if (folder == nullptr) return;
    const std::filesystem::path place = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(place);
    storage::write_file_durably(place / "model.onnx", bytes);
    std::vector<TensorToWrite> tensors;
    for (const auto& [input, tensor] : inputs())
      tensors.push_back({input, tensor.shape, [values = tensor.values] { return values; }});
    for (std::size_t i = 0; i < expected_.size(); ++i)
      tensors.push_back(
          {"expected." + std::to_string(i), {std::ssize(expected_[i])}, [this, i] { return expected_[i]; }});
    write_safetensors(place / "case.safetensors", tensors);
  }

  Model model_;

 private:
  void add(test::OnnxTensors& inputs, const std::string& prefix, bool separate, bool second) const {
    const auto range = [&](const data::Sample& sample) {
      const std::int64_t all = std::ssize(sample.ids);
      return separate ? (second ? std::pair(sample.second, all) : std::pair(std::int64_t{0}, sample.second))
                      : std::pair(std::int64_t{0}, all);
    };
    std::int64_t longest = 0;
    for (const data::Sample& sample : samples_) {
      const auto [begin, end] = range(sample);
      longest = std::max<std::int64_t>(longest, end - begin);
    }
    test::OnnxTensor ids{{std::ssize(samples_), longest}, {}, true};
    test::OnnxTensor mask = ids, types = ids;
    for (const data::Sample& sample : samples_) {
      const auto [begin, end] = range(sample);
      for (std::int64_t i = begin; i < begin + longest; ++i) {
        const bool real = i < end;
        ids.values.push_back(real ? sample.ids[static_cast<std::size_t>(i)] : 0);
        types.values.push_back(real ? sample.type_ids[static_cast<std::size_t>(i)] : 0);
        mask.values.push_back(real ? 1 : 0);
      }
    }
    inputs[prefix + "input_ids"] = ids;
    inputs[prefix + "attention_mask"] = mask;
    if (!separate && model_.config().types > 1) inputs["token_type_ids"] = types;
  }

  data::SpecialIds special_;
  std::vector<data::Sample> samples_;
  std::vector<std::vector<double>> expected_;
};

TEST_P(OnnxExport, SaysTheSame) {
  Model dense(densified(model_.config()), host_allocator(), false);
  densify(model_, dense);
  const std::string bytes = onnx_model(dense, {});
  EXPECT_LT(difference(bytes), 5e-6);
  keep(std::string(GetParam().name) + "-dense", bytes);
  if (!model_.config().tensorized.any()) return;
  const std::string trains = onnx_model(model_, {});
  EXPECT_LT(difference(trains), 5e-6);
  keep(std::string(GetParam().name) + "-trains", trains);
}

TEST_P(OnnxExport, In8BitsIsNear) {
  Model dense(densified(model_.config()), host_allocator(), false);
  densify(model_, dense);
  for (const Model* model : {&dense, &model_}) {
    if (model == &model_ && !model_.config().tensorized.any()) continue;
    const std::string bytes = onnx_model(*model, {.int8 = true});
    const double error = difference(bytes);
    EXPECT_LT(error, 0.15) << "weights are large here, and errors add up";
    EXPECT_GT(error, 1e-6) << "nothing was rounded";
    keep(std::string(GetParam().name) + (model == &dense ? "-dense-int8" : "-trains-int8"), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Exchange, OnnxExport, testing::ValuesIn(cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(OnnxEncoder, GivesHiddenStatesForVectors) {
  Model model(test::small_config(true), host_allocator(), false);
  shake(model);
  test::OnnxTensor ids{{1, 3}, {2, 7, 9}, true}, mask{{1, 3}, {1, 1, 1}, true},
      types{{1, 3}, {0, 0, 1}, true};
  const test::OnnxTensors outputs =
      test::run_onnx(onnx_model(model, {.encoder_only = true}),
                     {{"input_ids", ids}, {"attention_mask", mask}, {"token_type_ids", types}});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs.at("last_hidden_state").shape, (std::vector<std::int64_t>{1, 3, model.config().hidden}));
}

}  // namespace
}  // namespace comera::exchange
