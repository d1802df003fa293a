// Export and import as the program runs them.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/checkpoint_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ExchangeCommands : public TrainingFixture {
 protected:
  ExchangeCommands() {
    TrainingRun run(recipe("run"), {.output = std::fopen("/dev/null", "w")});
    run.run();
  }
  std::string in(const std::string& name) const { return (folder() / name).string(); }
  static double loss(const std::string& model) {
    const ProgramResult eval = run_program({"eval", model, "--data", corpus().string(), "--json"});
    EXPECT_EQ(eval.code, 0) << eval.output;
    return nlohmann::json::parse(eval.output.substr(eval.output.find('{')))["validation_loss"].get<double>();
  }
};

TEST_F(ExchangeCommands, GoRound) {
  const ProgramResult exported = run_program({"export", in("run"), "--to", in("hf")});
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_THAT(exported.output, HasSubstr("a model of type bert, which transformers loads directly"));
  EXPECT_THAT(exported.output, HasSubstr("read back, its logits match to"));
  const std::string card = read_text(folder() / "hf/README.md");
  for (const char* part : {"pipeline_tag: fill-mask", "12 steps on", "| validation_loss |", "[[phase]]"})
    EXPECT_THAT(card, HasSubstr(part));
  EXPECT_THAT(card, testing::Not(HasSubstr(folder().string())));  // nobody else's folders
  const ProgramResult imported = run_program({"import", in("hf"), "--output", in("back.h5")});
  ASSERT_EQ(imported.code, 0) << imported.output;
  const auto newest = folder() / "run/checkpoints/step-00000012.h5";
  ASSERT_EQ(run_program({"export", newest.string(), "--to", in("hf"), "--overwrite"}).code, 0);
  ASSERT_EQ(run_program({"import", in("hf"), "--output", in("back.h5"), "--overwrite"}).code, 0);
  EXPECT_NEAR(loss(in("back.h5")), loss(newest.string()), 1e-5);

  const ProgramResult trains = run_program({"export", in("run"), "--to", in("small"), "--tensor-trains"});
  ASSERT_EQ(trains.code, 0) << trains.output;
  EXPECT_LT(fs::file_size(folder() / "small/model.safetensors"),
            fs::file_size(folder() / "hf/model.safetensors"));
  EXPECT_THAT(read_text(folder() / "small/modeling_comera.py"), HasSubstr("class ComeraForMaskedLM"));
}

// A vocabulary that the tokenizer decides limits the rows of their own; resumed, exported and compacted, the
// model keeps the rows that it has.
TEST_F(ExchangeCommands, RowsThatTheTokenizerLimitsGoRound) {
  const std::vector<std::string> settings = {"model.vocabulary=0", "tensorized.embedding.frequent_rows=390"};
  for (const auto& [mode, stop] : {std::pair{RunMode::fresh, 5}, {RunMode::resume, 0}}) {
    TrainingRun run(recipe("limited", settings),
                    {.mode = mode, .stop_after = stop, .output = std::fopen("/dev/null", "w")});
    run.run();
  }
  const std::string run = in("limited");
  const auto rows = [](const std::string& checkpoint) {
    const CheckpointReader reader(checkpoint);
    for (const CheckpointTensor& tensor : reader.tensors())
      if (tensor.path.ends_with("frequent")) return tensor.shape[0];
    return std::int64_t{0};
  };
  const std::string newest = run + "/checkpoints/step-00000012.h5";
  EXPECT_EQ(rows(newest), 200);  // half of 400 pieces
  ASSERT_EQ(run_program({"export", newest, "--to", in("hf")}).code, 0);
  ASSERT_EQ(run_program({"import", in("hf"), "--output", in("back.h5")}).code, 0);
  ASSERT_EQ(run_program({"compact", newest, "--output", in("compact.h5")}).code, 0);
  EXPECT_EQ(rows(in("compact.h5")), 200);
  for (const char* other : {"back.h5", "compact.h5"})
    EXPECT_NEAR(loss(in(other)), loss(newest), 1e-5) << other;
}

// For sentence-transformers: the encoder alone, its modules, and nothing of them in other exports.
TEST_F(ExchangeCommands, SentenceVectorsGoRound) {
  const ProgramResult exported =
      run_program({"export", in("run"), "--to", in("vectors"), "--sentence-vectors"});
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_THAT(exported.output, HasSubstr("sentence-transformers loads it"));
  const auto json = [&](const char* file) {
    return nlohmann::json::parse(read_text(folder() / "vectors" / file));
  };
  EXPECT_EQ(json("config.json")["architectures"][0], "BertModel");
  ASSERT_EQ(json("modules.json").size(), 3u);
  EXPECT_EQ(json("modules.json")[1]["path"], "1_Pooling");
  EXPECT_EQ(json("sentence_bert_config.json")["max_seq_length"], 32);
  EXPECT_EQ(json("sentence_bert_config.json")["model_args"]["add_pooling_layer"], false);
  EXPECT_EQ(json("1_Pooling/config.json")["pooling_mode_mean_tokens"], true);
  EXPECT_THAT(read_text(folder() / "vectors/README.md"), HasSubstr("pipeline_tag: sentence-similarity"));
  EXPECT_THAT(read_text(folder() / "vectors/model.safetensors"), testing::Not(HasSubstr("cls.predictions")));
  // The vectors are those of the run.
  const ProgramResult imported = run_program({"import", in("vectors"), "--output", in("back.h5")});
  ASSERT_EQ(imported.code, 0) << imported.output;
  EXPECT_THAT(imported.output, HasSubstr("use embed --normalize"));
  std::ofstream(in("t.txt")) << "def total(values):\n";
  std::vector<std::vector<double>> vectors;
  for (const char* model : {"run", "back.h5"}) {
    const ProgramResult embedded =
        run_program({"embed", in(model), "--input", in("t.txt"), "--normalize", "--overwrite", "--output",
                     in("v.jsonl"), "--set", "precision.compute=fp32"});
    ASSERT_EQ(embedded.code, 0) << embedded.output;
    vectors.push_back(nlohmann::json::parse(read_text(folder() / "v.jsonl"))["vector"]);
  }
  ASSERT_EQ(vectors[0].size(), vectors[1].size());
  for (std::size_t i = 0; i < vectors[0].size(); ++i) EXPECT_NEAR(vectors[0][i], vectors[1][i], 1e-5);
  ASSERT_EQ(
      run_program({"export", in("run"), "--to", in("vectors"), "--sentence-vectors", "--overwrite"}).code, 0);
  EXPECT_TRUE(fs::exists(in("vectors/2_Normalize")));
  ASSERT_EQ(run_program({"export", in("run"), "--to", in("vectors"), "--overwrite"}).code, 0);
  EXPECT_FALSE(fs::exists(in("vectors/modules.json")));
  EXPECT_FALSE(fs::exists(in("vectors/1_Pooling")));
  EXPECT_FALSE(fs::exists(in("vectors.partial")));
}

// Vectors of an import are those of sentence-transformers, or there are none.
TEST_F(ExchangeCommands, PoolAsSentenceTransformersDoes) {
  ASSERT_EQ(run_program({"export", in("run"), "--to", in("vectors"), "--sentence-vectors"}).code, 0);
  std::ofstream(folder() / "t.txt") << "def f(x):\nreturn x\n";
  std::ofstream(folder() / "s.tsv") << "sentence1\tsentence2\tscore\ndef f\tdef g\t1\nreturn\tx\t0\n";
  const auto pool_by = [&](const std::string& mode) {
    std::ofstream(folder() / "vectors/1_Pooling/config.json") << "{\"pooling_mode\": \"" + mode + "\"}";
    ASSERT_EQ(run_program({"import", in("vectors"), "--output", in("back.h5"), "--overwrite"}).code, 0);
  };
  const auto embed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"embed",       in("back.h5"), "--input",    in("t.txt"),
                                    "--overwrite", "--output",    in("v.jsonl")};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run_program(all).code, 0);
    return read_text(folder() / "v.jsonl");
  };
  for (const auto& [mode, pooling] : {std::pair("cls", "first"), std::pair("mean", "mean")}) {
    pool_by(mode);
    EXPECT_EQ(embed({}), embed({"--pooling", pooling})) << mode;
    const ProgramResult again =
        run_program({"export", in("back.h5"), "--to", in("again"), "--sentence-vectors", "--overwrite"});
    ASSERT_EQ(again.code, 0) << again.output;
    EXPECT_EQ(
        nlohmann::json::parse(read_text(folder() / "again/1_Pooling/config.json"))["pooling_mode_cls_token"],
        std::string(mode) == "cls");
  }
  EXPECT_NE(embed({"--pooling", "first"}), embed({"--pooling", "mean"}));
  EXPECT_THAT(run_program({"eval", in("back.h5"), "--similarity", in("s.tsv"), "--length", "4"}).output,
              HasSubstr("of 4 texts cut to 4 tokens"));
  EXPECT_THAT(run_program({"eval", in("back.h5"), "--similarity", in("s.tsv")}).output,
              testing::Not(HasSubstr("texts cut")));
  pool_by("cls");
  expect(run_program({"fill-mask", in("back.h5"), "def [MASK]"}), 2, {"its head is random", "pretrain"});
  expect(run_program({"eval", in("back.h5"), "--data", in("none")}), 2, {"its head is random"});
  const ProgramResult compacted = run_program({"compact", "--from-dense", in("back.h5"), "--recipe",
                                               write_recipe().string(), "--output", in("small.h5")});
  ASSERT_EQ(compacted.code, 0) << compacted.output;
  fs::rename(in("small.h5"), in("back.h5"));
  EXPECT_EQ(embed({}), embed({"--pooling", "first"}));
  expect(run_program({"fill-mask", in("back.h5"), "def [MASK]"}), 2, {"its head is random"});
  pool_by("max");
  embed({"--pooling", "mean"});
  expect(run_program({"embed", in("back.h5"), "--input", in("t.txt"), "--output", in("w.h5")}), 2,
         {"makes its vectors by max", "--pooling mean or first"});
  expect(run_program({"eval", in("back.h5"), "--similarity", in("s.tsv")}), 2, {"makes its vectors by max"});
  expect(run_program({"export", in("back.h5"), "--to", in("w"), "--sentence-vectors"}), 2,
         {"makes its vectors by max", "without --sentence-vectors"});
  const ProgramResult alone = run_program({"export", in("back.h5"), "--to", in("w")});
  EXPECT_EQ(alone.code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("it is the encoder alone: its head is random"));
  EXPECT_FALSE(fs::exists(in("w/modules.json")));
  expect(run_program({"predict", in("back.h5"), "--input", in("t.txt"), "--output", in("p.tsv")}), 2, {});
  EXPECT_THAT(run_program({"inspect", in("back.h5")}).output, HasSubstr("its head is random"));
}

// What was there before stays until the new export is whole, and files that are not an export's stay for
// good.
TEST_F(ExchangeCommands, AnExportThatFailsLeavesWhatWasThere) {
  ASSERT_EQ(run_program({"export", in("run"), "--to", in("hf")}).code, 0);
  const std::string weights = read_text(folder() / "hf/model.safetensors");
  std::ofstream(in("hf/mine.txt")) << "mine";
  TrainingRun(recipe("dense", {"tensorized.enabled=false", "phase.0.objective='fixed'"}),
              {.output = std::fopen("/dev/null", "w")})
      .run();
  expect(run_program({"export", in("dense"), "--to", in("hf"), "--tensor-trains", "--overwrite"}), 2,
         {"has no tensor trains"});
  EXPECT_EQ(read_text(folder() / "hf/model.safetensors"), weights);
  expect(run_program({"export", in("dense"), "--to", in("new"), "--tensor-trains"}), 2,
         {"has no tensor trains"});
  EXPECT_FALSE(fs::exists(in("new")));
  EXPECT_FALSE(fs::exists(in("new.partial")));
  EXPECT_FALSE(fs::exists(in("hf.partial")));
  // What a kill has left is no hindrance; what is somebody's is.
  fs::create_directory(in("hf.partial"));
  std::ofstream(in("hf.partial/config.json")) << "{";
  ASSERT_EQ(run_program({"export", in("run"), "--to", in("hf/"), "--tensor-trains", "--overwrite"}).code, 0);
  EXPECT_LT(fs::file_size(in("hf/model.safetensors")), weights.size());
  EXPECT_EQ(read_text(folder() / "hf/mine.txt"), "mine");
  fs::create_directory(in("hf.partial"));
  std::ofstream(in("hf.partial/thesis.txt")) << "mine";
  expect(run_program({"export", in("run"), "--to", in("hf"), "--overwrite"}), 1,
         {"hf.partial: is in the way"});
  // A model from elsewhere is not ours to replace.
  fs::create_directory(in("theirs"));
  std::ofstream(in("theirs/config.json")) << "{}";
  std::ofstream(in("theirs/README.md")) << "---\ntags:\n- bert\n---\n";
  expect(run_program({"export", in("run"), "--to", in("theirs"), "--overwrite"}), 2,
         {"the folder holds other files"});
}

TEST_F(ExchangeCommands, RefuseWhatIsInTheWay) {
  ASSERT_EQ(run_program({"export", in("run"), "--to", in("hf")}).code, 0);
  expect(run_program({"export", in("run"), "--to", in("hf")}), 2, {"already holds a model", "--overwrite"});
  expect(run_program({"export", in("run"), "--to", in("run")}), 2, {"the folder holds other files"});
  expect(run_program({"export", in("run"), "--to", in("recipe.toml").empty() ? "" : write_recipe().string()}),
         2, {"is a file; give a folder"});
  expect(run_program({"export", in("gone"), "--to", in("x")}), 2, {"no such checkpoint"});
  expect(run_program({"import", in("gone"), "--output", in("x.h5")}), 2, {"no such folder"});
  expect(run_program({"import", in("hf"), "--output", in("x")}), 2, {"ends with .h5"});
  expect(run_program({"import", in("run"), "--output", in("x.h5")}), 1, {"config.json"});
  EXPECT_FALSE(fs::exists(folder() / "x.h5"));
  EXPECT_FALSE(fs::exists(folder() / "x"));
}

}  // namespace
}  // namespace comera::test
