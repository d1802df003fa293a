// The recipe's words for the values of enumerations.

#include "recipes/schema/codec.h"

namespace comera::recipe_detail {

template <>
const Words<NormPlacement>& words_of() {
  static const Words<NormPlacement> words = {{NormPlacement::post, "post"}, {NormPlacement::pre, "pre"}};
  return words;
}

// Of hidden layers: `none` would make two linear layers one, and `tanh` is the poolers'.
template <>
const Words<Activation>& words_of() {
  static const Words<Activation> words = [] {
    Words<Activation> all;
    for (const Activation activation :
         {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu})
      all.emplace_back(activation, traits_of(activation).name);
    return all;
  }();
  return words;
}

template <>
const Words<HeadKind>& words_of() {
  static const Words<HeadKind> words = [] {
    Words<HeadKind> all;
    for (const auto head : {HeadKind::mlm, HeadKind::classification, HeadKind::regression,
                            HeadKind::multi_label, HeadKind::token_classification,
                            HeadKind::question_answering, HeadKind::contrastive, HeadKind::replaced_tokens})
      all.emplace_back(head, name_of(head));
    return all;
  }();
  return words;
}

template <>
const Words<LookupKind>& words_of() {
  static const Words<LookupKind> words = {
      {LookupKind::naive, "naive"}, {LookupKind::unique, "unique"}, {LookupKind::factors, "factors"}};
  return words;
}

template <>
const Words<PlanKind>& words_of() {
  static const Words<PlanKind> words = {{PlanKind::automatic, "automatic"},
                                        {PlanKind::factors, "factors"},
                                        {PlanKind::dense, "dense"},
                                        {PlanKind::modewise, "modewise"}};
  return words;
}

template <class Word>
Words<Word> named_words(std::initializer_list<Word> list) {
  Words<Word> words;
  for (const Word word : list) words.emplace_back(word, name_of(word));
  return words;
}

template <>
const Words<Positions>& words_of() {
  static const auto words = named_words({Positions::learned, Positions::rotary, Positions::relative});
  return words;
}

template <>
const Words<OptimizerKind>& words_of() {
  static const auto words =
      named_words({OptimizerKind::adamw, OptimizerKind::muon, OptimizerKind::lamb, OptimizerKind::galore});
  return words;
}

template <>
const Words<GaloreProjection>& words_of() {
  static const auto words =
      named_words({GaloreProjection::std, GaloreProjection::reverse_std, GaloreProjection::right,
                   GaloreProjection::left, GaloreProjection::full});
  return words;
}

template <>
const Words<Compute>& words_of() {
  static const auto words = named_words({Compute::automatic, Compute::fp32, Compute::tf32, Compute::bf16,
                                         Compute::fp8, Compute::fp8_fp32, Compute::fp64});
  return words;
}

template <>
const Words<DistributedBackend>& words_of() {
  static const auto words =
      named_words({DistributedBackend::automatic, DistributedBackend::mpi, DistributedBackend::nccl});
  return words;
}

template <>
const Words<Float8Config::Scaling>& words_of() {
  static const auto words = named_words({Float8Config::Scaling::current, Float8Config::Scaling::delayed});
  return words;
}

template <>
const Words<Float8Config::Format>& words_of() {
  static const auto words = named_words({Float8Config::Format::hybrid, Float8Config::Format::e4m3});
  return words;
}

template <>
const Words<data::TargetKind>& words_of() {
  static const Words<data::TargetKind> words = {{data::TargetKind::file, "file"},
                                                {data::TargetKind::dynamic, "dynamic"}};
  return words;
}

template <>
const Words<ScheduleKind>& words_of() {
  static const Words<ScheduleKind> words = {{ScheduleKind::constant, "constant"},
                                            {ScheduleKind::linear, "linear"},
                                            {ScheduleKind::cosine, "cosine"},
                                            {ScheduleKind::polynomial, "polynomial"},
                                            {ScheduleKind::warmup_stable_decay, "warmup_stable_decay"}};
  return words;
}

template <>
const Words<PhaseObjective>& words_of() {
  static const Words<PhaseObjective> words = {{PhaseObjective::fixed, "fixed"},
                                              {PhaseObjective::regularize, "regularize"},
                                              {PhaseObjective::compress, "compress"}};
  return words;
}

template <>
const Words<RankPreset>& words_of() {
  static const Words<RankPreset> words = {
      {RankPreset::standard, "default"}, {RankPreset::paper, "paper"}, {RankPreset::reference, "reference"}};
  return words;
}

template <>
const Words<TargetBase>& words_of() {
  static const Words<TargetBase> words = {{TargetBase::phase_start, "phase_start"},
                                          {TargetBase::initial, "initial"},
                                          {TargetBase::dense, "dense"}};
  return words;
}

template <>
const Words<RankOrder>& words_of() {
  static const Words<RankOrder> words = {{RankOrder::magnitude, "magnitude"}, {RankOrder::fisher, "fisher"}};
  return words;
}
template <>
const Words<RankPenalty>& words_of() {
  static const Words<RankPenalty> words = {{RankPenalty::l1_size, "l1_size"},
                                           {RankPenalty::mean_gate, "mean_gate"}};
  return words;
}

template <>
const Words<DataOrder>& words_of() {
  static const Words<DataOrder> words = {{DataOrder::shuffled, "shuffled"}, {DataOrder::stored, "stored"}};
  return words;
}

template <>
const Words<Pooling>& words_of() {
  static const Words<Pooling> words = {{Pooling::first, "first"}, {Pooling::mean, "mean"}};
  return words;
}

template <>
const Words<PairEncoding>& words_of() {
  static const Words<PairEncoding> words = {{PairEncoding::joint, "joint"},
                                            {PairEncoding::separate, "separate"}};
  return words;
}

template <>
const Words<data::TaskKind>& words_of() {
  static const Words<data::TaskKind> words = [] {
    Words<data::TaskKind> all;
    for (const auto kind : {data::TaskKind::classification, data::TaskKind::regression,
                            data::TaskKind::multi_label, data::TaskKind::token_classification,
                            data::TaskKind::question_answering, data::TaskKind::contrastive})
      all.emplace_back(kind, data::name_of(kind));
    return all;
  }();
  return words;
}

template <>
const Words<data::TaskMetric>& words_of() {
  static const Words<data::TaskMetric> words = [] {
    Words<data::TaskMetric> all;
    for (const auto metric :
         {data::TaskMetric::accuracy, data::TaskMetric::f1, data::TaskMetric::matthews,
          data::TaskMetric::pearson, data::TaskMetric::spearman, data::TaskMetric::micro_f1,
          data::TaskMetric::macro_f1, data::TaskMetric::exact_match, data::TaskMetric::mrr,
          data::TaskMetric::recall_at_1, data::TaskMetric::recall_at_10})
      all.emplace_back(metric, data::name_of(metric));
    return all;
  }();
  return words;
}

template <>
const Words<data::TableFormat>& words_of() {
  static const Words<data::TableFormat> words = {{data::TableFormat::automatic, "automatic"},
                                                 {data::TableFormat::tsv, "tsv"},
                                                 {data::TableFormat::csv, "csv"},
                                                 {data::TableFormat::semicolon_csv, "semicolon_csv"},
                                                 {data::TableFormat::quoted_tsv, "quoted_tsv"},
                                                 {data::TableFormat::jsonl, "jsonl"},
                                                 {data::TableFormat::text, "text"}};
  return words;
}

}  // namespace comera::recipe_detail
