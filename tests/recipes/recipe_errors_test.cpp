// Every way of getting a recipe wrong is answered by one sentence with the place.

#include <gmock/gmock.h>

#include "tests/recipes/sample.h"

namespace comera::test {
namespace {

TEST(RecipeErrors, TheSampleIsValid) { EXPECT_EQ(refusal(sample), ""); }

TEST(RecipeErrors, WholeSentences) {
  EXPECT_EQ(refusal(edited("layers", "layrs")),
            "r.toml:2:1: model.layrs is not a key of [model]; did you mean 'layers'?");
  EXPECT_EQ(refusal(edited("layers = 2", "layers = \"two\"")),
            "r.toml:2:10: model.layers is 'two'; expected an integer from 1 to 1024");
  EXPECT_EQ(refusal(edited("layers = 2\n", "")),
            "r.toml:1:1: [model] lacks layers; it must be given, or be that of a trained model (--from of "
            "pretrain and finetune)");
  EXPECT_EQ(refusal(edited("heads = 4", "heads = 5")),
            "r.toml:3:10: model.hidden = 64 is not divisible by model.heads = 5");
  EXPECT_EQ(refusal(edited("[8, 16, 8]", "[8, 99, 8]")),
            "r.toml:9:1: tensorized.attention: rank 99 of bond 2 is impossible; choose 1 to 64");
  EXPECT_EQ(refusal(edited("length = 32", "length = 64")),
            "r.toml:16:10: phase.0.length = 64 is longer than model.max_positions = 32; lower it");
}

// What only an encoder has is refused in a click model's recipe, and the other way round.
TEST(RecipeErrors, AClickModelIsNoEncoder) {
  const std::string clicks =
      "[dlrm]\nwidth = 4\ntop = [8]\n[[phase]]\nname = \"a\"\nexamples_per_micro_batch = 16\nsteps = 5\n"
      "learning_rate = 1e-3\n";
  const auto refused = [&](const std::string& more, const std::vector<std::string>& overrides = {}) {
    return refusal(more + clicks, overrides);
  };
  EXPECT_EQ(refused(""), "");
  EXPECT_EQ(refused("[model]\nlayers = 1\n"),
            "r.toml:1:1: [model] is not for a click model ([dlrm]); remove one of them");
  EXPECT_THAT(refused("[task]\nname = \"x\"\n"), testing::HasSubstr("[task] is not for a click model"));
  EXPECT_THAT(refused("", {"data.tokenizer=t.model"}),
              testing::HasSubstr("data.tokenizer is not for a click model; remove it"));
  EXPECT_THAT(
      refused("", {"phase.0.length=16"}),
      testing::HasSubstr("phase.0.length is for an encoder; use examples_per_micro_batch for a click model"));
  EXPECT_THAT(refused("", {"precision.compute=fp8"}), testing::HasSubstr("is for encoders; use \"bf16\""));
  EXPECT_THAT(refused("", {"tensorized.lookup=naive"}), testing::HasSubstr("use \"unique\" or \"factors\""));
  EXPECT_THAT(refused("", {"optim.name=galore"}), testing::HasSubstr("is for encoders; use \"adamw\""));
  EXPECT_THAT(refused("", {"optim.name=muon", "dlrm.table_rank=4"}),
              testing::HasSubstr("has one rate for the cores of layers and of the embedding"));
  EXPECT_THAT(refused("", {"dlrm.tables=[0]"}),
              testing::HasSubstr("dlrm.tables is a list; expected a list of positive integers below 2^31"));
  EXPECT_THAT(refusal("[dlrm]\nwidth = 4\n[[phase]]\nname = \"a\"\nsteps = 5\nlearning_rate = 1\n"),
              testing::HasSubstr("[phase.0] lacks examples_per_micro_batch; it must be given"));
  EXPECT_THAT(refusal(sample, {"phase.0.examples_per_micro_batch=5"}),
              testing::HasSubstr("phase.0.examples_per_micro_batch is for a click model; remove it"));
  EXPECT_THAT(refusal(sample, {"data.order=stored"}),
              testing::HasSubstr("data.order is for a click model; remove it"));
}

TEST(RecipeErrors, LowRankLayersAreNoTensorTrains) {
  const std::vector<std::string> dense = {"tensorized.enabled=false"};
  EXPECT_EQ(refusal(sample + "[low_rank]\nrank = 8\n", dense), "");
  EXPECT_THAT(refusal(sample + "[low_rank]\nrank = 8\n"),
              testing::HasSubstr("[low_rank] is for a model without tensor trains; set tensorized.enabled to "
                                 "false, or remove [low_rank]"));
  EXPECT_THAT(
      refusal(sample + "[low_rank]\nrank = 65\n", dense),
      testing::HasSubstr(
          "low_rank.rank = 65 is impossible with model.hidden = 64 and model.ffn = 128; choose 1 to 64"));
  EXPECT_THAT(refusal(sample + "[low_rank]\n", dense), testing::HasSubstr("[low_rank] lacks rank"));
  EXPECT_THAT(
      refusal(sample + "[low_rank]\nrank = 8\n", {dense[0], "precision.compute=fp8"}),
      testing::HasSubstr("low_rank: does not support 8-bit operands; set precision.compute = \"bf16\""));
}

TEST(RecipeErrors, AdaptersAreMergedBeforeTheyAreEvaluated) {
  const std::string lte = "[lte]\nlora_r = 4\nlora_alpha = 64\nnum_heads = 4\nmerge_steps = 5\n";
  const std::string dense = "tensorized.enabled=false";
  const auto found = [&](std::vector<std::string> overrides, const std::string& more = "") {
    overrides.insert(overrides.begin(), dense);
    return refusal(sample + lte + more, overrides);
  };
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({"run.evaluation_interval=10"}), "");
  EXPECT_THAT(
      refusal(sample + lte),
      testing::HasSubstr("[lte] is for a model without tensor trains; set tensorized.enabled to false"));
  EXPECT_THAT(
      found({}, "[low_rank]\nrank = 8\n"),
      testing::HasSubstr("[lte] and [low_rank] are alternatives for the same layers; remove one of them"));
  EXPECT_EQ(found({"phase.0.tokens_per_micro_batch=66"}),
            "--set phase.0.tokens_per_micro_batch=66: phase.0.tokens_per_micro_batch = 66 is not a multiple "
            "of lte.num_heads = 4; make it one");
  EXPECT_THAT(found({"run.evaluation_interval=7"}),
              testing::HasSubstr("run.evaluation_interval = 7 is not a multiple of lte.merge_steps = 5, but "
                                 "models are evaluated only after a merge"));
  EXPECT_THAT(found({"run.evaluation_epochs=1"}),
              testing::HasSubstr("run.evaluation_epochs ends between two merges of [lte]"));
  EXPECT_THAT(
      found({"optim.average_decay=0.99"}),
      testing::HasSubstr("optim.average_decay averages weights, but the adapters of [lte] are merged"));
  EXPECT_THAT(found({"lte.lora_r=65"}),
              testing::HasSubstr("lte.lora_r = 65 is impossible with model.hidden = 64"));
  EXPECT_THAT(found({"lte.lora_alpha=0"}), testing::HasSubstr("lte.lora_alpha is 0; expected"));
  EXPECT_THAT(found({"lte.num_heads=0"}), testing::HasSubstr("lte.num_heads is 0; expected"));
  EXPECT_THAT(found({"lte.merge_steps=0"}), testing::HasSubstr("lte.merge_steps is 0; expected"));
  EXPECT_THAT(found({"precision.compute=fp8"}),
              testing::HasSubstr("lte: does not support 8-bit operands; set precision.compute = \"bf16\""));
}

// A checkpoint's recipe is read when a training takes its model over; the checkpoint is named, not the
// recipe that the user wrote.
TEST(RecipeErrors, ABaseIsNamed) {
  try {
    parse_recipe(sample, "r.toml", {}, {.toml = "[model\n", .name = "run/checkpoints/step-1.h5"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("run/checkpoints/step-1.h5:1:"));
  }
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(RecipeErrors, DeepNestingIsRefusedBeforeItIsParsed) {
  const std::string deep = repeated(".x", 50000);
  EXPECT_EQ(refusal("layers = 1\n[model" + deep + "]\n"),
            "r.toml:2: the names of a key nest deeper than 32 levels, which no recipe needs; fix this line");
  EXPECT_THAT(refusal("model" + deep + " = 1"), testing::HasSubstr("nest deeper"));
  EXPECT_THAT(refusal(repeated("\"a b\" . 'c'.", 20000) + "d = 1"), testing::HasSubstr("nest deeper"));
  EXPECT_THAT(refusal("x = " + repeated("{a.b = ", 50000)),
              testing::HasSubstr("lists and tables nest deeper"));
  EXPECT_THAT(refusal("x = " + repeated("[", 50000)), testing::HasSubstr("lists and tables nest deeper"));
  // A string may end with quotes of its own, before those that end it.
  for (const char* quotes : {"\"\"\"a\"\"\"\"", "\"\"\"a\"\"\"\"\"", "'''a''''", "'''a'''''"})
    EXPECT_THAT(refusal(std::string("model = {x = ") + quotes + ", a" + deep + " = 1}"),
                testing::HasSubstr("nest deeper"))
        << quotes;
  EXPECT_THAT(refusal(sample, {"model" + deep + "=1"}), testing::HasSubstr("has 50001 names"));
  EXPECT_THAT(refusal(sample, {"model.layers={a" + deep + "=1}"}), testing::HasSubstr("nest deeper"));
}

TEST(RecipeErrors, DotsAndBracketsInStringsNumbersAndCommentsDoNotNest) {
  const std::string dots = repeated("./[{", 100);
  EXPECT_EQ(refusal(sample + "# " + dots + "\n[data]\ntrain = \"" + dots + "\\\"" + dots +
                    "\"\nvalidation = '" + dots + "'\n"),
            "");
  EXPECT_EQ(refusal(sample + "[data]\ntrain = \"\"\"" + dots + "\"\n" + dots + "\"\"\"\nvalidation = '''" +
                    dots + "'\n'''\n"),
            "");
}

TEST(RecipeErrors, LongValuesAreNotEchoed) {
  const std::string megabyte(1 << 20, 'x');
  EXPECT_EQ(refusal(sample + "[run]\ndevice = 1\n", {"model.norm=" + megabyte}).find(megabyte),
            std::string::npos);
  EXPECT_THAT(refusal(edited("layers = 2", "norm = \"" + megabyte + "\"\nlayers = 2")),
              testing::HasSubstr("model.norm is a string of 1048576 bytes; expected 'post' or 'pre'"));
  for (const std::string& message :
       {refusal(edited("layers = 2", megabyte + " = 2")), refusal(sample, {megabyte}),
        refusal(sample, {"model." + megabyte + "=1"})}) {
    EXPECT_LT(message.size(), 2100u);
    EXPECT_THAT(message, testing::HasSubstr("more bytes ...]"));
  }
}

TEST(RecipeErrors, WhatIsCutOfAMessageAreWholeCharacters) {
  std::string text = "x";
  for (int i = 0; i < 3000; ++i) text += "\u00e9";
  const std::string message = Error(text).what();
  const std::size_t cut = message.find("[...");
  ASSERT_NE(cut, std::string::npos);
  EXPECT_EQ(cut % 2, 1u);  // one byte, then pairs
  EXPECT_EQ((message.size() - message.find("...]") - 4) % 2, 0u);
  EXPECT_LE(message.size(), 2000u);
  EXPECT_EQ(std::string(Error(message).what()), message);
  const std::size_t left = message.size() - std::string("[... 1234 more bytes ...]").size();
  EXPECT_THAT(message, testing::HasSubstr(fmt::format("[... {} more bytes ...]", text.size() - left)));
}

struct Case {
  const char* name;
  const char* from;
  const char* to;
  const char* message;  // part of it
};

void PrintTo(const Case& mistake, std::ostream* out) { *out << mistake.name; }

class RecipeMistakes : public testing::TestWithParam<Case> {};

TEST_P(RecipeMistakes, AreNamed) {
  const std::string message = refusal(edited(GetParam().from, GetParam().to));
  EXPECT_THAT(message, testing::StartsWith("r.toml:"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().message));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    All, RecipeMistakes,
    testing::Values(
        Case{"UnknownSection", "[tensorized.attention]", "[tensorised.attention]",
             "did you mean 'tensorized'?"},
        Case{"UnknownSubsection", "[tensorized.attention]", "[tensorized.atention]",
             "r.toml:9:13: tensorized.atention is not a key of [tensorized]; did you mean 'attention'?"},
        Case{"FarFromAnyKey", "layers", "zzzzzzzzzz", "expected one of layers, hidden"},
        Case{"UnknownPhaseKey", "steps", "step",
             "phase.0.step is not a key of [phase.0]; did you mean 'steps'?"},
        Case{"FloatForInteger", "layers = 2", "layers = 2.0", "model.layers is 2.0; expected an integer"},
        Case{"BoolForInteger", "layers = 2", "layers = true", "model.layers is true"},
        Case{"ListForInteger", "layers = 2", "layers = [2]", "model.layers is a list"},
        Case{"NegativeInteger", "layers = 2", "layers = -2",
             "model.layers is -2; expected an integer from 1 to 1024"},
        Case{"ZeroInteger", "layers = 2", "layers = 0", "model.layers is 0"},
        Case{"HugeInteger", "length = 32", "length = 2147483648", "below 2^31"},
        Case{"ManyLayers", "layers = 2", "layers = 100000",
             "model.layers is 100000; expected an integer from 1 to 1024"},
        Case{"WideLayers", "ffn = 128", "ffn = 2000000000", "expected an integer from 1 to 1048576"},
        Case{"IntegerBeyond64Bits", "layers = 2", "layers = 99999999999999999999", "r.toml:2:"},
        Case{"StringForNumber", "learning_rate = 1e-3", "learning_rate = \"fast\"",
             "is 'fast'; expected a number"},
        Case{"NaN", "learning_rate = 1e-3", "learning_rate = nan", "phase.0.learning_rate is nan"},
        Case{"Infinity", "learning_rate = 1e-3", "learning_rate = inf", "phase.0.learning_rate is inf"},
        Case{"NegativeRate", "learning_rate = 1e-3", "learning_rate = -1",
             "is -1; expected a number of at least 0"},
        Case{"TwoRates", "learning_rate = 1e-3", "learning_rate = {cores = 1, gates = 1}",
             "is a table; expected"},
        Case{"MisspeltRate", "learning_rate = 1e-3", "learning_rate = {cores = 1, gate = 1, other = 1}",
             "expected"},
        Case{"DropoutOfOne", "layers = 2", "dropout = 1.0\nlayers = 2",
             "r.toml:2:11: model.dropout is 1.0; expected"},
        Case{"Word", "layers = 2", "norm = \"mid\"\nlayers = 2",
             "model.norm is 'mid'; expected 'post' or 'pre'"},
        Case{"NumberForWord", "layers = 2", "norm = 1\nlayers = 2",
             "model.norm is 1; expected 'post' or 'pre'"},
        Case{"Truth", "[[phase]]", "[tensorized]\nenabled = 1\n[[phase]]",
             "tensorized.enabled is 1; expected true or false"},
        Case{"ValueForSection", "[model]", "optim = 3\n[model]", "r.toml:1:9: optim is 3; expected a table"},
        Case{"SyntaxError", "layers = 2", "layers = ", "not valid TOML"},
        Case{"DuplicateKey", "layers = 2", "layers = 2\nlayers = 3", "r.toml:3:"},
        Case{"DuplicateSection", "[[phase]]", "[model]\nlayers = 2\n[[phase]]", "r.toml:14:"},
        Case{"PhaseAsTable", "[[phase]]", "[phase]",
             "phase is a table; expected a list of at least one [[phase]]"},
        Case{"MissingPhaseKey", "length = 32\n", "", "r.toml:14:1: [phase.0] lacks length"},
        Case{"ShortPack", "tokens_per_micro_batch = 64", "tokens_per_micro_batch = 16",
             "r.toml:17:26: phase.0.tokens_per_micro_batch = 16 is less"},
        Case{"StepsAndEpochs", "steps = 10", "steps = 10\nepochs = 1",
             "r.toml:19:10: phase.0 has both steps and epochs"},
        Case{"NeitherStepsNorEpochs", "steps = 10\n", "",
             "r.toml:14:1: phase.0 has neither steps nor epochs"},
        Case{"LongWarmup", "steps = 10", "steps = 10\nwarmup_steps = 11",
             "warmup_steps = 11 is more than phase.0.steps = 10"},
        Case{"WarmupTwice", "steps = 10", "steps = 10\nwarmup_steps = 1\nwarmup_share = 0.1",
             "r.toml:20:16: phase.0 has both warmup_steps and warmup_share; give one of them"},
        Case{"WarmupIntoDecay", "steps = 10",
             "steps = 10\nschedule = 'warmup_stable_decay'\nwarmup_steps = 9",
             "phase.0.decay_share = 0.2 begins its decay before the warm-up ends; lower it, or "
             "phase.0.warmup_steps"},
        Case{"SharesOfMoreThanAPhase", "steps = 10",
             "epochs = 2\nschedule = 'warmup_stable_decay'\nwarmup_share = 0.3\ndecay_share = 0.8",
             "r.toml:21:15: phase.0.decay_share = 0.8 begins its decay"},
        Case{"AverageDecayOfOne", "[[phase]]", "[optim]\naverage_decay = 1.0\n[[phase]]",
             "r.toml:15:17: optim.average_decay is 1.0; expected"},
        Case{"ManySequences", "steps = 10", "steps = 10\nsequences_per_micro_batch = 65",
             "sequences_per_micro_batch = 65 is more"},
        Case{
            "SameNameTwice", "[[phase]]",
            "[[phase]]\nname = \"first\"\nlength = 1\ntokens_per_micro_batch = 1\nsteps = 1\nlearning_rate = "
            "1\n[[phase]]",
            "phase.1.name is 'first'"},
        Case{"Shares", "[[phase]]", "[data]\nrandom_share = 0.5\n[[phase]]",
             "r.toml:15:16: data.random_share = 0.5"},
        Case{"NoHistory", "[[phase]]", "[precision]\ncompute = 'fp8'\namax_history_len = 0\n[[phase]]",
             "amax_history_len"},
        Case{"OldKeyBesideAnother", "[[phase]]", "[precision]\ncompute = 'bf16'\ntf32 = true\n[[phase]]",
             "precision.tf32 is not a key"},
        Case{"OldKeyOfAnotherType", "[[phase]]", "[precision]\ntf32 = 'yes'\n[[phase]]",
             "precision.tf32 is not a key"},
        Case{"MarginTooLarge", "[[phase]]", "[precision]\ncompute = 'fp8'\nmargin = 9\n[[phase]]", "margin"},
        Case{"NarrowModewise", "[[phase]]",
             "[precision]\ncompute = 'bf16'\n[tensorized]\nplan = 'modewise'\n[[phase]]",
             "would round to bfloat16 after every mode"},
        Case{"Device", "[[phase]]", "[run]\ndevice = 'cuda:x'\n[[phase]]",
             "r.toml:15:10: run.device = \"cuda:x\" is none of auto, cpu, cuda or cuda:N"},
        Case{"NoMaskedTokens", "[[phase]]", "[data]\nmask_probability = 0.0\n[[phase]]",
             "greater than 0 and at most 1"},
        Case{"WrongProduct", "input_modes = [8, 8]", "input_modes = [8, 4]",
             "r.toml:9:1: tensorized.attention: the input modes"},
        Case{"HugeModes", "input_modes = [8, 8]", "input_modes = [65536, 65536]", "a product below 2^31"},
        Case{"ZeroMode", "input_modes = [8, 8]", "input_modes = [64, 0]",
             "tensorized.attention.input_modes is a list"},
        Case{"WordInModes", "input_modes = [8, 8]", "input_modes = [8, \"8\"]",
             "tensorized.attention.input_modes is a list"},
        Case{"FewRanks", "ranks = [8, 16, 8]", "ranks = [8, 16]", "4 modes need 3 ranks"}),
    [](const auto& param) { return param.param.name; });

TEST(RecipeErrors, NothingAtAll) {
  EXPECT_EQ(refusal(""),
            "r.toml: the recipe lacks model; it must be given, or be that of a trained model (--from of "
            "pretrain and finetune)");
  EXPECT_EQ(refusal(sample.substr(0, sample.find("[[phase]]"))),
            "r.toml: the recipe lacks phase; it must be given");
  EXPECT_THAT(refusal("phase = []\n" + sample.substr(0, sample.find("[[phase]]"))),
              testing::HasSubstr("r.toml:1:9: phase is a list; expected a list of at least one [[phase]]"));
  EXPECT_THAT(refusal(std::string("\x00\xff\xfe", 3)), testing::StartsWith("r.toml:1:"));
}

TEST(RecipeErrors, APrefixIsRefusedInOneSentenceUnlessOnlyDefaultsAreMissing) {
  int refused = 0, accepted = 0;
  for (std::size_t length = 0; length < sample.size(); ++length) {
    const std::string said = refusal(sample.substr(0, length));
    ++(said.empty() ? accepted : refused);
    if (said.empty()) continue;
    EXPECT_THAT(said, testing::StartsWith("r.toml:")) << "after " << length << " bytes";
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  // The first sections alone are no recipe; what follows a phase's required keys has defaults.
  EXPECT_GT(refused, static_cast<int>(sample.size()) / 2);
  EXPECT_GT(accepted, 0);
}

TEST(RecipeErrors, Files) {
  EXPECT_THROW(load_recipe("/nonexistent/recipe.toml"), UsageError);
  EXPECT_THROW(load_recipe("/"), UsageError);
}

}  // namespace
}  // namespace comera::test
