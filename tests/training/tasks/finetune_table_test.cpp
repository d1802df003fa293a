// `comera finetune --from MODEL --input TABLE`: one's own table without a recipe.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <sstream>

#include "tests/training/finetune_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FinetuneTable : public Finetune {
 protected:
  FinetuneTable() {
    TrainingRun pretraining(recipe("pre", {"phase.0.warmup_steps=0", "phase.0.steps=2", "phase.1.steps=2"}),
                            {.output = silent()});
    pretraining.run();
  }

  // 60 rows with these columns; %a and %b are words, %y is 0 or 1, %n a number with a decimal, %i the row.
  std::string table(const std::string& name, const std::string& header, const std::string& row) const {
    const std::vector<std::string> words = {"count", "total", "value", "index"};
    std::ofstream stream(folder() / name);
    stream << header << "\n";
    for (int i = 0; i < 60; ++i) {
      std::string line = row;
      const auto put = [&](const char* mark, const std::string& value) {
        for (auto at = line.find(mark); at != line.npos; at = line.find(mark)) line.replace(at, 2, value);
      };
      put("%a", words[i % 4] + " " + words[i / 4 % 4] + " of " + std::to_string(i));
      put("%b", words[i / 16 % 4]);
      put("%y", std::to_string(i % 2));
      put("%n", fmt::format("{:.1f}", i % 7 * 0.5));
      put("%i", std::to_string(i));
      stream << line << "\n";
    }
    return (folder() / name).string();
  }
  ProgramResult tune(const std::string& input, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"finetune",
                                    "--input",
                                    input,
                                    "--set",
                                    "phase.0.epochs=1",
                                    "--set",
                                    "phase.0.tokens_per_micro_batch=256"};
    if (std::ranges::find(more, "--from") == more.end()) all.insert(all.end(), {"--from", at("pre")});
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
  std::string at(const std::string& run) const { return (folder() / run).string(); }
  Recipe tuned(const std::string& run) const { return load_recipe(folder() / run / "recipe.toml"); }
};

TEST_F(FinetuneTable, NeedsNoMoreThanTheModelAndTheTable) {
  const std::string input = table("one.tsv", "id\treview\tsentiment", "%i\t%a\t%y");
  const ProgramResult result = tune(input, {"--output", at("one"), "--set", "run.evaluation_epochs=0"});
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("one.tsv, 60 rows"), HasSubstr("text             review"),
                    HasSubstr("label            sentiment, 2 classes"),
                    HasSubstr("20 % of the rows, held out"), HasSubstr("best             accuracy")));
  const Recipe recipe = tuned("one");
  EXPECT_EQ(recipe.model.pairs, PairEncoding::joint);
  EXPECT_EQ(recipe.model.pooling, Pooling::mean);
  EXPECT_EQ(recipe.phases[0].length, 32) << "the model has no more positions";
  // The held-out rows are those that the run evaluated.
  const auto scores = last_line(folder() / "one/metrics.jsonl", "validation")["validation"]["held-out"];
  const ProgramResult again = run_program({"eval", at("one"), "--json"});
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_NEAR(
      nlohmann::json::parse(again.output.substr(again.output.find('{')))["held-out"]["loss"].get<double>(),
      scores["loss"].get<double>(), 1e-6);
  const ProgramResult whole = run_program({"eval", at("one"), "--json", "--input", input});
  EXPECT_EQ(nlohmann::json::parse(whole.output.substr(whole.output.find('{')))["one"]["examples"], 60);
}

TEST_F(FinetuneTable, TakesPairsScoresAndAFileToEvaluateOn) {
  const std::string pairs = table("p.csv", "question,answer,label", "%a,%b,%y");
  ASSERT_EQ(tune(pairs, {"--output", at("p"), "--validation", pairs}).code, 0);
  EXPECT_EQ(tuned("p").model.pairs, PairEncoding::separate);
  EXPECT_EQ(tuned("p").task.text, (std::vector<std::string>{"question", "answer"}));
  EXPECT_EQ(tuned("p").task.held_out, 0);
  const std::string scores = table("s.jsonl", "", R"({"id": %i, "text": "%a", "other": "%b", "stars": %n})");
  const ProgramResult scored = tune(scores, {"--output", at("s")});
  ASSERT_EQ(scored.code, 0) << scored.output;
  EXPECT_THAT(scored.output,
              AllOf(HasSubstr("label            stars, a score"), HasSubstr("best             spearman")));
}

TEST_F(FinetuneTable, AsksWhereTheTableIsNotPlain) {
  const std::string input = table("t.tsv", "text\tcomment\tlabel\tscore", "%a\t%a\t%y\t%n");
  expect(tune(input, {"--output", at("t")}), 2,
         {"'label', 'score' may all be the label", "give --label COLUMN"});
  expect(tune(input, {"--output", at("t"), "--label", "label"}), 2,
         {"'text', 'comment' may all be the text"});
  EXPECT_FALSE(fs::exists(folder() / "t"));
  EXPECT_EQ(tune(input, {"--output", at("t"), "--label", "score", "--text", "comment"}).code, 0);
  EXPECT_EQ(tuned("t").task.kind, data::TaskKind::regression);
  expect(tune(input, {"--output", at("u"), "--label", "gone"}), 2,
         {"--label gone", "text, comment, label, score"});
  expect(tune(input, {"--output", at("u"), "--text", "text,comment,score", "--label", "label"}), 2,
         {"3 columns"});
  expect(tune(at("none.tsv"), {"--output", at("u")}), 2, {"none.tsv: no such file"});
  expect(tune(input), 2, {"--output DIR"});
  expect(run_program({"finetune", "--output", at("u")}), 2, {"--from MODEL"});
  expect(run_program({"finetune", "--from", at("pre"), "--output", at("u")}), 2, {"--input FILE"});
}

// What has learned pairs in one sequence goes on with that, and with lower rates; so does what was tuned from
// it.
TEST_F(FinetuneTable, IsFittedToTheModel) {
  const std::string pairs = table("p.csv", "question,answer,label", "%a,%b,%y");
  ASSERT_EQ(run_program({"export", at("pre"), "--to", at("exported")}).code, 0);
  ASSERT_EQ(run_program({"import", at("exported"), "--output", at("bert.h5")}).code, 0);
  expect(tune(pairs, {"--from", at("exported"), "--output", at("no")}), 2,
         {"import it first: comera import"});
  ASSERT_EQ(tune(pairs, {"--from", at("bert.h5"), "--output", at("bert")}).code, 0);
  ASSERT_EQ(tune(pairs, {"--from", at("bert"), "--output", at("again")}).code, 0);
  for (const char* run : {"bert", "again"}) {
    EXPECT_EQ(tuned(run).model.pairs, PairEncoding::joint) << run;
    EXPECT_EQ(tuned(run).model.pooling, Pooling::first) << run;
    EXPECT_EQ(tuned(run).phases[0].learning_rate, LearningRates::all(5e-5)) << run;
  }
  ASSERT_EQ(tune(pairs, {"--output", at("mean"), "--set", "model.pairs=joint"}).code, 0);
  ASSERT_EQ(tune(pairs, {"--from", at("mean"), "--output", at("mean2")}).code, 0);
  EXPECT_EQ(tuned("mean2").model.pairs, PairEncoding::joint) << "as it has learned to compare";
  EXPECT_EQ(tuned("mean2").model.pooling, Pooling::mean);
}

// A resumed run keeps what it had found, and refuses another table.
TEST_F(FinetuneTable, GoesOnBitExactly) {
  const std::string input = table("one.tsv", "review\tsentiment", "%a\t%y"),
                    other = table("two.tsv", "review\tsentiment", "%a\t%y");
  ASSERT_EQ(tune(input, {"--output", at("whole")}).code, 0);
  ASSERT_EQ(tune(input, {"--output", at("cut"), "--stop-after", "1"}).code, 0);
  expect(tune(other, {"--output", at("cut"), "--resume", "auto"}), 2, {"was not started with --input"});
  fs::rename(input, at("moved.tsv"));
  expect(run_program({"resume", at("cut")}), 2,
         {"one.tsv: no such file; if it has moved: --set task.train=FILE"});
  expect(run_program({"resume", at("cut"), "--data", folder().string()}), 2, {"--set task.train=FILE"});
  fs::rename(at("moved.tsv"), input);
  const ProgramResult rest = tune(input, {"--output", at("cut"), "--resume", "auto"});
  ASSERT_EQ(rest.code, 0) << rest.output;
  EXPECT_THAT(rest.output, Not(HasSubstr("rows, held out"))) << "its own recipe says what to do";
  const fs::path last = "checkpoints/step-00000002.h5";
  expect_equal_checkpoints(folder() / "whole" / last, folder() / "cut" / last);
}

// A text has no columns, and a model of single texts reads its lines.
TEST_F(FinetuneTable, PredictsForEachLineOfAText) {
  const ProgramResult tuned = tune(table("t.tsv", "review\tlabel", "%a\t%y"), {"--output", at("run")});
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_THAT(tuned.output, Not(HasSubstr("step 0:"))) << "its head is random";
  std::ofstream(at("lines.txt")) << "count total\n\nvalue\n";
  std::ofstream(at("lines.tsv")) << "review\ncount total\n\nvalue\n";
  for (const char* input : {"lines.txt", "lines.tsv"}) {
    const ProgramResult result = run_program(
        {"predict", at("run"), "--input", at(input), "--output", at(input) + std::string(".out.jsonl")});
    ASSERT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, input == std::string("lines.txt") ? HasSubstr("each line is a text")
                                                                 : HasSubstr("2 predictions"));
  }
  const auto probabilities = [&](const char* name) {
    return last_line(folder() / name, "probabilities")["probabilities"];
  };
  EXPECT_EQ(probabilities("lines.txt.out.jsonl"), probabilities("lines.tsv.out.jsonl"));
  // A table that has lost its suffix is none, nor is what the user names a table's column.
  std::ofstream(at("lost.txt")) << "review\tlabel\ncount total\t1\n";
  const auto refused = [&](const char* input, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"predict", at("run"), "--input", at(input), "--output", at("no.jsonl")};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  expect(refused("lost.txt", {}), 1, {"its first line names the columns review, label"});
  expect(refused("lines.txt", {"--text", "review"}), 1, {"no column 'review'"});
}

// Rows are told apart by their ids, without being asked; other columns by --keep.
TEST_F(FinetuneTable, PredictionsKeepTheIdsOfTheRows) {
  const std::string input = table("t.tsv", "idx\tsentence\tlabel\tplace", "r%i\t%a\t%y\tat %b"),
                    output = at("p.tsv"), objects = at("p.jsonl");
  ASSERT_EQ(tune(input, {"--output", at("run")}).code, 0);
  const auto predict = [&](const std::string& from, const std::string& to,
                           std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"predict", at("run"), "--input", from, "--output", to, "--overwrite"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  };
  const auto beginning_of = [](const std::string& file) {
    std::ifstream stream(file);
    std::string header, row;
    std::getline(stream, header), std::getline(stream, row);
    return header + "\n" + row;
  };
  const ProgramResult usual = predict(input, output);
  ASSERT_EQ(usual.code, 0) << usual.output;
  EXPECT_THAT(usual.output, HasSubstr("column 'idx' is in the output too"));
  EXPECT_THAT(beginning_of(output), testing::StartsWith("line\tidx\tlabel\t0\t1\n2\tr0\t"));
  ASSERT_EQ(predict(input, output, {"--keep", "place,idx"}).code, 0);
  EXPECT_THAT(beginning_of(output), testing::StartsWith("line\tplace\tidx\tlabel\t0\t1\n2\tat count\tr0\t"));
  expect(predict(input, output, {"--keep", "gone"}), 2,
         {"no column 'gone' to keep", "idx, sentence, label, place"});
  // Names of the output's own columns are told apart, and a column is kept once.
  ASSERT_EQ(predict(input, output, {"--keep", "label,label"}).code, 0);
  EXPECT_THAT(beginning_of(output), testing::StartsWith("line\tinput_label\tlabel\t0\t1\n2\t0\t"));
  // In JSON they are what they were, objects left out.
  const std::string json = at("in.jsonl");
  std::ofstream(json) << R"({"id": 7, "index": {"a": 1}, "sentence": "count"}
{"id": null, "sentence": "total"}
)";
  ASSERT_EQ(predict(json, objects).code, 0);
  std::ifstream stream(objects);
  std::string first, second;
  std::getline(stream, first), std::getline(stream, second);
  EXPECT_EQ(nlohmann::json::parse(first)["id"], 7);
  // Lists stay lists.
  const std::string lists = at("lists.jsonl");
  std::ofstream(lists) << R"({"gold": ["a", "b"], "sentence": "count"})"
                       << "\n";
  ASSERT_EQ(predict(lists, objects, {"--keep", "gold"}).code, 0);
  std::ifstream kept(objects);
  std::string with_list;
  std::getline(kept, with_list);
  EXPECT_EQ(nlohmann::json::parse(with_list)["gold"], (nlohmann::json{"a", "b"}));
  ASSERT_EQ(predict(lists, output, {"--keep", "gold"}).code, 0);
  EXPECT_THAT(beginning_of(output), HasSubstr("\n1\ta,b\t"));
  EXPECT_TRUE(nlohmann::json::parse(first)["index"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(second)["id"].is_null());
}

TEST_F(FinetuneTable, IsForGlueTasksAndOtherRecipesToo) {
  fs::create_directories(folder() / "SST-2");
  fs::rename(table("t.tsv", "sentence\tlabel", "%a\t%y"), folder() / "SST-2/train.tsv");
  fs::copy(folder() / "SST-2/train.tsv", folder() / "SST-2/dev.tsv");
  for (const char* recipe : {"glue", "function_pairs", "table"}) {
    const ProgramResult result =
        run_program({"finetune", recipe, "--from", at("pre"), "--output", at(recipe), "--set",
                     "task.name=sst2", "--set", "task.folder=" + at("SST-2"), "--set", "phase.0.length=32",
                     "--set", "phase.0.epochs=1", "--set", "task.text=[]", "--set", "task.label=\"\""});
    EXPECT_EQ(result.code, 0) << recipe << result.output;
  }
  const std::string input = (folder() / "SST-2/train.tsv").string();
  const ProgramResult glue =
      run_program({"finetune", "glue", "--from", at("pre"), "--output", at("g"), "--input", input, "--set",
                   "phase.0.length=32", "--set", "phase.0.epochs=1"});
  EXPECT_EQ(glue.code, 0) << glue.output;
  expect(run_program({"finetune", "glue", "--from", at("pre"), "--output", at("h"), "--input", input, "--set",
                      "phase.0.length=32", "--set", "task.train=x"}),
         2, {"--set task.train: --input names the table"});
}

// The labels are lists in JSON, or columns of 0 and 1, with the same result.
TEST_F(FinetuneTable, LearnsSeveralLabels) {
  const std::vector<std::string> words = {"count", "total", "value", "index"};
  std::ofstream lists(folder() / "l.jsonl"), columns(folder() / "c.csv");
  columns << "text,count,total\n";
  for (int i = 0; i < 200; ++i) {
    const std::string &a = words[i % 4], &b = words[i / 4 % 4];
    const std::string text = a + " " + b + " " + std::to_string(i);
    nlohmann::json labels = nlohmann::json::array();
    for (const char* word : {"count", "total"})
      if (a == word || b == word) labels.push_back(word);
    lists << nlohmann::json{{"text", text}, {"labels", labels}}.dump() << "\n";
    columns << fmt::format("{},{},{}\n", text, a == "count" || b == "count" ? 1 : 0,
                           a == "total" || b == "total" ? 1 : 0);
  }
  lists.close(), columns.close();
  const std::vector<std::string> training = {"--set", "phase.0.epochs=20", "--set",
                                             "phase.0.learning_rate=5e-3"};
  const auto learn = [&](const std::string& file, const std::string& run, std::vector<std::string> more) {
    more.insert(more.end(), {"--output", at(run)});
    more.insert(more.end(), training.begin(), training.end());
    return tune(at(file), more);
  };
  const ProgramResult result = learn("l.jsonl", "run", {});
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("labels           labels, 2 labels, any number a text"),
                                   HasSubstr("best             micro_f1"), HasSubstr("labels: count ")));
  const auto scores = last_line(folder() / "run/metrics.jsonl", "validation")["validation"]["held-out"];
  EXPECT_GT(scores["micro_f1"].get<double>(), 0.8);
  ASSERT_EQ(learn("c.csv", "columns", {"--label", "count,total"}).code, 0);
  EXPECT_EQ(last_line(folder() / "columns/metrics.jsonl", "validation")["validation"]["held-out"], scores);
  for (const char* run : {"run", "columns"}) EXPECT_EQ(run_program({"eval", at(run)}).code, 0) << run;
  const auto by_columns = [&](const char* run, const char* labels) {
    return run_program({"eval", at(run), "--input", at("c.csv"), "--label", labels});
  };
  EXPECT_EQ(by_columns("run", "total,count").output, by_columns("columns", "count,total").output);
  expect(by_columns("run", "count,text"), 2, {"has learned the labels count, total"});
  expect(learn("l.jsonl", "no", {"--set", "task.metric=f1"}), 2, {"does not fit a task with several labels"});
  expect(learn("l.jsonl", "no", {"--set", "task.class_weights=balanced"}), 2,
         {"task.class_weights is for classes"});

  // A probability for each, of which those above 0.5 are the labels.
  ASSERT_EQ(run_program({"predict", at("run"), "--input", at("l.jsonl"), "--output", at("p.jsonl")}).code, 0);
  ASSERT_EQ(run_program({"predict", at("run"), "--input", at("l.jsonl"), "--output", at("p.tsv")}).code, 0);
  std::ifstream predictions(folder() / "p.jsonl"), tsv(folder() / "p.tsv");
  std::string line;
  std::getline(tsv, line);
  EXPECT_EQ(line, "line\tlabels\tcount\ttotal");
  int several = 0;
  while (std::getline(predictions, line)) {
    const auto prediction = nlohmann::json::parse(line);
    std::vector<std::string> likely;
    for (const char* label : {"count", "total"})
      if (prediction["probabilities"][label].get<double>() > 0.5) likely.emplace_back(label);
    EXPECT_EQ(prediction["labels"].get<std::vector<std::string>>(), likely);
    several += likely.size() == 2 ? 1 : 0;
    std::getline(tsv, line);
    EXPECT_THAT(line, HasSubstr(fmt::format("\t{}\t", fmt::join(likely, ","))));
  }
  EXPECT_GT(several, 0);

  // To transformers and back, it says the same.
  ASSERT_EQ(run_program({"export", at("run"), "--to", at("exported")}).code, 0);
  std::ifstream config(folder() / "exported/config.json");
  EXPECT_EQ(nlohmann::json::parse(config)["problem_type"], "multi_label_classification");
  ASSERT_EQ(run_program({"import", at("exported"), "--output", at("back.h5")}).code, 0);
  const ProgramResult again = run_program({"predict", at("back.h5"), "--input", at("l.jsonl"), "--output",
                                           at("q.tsv"), "--set", "task.text=text"});
  ASSERT_EQ(again.code, 0) << again.output;
  expect(run_program({"predict", at("run"), "--input", at("l.jsonl"), "--output", at("r.tsv"), "--set",
                      "task.separator=\"t\""}),
         2, {"label 'count' contains 't'", ".jsonl"});
  std::ifstream first(folder() / "p.tsv"), second(folder() / "q.tsv");
  for (std::string a, b; std::getline(first, a) && std::getline(second, b);)
    EXPECT_EQ(a.substr(0, a.find("\t0.")), b.substr(0, b.find("\t0.")));
}

// One run for each seed, as they are without --seeds, and their mean and deviation.
TEST_F(FinetuneTable, ComparesSeeds) {
  const std::string input = table("t.tsv", "sentence\tlabel", "%a\t%y");
  const auto seeds = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--output", at("seeds")});
    return tune(input, more);
  };
  const ProgramResult cut = seeds({"--seeds", "2", "--stop-after", "1"});
  ASSERT_EQ(cut.code, 0) << cut.output;
  EXPECT_THAT(cut.output, HasSubstr("stopped; repeat the command to continue"));
  const ProgramResult result = seeds({"--seeds", "2"});
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("held-out, seed"), HasSubstr("mean ± deviation")));
  ASSERT_EQ(tune(input, {"--output", at("one"), "--set", "run.seed=2"}).code, 0);
  expect_equal_checkpoints(folder() / "one/best.h5", folder() / "seeds/seed-2/best.h5");

  std::ifstream stream(folder() / "seeds/seeds.json");
  const auto json = nlohmann::json::parse(stream);
  const auto accuracy = json["scores"][0];
  ASSERT_EQ(accuracy["metric"], "accuracy");
  const auto values = accuracy["values"].get<std::vector<double>>();
  ASSERT_EQ(values.size(), 2);
  EXPECT_NEAR(accuracy["mean"].get<double>(), (values[0] + values[1]) / 2, 1e-12);
  EXPECT_NEAR(accuracy["deviation"].get<double>(), std::abs(values[0] - values[1]) / std::sqrt(2), 1e-12);
  // Finished runs stay, and are not mixed with others.
  const auto made = fs::last_write_time(folder() / "seeds/seed-1/best.h5");
  const ProgramResult again = seeds({"--seeds", "1,2"});
  EXPECT_THAT(again.output, HasSubstr("mean ± deviation"));
  EXPECT_EQ(fs::last_write_time(folder() / "seeds/seed-1/best.h5"), made);
  expect(seeds({"--seeds", "2", "--set", "phase.0.learning_rate=1e-5"}), 2,
         {"run with other settings", "learning_rate"});
  // Nor is one that was stopped.
  ASSERT_EQ(seeds({"--seeds", "3", "--stop-after", "1"}).code, 0);
  expect(seeds({"--seeds", "3", "--set", "model.dropout=0.2"}), 2, {"other settings", "model.dropout"});
  expect(seeds({"--seeds", "2,2"}), 2, {"different seeds"});
  expect(seeds({"--seeds", "2", "--set", "run.seed=4"}), 2, {"run.seed"});
  expect(tune(input, {"--output", at("one"), "--seeds", "2"}), 2, {"is a run's folder"});
  expect(tune(input, {"--output", at("seeds")}), 2, {"holds the runs of --seeds"});
  expect(run_program({"eval", at("seeds")}), 2, {"holds runs; name one: seed-1, seed-2"});
  fs::create_directories(folder() / "quickstart/today");
  fs::create_directory_symlink(folder() / "pre", folder() / "quickstart/today/run");
  expect(run_program({"eval", at("quickstart")}), 2, {"holds runs; name one: today/run"});
  expect(run_program({"resume", at("seeds")}), 2, {"repeat the command that began them"});
}

// Tables of the same things with other columns, in the format that the output's name asks for.
TEST_F(FinetuneTable, PredictsOtherTables) {
  ASSERT_EQ(tune(table("t.tsv", "idx\tsentence\tlabel", "%i\t%a\t%y"), {"--output", at("run")}).code, 0);
  const std::string other = table("o.csv", "id,body,sentiment", "\"a,%i\",%a,%y"), output = at("p.csv");
  expect(run_program({"predict", at("run"), "--input", other, "--output", output}), 2,
         {"has no column 'sentence'", "id, body, sentiment", "--text COLUMN"});
  const ProgramResult named =
      run_program({"predict", at("run"), "--input", other, "--output", output, "--text", "body"});
  ASSERT_EQ(named.code, 0) << named.output;
  std::ifstream stream(output);
  std::string header, row;
  std::getline(stream, header), std::getline(stream, row);
  EXPECT_EQ(header, "line,id,label,0,1");
  EXPECT_THAT(row, testing::StartsWith("2,\"a,0\","));
  expect(run_program({"eval", at("run"), "--input", other, "--text", "body"}), 2, {"--label COLUMN"});
  EXPECT_EQ(run_program({"eval", at("run"), "--input", other, "--text", "body", "--label", "sentiment"}).code,
            0);
  // Names that an imported model does not know are found.
  ASSERT_EQ(run_program({"export", at("run"), "--to", at("exported")}).code, 0);
  ASSERT_EQ(run_program({"import", at("exported"), "--output", at("back.h5")}).code, 0);
  const std::string reviews = table("r.csv", "id,review,sentiment,place", "%i,%a,%y,%b");
  const ProgramResult scored = run_program({"eval", at("back.h5"), "--input", reviews});
  ASSERT_EQ(scored.code, 0) << scored.output;
  EXPECT_THAT(scored.output, AllOf(HasSubstr("'sentiment' as the label"), HasSubstr("'review' as the text")));
}

// What a model has learned is not changed by settings, which would give its outputs another meaning.
TEST_F(FinetuneTable, KeepsItsTask) {
  const std::string input = table("t.tsv", "sentence\tother\tlabel", "%a\t%b\t%y");
  ASSERT_EQ(tune(input, {"--output", at("run"), "--text", "sentence"}).code, 0);
  const auto refused = [&](const std::string& command, std::vector<std::string> more, const char* why) {
    std::vector<std::string> all = {command, at("run"), "--input", input};
    if (command == "predict") all.insert(all.end(), {"--output", at("p.tsv"), "--overwrite"});
    all.insert(all.end(), more.begin(), more.end());
    expect(run_program(all), 2, {why});
  };
  for (const char* command : {"predict", "eval"}) {
    refused(command, {"--set", "task.labels=[\"1\",\"0\"]"}, "has learned these 2, in this order: 0, 1");
    refused(command, {"--set", "task.labels=[]"}, "has learned these 2");
    refused(command, {"--set", "task.kind=multi_label"}, "has learned one of several classes");
    refused(command, {"--text", "sentence,other"}, "has learned single texts");
  }
  const std::string strange = table("s.tsv", "sentence\tlabel", "%a\t%i");
  expect(run_program({"eval", at("run"), "--input", strange}), 2, {"most of the file", "unknown label"});
  // Tabs in a file that says commas.
  fs::copy(input, at("t.csv"));
  expect(run_program({"predict", at("run"), "--input", at("t.csv"), "--output", at("q.tsv")}), 2,
         {"t.csv: its fields are apart by other than its name says"});
}

// Classes may be called as the output's columns.
TEST_F(FinetuneTable, ClassesMayHaveTheNamesOfColumns) {
  std::ofstream rows(at("t.tsv"));
  rows << "id\tsentence\tlabel\n";
  for (int i = 0; i < 60; ++i) rows << i << "\tcount " << i << "\t" << (i % 2 ? "id" : "line") << "\n";
  rows.close();
  ASSERT_EQ(tune(at("t.tsv"), {"--output", at("run")}).code, 0);
  ASSERT_EQ(run_program({"predict", at("run"), "--input", at("t.tsv"), "--output", at("p.csv")}).code, 0);
  std::ifstream stream(at("p.csv"));
  std::string header;
  std::getline(stream, header);
  EXPECT_EQ(header, "line,id,label,p(id),p(line)");
}

TEST_F(FinetuneTable, SaysWhatItsScoresAreWorth) {
  const std::string input = table("t.tsv", "sentence\tlabel", "%a\t%y");
  const ProgramResult same =
      tune(input, {"--output", at("same"), "--validation", input, "--set", "phase.0.learning_rate=1e-9",
                   "--set", "task.labels=[\"0\",\"1\"]"});
  ASSERT_EQ(same.code, 0) << same.output;
  EXPECT_THAT(same.output, AllOf(HasSubstr("60 of the 60 examples of t have texts that are learned too"),
                                 HasSubstr("F1 of '1'"), HasSubstr("What to try next")));
  // A model that always gives one class.
  const ProgramResult constant =
      tune(table("u.tsv", "sentence\tlabel", "word\t%y"),
           {"--output", at("constant"), "--validation", input, "--set", "phase.0.learning_rate=1e-9"});
  ASSERT_EQ(constant.code, 0) << constant.output;
  EXPECT_THAT(constant.output, Not(HasSubstr("learned too")));
  const auto scores = last_line(folder() / "constant/metrics.jsonl", "validation")["validation"]["t"];
  EXPECT_EQ(scores["accuracy"].get<double>() <= scores["majority"].get<double>(),
            constant.output.find("no better than one that always gives") != std::string::npos);
  // Scores of which nothing was learned.
  const std::string scores_table = table("s.tsv", "sentence\tscore", "%a\t%i.5");
  const ProgramResult mean =
      tune(scores_table, {"--output", at("mean"), "--validation", scores_table, "--set",
                          "phase.0.learning_rate=1e-9", "--set", "phase.0.length=20"});
  ASSERT_EQ(mean.code, 0) << mean.output;
  EXPECT_THAT(mean.output,
              AllOf(HasSubstr("scores: standardised by a mean of 30 and a standard deviation of 17.318"),
                    HasSubstr("always gives the mean of the scores")));
  // transformers cuts texts to what was learned.
  ASSERT_EQ(run_program({"export", at("mean"), "--to", at("hf")}).code, 0);
  EXPECT_THAT(read_text(folder() / "hf/tokenizer_config.json"), HasSubstr("\"model_max_length\": 20"));
  expect(tune("-", {"--output", at("no")}), 2, {"save it to a file"});
  expect(run_program({"finetune", "--from", at("pre"), "--output", at("no"), "--input", input, input}), 2,
         {"t.tsv: is a table where a recipe is expected"});
}

TEST_F(FinetuneTable, ShowsItsCostAndFindsRates) {
  const std::string input = table("t.tsv", "sentence\tlabel", "%a\t%y");
  const ProgramResult plan = tune(input, {"--dry-run"});
  ASSERT_EQ(plan.code, 0) << plan.output;
  EXPECT_THAT(plan.output, AllOf(HasSubstr("t.tsv, 60 rows"), HasSubstr("passes           task 1"),
                                 HasSubstr("nothing was written")));
  // Longer texts fill the steps more.
  const ProgramResult longer =
      tune(table("l.tsv", "sentence\tlabel", "%a %a %a %a %a %a\t%y"), {"--dry-run"});
  ASSERT_EQ(longer.code, 0) << longer.output;
  EXPECT_LT(tokens_a_step(plan.output), tokens_a_step(longer.output));
  const ProgramResult rates = tune(input, {"--find-rate", "--trial-steps", "5"});
  ASSERT_EQ(rates.code, 0) << rates.output;
  EXPECT_THAT(rates.output, HasSubstr("loss over the last fifth of 5 steps"));
  const std::string scores = table("s.tsv", "sentence\tscore", "%a\t%i.5");
  const ProgramResult scored = tune(scores, {"--output", at("run"), "--find-rate", "--trial-steps", "5"});
  ASSERT_EQ(scored.code, 0) << scored.output;
  EXPECT_FALSE(fs::exists(folder() / "run"));
}

}  // namespace
}  // namespace comera::test
