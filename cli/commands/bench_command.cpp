#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/checkpoint_subject.h"
#include "cli/commands/commands.h"
#include "cli/options/choice.h"
#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "cli/options/recipe_options.h"
#include "cli/precision_note.h"
#include "data/shards/shard.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "measurements/lookup_benchmark.h"
#include "measurements/methods/methods_benchmark.h"
#include "measurements/methods/methods_learning.h"
#include "measurements/precision/precision_benchmark.h"
#include "measurements/rank_benchmark.h"
#include "measurements/step_benchmark.h"
#include "recipes/encoder_config.h"
#include "storage/durable_file.h"
#include "tensorized/decomposition/factorize.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/run/phase.h"
#include "training/run/signals.h"

namespace comera::cli {

namespace {

struct BenchOptions {
  RecipeOptions recipe;
  std::string checkpoint;  // or the recipe
  StepBenchmarkOptions step;
  std::int64_t vocabulary = 0;
  int threads = 0;
  std::string graph = "on";
};

// Of the first phase.
double share_of_masks(const Recipe& recipe) {
  const double usual = recipe.data.mask_probability;
  return recipe.phases.empty() ? usual : recipe.phases[0].largest_mask_probability(usual);
}

std::string bench_recipe(BenchOptions& options) {
  Recipe recipe = options.recipe.load_encoder();
  choose_precision(recipe, options.step.device);
  if (recipe.model.vocabulary == 0 && options.vocabulary == 0)
    throw UsageError("the recipe takes its vocabulary from the tokenizer; give its size with --vocabulary N");
  options.step.config = encoder_config(recipe, options.vocabulary);
  if (!recipe.tensorized.enabled)
    throw UsageError(
        "bench step compares a tensorized model with its dense baseline; leave tensorized.enabled at true");
  options.step.mask_probability = share_of_masks(recipe);
  options.step.optimizer = recipe.optim;
  options.step.operands = recipe.precision.operands();
  return benchmark_step(options.step);
}

void bench_step(BenchOptions& options) {
  if (options.recipe.file.empty() == options.checkpoint.empty())
    throw UsageError("give one model: a recipe, or a checkpoint with --checkpoint");
  options.step.graphs = options.graph == "on";
  prepare_threads(options.threads);
  if (options.checkpoint.empty()) {
    print_out("{}", bench_recipe(options));
  } else {
    const CheckpointReader reader(checkpoint_subject(options.checkpoint, "a checkpoint (.h5)"));
    const Recipe recipe = checkpoint_recipe(reader);
    options.step.optimizer = recipe.optim;
    options.step.mask_probability = share_of_masks(recipe);
    print_out("{}", benchmark_ranks(reader, options.step));
  }
}

void add_step_command(CLI::App& command) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* step = command.add_subcommand("step", "Time training steps of a model and of its dense baseline");
  add_recipe_options(*step, options->recipe);
  step->get_option("recipe")->required(false);
  step->add_option("--checkpoint", options->checkpoint,
                   "Instead of a recipe, time a pruned run (folder or .h5) in three forms: unpruned, with "
                   "pruned ranks set to zero, and with them removed")
      ->type_name("CHECKPOINT")
      ->excludes("--set");
  step->add_option("--tokens", options->step.tokens, "Tokens per training step")
      ->check(positive_number)
      ->capture_default_str();
  step->add_option("--length", options->step.length, "Tokens per sequence")
      ->check(positive_number)
      ->capture_default_str();
  step->add_option("--repeats", options->step.repeats, "Time this many steps of each model, in turn")
      ->check(positive_number)
      ->capture_default_str();
  add_device_option(*step, options->step.device);
  step->add_option("--graph", options->graph, "Record each step on a GPU once and replay it (CUDA graphs)")
      ->check(one_of({"on", "off"}))
      ->capture_default_str();
  step->add_option("--threads", options->threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
  step->add_option("--vocabulary", options->vocabulary,
                   "Vocabulary size, if the recipe leaves it to the tokenizer")
      ->check(positive_number)
      ->excludes("--checkpoint");
  step->add_flag("--profile", options->step.profile,
                 "Also break the time down by operation, with a lower bound for each");
  step->add_flag("--only-tensorized", options->step.only_tensorized, "Skip the dense baseline");
  step->footer(
      "Examples:\n"
      "  comera bench step six_encoder_mnli --tokens 4096 --length 128\n"
      "  comera bench step --checkpoint runs/adapted --tokens 4096 --length 128");
  step->callback([options] { bench_step(*options); });
}

struct PrecisionOptions {
  PrecisionBenchmarkOptions benchmark;
  std::string json;
  int threads = 0;
};

void bench_precision(PrecisionOptions& options) {
  prepare_threads(options.threads);
  // An unwritable output fails now, not after the measurement; an existing file stays until then.
  if (!options.json.empty()) prepare_output(options.json);
  options.benchmark.print = [](const std::string& text) {
    print_out("{}", text);
    check_output();  // without a reader there is no point in measuring
  };
  const PrecisionReport report = benchmark_precision(options.benchmark);
  if (!options.json.empty()) storage::write_file_durably(options.json, precision_json(report));
}

void add_precision_command(CLI::App& command) {
  auto options = std::make_shared<PrecisionOptions>();
  PrecisionBenchmarkOptions& benchmark = options->benchmark;
  CLI::App* precision = command.add_subcommand(
      "precision", "Time matrix products and tensor-train layers in each precision, with their errors");
  const auto sizes = [&](const char* name, std::vector<std::int64_t>& values, const char* what) {
    return precision->add_option(name, values, what)->check(positive_number)->capture_default_str();
  };
  const std::vector<CLI::Option*> given = {
      sizes("--tokens", benchmark.tokens, "Tokens (rows) of a batch; several sizes are measured in turn"),
      sizes("--inputs", benchmark.inputs, "Input widths, multiples of 16"),
      sizes("--outputs", benchmark.outputs, "Output widths, multiples of 16"),
      sizes("--rank", benchmark.ranks, "Ranks of the tensor train's middle bond")};
  CLI::Option* quick = precision->add_flag_callback(
      "--quick",
      [options] {
        options->benchmark.tokens = {512};
        options->benchmark.inputs = {256};
        options->benchmark.outputs = {256, 1024};
      },
      "Measure 512 tokens with 256 x 256 and 256 x 1024 only");
  for (CLI::Option* option : given) quick->excludes(option);
  precision->add_option("--repeats", benchmark.repeats, "Measure every precision this many times")
      ->check(positive_number)
      ->capture_default_str();
  add_device_option(*precision, benchmark.device);
  precision->add_option("--threads", options->threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
  precision->add_option("--json", options->json, "Also write the results to this file")->type_name("FILE");
  precision->footer(
      "Examples:\n"
      "  comera bench precision --quick\n"
      "  comera bench precision --tokens 10000 --outputs 1024 --outputs 4096 \\\n"
      "    --json precision.json");
  precision->callback([options] { bench_precision(*options); });
}

struct MethodsOptions {
  RecipeOptions recipe;
  MethodOptions methods;
  MethodsBenchmarkOptions benchmark;
  std::vector<std::string> rates;
  std::string json, svg;
  int threads = 0;
  std::int64_t learn = 0;  // steps
  std::string output;
};

// "galore=4e-3"
std::pair<std::string, double> method_rate(const std::string& text) {
  const std::size_t at = text.find('=');
  double rate = 0;
  std::size_t read = 0;
  try {
    if (at != std::string::npos) rate = std::stod(text.substr(at + 1), &read);
  } catch (const std::logic_error&) {
    read = 0;
  }
  if (read == 0 || at + 1 + read != text.size() || !(rate > 0 && rate < 1e3))
    throw UsageError(
        fmt::format("--rate {}: give a method and its learning rate, such as galore=4e-3", text));
  const std::string name = text.substr(0, at);
  if (std::ranges::count(method_names(), name) == 0)
    throw UsageError(fmt::format("--rate {}: '{}' is not a method; choose from {}", text, name,
                                 fmt::join(method_names(), ", ")));
  return {name, rate};
}

void learn(const MethodsLearningOptions& learning, StopSignals& signals) {
  signals.begin();
  if (learn_methods(learning))
    print_out("{}", report_learning(learning));
  else
    print_out("stopped; repeat the command to continue\n");
}

void bench_methods(MethodsOptions& options) {
  StopSignals signals;
  if ((options.learn > 0) == options.output.empty())
    throw UsageError("--learn STEPS and --output DIR belong together: give both or neither");
  Recipe recipe = options.recipe.load_encoder();
  choose_precision(recipe, options.benchmark.device);
  if (recipe.model.vocabulary == 0 && options.benchmark.vocabulary == 0)
    throw UsageError("the recipe takes its vocabulary from the tokenizer; give its size with --vocabulary N");
  for (const std::string& rate : options.rates) {
    const auto [name, value] = method_rate(rate);
    options.methods.rates[name] = value;
  }
  if (options.learn > 0) require_training_keys(recipe);
  options.benchmark.methods = methods_of(recipe, options.methods);
  const MethodsLearningOptions learning{.methods = options.benchmark.methods,
                                        .steps = options.learn,
                                        .output = options.output,
                                        .stop_requested = [&signals] { return signals.requested(); }};
  if (options.learn > 0) check_learning(learning);
  for (const std::string& file : {options.json, options.svg})
    if (!file.empty()) prepare_output(file);
  prepare_threads(options.threads);
  options.benchmark.log_line = [](const std::string& line) { comera::log_info("{}\n", line); };
  const MethodsReport report = benchmark_methods(options.benchmark);
  print_out("{}", methods_text(report));
  if (!options.json.empty()) storage::write_file_durably(options.json, methods_json(report));
  if (!options.svg.empty()) storage::write_file_durably(options.svg, methods_svg(report));
  if (options.learn > 0) learn(learning, signals);
}

void add_methods_command(CLI::App& command) {
  auto options = std::make_shared<MethodsOptions>();
  MethodsBenchmarkOptions& benchmark = options->benchmark;
  CLI::App* methods = command.add_subcommand(
      "methods", "Compare training methods (tensor trains, dense, GaLore, ...) in time and memory");
  add_recipe_options(*methods, options->recipe);
  methods->add_option("--method", options->methods.names, "Measure this method only; may be repeated")
      ->check(one_of(method_names()));
  methods->add_option("--batch", benchmark.batches, "Sequences per step; several sizes are measured in turn")
      ->check(positive_number)
      ->capture_default_str();
  methods->add_option("--length", benchmark.length, "Tokens per sequence")
      ->check(positive_number)
      ->capture_default_str();
  methods->add_option("--rounds", benchmark.rounds, "Measure every method this many times")
      ->check(positive_number)
      ->capture_default_str();
  methods
      ->add_option("--galore-rank", options->methods.galore.rank,
                   "Rank of GaLore (default: a quarter of the hidden size)")
      ->check(positive_number);
  methods
      ->add_option("--low-rank", options->methods.low_rank,
                   "Rank of the low-rank factors (default: a quarter of the hidden size)")
      ->check(positive_number);
  methods->add_option("--lora-r", options->methods.lte.lora_r, "Rank of an LTE adapter")
      ->check(positive_number)
      ->capture_default_str();
  methods->add_option("--num-heads", options->methods.lte.num_heads, "LTE adapters per layer")
      ->check(positive_number)
      ->capture_default_str();
  methods
      ->add_option("--rate", options->rates,
                   "Learning rate of a method with --learn, instead of the recipe's; may be repeated")
      ->type_name("METHOD=RATE");
  add_device_option(*methods, benchmark.device);
  methods->add_option("--threads", options->threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
  methods
      ->add_option("--vocabulary", benchmark.vocabulary,
                   "Vocabulary size, if the recipe leaves it to the tokenizer")
      ->check(positive_number);
  methods->add_option("--json", options->json, "Also write the results to this file")->type_name("FILE");
  methods->add_option("--svg", options->svg, "Also draw the results as SVG into this file")
      ->type_name("FILE");
  methods
      ->add_option("--learn", options->learn,
                   "Also train each method for this many steps, on the same data in the same order")
      ->check(positive_number);
  methods
      ->add_option("--output", options->output,
                   "Folder for the runs of --learn, with learning.json and learning.svg")
      ->type_name("DIR");
  methods->footer(
      "Examples:\n"
      "  comera bench methods six_encoder_mnli\n"
      "  comera bench methods six_encoder_mnli --batch 1 --method tensor_trains \\\n"
      "    --method galore");
  methods->callback([options] { bench_methods(*options); });
}

struct LookupOptions {
  RecipeOptions recipe;
  LookupBenchmarkOptions benchmark;
  std::int64_t vocabulary = 0;
  std::string shard;
  std::int64_t rows = 0, width = 64, rank = 32;  // for a table without a recipe
  int cores = 3, threads = 0;
};

void bench_lookup(LookupOptions& options) {
  LookupBenchmarkOptions& benchmark = options.benchmark;
  if (options.recipe.file.empty() == (options.rows == 0))
    throw UsageError("give one table: a recipe's, or --rows (with --width, --rank and --cores)");
  std::optional<TTMShape> shape;
  if (options.rows > 0) {
    benchmark.rows = options.rows, benchmark.width = options.width;
    shape = factorize_table(options.rows, options.width, options.cores, options.rank);
  } else {
    const Recipe recipe = options.recipe.load_encoder();
    if (recipe.model.vocabulary == 0 && options.vocabulary == 0)
      throw UsageError(
          "the recipe takes its vocabulary from the tokenizer; give its size with --vocabulary N");
    const EncoderConfig config = encoder_config(recipe, options.vocabulary);
    benchmark.rows = config.vocabulary, benchmark.width = config.table_width();
    shape = config.tensorized.embedding;
  }
  if (!shape)
    throw UsageError(options.rows > 0
                         ? "this table is not smaller as a tensor-train matrix; lower --rank"
                         : "the recipe's embedding is dense; give one with [tensorized.embedding]");
  benchmark.shape = *shape;
  benchmark.shape.frequent_rows = 0;  // ways through the train are compared
  if (!options.shard.empty()) {
    const data::ShardReader shard(options.shard);
    const std::int64_t tokens = std::min(shard.tokens(), *std::ranges::max_element(benchmark.tokens));
    benchmark.text.resize(static_cast<std::size_t>(tokens));
    shard.read_tokens(0, tokens, benchmark.text.data());
  }
  prepare_threads(options.threads);
  print_out("{}", lookup_text(benchmark, benchmark_lookup(benchmark)));
}

void add_lookup_command(CLI::App& command) {
  auto options = std::make_shared<LookupOptions>();
  LookupBenchmarkOptions& benchmark = options->benchmark;
  CLI::App* lookup =
      command.add_subcommand("lookup", "Time embedding lookups, dense and in each tensor-train method");
  add_recipe_options(*lookup, options->recipe);
  lookup->get_option("recipe")->required(false);
  lookup->add_option("--tokens", benchmark.tokens, "Ids per batch; several sizes are measured in turn")
      ->check(positive_number)
      ->capture_default_str();
  lookup
      ->add_option("--shard", options->shard, "Take ids from the start of this shard instead of drawing them")
      ->type_name("FILE");
  lookup
      ->add_option("--exponent", benchmark.exponent,
                   "Draw ids by Zipf's law with this exponent; 0: uniformly")
      ->check(number_between(0, 10))
      ->capture_default_str();
  lookup->add_option("--rows", options->rows, "Measure a table with this many rows instead of a recipe's")
      ->check(positive_number);
  const auto of_rows = [&](const char* name, auto& value, const char* what) {
    lookup->add_option(name, value, what)->check(positive_number)->capture_default_str()->needs("--rows");
  };
  of_rows("--width", options->width, "Width of a row");
  of_rows("--rank", options->rank, "Ranks");
  of_rows("--cores", options->cores, "Number of cores, 2 to 6");
  lookup->add_option("--repeats", benchmark.repeats, "Measure each method this many times")
      ->check(positive_number)
      ->capture_default_str();
  add_device_option(*lookup, benchmark.device);
  lookup->add_option("--threads", options->threads, "Use this many CPU threads; 0: all")
      ->check(number_of_threads);
  lookup
      ->add_option("--vocabulary", options->vocabulary,
                   "Vocabulary size, if the recipe leaves it to the tokenizer")
      ->check(positive_number);
  lookup->footer(
      "Examples:\n"
      "  comera bench lookup six_encoder_mnli\n"
      "  comera bench lookup --rows 10131227 --width 64 --rank 32 --tokens 10000");
  lookup->callback([options] { bench_lookup(*options); });
}

}  // namespace

void add_bench_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bench", "Benchmark training and its parts on this machine");
  command->require_subcommand(1);
  add_step_command(*command);
  add_precision_command(*command);
  add_methods_command(*command);
  add_lookup_command(*command);
}

}  // namespace comera::cli
