// Filling masks with a trained model.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/masking/masked_text.h"
#include "model/encoder_micro_batches.h"
#include "tests/training/float8_overrides.h"
#include "tests/training/training_fixture.h"
#include "training/inference/fillings.h"
#include "training/inference/trained_model.h"
#include "training/tasks/masked_language_task.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Fill : public TrainingFixture {
 protected:
  std::FILE* silent() {
    if (null_ == nullptr) null_ = std::fopen("/dev/null", "w");
    return null_;
  }
  ~Fill() override {
    if (null_ != nullptr) std::fclose(null_);
  }

  fs::path train(const std::string& name, const std::vector<std::string>& overrides = {}) {
    TrainingRun run(recipe(name, overrides), {.output = silent()});
    run.run();
    return folder() / name;
  }

  static ProgramResult fill(const fs::path& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"fill-mask", model.string()});
    return run_program(more);
  }

  // The objects that the command writes with these arguments.
  std::vector<nlohmann::json> objects(const fs::path& model, std::vector<std::string> more) const {
    const std::string file = (folder() / "filled.jsonl").string();
    more.insert(more.end(), {"--output", file, "--overwrite"});
    const ProgramResult result = fill(model, more);
    EXPECT_EQ(result.code, 0) << result.output;
    std::vector<nlohmann::json> objects;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
    return objects;
  }

  std::string write(const char* name, const std::string& text) const {
    std::ofstream(folder() / name) << text;
    return (folder() / name).string();
  }

 private:
  std::FILE* null_ = nullptr;
};

// The held-out loss of an evaluation is the mean of -log of what is said of the same masks.
void expect_the_held_out_loss(const fs::path& run, double tolerance) {
  LoadedModel loaded(run, {}, {}, "cpu");
  const auto set = data::open_sequences(loaded.recipe.data.validation, "validation", loaded.tokenizer);
  const std::int64_t length = loaded.recipe.phases.back().length;
  data::LoaderOptions options;
  options.capacity = data::capacity_for(96, length, 0.15, loaded.tokenizer.vocabulary());
  options.one_pass = true;
  StepEngine engine(loaded.model, loaded.processor);
  options.right_modulus = loaded.model.token_embedding().right_rows();
  engine.set_micro_batches(EncoderMicroBatches(loaded.model, options.capacity));
  engine.clear_results();
  data::Loader loader(set->samples(length, 1 << 20), options);
  std::vector<data::Sample> sequences;
  for (int micro_batch = 0; micro_batch < 6; ++micro_batch) {
    const data::Batch& batch = loader.next();
    engine.load(batch.block());
    engine.evaluate();
    for (std::int32_t s = 0, target = 0; s < batch.sequences; ++s) {
      const std::int32_t begin = batch.sequence_offsets[s], end = batch.sequence_offsets[s + 1];
      data::Sample& sequence = sequences.emplace_back();
      sequence.ids = {batch.token_ids.begin() + begin, batch.token_ids.begin() + end};
      sequence.type_ids.resize(sequence.ids.size());
      for (; target < batch.masked && batch.masked_positions[target] < end; ++target) {
        sequence.targets.positions.push_back(batch.masked_positions[target] - begin);
        sequence.targets.ids.push_back(batch.masked_targets[target]);
      }
    }
  }
  double loss = 0, correct = 0, targets = 0;
  run_masked(loaded.model, loaded.processor, sequences, loaded.tokenizer.special(),
             [&](std::size_t sequence, std::size_t target, std::span<const double> logits) {
               const Standing standing =
                   standing_of(sequences[sequence].targets.ids[target], logits, std::ssize(logits));
               loss -= std::log(standing.probability);
               correct += standing.rank == 1;
               ++targets;
             });
  const StepResults results = engine.results();
  EXPECT_EQ(targets, results.target_count);
  EXPECT_GT(targets, 40);
  EXPECT_NEAR(loss, results.loss_sum, tolerance * results.loss_sum);
  EXPECT_NEAR(correct, static_cast<double>(results.correct), tolerance * targets);
}

TEST_F(Fill, ProbabilitiesAreThoseOfTheHeldOutLoss) {
  expect_the_held_out_loss(train("trains"), 1e-5);
  expect_the_held_out_loss(train("dense", {"tensorized.enabled=false", "model.norm=\"pre\""}), 1e-5);
  expect_the_held_out_loss(train("relative", {"model.positions=\"relative\""}), 1e-5);
  expect_the_held_out_loss(train("rotary", {"model.positions=\"rotary\""}), 1e-5);
  expect_the_held_out_loss(train("narrow", {"precision.compute=\"bf16\""}), 0.01);
  expect_the_held_out_loss(train("float8", in_float8("delayed")), 0.01);
}

// Micro-batches, and parts of a sequence with many masks, change nothing.
TEST_F(Fill, ManyMasksAndManyTexts) {
  const fs::path run = train("run");
  std::string text = "def count(total):";
  for (int i = 0; i < 11; ++i) text += " [MASK]";
  std::string lines, long_line;
  for (int i = 0; i < 300; ++i) lines += text + "\n";
  const auto many = objects(run, {"--input", write("many.txt", lines), "--top", "3"});
  const auto one = objects(run, {text, "--top", "3"});
  ASSERT_EQ(one.size(), 11u);
  ASSERT_EQ(many.size(), 3300u);
  for (std::size_t i = 0; i < many.size(); ++i) {
    EXPECT_EQ(many[i]["line"], i / 11 + 1);
    EXPECT_EQ(many[i]["mask"], i % 11 + 1);
    EXPECT_EQ(many[i]["position"], one[i % 11]["position"]);
    const auto &a = many[i]["fillings"], &b = one[i % 11]["fillings"];
    ASSERT_EQ(a.size(), 3u);
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(a[k]["probability"].get<double>(), b[k]["probability"].get<double>(), 1e-5);
  }
}

TEST_F(Fill, WritesWhatItPrints) {
  const fs::path run = train("run");
  const std::string text = "    return [MASK]\n    # the total";
  const auto all = objects(run, {text, "--top", "100000"});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["text"], text);
  const data::Tokenizer tokenizer = data::Tokenizer::load(run / "tokenizer.model");
  ASSERT_EQ(std::ssize(all[0]["fillings"]), tokenizer.vocabulary());
  double sum = 0, before = 1;
  for (const auto& filling : all[0]["fillings"]) {
    const double probability = filling["probability"];
    EXPECT_LE(probability, before);
    sum += before = probability;
    EXPECT_EQ(filling["piece"], tokenizer.piece(filling["id"]));
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  const ProgramResult printed = fill(run, {text, "--top", "400"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.output, AllOf(testing::StartsWith("    return [MASK]\n  0."), HasSubstr("\\n"),
                                    Not(HasSubstr("# the total"))));
  // A piece that is a line end keeps to its line.
  EXPECT_EQ(std::ranges::count(printed.output, '\n'), 1 + std::min(400, tokenizer.vocabulary()));
  EXPECT_THAT(printed.output, HasSubstr("return\\n\n"));
  const ProgramResult two = fill(run, {"def [MASK](total, [MASK]):", "return [MASK]", "--top", "1"});
  EXPECT_THAT(two.output, AllOf(testing::StartsWith("mask 1 of 2: def [MASK](total, [MASK]):\n  0."),
                                HasSubstr("\nmask 2 of 2: def [MASK](total, [MASK]):\n  0."),
                                HasSubstr("\nreturn [MASK]\n  0.")));
}

// Whatever brackets a text has, it is one text.
TEST_F(Fill, TextsInBrackets) {
  const fs::path run = train("run");
  const std::vector<std::string> texts = {
      "[MASK]", "[MASK] = [a, b]", "[a, [MASK]]", "[f([MASK]), g([MASK])]", "[[MASK], [MASK]]", "[[MASK]]"};
  const std::vector<int> lines = {1, 2, 3, 4, 4, 5, 5, 6};
  for (const bool separator : {false, true}) {
    std::vector<std::string> words = {"--top", "2"};
    if (separator) words.emplace_back("--");
    words.insert(words.end(), texts.begin(), texts.end());
    std::vector<std::string> all = {"fill-mask", run.string(), "--output",
                                    (folder() / "filled.jsonl").string(), "--overwrite"};
    all.insert(all.end(), words.begin(), words.end());
    const ProgramResult result = run_program(all);
    ASSERT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("8 predictions for 6 texts"));
    std::ifstream file(folder() / "filled.jsonl");
    std::size_t at = 0;
    for (std::string line; std::getline(file, line); ++at) {
      ASSERT_LT(at, lines.size());
      const nlohmann::json object = nlohmann::json::parse(line);
      EXPECT_EQ(object["line"], lines[at]);
      EXPECT_EQ(object["text"], texts[lines[at] - 1]);
    }
    EXPECT_EQ(at, lines.size());
  }
  for (const std::string& text : texts) {
    const ProgramResult result =
        fill(run, {text, "--top", "1", "--set", "tensorized.ffn_up.ranks=[4, 7, 6]"});
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr(text + "\n  0.")) << text;
  }
  const std::string csv = write("t.csv", "[a],b\n[MASK],x\n");
  EXPECT_EQ(fill(run, {"--input", csv, "--text", "[a]"}).code, 0);
  EXPECT_EQ(fill(run, {"--input", csv, "--text=[a]"}).code, 0);
}

TEST_F(Fill, ReadsTables) {
  const fs::path run = train("run");
  const std::string csv = write("t.csv", "name,code\na,\"return [MASK]\nx\"\nb\nc,def [MASK](x):\n");
  const auto rows = objects(run, {"--input", csv, "--text", "code"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["line"], 2);
  EXPECT_EQ(rows[0]["text"], "return [MASK]\nx");
  EXPECT_EQ(rows[1]["line"], 5);
  EXPECT_THAT(fill(run, {"--input", csv, "--text", "code"}).output,
              AllOf(HasSubstr("1 row was left out: wrong number of fields: 1 (first in line 4)"),
                    HasSubstr("line 5: def [MASK](x):\n")));
  const auto lines = objects(run, {"--input", write("t.jsonl", "{\"text\": \"\\treturn [MASK]\"}\n")});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["text"], "\treturn [MASK]");
}

TEST_F(Fill, HidesHeldOutPieces) {
  const fs::path run = train("run");
  const std::vector<std::string> arguments = {"--held-out", corpus().string(), "--examples",
                                              "6",          "--seed",          "3"};
  const auto hidden = objects(run, arguments);
  ASSERT_EQ(hidden.size(), 6u);
  int first = 0;
  std::set<std::int64_t> sequences;
  for (const auto& one : hidden) {
    sequences.insert(one["sequence"].get<std::int64_t>());
    EXPECT_THAT(one["text"].get<std::string>(), HasSubstr("[MASK]"));
    const std::int64_t rank = one["truth"]["rank"];
    if (rank <= 5) {
      EXPECT_EQ(one["fillings"][rank - 1]["id"], one["truth"]["id"]);
    }
    first += rank == 1;
    EXPECT_GT(one["truth"]["probability"].get<double>(), 0);
  }
  EXPECT_EQ(sequences.size(), 6u);
  EXPECT_EQ(objects(run, arguments), hidden);
  const ProgramResult printed = fill(run, arguments);
  EXPECT_EQ(printed.code, 0) << printed.output;
  EXPECT_THAT(printed.output, HasSubstr(fmt::format("{} of 6 hidden pieces were the first guess, ", first)));
  EXPECT_THAT(printed.output, AllOf(HasSubstr(", guess "), Not(HasSubstr("rank"))));
  auto others = arguments;
  others.back() = "4";
  EXPECT_NE(objects(run, others), hidden);
  others.back() = "9223372036854775807";
  EXPECT_EQ(objects(run, others).size(), 6u);
  // No more than there are.
  const ProgramResult many = fill(run, {"--held-out", corpus().string(), "--examples", "100000"});
  EXPECT_EQ(many.code, 0) << many.output.substr(0, 1000);
  EXPECT_THAT(many.output, HasSubstr("held-out sequences of up to 32 tokens"));
}

TEST_F(Fill, IsToldWhatIsMissingOrWrong) {
  const fs::path run = train("run");
  const auto refused = [&](const std::vector<std::string>& more, int code,
                           const std::vector<std::string>& parts) { expect(fill(run, more), code, parts); };
  refused({}, 2, {"no texts to fill", "[MASK]", "--input", "--held-out"});
  refused({"x [MASK]", "--input", "y"}, 2, {"TEXT, --input and --held-out", "only one of"});
  refused({"return x"}, 2, {"'return x' has no [MASK]"});
  refused({"x [MASK]", ""}, 2, {"the value is empty"});
  refused({"x [MASK]", "\xff [MASK]"}, 2, {"is not UTF-8"});
  refused({"x [MASK]", "--text", "code"}, 2, {"--text has an effect only with --input"});
  refused({"x [MASK]", "--seed", "1"}, 2, {"--seed has an effect only with --held-out"});
  refused({"x [MASK]", "--top", "0"}, 2, {"--top"});
  refused({"x [MASK]", "--output", (folder() / "o.tsv").string()}, 2, {"o.tsv", "must end with .jsonl"});
  refused({"x [MASK]", "--output", write("there.jsonl", "x")}, 2, {"there.jsonl", "--overwrite"});
  refused({"--input", (folder() / "none.txt").string()}, 2, {"none.txt: no such file"});
  refused({"--input", write("empty.txt", "")}, 1, {"empty.txt", "holds no text"});
  refused({"--input", write("t.tsv", "a\tb\nx\ty\n")}, 1, {"t.tsv", "no column 'text'"});
  refused({"--input", write("bytes.txt", "\xff [MASK]\n")}, 1, {"bytes.txt", "invalid UTF-8"});
  refused({"--input", write("without.txt", "[MASK] a\nno mask\n")}, 2,
          {"line 2 of ", "without.txt has no [MASK]"});
  refused({"--held-out", (folder() / "none").string()}, 2,
          {"none: no such folder of shards; write them with 'comera data'"});
  // The recipe's longest phase has 32 tokens, which are all the positions that are learned.
  std::string text = "[MASK]";
  for (int i = 0; i < 40; ++i) text += "\n";
  refused({text}, 2,
          {"has 43 tokens with [CLS] and [SEP]", "at most 32", "shorten it", "learned 32 positions"});
  refused({"[MASK]\n\n\n\n\n\n", "--length", "8"}, 2, {"has 9 tokens", "at most 8", "--length 9"});
  refused({text, "--length", "64"}, 2, {"--length 64", "max_positions"});
  const fs::path relative = train("relative", {"model.positions=\"relative\""});
  expect(fill(relative, {text}), 2, {"at most 32", "give --length 43"});
  EXPECT_EQ(fill(relative, {text, "--length", "43"}).code, 0);

  write("train.jsonl", "{\"a\": \"total\", \"label\": \"x\"}\n{\"a\": \"count\", \"label\": \"y\"}\n");
  const ProgramResult tuned = run_program(
      {"finetune", write_recipe().string(), "--from", run.string(), "--output", (folder() / "tuned").string(),
       "--set", "task.name=t", "--set", fmt::format("task.train=\"{}\"", (folder() / "train.jsonl").string()),
       "--set", "task.text=a", "--set", "task.label=label", "--stop-after", "1"});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  expect(fill(folder() / "tuned", {"x [MASK]"}), 2, {"tuned", "fine-tuned", "give the pretrained model"});
}

// A model may have more ids than its tokenizer has pieces.
TEST_F(Fill, IdsWithoutAPiece) {
  const fs::path run = train("wide", {"model.vocabulary=512"});
  const data::Tokenizer tokenizer = data::Tokenizer::load(run / "tokenizer.model");
  ASSERT_LT(tokenizer.vocabulary(), 500);
  const auto all = objects(run, {"return [MASK]", "--top", "100000"});
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(std::ssize(all[0]["fillings"]), tokenizer.vocabulary());
  double sum = 0;
  std::set<std::int32_t> ids;
  for (const auto& filling : all[0]["fillings"]) {
    sum += filling["probability"].get<double>();
    ids.insert(filling["id"].get<std::int32_t>());
  }
  EXPECT_EQ(std::ssize(ids), tokenizer.vocabulary());
  EXPECT_EQ(*ids.rbegin(), tokenizer.vocabulary() - 1);
  EXPECT_LT(sum, 0.9999);
  EXPECT_GT(sum, 0.1);
  const ProgramResult printed = fill(run, {"return [MASK]", "--top", "512"});
  EXPECT_EQ(printed.code, 0) << printed.output;
  EXPECT_EQ(std::ranges::count(printed.output, '\n'), 1 + tokenizer.vocabulary());
  for (const auto& hidden : objects(run, {"--held-out", corpus().string(), "--top", "512"})) {
    const std::int64_t rank = hidden["truth"]["rank"];
    ASSERT_LE(rank, std::ssize(hidden["fillings"]));
    EXPECT_EQ(hidden["fillings"][rank - 1]["id"], hidden["truth"]["id"]);
  }
}

TEST_F(Fill, CountsFromTheLikeliest) {
  const std::vector<double> logits = {1, 3, 3, -700, 2};
  const std::vector<Filling> fillings = likeliest(logits, 5, 3);
  ASSERT_EQ(fillings.size(), 3u);
  EXPECT_EQ(fillings[0].id, 1);
  EXPECT_EQ(fillings[1].id, 2);
  EXPECT_EQ(fillings[2].id, 4);
  const double sum = std::exp(1) + 2 * std::exp(3) + std::exp(2);
  EXPECT_NEAR(fillings[0].probability, std::exp(3) / sum, 1e-12);
  EXPECT_EQ(likeliest(logits, 5, 9).size(), 5u);
  EXPECT_EQ(standing_of(1, logits, 5).rank, 1);
  EXPECT_EQ(standing_of(2, logits, 5).rank, 2);
  EXPECT_EQ(standing_of(3, logits, 5).rank, 5);
  EXPECT_NEAR(standing_of(0, logits, 5).probability, std::exp(1) / sum, 1e-12);
  // Ids that are no pieces have their share of the probability, and no rank.
  const std::vector<Filling> two = likeliest(logits, 2, 9);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].id, 1);
  EXPECT_EQ(two[1].id, 0);
  EXPECT_NEAR(two[1].probability, std::exp(1) / sum, 1e-12);
  EXPECT_EQ(standing_of(0, logits, 2).rank, 2);
  EXPECT_NEAR(standing_of(0, logits, 2).probability, std::exp(1) / sum, 1e-12);
  // Far beyond what exp() takes.
  EXPECT_NEAR(likeliest(std::vector<double>{5000, 5000}, 2, 1)[0].probability, 0.5, 1e-12);
}

}  // namespace
}  // namespace comera::test
