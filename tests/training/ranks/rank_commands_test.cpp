// `comera compact` and `comera bench step` with checkpoints of runs that adapt ranks.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "checkpoints/model_state.h"
#include "measurements/rank_benchmark.h"
#include "recipes/encoder_config.h"
#include "tests/model/masked.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/rank_run.h"
#include "training/inference/trained_model.h"
#include "training/ranks/rank_compaction.h"
#include "training/resume/checkpoint_recipe.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t stop = 50;                        // in the late phase
const char* const killed = "encoder.1.attention.query";  // removed by hand; no other layer needs it

class RankCommands : public RankRun {
 protected:
  // A run that never removes what is dead within a phase; at step `stop` one layer dies by hand. In fp64, so
  // that rounding is nothing.
  TrainingOutcome train_killing(const std::string& run, TrainingOptions options = {}) const {
    TrainingRun* current = nullptr;
    options.after_step = [&](std::int64_t step) {
      if (step != stop) return;
      Trainable& model = current->engine().model();
      const Optimizer::Moments moments = current->engine().optimizer().moments();
      for (const RankedLayer& layer : model.ranked_layers())
        if (layer.name == killed)
          Executioner(model.parameters(), {moments.first, moments.second}).kill(layer);
    };
    static std::FILE* const null = std::fopen("/dev/null", "w");
    options.output = null;
    TrainingRun training(recipe(run, exact), options);
    current = &training;
    return training.run();
  }
  static inline const std::vector<std::string> exact =
      adapting({"precision.compute=fp64", "phase.1.steps=40", "phase.1.adaptation.compact_interval=0",
                "run.log_interval=1"});

  // In fp32, with dead entries, stopped within the late phase.
  fs::path masked() const {
    return train("masked", adapting({"phase.1.adaptation.compact_interval=0"}), {.stop_after = stop})
        .checkpoint;
  }

  // A checkpoint of weights alone, as other programs might write it: some entries dead, and a layer.
  fs::path write_weights() const {
    const Recipe fresh = recipe("none", {"precision.compute=fp64"});
    Model model(encoder_config(fresh, 400), host_allocator(), false);
    ParameterStore& store = model.parameters();
    store.initialize(3);
    spread_gates(store);
    const Executioner executioner(store);
    for (const RankedLayer& layer : model.ranked_layers()) {
      executioner.kill(layer, 0, 1);
      executioner.kill(layer, 1, 0);
      if (layer.name == killed) executioner.kill(layer);
    }
    fs::path path = folder() / "weights.h5";
    CheckpointWriter writer(path);
    save_parameters(writer, store);
    writer.attributes("/recipe", {{"toml", to_toml(fresh)}});
    writer.attributes("/data", {{"vocabulary", std::int64_t{400}}});
    writer.attributes("/other/deep/group", {{"text", std::string("kept")}, {"number", 2.5}});
    writer.commit();
    return path;
  }

  fs::path output() const { return folder() / "out.h5"; }
  fs::path compact(const fs::path& from) const {
    const ProgramResult result = run_program({"compact", from.string(), "--output", output().string()});
    EXPECT_EQ(result.code, 0) << result.output;
    return output();
  }
  static void refuses(const std::vector<std::string>& arguments, int code,
                      const std::vector<std::string>& parts) {
    expect(run_program(arguments), code, parts);
  }
};

void expect_close_checkpoints(const fs::path& a, const fs::path& b, double tolerance) {
  const CheckpointReader first(a), second(b);
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const CheckpointTensor& tensor : first.tensors()) {
    if (tensor.dtype != DType::float64) continue;  // the tokenizer
    ASSERT_TRUE(second.has_tensor(tensor.path)) << tensor.path;
    ASSERT_EQ(tensor.shape, second.tensor(tensor.path).shape) << tensor.path;
    EXPECT_LT(difference(first.read_values<double>(tensor.path), second.read_values<double>(tensor.path)),
              tolerance)
        << tensor.path;
  }
  EXPECT_EQ(first.attributes("/trainer"), second.attributes("/trainer"));
  EXPECT_EQ(first.attributes("/data"), second.attributes("/data"));
  EXPECT_EQ(load_rank_history(first), load_rank_history(second));
}

void expect_equal_tensors(const fs::path& a, const fs::path& b) {
  const CheckpointReader first(a), second(b);
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const CheckpointTensor& tensor : first.tensors()) {
    if (tensor.dtype != DType::float32) continue;  // the tokenizer
    EXPECT_EQ(first.read_values<float>(tensor.path), second.read_values<float>(tensor.path)) << tensor.path;
  }
}

TEST_F(RankCommands, ARunResumesFromTheCompactedCheckpoint) {
  const TrainingOutcome whole = train_killing("whole");
  const TrainingOutcome part = train_killing("part", {.stop_after = stop});
  const CheckpointReader before(part.checkpoint);
  const LayerRanks live = live_ranks(before);
  ASSERT_NE(held_ranks(before), live);
  // A folder: the file keeps the name by which a run finds it.
  const fs::path folder_of = folder() / "resumed" / "checkpoints";
  const ProgramResult result =
      run_program({"compact", part.checkpoint.string(), "--output", folder_of.string()});
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("encoder.1.attention.query +[0-9,]+ +removed\n"));
  EXPECT_THAT(result.output, ContainsRegex("removed layers +1 of [0-9]+: encoder.1.attention.query\n"));
  EXPECT_THAT(result.output, ContainsRegex("tensor trains +[0-9,]+ -> +[0-9,]+ .*MiB.*times fewer"));
  const CheckpointReader after(folder_of / part.checkpoint.filename());
  for (const auto& [layer, ranks] : live) {
    const std::vector<std::int64_t> recipe_ranks = checkpoint_recipe(after).tensorized.ranks.at(layer);
    if (layer == killed)
      EXPECT_EQ(recipe_ranks, std::vector<std::int64_t>(ranks.size(), 0));
    else
      EXPECT_EQ(recipe_ranks, ranks) << layer;
    if (layer == killed) continue;
    const bool changes = held_ranks(before).at(layer) != ranks;
    const std::string text = fmt::format("{}", fmt::join(ranks, ","));
    EXPECT_EQ(std::regex_search(result.output, std::regex(layer + " +[0-9,]+ +" + text + "\n")), changes)
        << layer;
  }
  for (const CheckpointTensor& tensor : after.tensors())
    EXPECT_TRUE(tensor.path.find(killed) == tensor.path.npos || tensor.path.find(".bias") != tensor.path.npos)
        << tensor.path;
  for (const char* group : {"/trainer", "/data", "/rng", "/environment", "/ranks"})
    EXPECT_EQ(before.attributes(group), after.attributes(group)) << group;
  EXPECT_EQ(load_rank_history(before), load_rank_history(after));
  const TrainingOutcome rest = train("resumed", exact, {.mode = RunMode::resume});
  EXPECT_TRUE(rest.finished);
  expect_close_checkpoints(whole.checkpoint, rest.checkpoint, 1e-8);
  const auto expected = rank_lines("whole"), got = rank_lines("resumed");
  ASSERT_EQ(got.size(), expected.size() - stop);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i]["loss"].get<double>(), expected[stop + i]["loss"].get<double>(), 1e-8);
    EXPECT_EQ(got[i]["ranks"]["live"], expected[stop + i]["ranks"]["live"]);
  }
}

// To the bit what the run would have written, had it removed the dead at this step.
TEST_F(RankCommands, CompactWritesWhatTrainingWould) {
  const fs::path before = masked(), after = compact(before);
  ASSERT_NE(held_ranks(CheckpointReader(before)), live_ranks(CheckpointReader(before)));
  const TrainingOutcome own =
      train("own", adapting({fmt::format("phase.1.adaptation.compact_interval={}", stop - 30)}),
            {.stop_after = stop});
  expect_equal_checkpoints(own.checkpoint, after);
  const CheckpointReader a(own.checkpoint), b(after);
  EXPECT_EQ(a.groups(), b.groups());
  for (const std::string& group : a.groups())
    EXPECT_TRUE(group == "/recipe" || a.attributes(group) == b.attributes(group)) << group;
  EXPECT_EQ(checkpoint_recipe(a).tensorized.ranks, checkpoint_recipe(b).tensorized.ranks);
}

TEST_F(RankCommands, TheCompactedModelSaysTheSame) {
  const fs::path before = masked(), after = compact(before);
  const auto loss_of = [&](const fs::path& file) {
    const ProgramResult result =
        run_program({"eval", file.string(), "--tokenizer", (corpus() / "tok.model").string(), "--device",
                     "cpu", "--json"});
    EXPECT_EQ(result.code, 0) << result.output;
    const auto line = nlohmann::json::parse(result.output.substr(result.output.find('{')), nullptr, false);
    return line.contains("validation_loss") ? line["validation_loss"].get<double>() : std::nan("");
  };
  const double expected = loss_of(before);
  EXPECT_NEAR(loss_of(after), expected, 1e-5 * expected);
  const LoadedModel large(before, corpus() / "tok.model", {}, "cpu"),
      small(after, corpus() / "tok.model", {}, "cpu");
  EXPECT_LT(small.model.parameters().count(), large.model.parameters().count());
  // Other runs begin with it, and once more there is nothing to remove.
  const ProgramResult next =
      run_program({"pretrain", write_recipe().string(), "--from", after.string(), "--output",
                   (folder() / "next").string(), "--set", "phase.0.steps=1", "--set",
                   "phase.0.warmup_steps=0", "--set", "phase.1.steps=1"});
  EXPECT_EQ(next.code, 0) << next.output;
  const ProgramResult again =
      run_program({"compact", after.string(), "--output", (folder() / "again.h5").string()});
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("nothing to remove\nsaved "));
  EXPECT_EQ(read_text(folder() / "again.h5"), read_text(after));
}

TEST_F(RankCommands, AFileOfWeightsAlone) {
  const fs::path before = write_weights(), after = compact(before);
  const CheckpointReader a(before), b(after);
  for (const CheckpointTensor& tensor : b.tensors()) EXPECT_TRUE(tensor.path.starts_with("/model/"));
  EXPECT_EQ(b.attributes("/other/deep/group"), a.attributes("/other/deep/group"));
  EXPECT_EQ(held_ranks(b).at("encoder.0.attention.query"), (std::vector<std::int64_t>{3, 5, 4}));
  // Entry 1 of bond 0 and entry 0 of bond 1 are gone from the core between them.
  const std::string core = "/model/encoder.0.attention.query.core.1";
  const std::vector<double> all = a.read_values<double>(core), left = b.read_values<double>(core);
  std::vector<double> expected;
  for (const std::int64_t row : {0, 2, 3})
    for (std::int64_t mode = 0; mode < 6; ++mode)
      for (std::int64_t column = 1; column < 6; ++column)
        expected.push_back(all[(row * 6 + mode) * 6 + column]);
  EXPECT_EQ(left, expected);
  EXPECT_FALSE(held_ranks(b).contains(killed));
}

TEST_F(RankCommands, WrongUsesOfCompact) {
  const std::string some = write_weights().string(), out = output().string();
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"compact", some, "--output", out};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  refuses({"compact", "--output", out}, 2, {"give one checkpoint", "--from-dense"});
  refuses(with({"--from-dense", some}), 2, {"give one checkpoint", "--from-dense"});
  refuses(with({"--error", "0.2"}), 2, {"--error", "--from-dense"});
  refuses(with({"--max-rank", "3"}), 2, {"--max-rank", "--from-dense"});
  refuses(with({"--recipe-ranks"}), 2, {"--recipe-ranks", "--from-dense"});
  refuses(with({"--recipe", "x.toml"}), 2, {"--recipe", "--from-dense"});
  refuses(with({"--set", "tensorized.plan=dense"}), 2, {"--set", "--from-dense"});
  refuses({"compact", some}, 2, {"--output"});
  refuses({"compact", some, "--output", some}, 2, {"is the checkpoint itself"});
  refuses({"compact", (folder() / "absent.h5").string(), "--output", out}, 2, {"absent.h5: no such file"});
  EXPECT_FALSE(fs::exists(output()));
  compact(some);
  refuses(with({}), 2, {out, "--overwrite"});
  EXPECT_EQ(run_program(with({"--overwrite"})).code, 0);
  const std::vector<std::string> dense = {"tensorized.enabled=false"};
  const TrainingOutcome outcome = train("dense", dense, {.stop_after = 1});
  refuses({"compact", outcome.checkpoint.string(), "--output", out, "--overwrite"}, 1,
          {outcome.checkpoint.string(), "dense", "no ranks"});
  refuses({"bench", "step", "--checkpoint", outcome.checkpoint.string()}, 1, {"dense", "no ranks"});
}

struct Row {
  double ms = 0, mebibytes = 0, parameters = 0;
  std::vector<double> times;
};

// Of the table that `bench step --checkpoint` prints, by the model's name.
std::map<std::string, Row> rows_of(const std::string& text) {
  static const std::regex line(
      R"(^(\w+) +([\d.]+) \(([\d.]+) to ([\d.]+)\) +([\d.]+) +([\d.]+) +([\d.]+) +([\d,]+) +([\d.]+)$)");
  std::map<std::string, Row> rows;
  std::istringstream stream(text);
  std::smatch match;
  for (std::string each; std::getline(stream, each);)
    if (std::regex_match(each, match, line)) {
      const auto number = [&](int group) {
        std::string digits = match[group];
        std::erase(digits, ',');
        return std::stod(digits);
      };
      rows[match[1]] = {number(2), number(6), number(8), {number(5), number(7), number(9)}};
    }
  return rows;
}

TEST_F(RankCommands, BenchComparesBeforeMaskedCompactedAndDense) {
  const fs::path file = masked();
  const CheckpointReader reader(file);
  const RankCompaction compaction(reader);
  const std::vector<std::string> bench = {"bench",    "step", "--tokens",  "32", "--length",    "16",
                                          "--device", "cpu",  "--repeats", "1",  "--checkpoint"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = bench;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  const ProgramResult result = with({file.string()});
  ASSERT_EQ(result.code, 0) << result.output;
  const auto rows = rows_of(result.output);
  ASSERT_EQ(rows.size(), 4u) << result.output;
  const Row &before = rows.at("before"), &dead = rows.at("masked"), &live = rows.at("compacted"),
            &dense = rows.at("dense");
  const auto parameters_of = [](const EncoderConfig& config) {
    return static_cast<double>(Model(config, host_allocator(), false).parameters().count());
  };
  const EncoderConfig start = encoder_config(recipe("none"), 400);
  EXPECT_EQ(before.parameters, parameters_of(start));
  EXPECT_EQ(dead.parameters, before.parameters);
  EXPECT_EQ(live.parameters, parameters_of(encoder_config(compaction.recipe(), 400)));
  EXPECT_LT(live.parameters, before.parameters);
  EXPECT_EQ(dense.parameters, parameters_of(start.dense_baseline()));
  EXPECT_EQ(dead.mebibytes, before.mebibytes);
  EXPECT_LE(live.mebibytes, before.mebibytes);
  EXPECT_EQ(live.times, (std::vector<double>{1, 1, 1}));
  EXPECT_NEAR(before.times[2], before.parameters / live.parameters, 0.006);
  EXPECT_NEAR(before.times[0], before.ms / live.ms, 0.01 + 0.02 * before.times[0]);
  for (const auto& [name, row] : rows) EXPECT_GT(row.ms, 0) << name;
  EXPECT_THAT(result.output, HasSubstr("32 tokens in sequences of 16"));
  EXPECT_THAT(result.output, Not(HasSubstr("same model")));
  // A run's folder; without the dense baseline; with the profile.
  const ProgramResult profiled = with({(folder() / "masked").string(), "--only-tensorized", "--profile"});
  ASSERT_EQ(profiled.code, 0) << profiled.output;
  EXPECT_EQ(rows_of(profiled.output).size(), 3u) << profiled.output;
  EXPECT_THAT(profiled.output, HasSubstr("the quickest compacted step, operation by operation"));
  EXPECT_THAT(profiled.output, HasSubstr("TTLinear"));
  refuses({"bench", "step"}, 2, {"give one model", "--checkpoint"});
  refuses({"bench", "step", write_recipe().string(), "--checkpoint", file.string()}, 2, {"give one model"});
  refuses({"bench", "step", "--checkpoint", file.string(), "--set", "model.layers=1"}, 2,
          {"--set", "--checkpoint"});
  refuses({"bench", "step", "--checkpoint", file.string(), "--vocabulary", "9"}, 2,
          {"--vocabulary", "--checkpoint"});
  refuses({"bench", "step", "--checkpoint", file.string(), "--tokens", "33", "--length", "16"}, 2,
          {"not a multiple"});
}

// Without a history the model began with the ranks of the recipe's kinds, if those can have shrunk to these.
TEST_F(RankCommands, BenchWithoutAHistory) {
  const fs::path weights = write_weights(), compacted = compact(weights);
  const std::vector<std::string> bench = {"bench",     "step", "--tokens",          "32",
                                          "--length",  "16",   "--device",          "cpu",
                                          "--repeats", "1",    "--only-tensorized", "--checkpoint"};
  for (const fs::path& file : {weights, compacted}) {
    std::vector<std::string> arguments = bench;
    arguments.push_back(file.string());
    const ProgramResult result = run_program(arguments);
    ASSERT_EQ(result.code, 0) << result.output;
    auto rows = rows_of(result.output);
    EXPECT_EQ(rows["before"].parameters,
              Model(encoder_config(recipe("none"), 400), host_allocator(), false).parameters().count());
    EXPECT_GT(rows["before"].parameters, rows["compacted"].parameters);
    EXPECT_THAT(result.output, HasSubstr("float32"));
  }
  // Ranks that no run began with.
  const Recipe larger = recipe("none", {"tensorized.ranks.encoder.0.ffn.up=[4, 20, 6]"});
  Model model(encoder_config(larger, 400), host_allocator(), false);
  model.parameters().initialize(1);
  const fs::path file = folder() / "larger.h5";
  CheckpointWriter writer(file);
  save_parameters(writer, model.parameters());
  writer.attributes("/recipe", {{"toml", to_toml(larger)}});
  writer.attributes("/data", {{"vocabulary", std::int64_t{400}}});
  writer.commit();
  std::vector<std::string> arguments = bench;
  arguments.push_back(file.string());
  refuses(arguments, 1, {"encoder.0.ffn.up", "[4, 20, 6]", "[4, 7, 6]"});
}

// For use, without what only training needs: of pruned ranks, of none, and of a dense model.
TEST_F(RankCommands, WeightsAlone) {
  const fs::path pruned = masked(), dense_run = folder() / "dense";
  train("dense", {"tensorized.enabled=false"}, {});
  const auto weights_of = [&](const fs::path& from, const char* name) {
    fs::path to = folder() / name;
    const ProgramResult made =
        run_program({"compact", from.string(), "--weights-only", "--output", to.string()});
    EXPECT_EQ(made.code, 0) << made.output;
    EXPECT_THAT(made.output, HasSubstr("without optimizer state: "));
    EXPECT_LT(fs::file_size(to), fs::file_size(find_trained_model(from).checkpoint) * 2 / 3);
    const CheckpointReader reader(to);
    EXPECT_TRUE(std::ranges::none_of(reader.tensors(), [](const CheckpointTensor& tensor) {
      return tensor.path.starts_with("/optimizer");
    }));
    return to;
  };
  const fs::path compacted = weights_of(pruned, "pruned.h5"), again = weights_of(compact(pruned), "again.h5"),
                 dense = weights_of(dense_run, "dense.h5");
  EXPECT_EQ(held_ranks(CheckpointReader(compacted)), live_ranks(CheckpointReader(pruned)));
  expect_equal_tensors(compacted, again);
  // The same model: what it says is the same.
  const auto scores = [&](const fs::path& model) {
    const ProgramResult scored = run_program({"eval", model.string(), "--json"});
    EXPECT_EQ(scored.code, 0) << scored.output;
    return scored.output.substr(scored.output.find("\"validation_loss\""));
  };
  EXPECT_EQ(scores(dense), scores(find_trained_model(dense_run).checkpoint));
  EXPECT_EQ(scores(again), scores(output()));
  refuses({"compact", dense_run.string(), "--output", output().string()}, 1, {"holds a dense model"});
  refuses({"compact", "--from-dense", dense_run.string(), "--weights-only", "--output", output().string()}, 2,
          {"--weights-only"});
}

// The masked model of the benchmark is the compacted one with zeros behind: compacted, it is that one again.
TEST_F(RankCommands, SlicesInFrontAreTheSameModel) {
  const CheckpointReader reader(write_weights());
  const RankCompaction compaction(reader);
  const Model small(encoder_config(compaction.recipe(), 400), host_allocator(), false);
  compaction.write_parameters(small.parameters());
  const Model large(encoder_config(recipe("none", {"precision.compute=fp64"}), 400), host_allocator(), false);
  write_in_front(small.parameters(), large.parameters());
  EXPECT_EQ(live_ranks(large.config(), large), compaction.after());
  const std::vector<RankedLayer> layers = large.ranked_layers();
  const Model again(encoder_config(compaction.recipe(), 400), host_allocator(), false);
  CompactedParameters(large.parameters(), {}, layers, live_entries(large.parameters(), layers))
      .write(again.parameters(), {});
  EXPECT_EQ(read_tensor(again.parameters().values()), read_tensor(small.parameters().values()));
}

}  // namespace
}  // namespace comera::test
