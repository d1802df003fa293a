#pragma once

// Models of every kind, to be written in the formats of others.
#include <functional>
#include <ostream>
#include <vector>

#include "exchange/transformers/transformers_form.h"
#include "tests/model/configs.h"
#include "tests/support/harness.h"

namespace comera::exchange {

// Random weights: norms and gates begin at 1 and biases at 0, where mistakes do not show.
inline void shake(Model& model) {
  ParameterStore& store = model.parameters();
  store.initialize(3);
  for (ParameterId id = 0; id < store.size(); ++id) {
    if (store.info(id).shape.dims() != 1 && !store.is_frozen(id)) continue;
    std::vector<double> values = read_tensor(store.value(id));
    const auto noise = test::normal_values(std::ssize(values), static_cast<std::uint64_t>(id));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.3 * noise[i];
    write_tensor(store.value(id), values);
  }
}

struct Case {
  const char* name;
  EncoderConfig config;
  Form form;

  friend void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }
};

inline EncoderConfig with(EncoderConfig config, const std::function<void(EncoderConfig&)>& change) {
  change(config);
  return config;
}

inline std::function<void(EncoderConfig&)> with_activation(Activation activation) {
  return [activation](EncoderConfig& config) { config.activation = activation; };
}

inline std::vector<Case> cases() {
  using test::small_config;
  const auto rotary = [](EncoderConfig& config) {
    config.positions = Positions::rotary;
    config.rotary_theta = 300;
  };
  const auto relative = [](EncoderConfig& config) { config.positions = Positions::relative; };
  const auto by_distance = [](EncoderConfig& config) { config.relative_buckets = 8; };
  const auto first = [](EncoderConfig& config) { config.pooling = Pooling::first; };
  const auto pre = NormPlacement::pre;
  return {
      {"bert_dense", small_config(false), Form::bert},
      {"bert_trains", small_config(true), Form::bert},
      {"bert_removed", test::removed_config(), Form::bert},
      {"bert_diagonal", test::diagonal_config(), Form::bert},
      {"relative_diagonal", with(test::diagonal_config(HeadKind::classification), relative), Form::comera},
      {"by_distance_dense", with(small_config(false), by_distance), Form::comera},
      {"by_distance_trains", with(small_config(true), by_distance), Form::comera},
      {"by_distance_classifier", with(small_config(false, HeadKind::classification), by_distance),
       Form::comera},
      {"bert_low_rank", test::low_rank_config(), Form::bert},
      {"bert_lte", test::lte_config(), Form::bert},
      {"bert_classes", small_config(true, HeadKind::classification), Form::bert},
      {"bert_score", with(small_config(true, HeadKind::regression), first), Form::bert},
      {"bert_labels", small_config(true, HeadKind::multi_label), Form::bert},
      {"bert_one_type", with(small_config(true), [](EncoderConfig& c) { c.types = 1; }), Form::bert},
      {"bert_relu", with(small_config(true), with_activation(Activation::relu)), Form::bert},
      {"bert_silu_classes",
       with(small_config(true, HeadKind::classification), with_activation(Activation::silu)), Form::bert},
      {"megatron", small_config(true, HeadKind::mlm, pre), Form::megatron_bert},
      {"megatron_gelu_tanh",
       with(small_config(true, HeadKind::mlm, pre), with_activation(Activation::gelu_tanh)),
       Form::megatron_bert},
      {"megatron_classes", small_config(false, HeadKind::classification, pre), Form::megatron_bert},
      {"megatron_removed", test::removed_config(HeadKind::mlm, pre), Form::megatron_bert},
      {"roformer", with(small_config(true), rotary), Form::roformer},
      {"roformer_removed", with(test::removed_config(), rotary), Form::roformer},
      {"electra", test::narrow_config(), Form::electra},
      {"electra_dense", test::narrow_config(false), Form::electra},
      {"narrow_relu", with(test::narrow_config(), with_activation(Activation::relu)), Form::comera},
      {"narrow_classes", test::narrow_config(true, HeadKind::classification), Form::comera},
      {"narrow_pre", test::narrow_config(true, HeadKind::mlm, pre), Form::comera},
      {"narrow_relative", with(test::narrow_config(), relative), Form::comera},
      {"narrow_roformer", with(test::narrow_config(), rotary), Form::roformer},
      {"frequent", test::frequent_config(), Form::bert},
      {"frequent_relative", with(test::frequent_config(), relative), Form::comera},
      {"frequent_projected",
       with(test::projected_config(),
            [&](EncoderConfig& c) { relative(c), c.tensorized.embedding->frequent_rows = 9; }),
       Form::comera},
      {"projected", test::projected_config(), Form::bert},
      {"projected_roformer", with(test::projected_config(), rotary), Form::roformer},
      {"projected_relative", with(test::projected_config(HeadKind::classification), relative), Form::comera},
      {"rotary_classes", with(small_config(true, HeadKind::classification), rotary), Form::comera},
      {"rotary_pre", with(small_config(true, HeadKind::mlm, pre), rotary), Form::comera},
      {"relative", with(small_config(true), relative), Form::comera},
      {"relative_silu", with(with(small_config(true), relative), with_activation(Activation::silu)),
       Form::comera},
      {"relative_dense", with(small_config(false), relative), Form::comera},
      {"relative_removed", with(test::removed_config(), relative), Form::comera},
      {"mean", small_config(true, HeadKind::regression), Form::comera},
      {"bert_tokens", small_config(true, HeadKind::token_classification), Form::bert},
      {"bert_answers", small_config(true, HeadKind::question_answering), Form::bert},
      {"megatron_tokens", small_config(false, HeadKind::token_classification, pre), Form::megatron_bert},
      {"roformer_tokens", with(small_config(true, HeadKind::token_classification), rotary), Form::roformer},
      {"roformer_answers", with(small_config(true, HeadKind::question_answering), rotary), Form::roformer},
      {"electra_tokens", test::narrow_config(true, HeadKind::token_classification), Form::electra},
      {"electra_relu_answers",
       with(test::narrow_config(true, HeadKind::question_answering), with_activation(Activation::relu)),
       Form::electra},
      {"relative_tokens", with(small_config(true, HeadKind::token_classification), relative), Form::comera},
      {"relative_answers", with(small_config(true, HeadKind::question_answering), relative), Form::comera},
      {"separate",
       with(small_config(true, HeadKind::classification),
            [](EncoderConfig& c) { c.pairs = PairEncoding::separate; }),
       Form::comera},
  };
}

}  // namespace comera::exchange
