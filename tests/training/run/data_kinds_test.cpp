// Training on whole words and on files of masked sequences, stopped and resumed.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "data/corpus/build_shards.h"
#include "data/tokenizers/tokenizer.h"
#include "storage/hash.h"
#include "storage/hdf5.h"
#include "tests/training/training_fixture.h"
#include "training/rates/rate_search.h"
#include "training/tasks/masked_language_task.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;

class DataKinds : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, TrainingOptions options,
                        const std::vector<std::string>& overrides) {
    std::FILE* null = std::fopen("/dev/null", "w");
    options.output = null;
    TrainingOutcome outcome = TrainingRun(recipe(run, overrides), options).run();
    std::fclose(null);
    return outcome;
  }

  // Whole, and stopped on the way.
  TrainingOutcome expect_to_resume(const std::string& run, const std::vector<std::string>& overrides) {
    TrainingOutcome whole = train(run + "-whole", {}, overrides);
    train(run, {.stop_after = 4}, overrides);
    const TrainingOutcome resumed = train(run, {.mode = RunMode::resume}, overrides);
    EXPECT_TRUE(resumed.finished);
    expect_equal_checkpoints(whole.checkpoint, resumed.checkpoint);
    EXPECT_EQ(whole.evaluation->loss, resumed.evaluation->loss);
    return whole;
  }

  // Rows of 6 to 14 tokens with two targets each, or only one row of so many (0: no row).
  void write_rows(const std::string& name, std::int64_t rows, std::uint64_t seed,
                  std::int64_t rows_for_targets = 1) const {
    const data::Tokenizer tokenizer = data::Tokenizer::load(corpus() / "tok.model");
    constexpr std::int64_t width = 16, most_targets = 3;
    std::vector<std::int32_t> ids(rows * width), mask(rows * width), segments(rows * width);
    std::vector<std::int32_t> positions(rows * most_targets), targets(rows * most_targets);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto bits = storage::mix64(seed + static_cast<std::uint64_t>(row));
      const auto length = static_cast<std::int64_t>(6 + bits % 9);
      for (std::int64_t i = 0; i < length; ++i) {
        ids[row * width + i] =
            static_cast<std::int32_t>(10 + storage::mix64(bits + static_cast<std::uint64_t>(i)) % 200);
        mask[row * width + i] = 1;
      }
      ids[row * width] = tokenizer.special().cls;
      ids[row * width + length - 1] = tokenizer.special().separator;
      if (rows_for_targets == 0 || row % rows_for_targets != 0) continue;
      for (std::int64_t target = 0; target < 2; ++target) {
        const std::int64_t at = 1 + 2 * target;
        positions[row * most_targets + target] = static_cast<std::int32_t>(at);
        targets[row * most_targets + target] = ids[row * width + at];
        ids[row * width + at] = tokenizer.special().mask;
      }
    }
    fs::create_directories(folder() / "rows");
    std::filesystem::remove(folder() / "rows" / name);
    storage::hdf5::File file = storage::hdf5::File::create(folder() / "rows" / name);
    const auto write = [&](const char* dataset, const std::vector<std::int32_t>& values,
                           std::int64_t columns) {
      file.create_dataset(dataset, DType::int32, {columns}, {.chunk_rows = 50, .deflate = 4})
          .append(std::span<const std::int32_t>(values));
    };
    write("input_ids", ids, width);
    write("input_mask", mask, width);
    write("segment_ids", segments, width);
    write("masked_lm_positions", positions, most_targets);
    write("masked_lm_ids", targets, most_targets);
    file.close();
  }
  std::vector<std::string> on_rows(const std::string& targets) const {
    const std::string rows = (folder() / "rows").string();
    return {"data.train=" + rows, "data.validation=" + rows, "data.targets=" + targets};
  }
};

// Two sources that differ: the fixture's, and lists of numbers.
class Sources : public DataKinds {
 protected:
  Sources() { make_shards("numbers", 40); }
  void make_shards(const std::string& name, int files) const {
    const fs::path source = folder() / (name + "-files");
    fs::create_directories(source);
    for (int i = 0; i < files; ++i) {
      std::ofstream file(source / fmt::format("f{}.txt", i));
      for (std::uint64_t j = 0; j < 60; ++j)
        file << storage::mix64(1000 * i + j) % 1000 << (j % 9 == 8 ? '\n' : ' ');
    }
    data::FileCorpus documents({.inputs = {source}, .languages = {}});
    data::build_shards(documents, data::Tokenizer::load(corpus() / "tok.model"),
                       {.output = folder() / name, .held_out = 0.3});
  }
  std::vector<std::string> mixed(const char* of_code, const char* of_numbers) const {
    return {"data.train=''", "data.validation=''",
            fmt::format("data.source=[{{folder='{}'{}}}, {{folder='{}/numbers/'{}}}]", corpus().string(),
                        of_code, folder().string(), of_numbers)};
  }
  std::string refusal(const std::vector<std::string>& overrides) {
    try {
      train("refused", {}, overrides);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }
};

TEST_F(Sources, SomeFoldersOrAPartOfThemAreScored) {
  const TrainingOutcome outcome = train("one", {.stop_after = 2}, {});
  const std::string numbers = (folder() / "numbers").string(), code = corpus().string();
  const auto score = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", outcome.checkpoint.string(), "--json", "--data"});
    return nlohmann::json::parse(run_program(more).output);
  };
  const nlohmann::json both = score({code, numbers});
  ASSERT_EQ(both["sources"].size(), 2) << both.dump();
  const double of_code = score({code})["validation_loss"], of_numbers = score({numbers})["validation_loss"];
  EXPECT_EQ(both["sources"][corpus().filename().string()]["validation_loss"], of_code);
  EXPECT_EQ(both["sources"]["numbers"]["validation_loss"], of_numbers);
  make_shards("many", 200);
  const std::string many = (folder() / "many").string();
  const nlohmann::json all = score({many}), part = score({many, "--batches", "1"});
  EXPECT_LT(part["validation_targets"], all["validation_targets"]);
  expect(run_program({"eval", outcome.checkpoint.string(), "--data", folder().string()}), 1,
         {"has no validation shards, but its folders have (many, numbers)"});
}

TEST_F(Sources, ResumeToTheBitAndAreEvaluatedEach) {
  const TrainingOutcome even = expect_to_resume("even", mixed(", weight=1", ", weight=1"));
  ASSERT_EQ(even.evaluation->details_as<MaskedLanguageDetails>().sources.size(), 2);
  const SourceEvaluation &code = even.evaluation->details_as<MaskedLanguageDetails>().sources[0],
                         &numbers = even.evaluation->details_as<MaskedLanguageDetails>().sources[1];
  EXPECT_EQ(code.name, corpus().filename().string());
  EXPECT_EQ(numbers.name, "numbers");
  EXPECT_NEAR(even.evaluation->loss, (code.loss + numbers.loss) / 2, 1e-12);
  EXPECT_EQ(even.evaluation->targets, code.targets + numbers.targets);
  EXPECT_NE(code.loss, numbers.loss);
  EXPECT_NE(code.baselines.unigram, numbers.baselines.unigram);
  // Each as a set of its own.
  std::vector<std::string> alone = mixed(", weight=1", ", weight=1");
  alone[1] = fmt::format("data.validation='{}/numbers'", folder().string());
  const TrainingOutcome only = train("alone", {}, alone);
  EXPECT_EQ(only.evaluation->loss, numbers.loss) << "of the same model";
  EXPECT_TRUE(only.evaluation->details_as<MaskedLanguageDetails>().sources.empty());

  const TrainingOutcome uneven = train("uneven", {}, mixed(", weight=20", ", weight=1"));
  EXPECT_LT(uneven.evaluation->details_as<MaskedLanguageDetails>().sources[0].loss, code.loss);
  EXPECT_GT(uneven.evaluation->details_as<MaskedLanguageDetails>().sources[1].loss, numbers.loss);
  EXPECT_NEAR(uneven.evaluation->loss,
              (20 * uneven.evaluation->details_as<MaskedLanguageDetails>().sources[0].loss +
               uneven.evaluation->details_as<MaskedLanguageDetails>().sources[1].loss) /
                  21,
              1e-12);

  // Without weights by the targets, and in metrics.
  const TrainingOutcome plain = train("plain", {}, mixed("", ""));
  const auto& of = plain.evaluation->details_as<MaskedLanguageDetails>().sources;
  EXPECT_NEAR(
      plain.evaluation->loss,
      (of[0].loss * static_cast<double>(of[0].targets) + of[1].loss * static_cast<double>(of[1].targets)) /
          static_cast<double>(plain.evaluation->targets),
      1e-12);
  std::ifstream stream(folder() / "plain" / "metrics.jsonl");
  double last = 0;
  for (std::string line; std::getline(stream, line);)
    if (const auto values = nlohmann::json::parse(line); values.contains("sources"))
      last = values["sources"]["numbers"]["validation_loss"];
  EXPECT_NEAR(last, of[1].loss, 1e-12);
  const ProgramResult evaluated = run_program({"eval", plain.checkpoint.string(), "--json"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, testing::HasSubstr("\"numbers\""));
}

// The held-out part of a source whose files say nothing of training is the whole.
TEST_F(Sources, WhatIsTrainedOnIsNotHeldOut) {
  write_rows("a.hdf5", 40, 1);
  const std::string rows = (folder() / "rows").string();
  const std::string of_rows = fmt::format("data.source=[{{folder='{}'}}]", rows);
  EXPECT_THAT(refusal({"data.train=''", "data.validation=''", of_rows}),
              testing::HasSubstr("the held-out data equal the training data"));
  EXPECT_THAT(refusal({"data.train=''", "data.validation=" + rows, of_rows}),
              testing::HasSubstr("the held-out data equal the training data"));
}

TEST_F(Sources, ThoseWithoutAHeldOutPartAreTrainedOn) {
  fs::remove(folder() / "numbers" / "validation-00000.h5");
  const TrainingOutcome outcome = train("run", {}, mixed(", weight=1", ", weight=1"));
  ASSERT_EQ(outcome.evaluation->details_as<MaskedLanguageDetails>().sources.size(), 1);
  EXPECT_EQ(outcome.evaluation->loss,
            outcome.evaluation->details_as<MaskedLanguageDetails>().sources[0].loss);
}

TEST_F(Sources, OtherWeightsAreAnotherOrderOfTheData) {
  train("run", {.stop_after = 2}, mixed(", weight=1", ", weight=2"));
  EXPECT_THAT([&] { train("run", {.mode = RunMode::resume}, mixed(", weight=2", ", weight=1")); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("other sources or weights")));
}

TEST_F(Sources, AModelIsEvaluatedWithoutThemWhereOthersAreNamed) {
  std::vector<std::string> settings = mixed("", "");
  fs::copy(folder() / "numbers", folder() / "held-out");
  settings[1] = fmt::format("data.validation='{}/held-out'", folder().string());
  const TrainingOutcome outcome = train("run", {}, settings);
  fs::rename(folder() / "numbers", folder() / "elsewhere");
  const ProgramResult evaluated = run_program({"eval", outcome.checkpoint.string()});
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, testing::HasSubstr("the unigram baseline is unknown"));
}

TEST_F(Sources, WhatDoesNotGoTogetherIsRefused) {
  std::vector<std::string> both = mixed("", "");
  both.erase(both.begin());
  EXPECT_THAT(refusal(both), testing::HasSubstr("data.train and [[data.source]] both name training data"));
  EXPECT_THAT(refusal(mixed(", weight=1", "")),
              testing::HasSubstr("data.source.1 has no weight, unlike data.source.0"));
  EXPECT_THAT(refusal(mixed(", weight=0", ", weight=1")), testing::HasSubstr("data.source.0.weight"));
  const std::string code = corpus().string();
  EXPECT_THAT(
      refusal({"data.train=''", fmt::format("data.source=[{{folder='{0}'}}, {{folder='{0}/'}}]", code)}),
      testing::HasSubstr("data.source.1.folder and data.source.0.folder both end in"));
  EXPECT_THAT(refusal({"data.train=''", "data.source=[]"}),
              testing::HasSubstr("at least one [[data.source]]"));
  EXPECT_THAT(refusal({"data.train=''", "data.validation=''", "data.source=[{folder='nowhere'}]"}),
              testing::HasSubstr("nowhere"));
  EXPECT_THAT(refusal({"data.train=''"}), testing::HasSubstr("data.train is empty"));
}

// By the program: packages that are held out, without what they share with others or nearly repeat.
TEST_F(DataKinds, ShardsOfHeldOutPackages) {
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((folder() / name).parent_path());
    std::ofstream(folder() / name) << text;
  };
  const auto body = [](std::uint64_t seed, int words) {
    std::string text;
    for (int i = 0; i < words; ++i)
      text += fmt::format("name_{} = other_{}\n",
                          storage::mix64(seed * 1000 + static_cast<std::uint64_t>(i)) % 1000, i);
    return text;
  };
  const std::string function =
      "def shared(first, second):\n    total = first * second + first // second\n    print(total, first, "
      "second)\n"
      "    return sorted([total, first, second, first - second], reverse=True)[0]\n";
  write("train/a/one.py", body(1, 60) + function);
  write("train/a/two.py", body(2, 60));
  write("train/b/near.py", body(2, 60) + "last = 1\n");
  write("held/c/new.py", body(3, 60));
  write("held/c/copied.py", body(4, 60) + function);
  const std::vector<std::string> command = {"data",
                                            "--input",
                                            (folder() / "train").string(),
                                            "--held-out-input",
                                            (folder() / "held").string(),
                                            "--near-duplicates",
                                            "0.8",
                                            "--tokenizer",
                                            (corpus() / "tok.model").string(),
                                            "--output",
                                            (folder() / "shards").string()};
  const ProgramResult made = run_program(command);
  ASSERT_EQ(made.code, 0) << made.output;
  EXPECT_EQ(data::ShardSet(folder() / "shards", "train").documents(), 2);
  EXPECT_EQ(data::ShardSet(folder() / "shards", "validation").documents(), 1);
  for (const char* reason : {"near duplicate", "function in training data"})
    EXPECT_THAT(made.output, testing::ContainsRegex(fmt::format("{} +1 +[0-9,]+ ", reason)));
  std::vector<std::string> refused = command;
  refused.insert(refused.end(), {"--overwrite", "--held-out", "0.1"});
  expect(run_program(refused), 2, {"--held-out"});
  refused = command;
  refused[6] = "7";
  refused.emplace_back("--overwrite");
  expect(run_program(refused), 2, {"from 0.75 to 1"});
}

TEST_F(DataKinds, WholeWordsResumeToTheBitAndAreNotSingleTokens) {
  const TrainingOutcome words = expect_to_resume("words", {"data.whole_word_masking=true"});
  const TrainingOutcome tokens = train("tokens", {}, {});
  EXPECT_NE(words.evaluation->loss, tokens.evaluation->loss);
}

// A phase masks its training data by a share of its own; held-out data keep theirs.
TEST_F(DataKinds, PhasesMaskByTheirOwnShare) {
  const std::vector<std::string> more = {"phase.0.mask_probability=0.6"};
  const TrainingOutcome masked = expect_to_resume("more", more);
  const TrainingOutcome plain = train("plain", {}, {});
  EXPECT_EQ(masked.evaluation->targets, plain.evaluation->targets);
  EXPECT_NE(masked.evaluation->loss, plain.evaluation->loss);
  const auto targets_of = [this](const std::string& run) {
    std::map<std::string, double> targets;
    std::ifstream stream(folder() / run / "metrics.jsonl");
    for (std::string line; std::getline(stream, line);)
      if (const auto values = nlohmann::json::parse(line); values.contains("targets"))
        targets[values["phase"]] += values["targets"].get<double>();
    return targets;
  };
  const auto own = targets_of("more-whole"), usual = targets_of("plain");
  const std::string first = own.begin()->first, second = own.rbegin()->first;
  ASSERT_NE(first, second);
  const auto ratio = [&](const std::string& phase) { return own.at(phase) / usual.at(phase); };
  EXPECT_NEAR(ratio(recipe("x").phases[0].name), 4, 0.6);
  EXPECT_EQ(ratio(recipe("x").phases[1].name), 1);
}

TEST_F(DataKinds, AShareOfMasksChangesNothingWhereTargetsAreGiven) {
  write_rows("a_training_0.hdf5", 20, 1);
  write_rows("a_test_0.hdf5", 20, 5000);
  const std::vector<std::string> plain = on_rows("file");
  std::vector<std::string> settings = plain;
  settings.insert(settings.end(), {"phase.0.mask_probability=0.05", "phase.1.mask_probability=0.3"});
  expect_equal_checkpoints(train("run", {}, plain).checkpoint, train("masked", {}, settings).checkpoint);
  settings = on_rows("dynamic");
  settings.emplace_back("phase.1.mask_probability=0.3");
  train("dynamic", {.stop_after = 1}, settings);
}

TEST_F(DataKinds, FilesOfMaskedSequencesResumeToTheBit) {
  write_rows("a_training_0.hdf5", 150, 1);
  write_rows("a_training_1.hdf5", 90, 1000);
  write_rows("a_test_0.hdf5", 40, 5000);
  const TrainingOutcome fixed = expect_to_resume("fixed", on_rows("file"));
  EXPECT_EQ(fixed.evaluation->targets, 80) << "those of the file";
  const TrainingOutcome dynamic = expect_to_resume("dynamic", on_rows("dynamic"));
  EXPECT_NE(dynamic.evaluation->loss, fixed.evaluation->loss);
}

// A step without targets has no loss, and is no failure; a whole set without them is refused.
TEST_F(DataKinds, StepsWithoutTargetsHaveNoLoss) {
  write_rows("a_training.hdf5", 200, 1, 199);
  write_rows("a_test.hdf5", 40, 5000);
  std::vector<std::string> settings = on_rows("file");
  settings.insert(settings.end(), {"run.log_interval=1", "run.threads=1", "phase.0.micro_batches_per_step=1",
                                   "phase.1.micro_batches_per_step=1"});
  train("run", {}, settings);
  int without = 0, with = 0;
  std::ifstream stream(folder() / "run" / "metrics.jsonl");
  for (std::string line; std::getline(stream, line);) {
    EXPECT_EQ(line.find("null"), line.npos) << line;
    const nlohmann::json values = nlohmann::json::parse(line);
    if (!values.contains("targets")) continue;
    EXPECT_EQ(values.contains("loss"), values["targets"] > 0) << line;
    ++(values["targets"] > 0 ? with : without);
  }
  EXPECT_GT(without, 0);
  EXPECT_EQ(without + with, 12);
  // Nor is it a divergence to a search for rates over the same batches.
  std::vector<std::string> with_some = settings;
  with_some.insert(with_some.end(), {"phase.0.steps=30", "phase.0.learning_rate=1e-3"});
  write_rows("a_training.hdf5", 200, 1, 10);
  std::FILE* null = std::fopen("/dev/null", "w");
  const RateReport report = find_rates(recipe("rates", with_some), {.steps = 30, .output = null});
  std::fclose(null);
  for (const RateCurve& curve : report.curves)
    for (const RateTrial& trial : curve.trials)
      EXPECT_TRUE(std::isfinite(trial.loss) || trial.rates.other > 0.1) << curve.name;
  const auto refusal = [&](const std::string& run) {
    try {
      train(run, {}, on_rows("file"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  write_rows("a_test.hdf5", 40, 5000, 1000);  // the first row alone
  EXPECT_EQ(refusal("few"), "");
  write_rows("a_test.hdf5", 40, 5000, 0);
  EXPECT_THAT(refusal("none"), testing::HasSubstr("rows: has nothing to predict: no row of its files"));
  write_rows("a_training.hdf5", 40, 1, 0);
  EXPECT_THAT(refusal("none"), testing::HasSubstr("has a target in masked_lm_positions"));
  EXPECT_FALSE(fs::exists(folder() / "none"));
}

TEST_F(DataKinds, WhatDoesNotGoTogetherIsRefused) {
  const auto refusal = [&](std::vector<std::string> overrides, const char* more = nullptr) {
    if (more != nullptr) overrides.emplace_back(more);
    try {
      train("refused", {}, overrides);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  write_rows("a.hdf5", 50, 1);
  EXPECT_THAT(refusal(on_rows("file")), testing::HasSubstr("the held-out data equal the training data"));
  EXPECT_THAT(refusal(on_rows("file"), "data.whole_word_masking=true"),
              testing::HasSubstr("set data.targets to \"dynamic\""));
  EXPECT_THAT(refusal(on_rows("file"), "data.targets=always"), testing::HasSubstr("data.targets"));
  write_rows("b_training.hdf5", 50, 7);
  EXPECT_THAT(refusal(on_rows("file"), "phase.0.length=8"),
              testing::HasSubstr("more than the 8 of a sequence"));
}

}  // namespace
}  // namespace comera::test
