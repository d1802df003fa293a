// One tensor under the names that files have for it.
#include "exchange/transformers/weight_names.h"

#include <gmock/gmock.h>

#include "tests/exchange/folder_copy.h"

namespace comera::exchange {
namespace {

using testing::HasSubstr;

constexpr const char* bert_table = "bert.embeddings.word_embeddings.weight";
constexpr const char* bert_decoder = "cls.predictions.decoder.weight";

struct Renamed {
  const char *model, *from, *to;
};

// Of two names of a tied tensor, save_model() of safetensors keeps the one that comes first.
TEST(TiedWeights, AreFoundUnderEitherName) {
  const Renamed cases[] = {
      {"bert_mlm", bert_table, bert_decoder},
      {"bert_mlm", "cls.predictions.bias", "cls.predictions.decoder.bias"},
      {"megatron_mlm", bert_table, bert_decoder},
      {"megatron_mlm", "cls.predictions.bias", "cls.predictions.decoder.bias"},
      {"roberta_mlm", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
      {"roberta_mlm", "lm_head.bias", "lm_head.decoder.bias"},
      {"electra_mlm", "electra.embeddings.word_embeddings.weight", "generator_lm_head.weight"},
      {"albert_mlm", "albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"},
      {"albert_mlm", "predictions.bias", "predictions.decoder.bias"},
  };
  for (const Renamed& renamed : cases)
    for (const bool also : {false, true}) {
      const Copy copy(renamed.model);
      copy.rename(renamed.from, renamed.to, also);
      const Imported imported = copy.import();
      EXPECT_TRUE(imported.fresh.empty()) << renamed.model << " " << renamed.to;
      EXPECT_THAT(imported.notes, testing::Not(testing::Contains(HasSubstr("left out"))));
      EXPECT_LT(copy.difference(), rounding) << renamed.model << " " << renamed.to;
    }
}

TEST(TiedWeights, ThatDifferAreRefused) {
  for (const Renamed& both :
       {Renamed{"bert_mlm", bert_table, bert_decoder},
        Renamed{"bert_mlm", "cls.predictions.bias", "cls.predictions.decoder.bias"},
        Renamed{"megatron_mlm", bert_table, bert_decoder},
        Renamed{"roberta_mlm", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
        Renamed{"roberta_mlm", "lm_head.bias", "lm_head.decoder.bias"},
        Renamed{"electra_mlm", "electra.embeddings.word_embeddings.weight", "generator_lm_head.weight"}}) {
    const Copy copy(both.model);
    copy.rename(both.from, both.to, true);
    copy.change_weights([&](Weights& weights) { weights.at(both.to).values[3] += 0.5; });
    const std::string error = copy.error();
    EXPECT_THAT(error, HasSubstr("model.safetensors: "));
    EXPECT_THAT(error, HasSubstr(fmt::format("{} and {} differ by up to 0.5", both.from, both.to)));
    EXPECT_THAT(error, HasSubstr("tie_word_embeddings"));
  }
}

// An encoder's embedding is its own, whatever a decoder beside it was.
TEST(TiedWeights, MatterOnlyToAMaskedLanguageHead) {
  const Copy copy("bert_classes");
  copy.rename(bert_table, bert_decoder, true);
  copy.change_weights([](Weights& weights) { weights.at(bert_decoder).values[0] += 1; });
  EXPECT_LT(copy.difference(), rounding);
  EXPECT_THAT(copy.import().notes, testing::Contains(HasSubstr(bert_decoder)));
}

TEST(UntiedConfigurations, AreTakenWhereNothingIsUntied) {
  const auto untie = [](nlohmann::json& config) { config["tie_word_embeddings"] = false; };
  {
    const Copy copy("bert_mlm");
    copy.change_config(untie);
    EXPECT_THAT(copy.error(), HasSubstr("config.json: tie_word_embeddings = false cannot be imported"));
    copy.rename(bert_table, bert_decoder, true);
    copy.rename("cls.predictions.bias", "cls.predictions.decoder.bias", true);
    EXPECT_LT(copy.difference(), rounding);
    copy.change_weights([](Weights& weights) { weights.at(bert_decoder).values[0] += 1; });
    EXPECT_THAT(test::error_of([&] { copy.import(); }), HasSubstr("tie_word_embeddings = false"));
  }
  const Copy classes("bert_classes");
  classes.change_config(untie);
  EXPECT_LT(classes.difference(), rounding);
}

TEST(Weights, HaveTheirOldNames) {
  for (const char* model : {"bert_mlm", "bert_classes", "roberta_mlm"}) {
    const Copy copy(model);
    copy.change_weights([](Weights& weights) {
      Weights old;
      for (auto& [name, weight] : weights) {
        std::string changed = name;
        if (const std::size_t at = name.find("LayerNorm."); at != std::string::npos)
          changed = name.substr(0, at + 10) + (name.ends_with("weight") ? "gamma" : "beta");
        old[changed] = weight;
      }
      weights = old;
    });
    EXPECT_LT(copy.difference(), rounding) << model;
  }
}

// Without the prefix of the encoder; a head's names have none.
TEST(Weights, AreFoundWithoutAPrefix) {
  for (const char* model : {"bert_mlm", "roberta_classes"}) {
    const Copy copy(model);
    copy.change_weights([](Weights& weights) {
      Weights bare;
      for (auto& [name, weight] : weights)
        bare[name.starts_with("bert.") || name.starts_with("roberta.") ? name.substr(name.find('.') + 1)
                                                                       : name] = weight;
      weights = bare;
    });
    EXPECT_LT(copy.difference(), rounding) << model;
  }
  const Copy other("bert_classes");
  other.rename("classifier.weight", "weight");
  EXPECT_THAT(other.error(), HasSubstr("comera's encoder does not have: weight"));
}

TEST(Weights, UnderTwoSpellingsMustBeEqual) {
  const Copy copy("bert_mlm");
  copy.rename("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma", true);
  EXPECT_LT(copy.difference(), rounding);
  copy.change_weights([](Weights& weights) { weights.at("bert.embeddings.LayerNorm.gamma").values[0] += 1; });
  EXPECT_THAT(test::error_of([&] { copy.import(); }),
              HasSubstr("LayerNorm.weight and bert.embeddings.LayerNorm.gamma differ"));
}

}  // namespace
}  // namespace comera::exchange
