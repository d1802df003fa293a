#include "recipes/encoder_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/core/check.h"
#include "recipes/fit_shapes.h"

namespace comera {

void check_narrow_shapes(const EncoderConfig& config) {
  const TensorizedConfig& shapes = config.tensorized;
  const std::int64_t width = config.table_width();
  const bool table =
                 shapes.embedding && (shapes.embedding->projection ? shapes.embedding->columns() >= width
                                                                   : shapes.embedding->columns() != width),
             head = shapes.head && shapes.head->output_size() != config.head_outputs();
  if (!config.has_narrow_tables() || config.embedding_size > config.hidden || (!table && !head)) return;
  TensorizedConfig fitted = shapes;
  fit_shapes(fitted, config, shapes.embedding ? shapes.embedding->rows() : config.vocabulary);
  std::string advice;
  const auto set = [&](const char* key, const std::vector<std::int64_t>& values) {
    advice += fmt::format(" --set tensorized.{}=[{}]", key, fmt::join(values, ","));
  };
  if (table)
    set("embedding.column_modes", fitted.embedding->column_modes),
        set("embedding.ranks", fitted.embedding->ranks);
  if (head) set("head.output_modes", fitted.head->output_modes), set("head.ranks", fitted.head->ranks);
  throw UsageError(
      fmt::format("model.embedding_size = {} is not the width that the recipe's {} made for; give{}",
                  config.embedding_size,
                  table && head ? "embedding and head are"
                  : table       ? "embedding is"
                                : "head is",
                  advice));
}

// The shapes of a recipe that is not tensorized are not looked at, so that they need not fit.
EncoderConfig unchecked_encoder_config(const Recipe& recipe, std::int64_t vocabulary) {
  EncoderConfig config;
  static_cast<EncoderArchitecture&>(config) = recipe.model;
  config.vocabulary = vocabulary;
  config.compute = recipe.precision.activations();
  config.float8 = recipe.precision.float8();
  config.weighted = recipe.task.class_weights.any();
  config.contrastive = {.texts = std::max<std::int64_t>(2, std::ssize(recipe.task.text)),
                        .temperature = recipe.task.temperature,
                        .symmetric = recipe.task.symmetric};
  if (recipe.generator) config.generator = *recipe.generator;
  if (recipe.distillation) config.distillation = *recipe.distillation;
  config.tensorized = recipe.tensorized;
  // Of a vocabulary that is the tokenizer's at most half: the train has the others. 1: not known yet.
  if (auto& table = config.tensorized.embedding; table && recipe.model.vocabulary == 0)
    table->frequent_rows = std::min(table->frequent_rows, (vocabulary > 1 ? vocabulary : table->rows()) / 2);
  if (recipe.tensorized.enabled) return config;
  EncoderConfig baseline = config.dense_baseline();
  baseline.low_rank = recipe.low_rank;
  baseline.lte = recipe.lte;
  return baseline;
}

EncoderConfig encoder_config(const Recipe& recipe, std::int64_t tokenizer_vocabulary) {
  if (recipe.dlrm) throw UsageError("this recipe describes a click model ([dlrm]); use `comera clicks`");
  const std::int64_t own = recipe.model.vocabulary;
  if (own == 0 && tokenizer_vocabulary == 0)
    throw UsageError(
        "model.vocabulary is 0, so the tokenizer decides it, but there is no tokenizer; set data.tokenizer "
        "or model.vocabulary");
  if (own > 0 && tokenizer_vocabulary > own)
    throw UsageError(
        fmt::format("the tokenizer has {} tokens, more than model.vocabulary = {}; raise model.vocabulary "
                    "or set it to 0",
                    tokenizer_vocabulary, own));
  EncoderConfig config = unchecked_encoder_config(recipe, own > 0 ? own : tokenizer_vocabulary);
  if (const auto table = config.tensorized.embedding;
      own == 0 && table && table->rows() < tokenizer_vocabulary)
    throw UsageError(
        fmt::format("the tokenizer has {} pieces, but the recipe was made for a vocabulary of at most {}: "
                    "its tensorized.embedding.row_modes multiply to {}; give the tokenizer of the recipe, or "
                    "larger row modes",
                    tokenizer_vocabulary, table->rows(), table->rows()));
  if (const auto table = config.tensorized.embedding;  // a vocabulary of 1 stands for one not known yet
      table && config.vocabulary > 1 && table->frequent_rows >= config.vocabulary)
    throw UsageError(
        fmt::format("tensorized.embedding.frequent_rows = {} leaves nothing to the tensor train of a "
                    "vocabulary of {}; choose fewer",
                    table->frequent_rows, config.vocabulary));
  try {
    config.validate();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  return config;
}

}  // namespace comera
