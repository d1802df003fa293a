#include "training/ranks/dense_compaction.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "checkpoints/model_state.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "recipes/fit_shapes.h"
#include "tensorized/decomposition/input_moments.h"
#include "tensorized/decomposition/svd.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera {

namespace {

constexpr double largest_error = 0.999;  // of a train that is fitted

using Clock = std::chrono::steady_clock;

// Rounds the values to the parameter's type.
void round_to(DType dtype, std::vector<std::vector<double>>& cores) {
  if (dtype == DType::float64) return;
  for (auto& core : cores)
    for (double& value : core) value = static_cast<float>(value);
}

// Rounding may increase the error a little, and is the whole error if 0 is allowed.
double with_rounding(double error, DType dtype) { return error + (dtype == DType::float64 ? 1e-12 : 2e-6); }

// Singular values of layers of two factors, which tell their rank at every error.
using Spectra = std::map<std::string, std::vector<double>>;

class Compaction {
 public:
  // spectra: if not null, only the ranks are asked for; it keeps what tells them for the next time.
  Compaction(const CheckpointReader& dense, const Recipe& recipe, const DenseCompactionOptions& options,
             Spectra* spectra = nullptr)
      : options_(options), spectra_(spectra), vocabulary_(dense.integer("/data", "vocabulary")) {
    result_.recipe = recipe;
    result_.recipe.tensorized.enabled = true;
    result_.recipe.tensorized.ranks.clear();
    config_ = encoder_config(result_.recipe, vocabulary_);
    dense_.emplace(encoder_config(checkpoint_recipe(dense), vocabulary_).dense_baseline(), host_allocator(),
                   false);
    load_parameters(dense, dense_->parameters());
    result_.before = dense_->parameters().count() - generator_parameters(dense_->parameters());
  }

  DenseCompaction run(const CheckpointReader& dense, const std::filesystem::path& output) {
    const std::vector<EncoderConfig::LinearLayer> linears = config_.linear_layers();
    const std::optional<TTMShape> table = config_.tensorized.embedding_shape();
    layers_ = static_cast<int>(std::ranges::count_if(
                  linears, [](const EncoderConfig::LinearLayer& layer) { return layer.shape.has_value(); })) +
              (table ? 1 : 0);
    if (table) compact_table(*table);
    for (const EncoderConfig::LinearLayer& layer : linears)
      if (layer.shape) compact_linear(layer.name, *layer.shape);
    const Model model(encoder_config(result_.recipe, vocabulary_), host_allocator(), false);
    result_.after = model.parameters().count() - generator_parameters(model.parameters());
    result_.error = options_.error;
    if (!output.empty()) write(dense, model.parameters(), output);
    return std::move(result_);
  }

 private:
  std::vector<double> matrix_of(const std::string& layer) const {
    const ParameterStore& store = dense_->parameters();
    const std::optional<ParameterId> weight = store.find(layer + ".weight");
    COMERA_CHECK(weight, "the dense model has no {}.weight", layer);
    return read_tensor(store.value(*weight));
  }

  void begin(const std::string& name) {
    if (options_.begins) options_.begins(name, static_cast<int>(result_.layers.size()) + 1, layers_);
    start_ = Clock::now();
  }

  void compact_linear(const std::string& name, TTShape shape) {
    begin(name);
    const Activations::Inputs* inputs = inputs_of(name);
    if (is_sized_alone(tensor_sizes(shape))) {
      find_rank(name, tensor_sizes(shape), shape.ranks, [&] {
        std::vector<double> matrix = matrix_of(name);
        if (inputs == nullptr) return matrix;
        std::vector<double> weighted(matrix.size());
        multiply(inputs->root, matrix, weighted, shape.input_size(), shape.output_size(), shape.input_size());
        return weighted;
      });
    } else if (inputs == nullptr) {
      decompose(name, matrix_of(name), tensor_sizes(shape), shape.ranks, options_.error);
    } else {
      const std::vector<double> matrix = matrix_of(name);
      std::vector<double> weighted(matrix.size());
      const std::int64_t rows = shape.input_size(), columns = shape.output_size();
      multiply(inputs->root, matrix, weighted, rows, columns, rows);
      decompose_weighted(name, matrix, weighted, columns, tensor_sizes(shape), shape.input_modes.size() - 1,
                         shape.ranks);
      std::vector<double> lost = multiplied_out(trains_[name]);
      for (std::size_t i = 0; i < lost.size(); ++i) lost[i] = matrix[i] - lost[i];
      std::vector<double>& bias = biases_[name + ".bias"];
      bias.resize(columns);
      multiply(inputs->mean, lost, bias, 1, columns, rows);
      multiply(inputs->root, lost, weighted, rows, columns, rows);
      error_ = frobenius_norm(weighted) / norm_;
    }
    shape.ranks = trains_[name].ranks;
    finish(name, shape.text(), shape.input_size() * shape.output_size());
  }

  // Null if its error is that of its matrix.
  const Activations::Inputs* inputs_of(const std::string& layer) const {
    if (options_.activations == nullptr) return nullptr;
    const auto found = options_.activations->layers.find(layer);
    return found == options_.activations->layers.end() ? nullptr : found->second.get();
  }

  bool is_sized_alone(const std::vector<std::int64_t>& sizes) const {
    return spectra_ != nullptr && sizes.size() == 2;
  }

  // The rank of the train that decompose() and decompose_weighted() make of a matrix, without the train.
  template <class MatrixOf>
  void find_rank(const std::string& name, const std::vector<std::int64_t>& sizes,
                 const std::vector<std::int64_t>& recipe_ranks, const MatrixOf& matrix_to_cut) {
    std::vector<double>& values = (*spectra_)[name];
    if (values.empty()) {
      std::vector<double> matrix = matrix_to_cut();
      matrix.resize(sizes[0] * sizes[1]);  // a table's last rows, which do not exist, are zero
      const bool tall = sizes[0] > sizes[1];
      if (tall) matrix = transposed(matrix, sizes[0], sizes[1]);
      try {
        values = left_basis(matrix, sizes[tall ? 1 : 0], sizes[tall ? 0 : 1]).norms;
      } catch (const Error& failure) {
        throw Error(fmt::format("{}: {}", name, failure.what()));
      }
      if (const double norm = frobenius_norm(values); norm > 0)
        for (double& value : values) value /= norm;
    }
    trains_[name] = {.sizes = sizes,
                     .ranks = {cut(values, options_.error, caps_of(sizes, recipe_ranks)[0]).rank}};
  }

  // Of each bond.
  std::vector<std::int64_t> caps_of(const std::vector<std::int64_t>& sizes,
                                    const std::vector<std::int64_t>& recipe_ranks) const {
    std::vector<std::int64_t> caps(sizes.size() - 1, std::numeric_limits<std::int64_t>::max());
    if (options_.recipe_ranks) caps = recipe_ranks;
    if (options_.max_rank > 0)
      for (std::int64_t& cap : caps) cap = std::min(cap, options_.max_rank);
    return caps;
  }

  // As decompose(), but within the directions of the outputs that matter for the weighted matrix: the bond
  // between inputs and outputs is cut by these, and the others by caps alone. error_ is then left to the
  // caller.
  void decompose_weighted(const std::string& name, std::span<const double> matrix,
                          std::span<const double> weighted, std::int64_t columns,
                          const std::vector<std::int64_t>& sizes, std::size_t middle,
                          const std::vector<std::int64_t>& recipe_ranks) {
    std::vector<std::int64_t> caps = caps_of(sizes, recipe_ranks);
    norm_ = std::max(frobenius_norm(weighted), std::numeric_limits<double>::min());
    OutputCut kept = cut_outputs(matrix, weighted, columns, options_.error, caps[middle]);
    caps[middle] = kept.rank;
    kept.matrix.resize(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>()));
    TTDecomposition& train = trains_[name];
    try {
      train =
          tt_svd(std::move(kept.matrix), sizes, {.error = 0, .max_ranks = caps, .shares = options_.shares});
    } catch (const Error& failure) {
      throw Error(fmt::format("{}: {}", name, failure.what()));
    }
    round_to(config_.compute, train.cores);
  }

  void compact_table(TTMShape shape) {
    const std::string name = EncoderConfig::embedding_layer;
    begin(name);
    std::vector<double> table = matrix_of(name);
    if (!shape.projection) keep_frequent(table, shape);
    if (options_.activations != nullptr && has_two_factors(shape))
      return compact_weighted_table(shape, table);
    double allowed = options_.error, kept = 1;
    if (shape.projection) {
      const std::vector<double> narrow = project(table, shape.columns());
      lost_ = lost_by_projection(table, narrow, shape.columns());
      kept = std::sqrt(std::max(0.0, 1 - lost_ * lost_));
      keep_frequent(narrow, shape);
      table = narrow;
    }
    if (shape.frequent_rows > 0) {  // which the train need not have
      const double all = frobenius_norm(table);
      std::fill_n(table.begin(), std::ssize(frequent_), 0.0);
      if (all > 0) kept *= frobenius_norm(table) / all;
    }
    // What the train may lose of what is left. If the projection alone loses too much, the train does not
    // add to it more than its own share.
    if (lost_ < allowed && kept > 0)
      allowed = std::min(std::sqrt(allowed * allowed - lost_ * lost_) / kept, largest_error);
    const TTDecomposition train = decompose(name, table_as_tensor(table, config_.vocabulary, shape),
                                            tensor_sizes(shape), shape.ranks, allowed);
    // The two errors are orthogonal.
    error_ = std::hypot(lost_, error_ * kept);
    shape.ranks = train.ranks;
    finish(name, shape.text(), config_.vocabulary * config_.table_width());
    lost_ = 0;
  }

  void keep_frequent(const std::vector<double>& rows, const TTMShape& shape) {
    frequent_.assign(rows.begin(), rows.begin() + shape.frequent_rows * shape.columns());
  }

  // Rows count as often as they are read, and once more.
  void compact_weighted_table(TTMShape shape, const std::vector<double>& table) {
    const std::string name = EncoderConfig::embedding_layer;
    const std::int64_t width = config_.table_width();
    const auto weighted = [&](const std::vector<double>& rows) {
      std::vector<double> result(table.size());
      for (std::int64_t i = 0; i < config_.vocabulary; ++i) {
        const double weight = std::sqrt(options_.activations->times[i] + 1);
        for (std::int64_t j = 0; j < width; ++j) result[i * width + j] = weight * rows[i * width + j];
      }
      return result;
    };
    if (is_sized_alone(tensor_sizes(shape))) {
      find_rank(name, tensor_sizes(shape), shape.ranks, [&] { return weighted(table); });
      return finish(name, shape.text(), config_.vocabulary * width);
    }
    decompose_weighted(name, table, weighted(table), width, tensor_sizes(shape), 0, shape.ranks);
    std::vector<double> lost = multiplied_out(trains_[name]);
    for (std::size_t i = 0; i < table.size(); ++i) lost[i] = table[i] - lost[i];
    error_ = frobenius_norm(weighted(lost)) / norm_;
    shape.ranks = trains_[name].ranks;
    finish(name, shape.text(), config_.vocabulary * width);
  }

  // The table's rows (vocabulary x columns) in its most important directions, which become the projection.
  std::vector<double> project(const std::vector<double>& table, std::int64_t columns) {
    const std::int64_t rows = config_.vocabulary, width = config_.table_width();
    if (columns > rows)
      throw UsageError(
          fmt::format("tensorized.embedding: a table of {} rows has no {} directions to project on; choose "
                      "smaller column modes",
                      rows, columns));
    projection_ = leading_directions(transposed(table, rows, width), width, rows, columns);
    if (config_.compute != DType::float64)
      for (double& value : projection_) value = static_cast<float>(value);
    std::vector<double> narrow(rows * columns);
    multiply(table, transposed(projection_, columns, width), narrow, rows, columns, width);
    return narrow;
  }

  // |table - narrow projection| / |table|.
  double lost_by_projection(const std::vector<double>& table, const std::vector<double>& narrow,
                            std::int64_t columns) const {
    std::vector<double> difference(table.size());
    multiply(narrow, projection_, difference, config_.vocabulary, config_.table_width(), columns);
    for (std::size_t i = 0; i < table.size(); ++i) difference[i] = table[i] - difference[i];
    const double norm = frobenius_norm(table);
    return norm > 0 ? frobenius_norm(difference) / norm : 0;
  }

  const TTDecomposition& decompose(const std::string& name, std::vector<double> tensor,
                                   const std::vector<std::int64_t>& sizes,
                                   const std::vector<std::int64_t>& recipe_ranks, double error) {
    const TTSVDOptions options{
        .error = error, .max_ranks = caps_of(sizes, recipe_ranks), .shares = options_.shares};
    try {
      trains_[name] = tt_svd(tensor, sizes, options);
    } catch (const Error& failure) {
      throw Error(fmt::format("{}: {}", name, failure.what()));
    }
    TTDecomposition& train = trains_[name];
    round_to(config_.compute, train.cores);
    error_ = relative_error(train, tensor);
    return train;
  }

  void finish(const std::string& name, const std::string& shape, std::int64_t before) {
    const TTDecomposition& train = trains_[name];
    CompactedLayer layer{.name = name,
                         .shape = shape,
                         .ranks = train.ranks,
                         .before = before,
                         .allowed = options_.error,
                         .error = error_,
                         .lost = lost_};
    for (const auto& core : train.cores) layer.after += std::ssize(core);
    if (name == EncoderConfig::embedding_layer)
      layer.after += std::ssize(projection_) + std::ssize(frequent_);
    layer.missed = error_ > with_rounding(options_.error, config_.compute);
    layer.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    result_.recipe.tensorized.ranks[name] = train.ranks;
    result_.layers.push_back(layer);
    if (options_.finished) options_.finished(layer);
  }

  void write(const CheckpointReader& dense, const ParameterStore& store,
             const std::filesystem::path& output) {
    for (ParameterId id = 0; id < store.size(); ++id) {
      const ParameterInfo& info = store.info(id);
      if (info.role == ParameterRole::gate)
        write_tensor(store.value(id), std::vector<double>(info.shape.elements(), 1.0));
      else if (info.name == EncoderConfig::embedding_layer + std::string(".projection"))
        write_tensor(store.value(id), projection_);
      else if (info.name == EncoderConfig::embedding_layer + std::string(".frequent"))
        write_tensor(store.value(id), frequent_);
      else if (info.name.ends_with(".diagonal"))  // the train has all of the matrix
        write_tensor(store.value(id), std::vector<double>(info.shape.elements(), 0.0));
      else if (const auto same = dense_->parameters().find(info.name))
        write_tensor(store.value(id), corrected(info.name, first_values(*same, info.shape.elements())));
    }
    for (const auto& [name, train] : trains_)
      for (std::size_t k = 0; k < train.cores.size(); ++k)
        write_tensor(store.value(*store.find(fmt::format("{}.core.{}", name, k))), train.cores[k]);
    CheckpointWriter writer(output);
    save_parameters(writer, store);
    for (const char* group : {"/trainer", "/data", "/rng", "/environment"})
      writer.attributes(group, dense.attributes(group));
    Attributes kept;  // what tells how its vectors are pooled, and whether its head is random
    const bool same_head = result_.recipe.model.head == checkpoint_recipe(dense).model.head;
    for (const auto& [name, value] : dense.attributes("/import"))
      if (name == "pooling" || (name == "random_parameters" && same_head)) kept[name] = value;
    if (!kept.empty()) writer.attributes("/import", kept);
    copy_tokenizer(dense, writer);
    copy_carried(dense, writer);
    writer.attributes("/recipe", {{"toml", to_toml(result_.recipe)}});
    writer.attributes("/compaction", {{"method", std::string("tt-svd")},
                                      {"error", options_.error},
                                      {"max_rank", options_.max_rank},
                                      {"source", dense.path().filename().string()},
                                      {"fingerprint", dense.fingerprint()},
                                      {"parameters", options_.parameters},
                                      {"request", options_.request},
                                      {"tokens", options_.activations ? options_.activations->tokens : 0}});
    writer.commit();
  }

  // All but those of positions that the result does not have.
  std::vector<double> first_values(ParameterId id, std::int64_t count) const {
    std::vector<double> values = read_tensor(dense_->parameters().value(id));
    values.resize(count);
    return values;
  }

  std::vector<double> corrected(const std::string& parameter, std::vector<double> values) const {
    if (const auto lost = biases_.find(parameter); lost != biases_.end())
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += lost->second[i];
    return values;
  }

  const DenseCompactionOptions& options_;
  Spectra* spectra_;
  std::int64_t vocabulary_;
  EncoderConfig config_;
  std::optional<Model> dense_;
  std::map<std::string, TTDecomposition> trains_;
  std::vector<double> projection_;  // behind the embedding's train, where the recipe has one
  std::vector<double> frequent_;    // rows of the table that are kept as they are
  DenseCompaction result_;
  int layers_ = 0;
  Clock::time_point start_;
  double error_ = 0, lost_ = 0;
  double norm_ = 0;                                    // of the weighted matrix
  std::map<std::string, std::vector<double>> biases_;  // what layers lose of the mean of their inputs
};

}  // namespace

Recipe dense_compaction_recipe(const CheckpointReader& dense, const std::filesystem::path& shapes_from,
                               const std::vector<std::string>& overrides, std::vector<std::string>* notes) {
  const std::string file = dense.path().string();
  if (checkpoint_recipe(dense).dlrm)
    throw UsageError(
        fmt::format("{}: holds a click model, and its tables cannot be converted to tensor trains; train "
                    "with dlrm.table_rank instead",
                    file));
  for (const CheckpointTensor& tensor : dense.tensors())
    COMERA_CHECK(!tensor.path.starts_with("/model/") || tensor.path.find(".core.") == std::string::npos,
                 "{} is already tensorized: it has {}; give the checkpoint of a dense model "
                 "(tensorized.enabled = false)",
                 file, tensor.path.substr(7));
  for (const std::string& assignment : overrides)
    if (!assignment.starts_with("tensorized."))
      throw UsageError(fmt::format(
          "--set {}: only keys of [tensorized] can be set here; the checkpoint decides the others",
          assignment));
  Recipe recipe = checkpoint_recipe(dense, shapes_from.empty() ? overrides : std::vector<std::string>{});
  if (!shapes_from.empty()) {
    recipe.tensorized = load_recipe(shapes_from).tensorized;
    const std::int64_t own = recipe.model.vocabulary;
    const std::vector<std::string> fitted =
        fit_shapes(recipe.tensorized, recipe.model, own > 0 ? own : dense.integer("/data", "vocabulary"));
    if (notes != nullptr) *notes = fitted;
    recipe.tensorized.enabled = true;
    recipe.tensorized.ranks.clear();
    recipe = parse_stored_recipe(to_toml(recipe), file, overrides);
  }
  recipe.tensorized.enabled = true;
  recipe.tensorized.ranks.clear();  // they are determined by the error
  const TensorizedSection& shapes = recipe.tensorized;
  if (!shapes.attention && !shapes.ffn_up && !shapes.ffn_down && !shapes.head && !shapes.embedding) {
    const std::int64_t own = recipe.model.vocabulary;
    two_factors(recipe.tensorized, recipe.model, own > 0 ? own : dense.integer("/data", "vocabulary"));
  }
  validate(recipe);
  return recipe;
}

DenseCompaction compact_dense(const CheckpointReader& dense, const Recipe& recipe,
                              const DenseCompactionOptions& options, const std::filesystem::path& output) {
  if (!(options.error >= 0 && options.error < 1))
    throw UsageError(fmt::format("the error must be at least 0 and less than 1, not {}", options.error));
  if (options.max_rank < 0)
    throw UsageError(fmt::format("the largest rank must be at least 1, not {}", options.max_rank));
  dense.verify();  // the whole file: damage anywhere makes it untrustworthy
  return Compaction(dense, recipe, options).run(dense, output);
}

std::int64_t least_parameters(const CheckpointReader& dense, const Recipe& recipe) {
  const std::int64_t vocabulary = dense.integer("/data", "vocabulary");
  Recipe least = recipe;
  const EncoderConfig config = encoder_config(recipe, vocabulary);
  const auto ones = [&](const std::string& layer, std::size_t bonds) {
    least.tensorized.ranks[layer] = std::vector<std::int64_t>(bonds, 1);
  };
  if (const std::optional<TTMShape> table = config.tensorized.embedding_shape())
    ones(EncoderConfig::embedding_layer, table->ranks.size());
  for (const EncoderConfig::LinearLayer& layer : config.linear_layers())
    if (layer.shape) ones(layer.name, layer.shape->ranks.size());
  const Model model(encoder_config(least, vocabulary), host_allocator(), false);
  return model.parameters().count() - generator_parameters(model.parameters());
}

DenseCompaction compact_dense_to_size(const CheckpointReader& dense, const Recipe& recipe,
                                      DenseCompactionOptions options, const std::filesystem::path& output) {
  constexpr double close_enough = 0.98;  // of the size
  constexpr int most_tries = 12;
  const auto wanted = static_cast<double>(options.parameters);
  struct Tried {
    double error, size;
  };
  DenseCompactionOptions trial = options;
  trial.begins = {};
  trial.finished = {};
  dense.verify();
  std::int64_t before = 0;
  Spectra spectra;
  const auto attempt = [&](double error) {
    trial.error = error;
    const DenseCompaction done = Compaction(dense, recipe, trial, &spectra).run(dense, {});
    before = done.before;
    return Tried{error, static_cast<double>(done.after)};
  };
  Tried fits = attempt(largest_error);
  if (fits.size > wanted)
    throw UsageError(
        fmt::format("{} has {} parameters with the smallest ranks, more than {}; give more with --parameters",
                    dense.path().string(), fits.size, options.parameters));
  Tried too_large{0, std::max(static_cast<double>(before), 1.5 * wanted)};
  for (int tries = 0; tries < most_tries && fits.size < close_enough * wanted; ++tries) {
    // The logarithm of the size is nearly a line in the error.
    const double share = std::log(wanted / fits.size) / std::log(too_large.size / fits.size);
    const Tried next = attempt(fits.error - (fits.error - too_large.error) * std::clamp(share, 0.1, 0.9));
    (next.size <= wanted ? fits : too_large) = next;
  }
  options.error = fits.error;
  DenseCompaction done = compact_dense(dense, recipe, options, output);
  done.searched = static_cast<std::int64_t>(fits.size);
  return done;
}

}  // namespace comera
