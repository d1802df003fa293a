// Models that Hugging Face's transformers made (tests/oracle/make_transformers_models.py), with what they
// said.
#include "exchange/import_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/batching/batch.h"
#include "exchange/export_model.h"
#include "exchange/probe.h"
#include "exchange/transformers/transformers_folder.h"
#include "kernels/backends/processors.h"
#include "tests/exchange/folder_copy.h"
#include "tests/support/temporary_folder.h"
#include "training/inference/inference_engine.h"
#include "training/ranks/dense_compaction.h"

namespace comera::exchange {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

class Import : public testing::TestWithParam<const char*> {};

TEST_P(Import, SaysWhatTransformersSaid) {
  const TemporaryFolder folder;
  const Imported imported = import_model(models / GetParam(), {}, folder / "model.h5");
  EXPECT_TRUE(imported.fresh.empty());
  const LoadedModel loaded(folder / "model.h5", {}, {}, "cpu");
  const Said said = said_of(models / GetParam());
  ASSERT_EQ(said.samples.size(), 3U);
  const auto found = answers(loaded.model, loaded.processor, loaded.tokenizer.special(), said.samples);
  EXPECT_LT(largest_difference(found, said.logits), rounding);
}

INSTANTIATE_TEST_SUITE_P(Exchange, Import,
                         testing::Values("bert_mlm", "bert_classes", "bert_score", "megatron_mlm",
                                         "roberta_mlm", "roberta_classes", "electra_mlm", "albert_mlm",
                                         "albert_classes", "bert_tokens", "roberta_tokens", "electra_tokens",
                                         "bert_answers", "roberta_answers", "albert_answers",
                                         "distilbert_mlm", "distilbert_tokens", "distilbert_answers",
                                         "mpnet_mlm", "mpnet_classes", "mpnet_tokens", "mpnet_answers"),
                         [](const auto& tested) { return std::string(tested.param); });

// The mean over one sequence of what the encoder gives.
std::vector<double> mean_of(const data::Sample& sample, const LoadedModel& loaded) {
  class One final : public data::SampleSource {
   public:
    One(const data::Sample& sample, const data::Tokenizer& tokenizer)
        : sample_(sample), tokenizer_(tokenizer) {}
    std::int32_t vocabulary() const override { return tokenizer_.vocabulary(); }
    const data::SpecialIds& special() const override { return tokenizer_.special(); }
    std::int64_t count() const override { return 1; }
    std::int64_t length(std::int64_t /*sample*/) const override { return std::ssize(sample_.ids); }
    std::vector<std::int32_t> lengths() const override { return {static_cast<std::int32_t>(length(0))}; }
    void read(std::int64_t /*sample*/, data::Sample& to) override { to = sample_; }

   private:
    const data::Sample& sample_;
    const data::Tokenizer& tokenizer_;
  };
  InferenceEngine engine(loaded.model, InferenceEngine::Output::mean, loaded.processor);
  std::vector<double> mean;
  engine.run(std::make_unique<One>(sample, loaded.tokenizer), data::capacity_for(128, 80, 0, 25),
             [&](std::int64_t /*sample*/, std::span<const double> values) {
               mean.assign(values.begin(), values.end());
             });
  return mean;
}

class ImportedEncoder : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Exchange, ImportedEncoder,
                         testing::Values("bert_encoder", "electra_encoder", "distilbert_encoder",
                                         "mpnet_encoder"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(ImportedEncoder, WithoutAHeadGetsANewOne) {
  const TemporaryFolder folder;
  const Imported imported = import_model(models / GetParam(), {}, folder / "model.h5");
  EXPECT_THAT(imported.fresh, testing::Contains("head.transform.weight"));
  for (const std::string& name : imported.fresh) EXPECT_TRUE(name.starts_with("head.")) << name;
  const LoadedModel loaded(folder / "model.h5", {}, {}, "cpu");
  EXPECT_TRUE(has_random_head(*loaded.trained.reader));
  EXPECT_THAT([&] { require_trained_head(*loaded.trained.reader, "train it"); },
              testing::ThrowsMessage<UsageError>(
                  testing::HasSubstr("its head is random, since the folder that it was imported from has no "
                                     "head.transform.weight; train it")));
  // What is exported is the encoder, with its pooler. Nothing pools it that was not in its folder.
  const Exported exported = export_model(loaded, {}, folder / "again", {});
  EXPECT_TRUE(exported.without_head);
  EXPECT_FALSE(exported.sentence_vectors);
  EXPECT_FALSE(exported.loses_pooler);
  EXPECT_FALSE(std::filesystem::exists(folder / "again/modules.json"));
  EXPECT_THAT(
      test::read_text(folder / "again/README.md"),
      testing::AllOf(testing::HasSubstr("pipeline_tag: feature-extraction"),
                     testing::HasSubstr("that comera has imported from"),
                     testing::HasSubstr("None by comera."), testing::HasSubstr("AutoModel.from_pretrained")));
  const SafetensorsReader before(models / GetParam()), after(folder / "again");
  for (const std::string& name : after.names()) {
    EXPECT_THAT(name, testing::Not(testing::HasSubstr("predictions")));
    if (name.find("pooler") == std::string::npos) continue;
    const std::vector<std::string> names = before.names();
    const auto same = std::ranges::find_if(
        names, [&](const std::string& other) { return other.ends_with(name.substr(name.find("pooler"))); });
    ASSERT_NE(same, names.end()) << name;
    EXPECT_EQ(after.read(name), before.read(*same));
  }
  const Imported again = import_model(folder / "again", {}, folder / "again.h5");
  EXPECT_EQ(again.fresh, imported.fresh);
  const Said said = said_of(models / GetParam());
  const auto width = static_cast<std::size_t>(loaded.model.config().hidden);
  for (std::size_t i = 0; i < said.samples.size(); ++i) {
    const std::size_t tokens = said.samples[i].ids.size();
    std::vector<double> mean(width);
    for (std::size_t j = 0; j < tokens * width; ++j)
      mean[j % width] += said.logits[i][j] / static_cast<double>(tokens);
    const std::vector<double> found = mean_of(said.samples[i], loaded);
    ASSERT_EQ(found.size(), width);
    for (std::size_t j = 0; j < width; ++j) EXPECT_NEAR(found[j], mean[j], 1e-5);
  }
}

TEST(ImportedModel, KeepsItsLabels) {
  const TemporaryFolder folder;
  import_model(models / "bert_classes", {}, folder / "model.h5");
  const LoadedModel loaded(folder / "model.h5", {}, {}, "cpu");
  EXPECT_EQ(loaded.recipe.task.labels, (std::vector<std::string>{"no", "maybe", "yes"}));
  EXPECT_EQ(loaded.recipe.model.head, HeadKind::classification);
  EXPECT_FALSE(has_random_head(*loaded.trained.reader));
  EXPECT_EQ(loaded.tokenizer.vocabulary(), 25);
}

TEST(ImportedModel, KeepsTheLabelsOfTokens) {
  const TemporaryFolder folder;
  import_model(models / "electra_tokens", {}, folder / "model.h5");
  const LoadedModel loaded(folder / "model.h5", {}, {}, "cpu");
  EXPECT_EQ(loaded.recipe.task.labels, (std::vector<std::string>{"O", "B-X", "I-X"}));
  EXPECT_EQ(loaded.recipe.task.kind, data::TaskKind::token_classification);
  EXPECT_EQ(loaded.recipe.model.head, HeadKind::token_classification);
}

// import, compact --error 0, export: nobody's logits change.
TEST(ImportedModel, GoesRoundWithoutALoss) {
  struct Table {
    std::string name, column_modes;
  };
  const std::string wide = "[2,4]";
  for (const auto& [name, column_modes] :
       {Table{"bert_mlm", wide}, {"megatron_mlm", wide}, {"bert_classes", wide}, {"electra_mlm", "[2,3]"}}) {
    const TemporaryFolder folder;
    import_model(models / name, {}, folder / "dense.h5");
    {
      const CheckpointReader dense(folder / "dense.h5");
      const Recipe recipe = dense_compaction_recipe(
          dense, {},
          {"tensorized.attention.input_modes=[2,4]", "tensorized.attention.output_modes=[4,2]",
           "tensorized.attention.ranks=[2,8,2]", "tensorized.ffn_up.input_modes=[2,4]",
           "tensorized.ffn_up.output_modes=[4,3]", "tensorized.ffn_up.ranks=[2,8,3]",
           "tensorized.embedding.row_modes=[5,5]", "tensorized.embedding.column_modes=" + column_modes,
           "tensorized.embedding.ranks=[10]",
           fmt::format("tensorized.attention.diagonal={}", name == "bert_classes")});
      compact_dense(dense, recipe, {.error = 0}, folder / "trains.h5");
    }
    const LoadedModel trains(folder / "trains.h5", {}, {}, "cpu");
    EXPECT_TRUE(trains.model.config().tensorized.any());
    const Exported exported = export_model(trains, {}, folder / "out", {});
    EXPECT_LT(exported.difference, 1e-4);
    import_model(folder / "out", models / name / "vocab.txt", folder / "again.h5");
    const LoadedModel again(folder / "again.h5", {}, {}, "cpu");
    const Said said = said_of(models / name);
    EXPECT_LT(
        largest_difference(answers(again.model, again.processor, again.tokenizer.special(), said.samples),
                           said.logits),
        1e-4)
        << name;
  }
}

TEST(ImportRefuses, ConfigurationsOfOtherModels) {
  const struct {
    const char* key;
    Json value;
    const char* error;
  } cases[] = {
      {"model_type", "gpt2", "a model of type gpt2 cannot be imported"},
      {"model_type", 3, "model_type = 3 is of the wrong kind"},
      {"model_type", nullptr, "has no model_type"},
      {"hidden_act", "no_such",
       "hidden_act = \"no_such\" cannot be imported; only \"gelu\", \"gelu_python\""},
      {"position_embedding_type", "relative_key", "position_embedding_type"},
      {"is_decoder", true, "is_decoder"},
      {"tie_word_embeddings", false, "tie_word_embeddings"},
      {"architectures", {"BertForMultipleChoice"}, "BertForMultipleChoice has a head"},
      {"hidden_size", "8", "hidden_size = \"8\" is of the wrong kind"},
      {"hidden_size", 9, "config.json: "},
      {"hidden_size", 16, "but config.json makes it"},
      {"num_hidden_layers", 3, "its weights have no bert.encoder.layer.2"},
      {"num_hidden_layers", 1, "comera's encoder does not have: bert.encoder.layer.1"},
      {"num_hidden_layers", -1, "model.layers must be positive"},
      {"vocab_size", 26, "but config.json makes it"},
      {"max_position_embeddings", 15, "but config.json makes it"},
  };
  for (const auto& refused : cases) {
    const Copy copy("bert_mlm");
    copy.change_config([&](Json& config) { config[refused.key] = refused.value; });
    EXPECT_THAT(copy.error(), HasSubstr(refused.error)) << refused.key << " = " << refused.value;
  }
}

TEST(ImportRefuses, WhatIsNestedDeeply) {
  const Copy copy("bert_mlm");
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  std::ofstream(copy.folder() / "config.json") << "{\"model_type\": " << deep << "}";
  EXPECT_THAT(copy.error(), HasSubstr("config.json: is damaged: it is nested too deeply"));
}

TEST(ImportRefuses, WhatIsDamagedOrMissing) {
  {
    const Copy copy("bert_mlm");
    fs::remove(copy.path() / "config.json");
    EXPECT_THAT(copy.error(), HasSubstr("config.json"));
  }
  for (const char* text : {"", "{", "[]", "\xff\xfe"}) {
    const Copy copy("bert_mlm");
    copy.folder().write("config.json", text);
    EXPECT_THAT(copy.error(), HasSubstr("is damaged")) << text;
  }
  {
    const Copy copy("bert_mlm");
    fs::resize_file(copy.path() / "model.safetensors", 5000);
    EXPECT_THAT(copy.error(), HasSubstr("truncated"));
  }
  {
    const Copy copy("bert_mlm");
    copy.folder().write(
        "vocab.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\n" + [] {
          std::string pieces;
          for (int i = 0; i < 40; ++i) pieces += fmt::format("piece{}\n", i);
          return pieces;
        }());
    EXPECT_THAT(copy.error(), HasSubstr("has 45 pieces, but the model only 25 rows"));
  }
}

}  // namespace
}  // namespace comera::exchange
