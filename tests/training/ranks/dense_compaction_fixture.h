#pragma once

#include <functional>

#include "checkpoints/model_state.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "tests/training/training_fixture.h"
#include "training/ranks/dense_compaction.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::test {

class DenseCompactionTest : public TrainingFixture {
 protected:
  // A dense baseline that has learned something, once for a process.
  static const std::filesystem::path& trained_dense() {
    static const std::filesystem::path checkpoint = [] {
      static DenseCompactionTest keeper;
      return keeper.train(keeper.recipe("dense", dense_overrides));
    }();
    return checkpoint;
  }
  static inline const std::vector<std::string> dense_overrides = {"tensorized.enabled=false",
                                                                  "phase.0.steps=60", "phase.1.steps=1"};
  void TestBody() override {}

  std::filesystem::path train(const Recipe& recipe, const std::function<void(TrainingRun&)>& before = {},
                              TrainingOptions options = {}) const {
    std::FILE* null = std::fopen("/dev/null", "w");
    options.output = null;
    std::filesystem::path checkpoint;
    {
      TrainingRun run(recipe, options);
      if (before) before(run);
      checkpoint = run.run().checkpoint;
    }
    std::fclose(null);
    return checkpoint;
  }

  // A checkpoint of a dense model that was never trained, of any recipe that the fixture's can be turned
  // into.
  std::filesystem::path write_dense(const std::vector<std::string>& overrides,
                                    const std::function<void(Model&)>& change = {}) const {
    std::vector<std::string> all = overrides;
    all.emplace_back("tensorized.enabled=false");
    const Recipe dense = recipe("none", all);
    Model model(encoder_config(dense, 400), host_allocator(), false);
    model.parameters().initialize(5);
    if (change) change(model);
    std::filesystem::path path = folder() / "random.h5";
    CheckpointWriter writer(path);
    save_parameters(writer, model.parameters());
    writer.attributes("/recipe", {{"toml", to_toml(dense)}});
    writer.attributes("/trainer",
                      {{"step", std::int64_t{3}}, {"phase", std::int64_t{0}}, {"tokens", std::int64_t{7}}});
    writer.attributes("/data", {{"vocabulary", std::int64_t{400}}});
    writer.commit();
    return path;
  }

  DenseCompaction compact(const std::filesystem::path& source, const std::filesystem::path& output,
                          const DenseCompactionOptions& options,
                          const std::vector<std::string>& overrides = {}) const {
    const CheckpointReader dense(source);
    return compact_dense(dense, dense_compaction_recipe(dense, {}, overrides), options, output);
  }
};

}  // namespace comera::test
