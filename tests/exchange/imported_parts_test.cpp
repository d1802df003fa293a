// What an import keeps beside the model itself: the pooler, the length of sequences; and what it says of the
// rest.
#include <gmock/gmock.h>

#include "checkpoints/model_state.h"
#include "data/vectors/text_samples.h"
#include "exchange/export_model.h"
#include "exchange/transformers/sequence_length.h"
#include "kernels/backends/processors.h"
#include "tests/exchange/folder_copy.h"
#include "training/ranks/dense_compaction.h"
#include "training/ranks/rank_compaction.h"
#include "training/vectors/vector_scores.h"

namespace comera::exchange {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* pooler_name = "head.pooler.weight";

// The weights of a classifier that begins with a checkpoint.
std::vector<double> pooler_of(const std::filesystem::path& checkpoint, bool take_carried = true) {
  const CheckpointReader reader(checkpoint);
  EncoderConfig config = LoadedModel(checkpoint, {}, {}, "cpu").model.config();
  config.head = HeadKind::classification;
  Model model(config, host_allocator(), false);
  model.parameters().initialize(7);
  load_initial_parameters(reader, model.parameters(), take_carried);
  return read_tensor(model.parameters().value(*model.parameters().find(pooler_name)));
}

std::vector<double> transposed(const Weight& weight) {
  const std::int64_t rows = weight.shape[0], columns = weight.shape[1];
  std::vector<double> values(weight.values.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) values[j * rows + i] = weight.values[i * columns + j];
  return values;
}

TEST(Pooler, OfAnEncoderIsWhatAClassifierBeginsWith) {
  const Copy copy("bert_encoder");
  Weight pooler;
  copy.change_weights([&](Weights& weights) {
    pooler = weights.contains("pooler.dense.weight") ? weights.at("pooler.dense.weight")
                                                     : weights.at("bert.pooler.dense.weight");
  });
  EXPECT_THAT(copy.import().notes, Contains(HasSubstr("its pooler is kept")));
  EXPECT_EQ(pooler_of(copy.path() / "out.h5"), transposed(pooler));
  EXPECT_NE(pooler_of(copy.path() / "out.h5", false), transposed(pooler));
  write_weights(CheckpointReader(copy.path() / "out.h5"), copy.path() / "weights.h5");
  EXPECT_EQ(pooler_of(copy.path() / "weights.h5"), transposed(pooler));

  const CheckpointReader dense(copy.path() / "out.h5");
  const Recipe recipe = dense_compaction_recipe(
      dense, {},
      {"tensorized.attention.input_modes=[2,4]", "tensorized.attention.output_modes=[4,2]",
       "tensorized.attention.ranks=[2,8,2]"});
  compact_dense(dense, recipe, {.error = 0}, copy.path() / "trains.h5");
  EXPECT_EQ(pooler_of(copy.path() / "trains.h5"), transposed(pooler));
}

// Otherwise the next import would read the random weights of a missing classifier as trained ones.
TEST(RandomHead, OfAClassifierIsNotExported) {
  const Copy copy("bert_classes");
  copy.change_weights([](Weights& weights) {
    weights.erase("classifier.weight");
    weights.erase("classifier.bias");
  });
  EXPECT_THAT(copy.import().fresh, Contains("head.classifier.weight"));
  const LoadedModel loaded(copy.path() / "out.h5", {}, {}, "cpu");
  EXPECT_TRUE(has_random_head(*loaded.trained.reader));
  EXPECT_TRUE(export_model(loaded, {}, copy.path() / "again", {}).without_head);
  EXPECT_THAT(SafetensorsReader(copy.path() / "again").names(), Not(Contains(HasSubstr("classifier"))));
}

TEST(Pooler, IsExportedAgain) {
  const Copy copy("bert_mlm");
  copy.change_weights([](Weights& weights) {
    std::vector<double> values(64);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i);
    weights["bert.pooler.dense.weight"] = {{8, 8}, values};
    weights["bert.pooler.dense.bias"] = {{8}, std::vector<double>(8, 0.5)};
  });
  copy.import();
  const LoadedModel loaded(copy.path() / "out.h5", {}, {}, "cpu");
  const Exported exported = export_model(loaded, {}, copy.path() / "again", {});
  EXPECT_TRUE(exported.has_pooler);
  EXPECT_FALSE(exported.loses_pooler);
  const SafetensorsReader before(copy.path()), after(copy.path() / "again");
  for (const char* name : {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}) {
    EXPECT_EQ(after.shape(name), before.shape(name));
    EXPECT_EQ(after.read(name), before.read(name));
  }
}

// A form without a place for it: the export says that it is lost.
TEST(Pooler, ThatAFormHasNoPlaceForIsSaid) {
  const Copy copy("bert_mlm");
  copy.change_weights([](Weights& weights) {
    weights["bert.pooler.dense.weight"] = {{8, 8}, std::vector<double>(64, 0.25)};
    weights["bert.pooler.dense.bias"] = {{8}, std::vector<double>(8, 0.5)};
  });
  copy.import();
  const CheckpointReader dense(copy.path() / "out.h5");
  const Recipe recipe = dense_compaction_recipe(
      dense, {},
      {"tensorized.attention.input_modes=[2,4]", "tensorized.attention.output_modes=[4,2]",
       "tensorized.attention.ranks=[2,8,2]"});
  compact_dense(dense, recipe, {.error = 0}, copy.path() / "trains.h5");
  const LoadedModel loaded(copy.path() / "trains.h5", {}, {}, "cpu");
  EXPECT_TRUE(export_model(loaded, {}, copy.path() / "dense", {}).has_pooler);
  const Exported exported = export_model(loaded, {}, copy.path() / "again", {.tensor_trains = true});
  EXPECT_TRUE(exported.loses_pooler);
  EXPECT_FALSE(exported.has_pooler);
}

TEST(Pooler, OfAMaskedLanguageModelIsKeptToo) {
  const Copy copy("bert_mlm");
  copy.change_weights([](Weights& weights) {
    weights["bert.pooler.dense.weight"] = {{8, 8}, std::vector<double>(64, 0.25)};
    weights["bert.pooler.dense.bias"] = {{8}, std::vector<double>(8, 0.5)};
    weights["cls.seq_relationship.weight"] = {{2, 8}, std::vector<double>(16)};
  });
  EXPECT_LT(copy.difference(), rounding);
  const Imported imported = copy.import();
  EXPECT_THAT(imported.notes, Contains(HasSubstr("its pooler is kept")));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("skipped, since they belong to heads")));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("cls.seq_relationship.weight")));
  EXPECT_EQ(pooler_of(copy.path() / "out.h5"), std::vector<double>(64, 0.25));
}

// transformers' RoBERTa classifier has a layer of its own instead.
TEST(Pooler, OfRobertaIsLeftOutAndSaid) {
  const Copy copy("roberta_mlm");
  copy.change_weights([](Weights& weights) {
    weights["roberta.pooler.dense.weight"] = {{8, 8}, std::vector<double>(64, 0.25)};
    weights["roberta.pooler.dense.bias"] = {{8}, std::vector<double>(8, 0.5)};
  });
  const Imported imported = copy.import();
  EXPECT_THAT(imported.notes, Contains(HasSubstr("skipped, since they belong to heads")));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("roberta.pooler.dense.weight")));
  EXPECT_THAT(imported.notes, Not(Contains(HasSubstr("is kept"))));
}

TEST(RoFormerClassifier, IsRefused) {
  const Copy copy("bert_classes");
  copy.change_config([](nlohmann::json& config) {
    config["model_type"] = "roformer";
    config["architectures"] = {"RoFormerForSequenceClassification"};
  });
  EXPECT_THAT(copy.error(), HasSubstr("architectures = RoFormerForSequenceClassification"));
}

TEST(DistilBert, ClassifiersOfTextsAndOtherActivationsAreRefused) {
  const Copy copy("distilbert_mlm");
  copy.change_config(
      [](nlohmann::json& config) { config["architectures"] = {"DistilBertForSequenceClassification"}; });
  EXPECT_THAT(copy.error(),
              HasSubstr("the head of DistilBert's classifier has another activation than tanh"));
  copy.change_config([](nlohmann::json& config) { config["activation"] = "tanh"; });
  EXPECT_THAT(copy.error(), HasSubstr("activation = \"tanh\" cannot be imported"));
}

// transformers' RoFormer takes its sines from the file.
TEST(RoFormerAngles, MustBeThoseOfItsConfiguration) {
  const Copy original("bert_mlm");
  original.import();
  const LoadedModel bert(original.path() / "out.h5", {}, {}, "cpu");
  EncoderConfig config = bert.model.config();
  config.positions = Positions::rotary;
  const Model model(config, host_allocator(), false);
  const test::TemporaryFolder out;
  export_weights(model, cpu_processor(), bert.tokenizer.special(), {}, out / "hf", {});
  std::filesystem::copy(original.path() / "vocab.txt", out / "hf/vocab.txt");
  const Copy copy(out / "hf");
  const auto change = [&](double by) {
    copy.change_weights(
        [&](Weights& weights) { weights.at("roformer.encoder.embed_positions.weight").values[5] += by; });
  };
  EXPECT_THAT(copy.import().notes, Not(Contains(HasSubstr("embed_positions"))));
  change(0.002);
  EXPECT_THAT(copy.import().notes, Contains(HasSubstr("embed_positions.weight is rounded by up to 0.002")));
  change(0.1);
  EXPECT_THAT(test::error_of([&] { copy.import(); }),
              HasSubstr("embed_positions.weight differs by up to 0.102"));
}

std::int64_t imported_length(const Copy& copy) {
  copy.import();
  return LoadedModel(copy.path() / "out.h5", {}, {}, "cpu").recipe.phases[0].length;
}

TEST(SequenceLengths, AreThoseOfTheFoldersOwnTools) {
  const Copy copy("bert_mlm");  // of 14 positions
  EXPECT_EQ(imported_length(copy), 14);
  copy.folder().write("tokenizer_config.json", R"({"model_max_length": 12})");
  EXPECT_EQ(imported_length(copy), 12);
  EXPECT_THAT(copy.import().notes, Contains(HasSubstr("12 tokens (model_max_length of ")));
  copy.folder().write("sentence_bert_config.json", R"({"max_seq_length": 9, "do_lower_case": false})");
  EXPECT_EQ(imported_length(copy), 9);
  EXPECT_THAT(copy.import().notes, Contains(HasSubstr("sentence_bert_config.json)")));
  copy.folder().write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_EQ(imported_length(copy), 12);
  copy.folder().write("sentence_bert_config.json", R"({"max_seq_length": 100})");
  EXPECT_EQ(imported_length(copy), 14);
  copy.folder().write("sentence_bert_config.json", "{}");
  copy.folder().write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(imported_length(copy), 14);
}

TEST(SequenceLengths, OfPositionsWithoutAnEnd) {
  const test::TemporaryFolder folder;
  const auto length = [&](Positions positions, std::int64_t most) {
    EncoderConfig config;
    config.positions = positions;
    config.max_positions = most;
    return sequence_length(folder.path(), config).tokens;
  };
  EXPECT_EQ(length(Positions::learned, 1024), 1024);
  EXPECT_EQ(length(Positions::relative, 1024), 512);
  EXPECT_EQ(length(Positions::rotary, 128), 128);
}

TEST(SequenceLengths, ThatAreNoneAreRefused) {
  for (const char* text : {R"({"max_seq_length": "9"})", R"({"max_seq_length": 0})",
                           R"({"max_seq_length": -1})", R"({"max_seq_length": 4})", "[]", "{"}) {
    const Copy copy("bert_mlm");
    copy.folder().write("sentence_bert_config.json", text);
    EXPECT_THAT(copy.error(), HasSubstr("sentence_bert_config.json: ")) << text;
  }
}

TEST(SentenceTransformers, SayWhatEmbedDoesOtherwise) {
  const Copy copy("bert_encoder");
  const auto with_modules = [&](const char* pooling) {
    copy.folder().write("modules.json", R"([
      {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
      {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
      {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
    copy.folder().write("1_Pooling/config.json", pooling);
    return copy.import().notes;
  };
  for (const char* mean : {R"({"pooling_mode": "mean"})",
                           R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false})"}) {
    const auto notes = with_modules(mean);
    EXPECT_THAT(notes, Not(Contains(HasSubstr("--pooling")))) << mean;
    EXPECT_THAT(notes, Contains(HasSubstr("use embed --normalize")));
  }
  for (const char* first : {R"({"pooling_mode": "cls"})",
                            R"({"pooling_mode_mean_tokens": false, "pooling_mode_cls_token": true})"})
    EXPECT_THAT(with_modules(first), Contains(HasSubstr("those of the first token"))) << first;
  EXPECT_THAT(with_modules(R"({"pooling_mode": ["mean", "max"]})"),
              Contains(HasSubstr("its pooling is not available in embed: mean, max")));
  copy.folder().write("1_Pooling/config.json", "{");
  EXPECT_THAT(test::error_of([&] { copy.import(); }), HasSubstr("1_Pooling/config.json"));
}

// A folder whose vectors pass a dense layer of 3 outputs, with other members of its configuration.
void add_dense(const Copy& copy, bool biased, const char* pooling, const std::string& more) {
  copy.folder().write("modules.json", R"([
      {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
      {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
      {"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"}])");
  copy.folder().write("1_Pooling/config.json", fmt::format(R"({{"pooling_mode": "{}"}})", pooling));
  copy.folder().write(
      "2_Dense/config.json",
      fmt::format(R"({{"in_features": 8, "out_features": 3, "bias": {}, {}}})", biased, more));
  std::vector<TensorToWrite> tensors = {{"linear.weight", {3, 8}, [] {
                                           std::vector<double> values(24);
                                           for (std::size_t i = 0; i < values.size(); ++i)
                                             values[i] = std::sin(0.7 * static_cast<double>(i));
                                           return values;
                                         }}};
  if (biased) tensors.push_back({"linear.bias", {3}, [] { return std::vector{0.5, -0.25, 1.0}; }});
  write_safetensors(copy.path() / "2_Dense/model.safetensors", tensors);
}

// The vectors of a folder that was imported to out.h5.
std::vector<std::vector<double>> vectors_in(const std::filesystem::path& folder) {
  const LoadedModel loaded(folder / "out.h5", {}, {}, "cpu");
  InferenceEngine engine(loaded.model, output_of(vector_pooling(loaded, "")), loaded.processor);
  auto texts = std::make_unique<data::TextSamples>(loaded.tokenizer, 16);
  for (const char* text : {"a dog runs", "the house", "cat"}) texts->add(text);
  std::vector<std::vector<double>> vectors(3);
  engine.run(std::move(texts), data::capacity_for(64, 16, 0, loaded.tokenizer.vocabulary()),
             [&](std::int64_t sample, std::span<const double> values) {
               vectors[sample].assign(values.begin(), values.end());
             });
  return vectors;
}

TEST(SentenceTransformers, DenseLayersAreTakenOver) {
  const std::string tanh = R"("activation_function": "torch.nn.modules.activation.Tanh")",
                    none = R"("activation_function": "torch.nn.modules.linear.Identity")";
  for (const bool biased : {true, false})
    for (const bool bounded : {true, false}) {
      const Copy plain("bert_encoder"), copy("bert_encoder");
      const char* pooling = biased ? "mean" : "cls";
      add_dense(plain, false, pooling, none);
      std::filesystem::remove_all(plain.path() / "2_Dense");
      plain.folder().write("modules.json", R"([{"path": "1_Pooling", "type": "models.Pooling"}])");
      plain.import();
      add_dense(copy, biased, pooling, bounded ? tanh : none);
      EXPECT_THAT(copy.import().notes, Contains(HasSubstr("a dense layer of 3 outputs")));
      EXPECT_TRUE(LoadedModel(copy.path() / "out.h5", {}, {}, "cpu").model.config().has_vector_layer());
      const auto before = vectors_in(plain.path()), behind = vectors_in(copy.path());
      const SafetensorsReader reader(copy.path() / "2_Dense");
      const std::vector<double> weight = reader.read("linear.weight"),
                                bias = biased ? reader.read("linear.bias") : std::vector<double>(3);
      for (std::size_t i = 0; i < before.size(); ++i) {
        ASSERT_EQ(behind[i].size(), 3U);
        for (std::size_t o = 0; o < 3; ++o) {
          double y = bias[o];
          for (std::size_t j = 0; j < 8; ++j) y += weight[o * 8 + j] * before[i][j];
          EXPECT_NEAR(behind[i][o], bounded ? std::tanh(y) : y, 1e-5);
        }
      }
      const LoadedModel loaded(copy.path() / "out.h5", {}, {}, "cpu");
      EXPECT_TRUE(export_model(loaded, {}, copy.path() / "again", {}).sentence_vectors);
      import_model(copy.path() / "again", {}, copy.path() / "again/out.h5");
      EXPECT_EQ(vectors_in(copy.path() / "again"), behind);
      EXPECT_THAT(test::error_of([&] { chosen_pooling(loaded, biased ? "first" : "mean", ""); }),
                  HasSubstr("leave the choice out"));
    }
}

// The modules of a folder with a dense layer, by their types.
void set_modules(const Copy& copy, const std::vector<std::string>& types) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& type : types)
    list.push_back({{"path", type == "Transformer" ? ""
                             : type == "Pooling"   ? "1_Pooling"
                                                   : "2_Dense"},
                    {"type", "sentence_transformers.models." + type}});
  copy.folder().write("modules.json", list.dump());
}

TEST(SentenceTransformers, OtherDenseLayersAreRefusedWhereVectorsAreMade) {
  const std::string tanh = R"("activation_function": "torch.nn.modules.activation.Tanh")",
                    relu = R"("activation_function": "torch.nn.modules.activation.ReLU")";
  const auto expect_refused = [](const Copy& copy, const std::string& reason) {
    SCOPED_TRACE(reason);
    EXPECT_THAT(copy.import().notes, Contains(testing::AllOf(HasSubstr(reason), HasSubstr("encoder alone"))));
    const LoadedModel loaded(copy.path() / "out.h5", {}, {}, "cpu");
    EXPECT_THAT(test::error_of([&] { vector_pooling(loaded, "do that"); }),
                testing::AllOf(HasSubstr(reason), HasSubstr("do that")));
    EXPECT_EQ(chosen_pooling(loaded, "mean", ""), Pooling::mean);
    EXPECT_FALSE(loaded.model.config().has_vector_layer());
  };
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {relu, "a dense layer with ReLU"},
      {tanh + R"(, "use_residual": true)", "a dense layer with a residual connection"},
      {tanh + R"(, "module_input_name": "token_embeddings")",
       "a dense layer on other than the pooled vectors"}};
  for (const auto& [more, reason] : kinds) {
    const Copy copy("bert_encoder");
    add_dense(copy, true, "mean", more);
    expect_refused(copy, reason);
  }
  const std::vector<std::pair<std::vector<std::string>, std::string>> places = {
      {{"Transformer", "Dense"}, "a dense layer behind Transformer"},
      {{"Transformer", "Pooling", "Normalize", "Dense"}, "a dense layer behind Normalize"},
      {{"Transformer", "Pooling", "LayerNorm", "Dense"}, "a dense layer behind LayerNorm"},
      {{"Transformer", "Pooling", "Dense", "Dense"}, "several dense layers"}};
  for (const auto& [types, reason] : places) {
    const Copy copy("bert_encoder");
    add_dense(copy, true, "mean", tanh);
    set_modules(copy, types);
    expect_refused(copy, reason);
  }
  const Copy headed("bert_classes");
  add_dense(headed, true, "mean", tanh);
  expect_refused(headed, "a model with another head");
  for (const char* lost : {"2_Dense/config.json", "2_Dense/model.safetensors"}) {
    const Copy copy("bert_encoder");
    add_dense(copy, true, "mean", tanh);
    std::filesystem::remove(copy.path() / lost);
    expect_refused(copy, "a dense layer whose config.json and model.safetensors are not in");
  }
  const Copy maximum("bert_encoder");
  add_dense(maximum, true, "max", tanh);
  EXPECT_THAT(maximum.import().notes, Contains(HasSubstr("not available in embed: max")));
}

TEST(SentenceTransformers, DamagedDenseLayersAreRefused) {
  const Copy copy("bert_encoder");
  add_dense(copy, true, "mean", R"("activation_function": "torch.nn.modules.activation.Tanh")");
  const auto with = [&](const char* config) {
    copy.folder().write("2_Dense/config.json", config);
    return copy.error();
  };
  EXPECT_THAT(with(R"({"in_features": 9, "out_features": 3})"),
              HasSubstr("in_features is 9, but the encoder is 8 wide"));
  EXPECT_THAT(with(R"({"in_features": 8, "out_features": 100000000000})"),
              HasSubstr("linear.weight is (3, 8), but config.json makes it (100000000000, 8)"));
  const auto weight = [] { return std::vector<double>(24); };
  const auto with_bias = [&](const std::vector<std::int64_t>& shape, std::size_t count) {
    write_safetensors(copy.path() / "2_Dense/model.safetensors",
                      {{"linear.weight", {3, 8}, weight},
                       {"linear.bias", shape, [count] { return std::vector<double>(count); }}});
    return with(R"({"in_features": 8, "out_features": 3})");
  };
  EXPECT_THAT(with_bias({}, 1), HasSubstr("linear.bias is (), but config.json makes it (3)"));
  EXPECT_THAT(with_bias({3, 2}, 6), HasSubstr("linear.bias is (3, 2)"));
}

TEST(SentenceTransformers, InFoldersOfTheirOwnAreNamed) {
  const test::TemporaryFolder folder;
  folder.write(
      "modules.json",
      R"([{"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}])");
  EXPECT_THAT(test::error_of([&] { import_model(folder.path(), {}, folder / "out.h5"); }),
              HasSubstr("its modules.json names " + (folder / "0_Transformer").string()));
}

// Exports of earlier versions have matrices the other way round.
TEST(ComeraFolders, OfEarlierVersionsAreRead) {
  const Copy original("bert_mlm");
  original.import();
  test::TemporaryFolder out;
  {
    const LoadedModel loaded(original.path() / "out.h5", {}, {}, "cpu");
    const Recipe recipe =
        dense_compaction_recipe(CheckpointReader(original.path() / "out.h5"), {},
                                {"tensorized.head.input_modes=[2,4]", "tensorized.head.output_modes=[4,2]",
                                 "tensorized.head.ranks=[2,8,2]"});
    compact_dense(CheckpointReader(original.path() / "out.h5"), recipe, {.error = 0}, out / "trains.h5");
  }
  const LoadedModel trains(out / "trains.h5", {}, {}, "cpu");
  export_model(trains, {}, out / "hf", {.tensor_trains = true});
  std::filesystem::copy(original.path() / "cases.json", out / "hf/cases.json");
  std::filesystem::copy(original.path() / "vocab.txt", out / "hf/vocab.txt",
                        std::filesystem::copy_options::overwrite_existing);
  const Copy now(out / "hf");
  EXPECT_LT(now.difference(), 1e-4);
  now.change_config([](nlohmann::json& config) { EXPECT_EQ(config.erase("matrices"), 1U); });
  now.change_weights([](Weights& weights) {
    for (auto& [name, weight] : weights)
      if (name.find(".attention.") != std::string::npos || name.find(".ffn.") != std::string::npos)
        if (weight.shape.size() == 2) {
          weight.values = transposed(weight);
          std::swap(weight.shape[0], weight.shape[1]);
        }
  });
  EXPECT_LT(now.difference(), 1e-4);
}

}  // namespace
}  // namespace comera::exchange
