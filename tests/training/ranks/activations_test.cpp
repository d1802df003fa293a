#include "training/ranks/activations.h"

#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "data/tables/examples.h"
#include "data/vectors/contrastive_samples.h"
#include "recipes/fit_shapes.h"
#include "tensorized/decomposition/svd.h"
#include "tests/training/ranks/dense_compaction_fixture.h"
#include "training/inference/inference_engine.h"
#include "training/inference/trained_model.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t length = 16;

// Texts of the corpus, and what the trained model's layers read of them.
class ActivationsTest : public DenseCompactionTest {
 protected:
  ActivationsTest() : dense_(trained_dense(), {}, {"precision.compute=fp32"}, "cpu") {
    for (int i = 0; i < 60; ++i)
      texts_.push_back(
          {fmt::format("def total_{}(values): return sum(values) + {} * len(values)", i % 7, i)});
    examples_ = data::Examples::of_texts(texts_, dense_.tokenizer, length);
  }
  std::unique_ptr<data::SampleSource> samples() const {
    return std::make_unique<data::SeparateTexts>(examples_, 1, length);
  }
  Activations measured() const { return measure_activations(trained_dense(), samples(), length); }

  // The mean of a sequence's hidden states, for each text.
  std::vector<double> vectors(const Model& model) const {
    std::vector<double> values(texts_.size() * model.config().hidden);
    InferenceEngine engine(model, InferenceEngine::Output::mean, dense_.processor);
    engine.run(samples(), data::capacity_for(256, length, 0, 400),
               [&](std::int64_t sample, std::span<const double> of_sample) {
                 std::ranges::copy(of_sample, values.begin() + sample * std::ssize(of_sample));
               });
    return values;
  }
  // The same of a checkpoint, as a distance from the dense model's, by the norm of these.
  double distance(const fs::path& checkpoint) const {
    const LoadedModel other(checkpoint, {}, {"precision.compute=fp32"}, "cpu");
    const std::vector<double> own = vectors(dense_.model);
    std::vector<double> difference = vectors(other.model);
    for (std::size_t i = 0; i < own.size(); ++i) difference[i] -= own[i];
    return frobenius_norm(difference) / frobenius_norm(own);
  }

  LoadedModel dense_;
  std::vector<std::vector<std::string>> texts_;
  data::Examples examples_ = data::Examples::of_texts({{"x"}}, dense_.tokenizer, length);
};

TEST_F(ActivationsTest, AreThoseOfTheModel) {
  const Activations found = measured();
  std::int64_t tokens = 0;
  std::vector<double> times(400), mean(24);
  const auto source = samples();
  data::Sample sample;
  const std::vector<double> vectors = this->vectors(dense_.model);
  for (std::int64_t i = 0; i < source->count(); ++i) {
    source->read(i, sample);
    tokens += std::ssize(sample.ids);
    for (const std::int32_t id : sample.ids) times[id] += 1;
    for (int j = 0; j < 24; ++j) mean[j] += vectors[i * 24 + j] * static_cast<double>(sample.ids.size());
  }
  EXPECT_EQ(found.tokens, tokens);
  EXPECT_EQ(found.times, times);
  // The head's transform reads the encoder's output.
  const Activations::Inputs& transform = *found.layers.at("head.transform");
  for (int j = 0; j < 24; ++j) EXPECT_NEAR(transform.mean[j], mean[j] / static_cast<double>(tokens), 1e-5);
  EXPECT_EQ(std::ssize(found.layers), 2 * 6 + 1);
  for (const char* shared : {"key", "value"})
    EXPECT_EQ(found.layers.at(fmt::format("encoder.1.attention.{}", shared)),
              found.layers.at("encoder.1.attention.query"));
  EXPECT_EQ(std::ssize(found.layers.at("encoder.0.ffn.down")->mean), 48);
}

// With as many numbers the model says more nearly what it said before.
TEST_F(ActivationsTest, KeepMoreOfTheModel) {
  const Activations found = measured();
  const CheckpointReader reader(trained_dense());
  Recipe factors = checkpoint_recipe(reader);
  factors.tensorized = {};
  const fs::path by_matrix = folder() / "by-matrix.h5", by_outputs = folder() / "by-outputs.h5";
  two_factors(factors.tensorized, factors.model, 400);
  compact_dense_to_size(reader, factors, {.parameters = 12000}, by_matrix);
  const DenseCompaction done =
      compact_dense_to_size(reader, factors, {.parameters = 12000, .activations = &found}, by_outputs);
  EXPECT_LE(done.after, 12000);
  EXPECT_GE(done.after, 10800);
  for (const CompactedLayer& layer : done.layers) EXPECT_LE(layer.error, done.error + 1e-6) << layer.name;
  EXPECT_LT(distance(by_outputs), 0.8 * distance(by_matrix));
  // The search looks at ranks alone; they are those of the error that it finds.
  EXPECT_EQ(done.searched, done.after);
}

// The biases make up for what the layers lose of the mean, and nothing is lost where nothing is cut off.
TEST_F(ActivationsTest, TheMeanIsKept) {
  const Activations found = measured();
  const CheckpointReader reader(trained_dense());
  const fs::path path = folder() / "cut.h5", whole = folder() / "whole.h5";
  const Recipe recipe = dense_compaction_recipe(reader, {}, {});
  compact_dense(reader, recipe, {.error = 0.6, .activations = &found}, path);
  const LoadedModel cut(path, {}, {"precision.compute=fp32"}, "cpu");
  const auto means = [&](const Model& model) {
    std::vector<std::vector<double>> all;
    for (const Linear* layer : model.linears())
      for (int i = 0; i < layer->outputs(); ++i) {
        const auto inputs = found.layers.find(layer->output_name(i));
        if (inputs == found.layers.end()) continue;
        std::vector<double> mean = read_tensor(model.parameters().value(layer->bias(i))),
                            product(mean.size());
        multiply(inputs->second->mean, layer->matrix(i), product, 1, std::ssize(mean),
                 layer->spec().input_size);
        for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += product[j];
        all.push_back(mean);
      }
    return all;
  };
  const auto before = means(dense_.model), after = means(cut.model);
  ASSERT_EQ(before.size(), 13u);
  for (std::size_t i = 0; i < before.size(); ++i)
    for (std::size_t j = 0; j < before[i].size(); ++j) EXPECT_NEAR(after[i][j], before[i][j], 2e-5);
  EXPECT_GT(distance(path), 0.01);
  compact_dense(reader, recipe, {.error = 0, .activations = &found}, whole);
  EXPECT_LT(distance(whole), 1e-5);
}

TEST_F(ActivationsTest, TheProgramMeasuresThem) {
  const fs::path texts = folder() / "texts.txt";
  {
    std::ofstream file(texts);
    for (const auto& text : texts_) file << text[0] << '\n';
  }
  const auto compact_with = [&](const std::string& file) {
    return run_program({"compact", "--from-dense", trained_dense().string(), "--output",
                        (folder() / "small.h5").string(), "--parameters", "12000", "--activations", file});
  };
  const ProgramResult made = compact_with(texts.string());
  ASSERT_EQ(made.code, 0) << made.output;
  EXPECT_THAT(made.output, testing::HasSubstr("activations over 1,867 tokens of"));
  EXPECT_LT(distance(folder() / "small.h5"), 1);
  fs::remove(folder() / "small.h5");
  expect(compact_with((folder() / "none.txt").string()), 2, {"none.txt"});
  EXPECT_FALSE(fs::exists(folder() / "small.h5"));
}

}  // namespace
}  // namespace comera::test
