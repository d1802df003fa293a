// Models of every kind, written as Hugging Face's files and read back. That transformers says the same of
// these files is checked by tests/oracle/check_exports.py.
#include "exchange/export_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exchange/probe.h"
#include "exchange/transformers/transformers_folder.h"
#include "kernels/backends/processors.h"
#include "model/densify.h"
#include "tests/exchange/export_cases.h"
#include "tests/support/harness.h"
#include "tests/support/temporary_folder.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::exchange {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

// float32 is what the files hold of models in double, whose weights and logits are large here.
constexpr double most_difference = 1e-4;

class Export : public testing::TestWithParam<Case> {};

TEST_P(Export, SaysTheSameWhenItIsReadBack) {
  Model model(GetParam().config, host_allocator(), false);
  shake(model);
  const Processor cpu = cpu_processor();
  const data::SpecialIds special;
  const auto samples = probes(model.config(), special);
  const auto before = answers(model, cpu, special, samples);
  for (const bool trains : {false, true}) {
    if (trains && !model.config().tensorized.any()) continue;
    const TemporaryFolder folder;
    const Exported exported =
        export_weights(model, cpu, special, {}, folder.path(), {.tensor_trains = trains});
    EXPECT_EQ(exported.form, trains ? Form::comera : GetParam().form);
    EXPECT_EQ(exported.form == Form::comera, !exported.reason.empty());
    EXPECT_LT(exported.difference, most_difference);
    EXPECT_GT(exported.largest_logit, 0.1);
    EXPECT_EQ(std::filesystem::exists(folder / "modeling_comera.py"), exported.form == Form::comera);
    if (exported.form == Form::comera) {  // Trainer does not ask for losses divided by tokens
      EXPECT_THAT(test::read_text(folder / "modeling_comera.py"), HasSubstr("accepts_loss_kwargs = False"));
    }
    // Not only by the same code's word.
    const TransformersConfig read = read_config(folder.path());
    const Model again(read.model, host_allocator(), false);
    EXPECT_TRUE(read_weights(SafetensorsReader(folder.path()), read, again).fresh.empty());
    EXPECT_LT(largest_difference(before, answers(again, cpu, special, samples)), most_difference);
    if (trains) {
      EXPECT_EQ(again.parameters().count(), model.parameters().count());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exchange, Export, testing::ValuesIn(cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(ComeraConfig, WithOtherSlopesIsRefused) {
  EncoderConfig config = test::small_config(false);
  config.positions = Positions::relative;
  const TemporaryFolder folder;
  nlohmann::json json =
      nlohmann::json::parse(config_json({.model = config, .form = Form::comera}, data::SpecialIds()));
  folder.write("config.json", json.dump());
  EXPECT_NO_THROW(read_config(folder.path()));
  json["slopes"][0][1] = 0.9;
  folder.write("config.json", json.dump());
  EXPECT_THAT(error_of([&] { read_config(folder.path()); }), HasSubstr("config.json: its slopes differ"));
}

// By the definition of each entry.
TEST(Densify, MakesTheMatricesThatTrainsStandFor) {
  Model model(test::small_config(true), host_allocator(), false);
  model.parameters().initialize(5);
  test::disturb_gates(model.parameters());
  const ParameterStore& store = model.parameters();
  const TTMShape shape = *model.config().tensorized.embedding_shape();
  std::vector<double> table = test::by_definition(store, EncoderConfig::embedding_layer, shape);
  table.resize(static_cast<std::size_t>(model.config().vocabulary * model.config().hidden));
  EXPECT_LT(test::relative_error(model.token_embedding().table(), table), 1e-14);
  int trains = 0;
  for (const Linear* linear : model.linears()) {
    const auto shapes = model.config().linear_layers();
    for (int i = 0; i < linear->outputs(); ++i) {
      const auto layer = std::ranges::find(shapes, linear->output_name(i), &EncoderConfig::LinearLayer::name);
      if (layer == shapes.end()) continue;
      TTCores train{.shape = *layer->shape, .cores = {}, .gates = {}};
      for (int k = 0; k < train.shape.order(); ++k)
        train.cores.push_back(*store.find(fmt::format("{}.core.{}", layer->name, k)));
      for (int k = 0; k + 1 < train.shape.order(); ++k)
        train.gates.push_back(*store.find(fmt::format("{}.gate.{}", layer->name, k)));
      EXPECT_LT(test::relative_error(linear->matrix(i), test::by_definition(store, train)), 1e-14)
          << layer->name;
      ++trains;
    }
  }
  EXPECT_EQ(trains, 13);
}

TEST(ExportConfig, HasWhatTransformersNeeds) {
  EncoderConfig config = test::small_config(false, HeadKind::classification);
  config.compute = DType::float32;
  const data::SpecialIds special{.pad = 7};
  const auto json = nlohmann::json::parse(
      config_json({.model = config, .form = Form::bert, .labels = {"a", "b", "c"}}, special));
  EXPECT_EQ(json["model_type"], "bert");
  EXPECT_EQ(json["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(json["pad_token_id"], 7);
  EXPECT_EQ(json["id2label"]["2"], "c");
  EXPECT_EQ(json["label2id"]["b"], 1);
  EXPECT_EQ(json["problem_type"], "single_label_classification");
  EXPECT_FALSE(json.contains("auto_map"));
  config.positions = Positions::relative;
  config.head = HeadKind::mlm;
  const auto own = nlohmann::json::parse(config_json({.model = config, .form = Form::comera}, special));
  EXPECT_EQ(own["auto_map"]["AutoModelForMaskedLM"], "modeling_comera.ComeraForMaskedLM");
  EXPECT_EQ(own["slopes"].size(), 3U);
  EXPECT_FALSE(own.contains("id2label"));
}

TEST(ExportRefuses, TensorTrainsOfADenseModelAreRefused) {
  const Model model(test::small_config(false), host_allocator(), false);
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] {
                export_weights(model, cpu_processor(), {}, {}, folder / "new", {.tensor_trains = true});
              }),
              HasSubstr("has no tensor trains"));
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

// The largest difference must see what no comparison of numbers sees.
// Weights that are finite, but too large for what is computed with them.
TEST(ExportRefuses, AModelWhoseLogitsAreNotFinite) {
  Model model(test::small_config(false), host_allocator(), false);
  shake(model);
  ParameterStore& store = model.parameters();
  for (ParameterId id = 0; id < store.size(); ++id)
    if (store.info(id).name == "head.bias")
      write_tensor(store.value(id), std::vector<double>(static_cast<std::size_t>(store.value(id).elements()),
                                                        std::numeric_limits<double>::infinity()));
  const TemporaryFolder folder;
  EXPECT_THAT([&] { export_weights(model, cpu_processor(), {}, {}, folder / "new", {}); },
              testing::ThrowsMessage<Error>(HasSubstr("the model's logits are not finite")));
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(ExportRefuses, AnAnswerThatIsNotFiniteIsADifference) {
  EXPECT_EQ(largest_difference({{1, std::nan("")}}, {{1, 2}}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(largest_difference({{std::nan("")}, {1}}, {{std::nan("")}, {1}}),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(largest_difference({{1, 2}, {3}}, {{1, 2}, {5}}), 2);
}

}  // namespace
}  // namespace comera::exchange
