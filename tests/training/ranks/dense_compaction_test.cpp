#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "checkpoints/model_state.h"
#include "kernels/backends/backends.h"
#include "kernels/reference/reference_backend.h"
#include "model/encoder_step.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "tensorized/decomposition/svd.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"
#include "tests/training/ranks/dense_compaction_fixture.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Everything that a model says about a batch: hidden states, loss, and the distributions over the classes or
// the vocabulary (from the gradient of the output's bias, which is their sum less the targets).
struct Answers {
  std::vector<double> hidden, distributions;
  double loss = 0;
};

Answers answers_of(const fs::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  const EncoderConfig config =
      encoder_config(checkpoint_recipe(reader), reader.integer("/data", "vocabulary"));
  Model model(config, host_allocator(), true);
  load_parameters(reader, model.parameters());
  Harness harness(config.compute == DType::float64 ? reference_backend() : backend_of(DeviceKind::cpu));
  const PackedBatch batch =
      random_batch({9, 4, 1, 12}, config.vocabulary, model.token_embedding().right_rows());
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, batch);
  model.run_micro_batch(step, true);
  Answers answers;
  answers.loss = harness.results().loss_sum;
  const char* bias = config.head == HeadKind::mlm ? "head.bias" : "head.classifier.bias";
  answers.distributions = read_tensor(model.parameters().gradient(*model.parameters().find(bias)));
  const std::size_t mark = harness.context().arena.mark();
  answers.hidden = read_tensor(model.encode(step).rows(0, 26));
  harness.context().arena.release(mark);
  return answers;
}

void expect_same_answers(const fs::path& a, const fs::path& b, double tolerance) {
  const Answers first = answers_of(a), second = answers_of(b);
  EXPECT_LT(relative_error(second.hidden, first.hidden), tolerance);
  EXPECT_LT(relative_error(second.distributions, first.distributions), tolerance);
  EXPECT_NEAR(second.loss, first.loss, tolerance * first.loss);
}

// The matrix of a layer's cores in a checkpoint, straight from the definition.
std::vector<double> matrix_of(const CheckpointReader& reader, const std::string& layer) {
  std::vector<std::vector<double>> rows{{1}};  // an entry's partial product, by the indices so far
  std::vector<std::int64_t> row_modes, column_modes;
  for (int k = 0; reader.has_tensor(fmt::format("/model/{}.core.{}", layer, k)); ++k) {
    const std::string path = fmt::format("/model/{}.core.{}", layer, k);
    const std::vector<std::int64_t> shape = reader.tensor(path).shape;
    const std::vector<float> core = reader.read_values<float>(path);
    const std::int64_t left = shape.front(), right = shape.back(), size = std::ssize(core) / left / right;
    if (shape.size() == 4) {
      row_modes.push_back(shape[1]);
      column_modes.push_back(shape[2]);
    }
    std::vector<std::vector<double>> next;
    for (const std::vector<double>& row : rows)
      for (std::int64_t s = 0; s < size; ++s) {
        next.emplace_back(right, 0.0);
        for (std::int64_t a = 0; a < left; ++a)
          for (std::int64_t b = 0; b < right; ++b)
            next.back()[b] += row[a] * core[(a * size + s) * right + b];
      }
    rows = std::move(next);
  }
  std::vector<double> matrix;
  for (const auto& row : rows) matrix.push_back(row[0]);
  if (row_modes.empty()) return matrix;
  std::int64_t width = 1;
  for (const std::int64_t mode : column_modes) width *= mode;
  std::vector<double> table(matrix.size());
  for (std::int64_t entry = 0; entry < std::ssize(matrix); ++entry) {  // (i_1 j_1, i_2 j_2, …) to (i, j)
    std::int64_t rest = entry, i = 0, j = 0, i_stride = 1, j_stride = 1;
    for (int k = static_cast<int>(row_modes.size()) - 1; k >= 0; --k) {
      j += rest % column_modes[k] * j_stride;
      rest /= column_modes[k];
      i += rest % row_modes[k] * i_stride;
      rest /= row_modes[k];
      i_stride *= row_modes[k];
      j_stride *= column_modes[k];
    }
    table[i * width + j] = matrix[entry];
  }
  return table;
}

const std::vector<std::string> every_layer = {
    "tensorized.ffn_down={input_modes = [6, 8], output_modes = [2, 3, 4], ranks = [4, 4, 4, 4]}",
    "tensorized.head={input_modes = [4, 6], output_modes = [24], ranks = [4, 6]}"};

TEST_F(DenseCompactionTest, ErrorZeroKeepsEveryLogit) {
  for (const char* type : {"fp64", "fp32"})
    for (const char* head : {"mlm", "classification"})
      for (const char* norm : {"post", "pre"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", type, head, norm));
        const fs::path dense =
            write_dense({fmt::format("precision.compute={}", type), "model.embedding_std=0.5",
                         fmt::format("model.head={}", head), fmt::format("model.norm={}", norm)});
        const fs::path compacted = folder() / "compacted.h5";
        const DenseCompaction done = compact(dense, compacted, {.error = 0}, every_layer);
        EXPECT_EQ(done.layers.size(), 1u + 2 * 6 + 1);
        for (const CompactedLayer& layer : done.layers)
          EXPECT_LT(layer.error, std::string(type) == "fp64" ? 1e-13 : 1e-6) << layer.name;
        expect_same_answers(dense, compacted, std::string(type) == "fp64" ? 1e-11 : 1e-5);
      }
}

TEST_F(DenseCompactionTest, ErrorZeroKeepsATrainedModel) {
  const fs::path compacted = folder() / "compacted.h5";
  compact(trained_dense(), compacted, {.error = 0});
  expect_same_answers(trained_dense(), compacted, 1e-5);
}

// On weights that have been trained: the error is measured anew from the file, and may not be exceeded.
TEST_F(DenseCompactionTest, EveryBudgetIsKept) {
  const CheckpointReader dense(trained_dense());
  std::int64_t parameters = std::numeric_limits<std::int64_t>::max();
  for (const double error : {0.001, 0.1, 0.3, 0.6, 0.95}) {
    const fs::path path = folder() / fmt::format("compacted-{}.h5", error);
    const DenseCompaction done = compact(trained_dense(), path, {.error = error}, every_layer);
    const CheckpointReader compacted(path);
    ASSERT_EQ(done.layers.size(), 14u);
    for (const CompactedLayer& layer : done.layers) {
      const std::vector<float> values = dense.read_values<float>("/model/" + layer.name + ".weight");
      const std::vector<double> weight(values.begin(), values.end());
      std::vector<double> matrix = matrix_of(compacted, layer.name);
      const double padding = relative_error(matrix, [&] {
        std::vector<double> padded = weight;
        padded.resize(matrix.size(), 0.0);
        return padded;
      }());
      EXPECT_LE(padding, error + 1e-6) << layer.name;
      EXPECT_NEAR(padding, layer.error, 1e-6) << layer.name;
      EXPECT_EQ(layer.before, std::ssize(values));
      EXPECT_FALSE(layer.missed);
      for (const std::int64_t rank : layer.ranks) EXPECT_GE(rank, 1);
      EXPECT_FALSE(compacted.has_tensor("/model/" + layer.name + ".weight"));
    }
    EXPECT_LT(done.after, parameters) << "a larger error, but no smaller model";
    parameters = done.after;
  }
}

// The size decides about the error, which is no larger than it must be.
TEST_F(DenseCompactionTest, ASizeIsKept) {
  const CheckpointReader dense(trained_dense());
  double last = 1;
  for (const auto& [keys, most] : {std::pair(every_layer, 9000),
                                   {every_layer, 13000},
                                   {every_layer, 18000},
                                   {std::vector<std::string>(), 9000},
                                   {{}, 15000}}) {
    const Recipe shapes = dense_compaction_recipe(dense, {}, keys);  // without keys two factors
    if (most == 9000) last = 1;
    const fs::path path = folder() / fmt::format("of-{}.h5", most);
    const DenseCompaction done = compact_dense_to_size(dense, shapes, {.parameters = most}, path);
    EXPECT_LE(done.after, most);
    EXPECT_GE(done.after, 0.9 * static_cast<double>(most));
    EXPECT_LT(done.error, last);
    last = done.error;
    EXPECT_EQ(done.searched, done.after);
    const DenseCompaction same = compact_dense(dense, shapes, {.error = done.error}, folder() / "same.h5");
    EXPECT_EQ(same.after, done.after);
    EXPECT_TRUE(fs::exists(path));
  }
  const Recipe shapes = dense_compaction_recipe(dense, {}, every_layer);
  const fs::path none = folder() / "none.h5";
  EXPECT_THAT([&] { compact_dense_to_size(dense, shapes, {.parameters = 100}, none); },
              testing::ThrowsMessage<UsageError>(HasSubstr("give more with --parameters")));
  EXPECT_FALSE(fs::exists(none));
}

// The error counts what the projection loses, too. With error 0 that is all: the directions behind the 12
// most important ones.
TEST_F(DenseCompactionTest, AProjectionKeepsTheMostImportantDirectionsOfTheTable) {
  const CheckpointReader dense(trained_dense());
  const std::vector<float> values = dense.read_values<float>("/model/embedding.tokens.weight");
  const std::vector<double> table(values.begin(), values.end());
  const std::vector<double> squares = squared_singular_values(table, std::ssize(table) / 24, 24);
  double all = 0, lost = 0;
  for (std::size_t i = 0; i < squares.size(); ++i) all += squares[i], lost += i < 12 ? 0 : squares[i];
  for (const double error : {0.0, 0.2}) {
    const fs::path path = folder() / fmt::format("projected-{}.h5", error);
    const DenseCompaction done =
        compact(trained_dense(), path, {.error = error},
                {"tensorized.embedding.column_modes=[2,3,2]", "tensorized.embedding.projection=true"});
    const CheckpointReader reader(path);
    Model model(encoder_config(checkpoint_recipe(reader), 400), host_allocator(), false);
    load_parameters(reader, model.parameters());
    const double measured = relative_error(model.token_embedding().table(), table);
    const CompactedLayer& layer = done.layers.front();
    ASSERT_EQ(layer.name, "embedding.tokens");
    EXPECT_LE(measured, layer.error + 1e-6);  // which counts padded rows, too
    EXPECT_NEAR(layer.error, measured, error == 0 ? 1e-6 : 1e-3);
    EXPECT_NEAR(layer.lost, std::sqrt(lost / all), 1e-6);
    if (error == 0) {
      EXPECT_NEAR(measured, layer.lost, 1e-6);
    }
    EXPECT_GE(measured, std::sqrt(lost / all) - 1e-6);
    EXPECT_TRUE(layer.missed);
    EXPECT_EQ(layer.before, std::ssize(table));
    EXPECT_EQ(model.parameters().count(), done.after);
  }
}

// A table of less rank than the train has columns is kept, and the projection leaves the train what it does
// not lose itself.
TEST_F(DenseCompactionTest, AProjectionCountsInTheAllowedError) {
  for (const char* type : {"fp64", "fp32"}) {
    const fs::path dense =
        write_dense({fmt::format("precision.compute={}", type)}, [](Model& model) {  // falling directions
          const Tensor table = model.parameters().value(*model.parameters().find("embedding.tokens.weight"));
          std::vector<double> values = read_tensor(table);
          for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::pow(0.8, i % 24);
          write_tensor(table, values);
        });
    for (const double error : {0.3, 0.1}) {
      const fs::path path = folder() / "projected.h5";
      const DenseCompaction done =
          compact(dense, path, {.error = error},
                  {"tensorized.embedding.column_modes=[2,3,2]", "tensorized.embedding.projection=true"});
      const CompactedLayer& layer = done.layers.front();
      EXPECT_FALSE(layer.missed);
      EXPECT_GT(layer.lost, 0.04);
      EXPECT_LT(layer.lost, 0.09);
      EXPECT_GT(layer.error, layer.lost);
      EXPECT_LE(layer.error, error);
      fs::remove(path);
    }
  }
}

// Rows of their own are those of the dense table, and the train has what is left for the others; the error is
// that of the whole table.
TEST_F(DenseCompactionTest, FrequentRowsAreKept) {
  const CheckpointReader dense(trained_dense());
  const std::vector<float> values = dense.read_values<float>("/model/embedding.tokens.weight");
  const std::vector<double> table(values.begin(), values.end());
  const auto compacted = [&](std::int64_t frequent, std::vector<std::string> overrides) {
    const fs::path path = folder() / fmt::format("frequent-{}-{}.h5", frequent, overrides.size());
    overrides.push_back(fmt::format("tensorized.embedding.frequent_rows={}", frequent));
    const DenseCompaction done = compact(trained_dense(), path, {.error = 0.5}, overrides);
    const CheckpointReader reader(path);
    Model model(encoder_config(checkpoint_recipe(reader), 400), host_allocator(), false);
    load_parameters(reader, model.parameters());
    EXPECT_EQ(model.parameters().count(), done.after);
    const std::vector<double> got = model.token_embedding().table();
    const double measured = relative_error(got, table);
    EXPECT_LE(done.layers.front().error, 0.5);
    EXPECT_NEAR(done.layers.front().error, measured, 0.02);  // which counts padded rows, too
    if (overrides.size() == 1)
      for (std::int64_t e = 0; e < frequent * 24; ++e) EXPECT_EQ(got[e], table[e]);
    return done.layers.front().ranks;
  };
  EXPECT_GT(compacted(0, {}), compacted(200, {}));
  compacted(200, {"tensorized.embedding.column_modes=[2,3,2]", "tensorized.embedding.projection=true"});
}

// Everything else is what it was, bit for bit, and there is no optimizer state.
TEST_F(DenseCompactionTest, OtherParametersGoOverUnchanged) {
  const fs::path path = folder() / "compacted.h5";
  compact(trained_dense(), path, {.error = 0.3});
  const CheckpointReader dense(trained_dense()), compacted(path);
  int same = 0;
  for (const CheckpointTensor& tensor : compacted.tensors()) {
    if (tensor.path == tokenizer_in_checkpoint) continue;
    EXPECT_TRUE(tensor.path.starts_with("/model/")) << tensor.path;
    if (tensor.path.find(".gate.") != std::string::npos) {
      for (const float gate : compacted.read_values<float>(tensor.path)) EXPECT_EQ(gate, 1);
    }
    if (!dense.has_tensor(tensor.path)) continue;
    EXPECT_EQ(dense.tensor(tensor.path), tensor);
    ++same;
  }
  // Tables and their norm; biases, norms and ffn.down of each layer; transform, norm and bias of the head.
  EXPECT_EQ(same, (2 + 2) + 2 * (6 + 4 + 1) + (2 + 2 + 1));
  EXPECT_EQ(dense.attributes("/trainer"), compacted.attributes("/trainer"));
  EXPECT_EQ(dense.attributes("/data"), compacted.attributes("/data"));
}

TEST_F(DenseCompactionTest, CapsHoldAndWhoMissesTheErrorIsSaid) {
  const DenseCompaction done =
      compact(trained_dense(), folder() / "capped.h5", {.error = 0.01, .max_rank = 3});
  int missed = 0;
  for (const CompactedLayer& layer : done.layers) {
    for (const std::int64_t rank : layer.ranks) EXPECT_LE(rank, 3);
    EXPECT_EQ(layer.missed, layer.error > 0.01 + 2e-6);
    missed += layer.missed ? 1 : 0;
  }
  EXPECT_GT(missed, 0);
  const DenseCompaction as_recipe =
      compact(trained_dense(), folder() / "as-recipe.h5", {.error = 0, .recipe_ranks = true});
  for (const CompactedLayer& layer : as_recipe.layers) {
    if (layer.name.find("attention") == std::string::npos) continue;
    EXPECT_EQ(layer.ranks, (std::vector<std::int64_t>{4, 6, 4})) << layer.name;
  }
}

// A new run begins with the compacted weights, is stopped, and goes on with a recipe that knows nothing of
// the layers' ranks: to the same bits as without a stop.
TEST_F(DenseCompactionTest, ANewRunBeginsWithItAndResumes) {
  const fs::path compacted = folder() / "compacted.h5";
  compact(trained_dense(), compacted, {.error = 0.2});
  const auto begin = [&](const std::string& run, const TrainingOptions& options) {
    const CheckpointReader reader(compacted);
    Recipe recipe = this->recipe(run);
    take_ranks(recipe, reader);
    return train(
        recipe,
        [&](TrainingRun& training) { load_parameters(reader, training.engine().model().parameters()); },
        options);
  };
  const fs::path whole = begin("whole", {});
  begin("stopped", {.stop_after = 5});
  const fs::path resumed = train(recipe("stopped"), {}, {.mode = RunMode::resume});
  expect_equal_checkpoints(whole, resumed);
  EXPECT_NE(checkpoint_recipe(CheckpointReader(resumed)).tensorized.ranks.at("encoder.0.attention.query"),
            recipe("x").tensorized.attention->ranks);
  // Other ranks for a layer contradict the checkpoint.
  try {
    train(recipe("stopped", {"tensorized.ranks.encoder.0.attention.query=[1, 1, 1]"}), {},
          {.mode = RunMode::resume});
    FAIL() << "other ranks were accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensorized.ranks.encoder.0.attention.query is [1, 1, 1]"));
  }
}

// The encoder alone goes into a model with another head, whose own parameters stay as they are.
TEST_F(DenseCompactionTest, TheEncoderServesAnotherHead) {
  const fs::path compacted = folder() / "compacted.h5";
  compact(trained_dense(), compacted, {.error = 0.2}, every_layer);  // head.transform has ranks, too
  const CheckpointReader reader(compacted);
  Recipe classifier = recipe("none", {"model.head=classification"});
  classifier.tensorized.ffn_down = checkpoint_recipe(reader).tensorized.ffn_down;
  take_ranks(classifier, reader);
  EXPECT_FALSE(classifier.tensorized.ranks.contains("head.transform"));
  Model model(encoder_config(classifier, reader.integer("/data", "vocabulary")), host_allocator(), false);
  ParameterStore& store = model.parameters();
  store.initialize(8);
  const std::vector<double> head = read_tensor(store.value(*store.find("head.pooler.weight")));
  load_initial_parameters(reader, store);
  EXPECT_EQ(read_tensor(store.value(*store.find("head.pooler.weight"))), head);
  for (const char* name :
       {"embedding.tokens.core.0", "encoder.1.ffn.down.core.2", "encoder.0.norm1.weight"}) {
    const std::vector<float> saved = reader.read_values<float>(fmt::format("/model/{}", name));
    EXPECT_EQ(read_tensor(store.value(*store.find(name))), std::vector<double>(saved.begin(), saved.end()));
  }
  EXPECT_THROW(load_parameters(reader, store), Error);
  Model narrow(encoder_config(recipe("none"), 400), host_allocator(), false);
  EXPECT_THROW(load_initial_parameters(reader, narrow.parameters()), Error);
}

// The way that a user goes: a dense model, compacted with all its layers, is the beginning of a new
// pretraining and of a task, by recipes with and without sections [model] and [tensorized] of their own.
TEST_F(DenseCompactionTest, OtherRunsBeginWithIt) {
  const fs::path compacted = folder() / "compacted.h5", table = folder() / "task.tsv";
  const fs::path as_recipe = folder() / "as-recipe.h5";
  compact(trained_dense(), as_recipe, {.error = 0.2});
  compact(trained_dense(), compacted, {.error = 0.2}, every_layer);
  ASSERT_TRUE(checkpoint_recipe(CheckpointReader(compacted)).tensorized.ranks.contains("head.transform"));
  {
    std::ofstream stream(table);
    stream << "text\tlabel\n";
    for (int i = 0; i < 40; ++i) stream << (i % 2 ? "count of a value\tone\n" : "the total index\tother\n");
  }
  const std::string text = recipe_text();
  const fs::path bare = folder() / "bare.toml", whole = write_recipe();
  std::ofstream(bare) << text.substr(text.find("[run]"));
  int number = 0;
  for (const fs::path& file : {bare, whole}) {
    std::vector<std::string> arguments = {"finetune", file.string(),
                                          "--from",   (file == bare ? compacted : as_recipe).string(),
                                          "--output", (folder() / fmt::format("run{}", ++number)).string()};
    for (const std::string& override :
         {std::string("task.name=words"), std::string("task.text=text"), std::string("task.label=label"),
          fmt::format("task.train=\"{}\"", table.string()),
          fmt::format("task.validation=\"{}\"", table.string()),
          fmt::format("data.tokenizer=\"{}\"", (corpus() / "tok.model").string())})
      arguments.insert(arguments.end(), {"--set", override});
    const ProgramResult tuned = run_program(arguments);
    EXPECT_EQ(tuned.code, 0) << tuned.output;
    EXPECT_THAT(tuned.output, HasSubstr("; newly initialised: head."));
  }
  const ProgramResult pretrained = run_program(
      {"pretrain", whole.string(), "--from", as_recipe.string(), "--output", (folder() / "pre").string()});
  EXPECT_EQ(pretrained.code, 0) << pretrained.output;
}

}  // namespace
}  // namespace comera::test
