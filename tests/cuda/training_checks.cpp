#include "tests/cuda/training_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/backends/processors.h"
#include "kernels/emulation/sanitizers.h"
#include "kernels/reference/reference_backend.h"
#include "tensorized/plan.h"
#include "tests/model/configs.h"
#include "tests/support/clicks.h"
#include "tests/support/harness.h"
#include "tests/support/largest.h"
#include "tests/training/click_trace.h"
#include "tests/training/trace.h"
#include "training/inference/fillings.h"

namespace comera::test {

namespace {

// Sanitizers multiply the time of emulated kernels by ten: then runs are shorter, and fewer.
constexpr bool sanitized = COMERA_ASAN || COMERA_TSAN;
constexpr std::size_t steps = sanitized ? 4 : 12;  // of the fixture's recipe: 7 and 5
constexpr int traced = sanitized ? 2 : 10;

std::vector<double> losses_of(const EncoderConfig& config, const Processor& processor,
                              const OptimizerOptions& optimizer = {}) {
  return trace(config, processor, traced, optimizer);
}

}  // namespace

void expect_the_same_losses_in_any_order(const TestDevice& device,
                                         const std::function<void(std::uint64_t)>& reseed) {
  EncoderConfig config = small_config(true);
  config.compute = DType::float32;
  const std::vector<double> wanted = losses_of(config, device.with_graphs);
  for (std::uint64_t seed = 2; seed <= 9; ++seed) {
    reseed(seed);
    EXPECT_EQ(losses_of(config, device.with_graphs), wanted) << seed;
  }
}

void expect_losses_of_the_cpu(const TestDevice& device) {
  struct Variant {
    EncoderConfig config;
    OptimizerOptions optimizer = {};
  };
  std::vector<Variant> variants;
  for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
    if (sanitized && norm == NormPlacement::pre) continue;
    variants.push_back({small_config(true, HeadKind::mlm, norm)});
    // The other placement forms Q, K and V.
    if (norm == NormPlacement::pre) variants.back().config.tensorized.plan = PlanKind::factors;
    variants.push_back({small_config(false, HeadKind::mlm, norm)});
  }
  variants.push_back({removed_config()});
  variants.push_back({small_config(true, HeadKind::token_classification)});
  variants.push_back({small_config(true, HeadKind::question_answering)});
  variants.push_back({small_config(true), {.kind = OptimizerKind::muon}});
  variants.push_back({projected_config(), {.kind = OptimizerKind::muon}});
  variants.back().config.tensorized.embedding->frequent_rows = 9;
  variants.push_back({small_config(true), {.kind = OptimizerKind::lamb}});
  const GaloreOptions galore{.rank = 3, .update_proj_gap = 3, .proj_type = GaloreProjection::full};
  variants.push_back({small_config(false), {.kind = OptimizerKind::galore, .galore = galore}});
  variants.push_back({low_rank_config()});
  variants.push_back({lte_config()});
  variants.push_back({small_config(true, HeadKind::contrastive)});
  variants.back().config.pooling = Pooling::mean;
  variants.push_back({small_config(false, HeadKind::contrastive)});
  variants.back().config.contrastive = {.temperature = 0.5, .symmetric = true};
  variants.push_back({small_config(true, HeadKind::contrastive)});
  variants.back().config.vector_size = 24;
  variants.back().config.vector_tanh = true;
  variants.push_back({small_config(true, HeadKind::contrastive)});
  variants.back().config.pooling = Pooling::mean;
  variants.back().config.distillation = {.vectors = 1,
                                         .similarities = 1,
                                         .hidden = 1,
                                         .all_layers = true,
                                         .relations = 1,
                                         .targets = false,
                                         .relation_heads = 2,
                                         .width = 18};
  variants.push_back({small_config(true)});
  variants.back().config.distillation = {.hidden = 1, .logits = 1, .temperature = 2, .targets = true};
  variants.push_back({small_config(true)});
  variants.back().config.relative_buckets = 8;
  variants.push_back({small_config(true, HeadKind::replaced_tokens)});
  variants.push_back({small_config(false, HeadKind::replaced_tokens)});
  variants.back().config.generator = {.width = 1, .weight = 10};
  for (auto& [config, optimizer] : variants) {
    const std::vector<double> exact = losses_of(config, {reference_backend(), host_allocator()}, optimizer);
    config.compute = DType::float32;
    const std::vector<double> got = losses_of(config, device.with_graphs, optimizer);
    EXPECT_EQ(got, losses_of(config, device.without, optimizer));
    ASSERT_EQ(got.size(), static_cast<std::size_t>(traced));
    // Tensor cores cut the sums of attention, and AdamW makes steps of one size of gradients of any size.
    // GaLore follows singular vectors, which turn far when rounding moves singular values that are close.
    const double tolerance = optimizer.kind == OptimizerKind::galore ? 2e-4 : 3e-5;
    for (int i = 0; i < traced; ++i)
      EXPECT_NEAR(got[i], exact[i], tolerance * exact[i]) << name_of(optimizer.kind) << ", step " << i;
  }
}

namespace {

// Steps that round: not equal, but within the tolerance.
void expect_rounded_losses(const TestDevice& device, DType compute, double tolerance) {
  for (const bool tensorized : {true, false}) {
    EncoderConfig config = small_config(tensorized);
    const std::vector<double> exact = losses_of(config, {reference_backend(), host_allocator()});
    config.compute = compute;
    const std::vector<double> got = losses_of(config, device.with_graphs);
    const bool also_without = !sanitized;
    if (also_without) {
      EXPECT_EQ(got, losses_of(config, device.without));
    }
    ASSERT_EQ(got.size(), static_cast<std::size_t>(traced));
    double worst = 0;
    for (int i = 0; i < traced; ++i) worst = larger_or_nan(worst, std::abs(got[i] - exact[i]) / exact[i]);
    EXPECT_LT(worst, tolerance);
    EXPECT_GT(worst, tolerance / 1000) << "nothing was rounded";
  }
}

}  // namespace

void expect_narrow_losses(const TestDevice& device) { expect_rounded_losses(device, DType::bfloat16, 0.03); }

void expect_tf32_losses(const TestDevice& rounded, const TestDevice& exact) {
  // Between the factors more products round: their matrices are products of factors themselves.
  expect_rounded_losses(rounded, DType::float32, 0.01);
  EncoderConfig config = small_config(true);
  config.compute = DType::float32;
  EXPECT_NE(losses_of(config, rounded.with_graphs), losses_of(config, exact.with_graphs))
      << "nothing was rounded";
}

void expect_click_losses(const TestDevice& device) {
  for (const bool tensorized : {true, false})
    for (const DType compute : {DType::float32, DType::bfloat16}) {
      DlrmConfig config =
          small_dlrm(tensorized, compute == DType::float32 ? BagPooling::sum : BagPooling::mean);
      const std::vector<double> exact = click_trace(config, {reference_backend(), host_allocator()}, traced);
      config.compute = compute;
      const std::vector<double> got = click_trace(config, device.with_graphs, traced);
      EXPECT_EQ(got, click_trace(config, device.without, traced));
      ASSERT_EQ(got.size(), static_cast<std::size_t>(traced));
      const double tolerance = compute == DType::float32 ? 3e-5 : 0.03;
      for (int i = 0; i < traced; ++i) EXPECT_NEAR(got[i], exact[i], tolerance * exact[i]) << "step " << i;
    }
}

namespace {

struct NarrowCase {
  const char* name;
  EncoderConfig config;
};

std::vector<NarrowCase> narrow_cases(const MachineModel& machine) {
  std::vector<NarrowCase> cases;
  for (const bool tensorized : {true, false}) {
    cases.push_back({"mlm", small_config(tensorized)});
    cases.push_back({"pre-norm", small_config(tensorized, HeadKind::mlm, NormPlacement::pre)});
    cases.push_back({"classification", small_config(tensorized, HeadKind::classification)});
    cases.push_back({"regression", small_config(tensorized, HeadKind::regression)});
    cases.push_back({"labels of tokens", small_config(tensorized, HeadKind::token_classification)});
    cases.push_back({"answers", small_config(tensorized, HeadKind::question_answering)});
  }
  cases.push_back({"contrastive", small_config(true, HeadKind::contrastive)});
  cases.back().config.contrastive.temperature = 1;
  for (const LookupKind lookup : {LookupKind::naive, LookupKind::unique}) {
    cases.push_back({"lookup", small_config(true)});
    cases.back().config.tensorized.lookup = lookup;
  }
  for (const PlanKind plan : {PlanKind::factors, PlanKind::dense}) {
    cases.push_back({"plan", small_config(true)});
    cases.back().config.tensorized.plan = plan;
  }
  cases.push_back({"narrow tables", narrow_config()});
  cases.push_back({"a projection behind the embedding", projected_config()});
  cases.push_back({"rows of their own for frequent ids", frequent_config()});
  cases.push_back({"diagonals", diagonal_config()});
  cases.push_back({"diagonals without trains", diagonal_config()});
  for (const char* layer : {"encoder.0.attention.key", "encoder.0.ffn.up", "encoder.1.attention.output"})
    cases.back().config.tensorized.ranks[layer] = {0, 0, 0};
  cases.push_back({"removed layers", removed_config()});
  cases.push_back({"removed layers, by factors", removed_config()});
  cases.back().config.tensorized.plan = PlanKind::factors;
  cases.push_back({"removed layers", removed_config(HeadKind::mlm, NormPlacement::pre)});
  // Those of rank 4 happen to be further from double than others are, 11 % in one norm.
  for (const std::int64_t rank : {2, 6}) {
    cases.push_back({"low rank", low_rank_config()});
    cases.back().config.low_rank->rank = rank;
  }
  cases.push_back({"adapters", lte_config()});
  // Attention between the left and right factors: heads are wide, ranks small.
  EncoderConfig wide = small_config(true);
  wide.hidden = 64, wide.heads = 2, wide.ffn = 64;
  const TTShape shape{{8, 8}, {8, 8}, {2, 3, 2}};
  wide.tensorized.attention = wide.tensorized.ffn_up = wide.tensorized.ffn_down = wide.tensorized.head =
      shape;
  wide.tensorized.embedding = TTMShape{{4, 2, 4}, {4, 4, 4}, {5, 6}};
  EXPECT_TRUE(all_by_factors(choose_plan(machine, shape, 48, PlanKind::automatic, DType::bfloat16)));
  cases.push_back({"between factors", wide});
  wide.norm = NormPlacement::pre;
  cases.push_back({"between halves, norms before", wide});
  wide.norm = NormPlacement::post;
  wide.head = HeadKind::classification, wide.classes = 3;
  cases.push_back({"between halves, of the first tokens", wide});
  return cases;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

void expect_narrow_gradients(const TestDevice& device) {
  for (auto& [name, config] : narrow_cases(device.backend.machine())) {
    const auto exact = gradients(config, {reference_backend(), host_allocator()});
    config.compute = DType::bfloat16;
    const auto got = gradients(config, device.with_graphs);
    ASSERT_EQ(got.size(), exact.size());
    double largest = 0;
    for (const auto& [tensor, values] : exact) largest = larger_or_nan(largest, norm(values));
    for (const auto& [tensor, values] : exact) {
      std::vector<double> difference = got.at(tensor);
      for (std::size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
      // A tensor whose gradient nearly vanishes has what rounding leaves of larger ones.
      EXPECT_LE(norm(difference), 0.1 * norm(values) + 2e-3 * largest) << name << ": " << tensor;
    }
  }
}

void expect_every_lookup_to_agree(const TestDevice& device) {
  EncoderConfig config = small_config(true);
  config.compute = DType::float32;
  std::vector<std::vector<double>> losses;
  for (const LookupKind lookup : {LookupKind::factors, LookupKind::unique, LookupKind::naive}) {
    if (sanitized && lookup == LookupKind::unique) continue;  // as naive, with fewer ids
    config.tensorized.lookup = lookup;
    losses.push_back(losses_of(config, device.with_graphs));
  }
  for (std::size_t other = 1; other < losses.size(); ++other)
    for (int i = 0; i < traced; ++i)
      EXPECT_NEAR(losses[other][i], losses[0][i], 1e-5 * losses[0][i]) << "step " << i;
}

namespace {

// Of the targets of a few sequences, one after the other.
std::vector<double> logits_of(EncoderConfig config, DType compute, const Processor& processor) {
  config.compute = compute;
  Model model(config, processor.allocator, false);
  model.parameters().initialize(2);
  std::vector<data::Sample> sequences;
  for (const std::int32_t length : {7, 3, 16}) {
    data::Sample& sequence = sequences.emplace_back();
    for (std::int32_t i = 0; i < length; ++i) sequence.ids.push_back((7 * i + length) % 29);
    sequence.type_ids.resize(sequence.ids.size());
    for (std::int32_t i = 1; i < length; i += 2) sequence.targets.positions.push_back(i);
    sequence.targets.ids.resize(sequence.targets.positions.size());
  }
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> found;
  run_masked(model, processor, sequences, {},
             [&](std::size_t sequence, std::size_t target, std::span<const double> logits) {
               found[{sequence, target}] = {logits.begin(), logits.end()};
             });
  std::vector<double> all;
  for (const auto& [place, logits] : found) all.insert(all.end(), logits.begin(), logits.end());
  return all;
}

}  // namespace

void expect_logits_of_the_cpu(const TestDevice& device) {
  for (const bool tensorized : {true, false}) {
    const EncoderConfig config = small_config(tensorized);
    const std::vector<double> exact =
        logits_of(config, DType::float64, {reference_backend(), host_allocator()});
    ASSERT_EQ(exact.size(), 12u * 29);
    EXPECT_LT(relative_error(logits_of(config, DType::float32, device.with_graphs), exact), 1e-5);
    EXPECT_LT(relative_error(logits_of(config, DType::bfloat16, device.with_graphs), exact), 0.05);
  }
}

void expect_blocks_in_order(const TestDevice& device) {
  Allocator& allocator = *device.allocator;
  const Buffer place(allocator, 64, MemoryKind::workspace);
  const auto feed = allocator.feed(place.data(), 64);
  std::set<void*> hosts;
  for (int block = 0; block < 5; ++block) {
    const std::vector<std::byte> sent(64, static_cast<std::byte>(block + 1));
    void* memory = feed->next();
    hosts.insert(memory);
    std::memcpy(memory, sent.data(), 64);
    feed->send();
    std::vector<std::byte> got(64);
    allocator.download(got.data(), place.data(), 64, allocator.stream());
    allocator.synchronize(allocator.stream());
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(hosts.size(), 2u);  // one is filled while the other is under way
}

TrainingOutcome RunFixture::train(const std::string& run, const Processor& processor, TrainingOptions options,
                                  std::vector<std::string> overrides) const {
  overrides.emplace_back("run.log_interval=1");
  if (sanitized)
    for (const char* shorter :
         {"phase.0.steps=3", "phase.0.warmup_steps=1", "phase.1.steps=1", "run.evaluation_batches=1"})
      overrides.emplace_back(shorter);
  std::FILE* null = std::fopen("/dev/null", "w");
  options.output = null;
  options.processor = &processor;
  TrainingOutcome outcome = TrainingRun(recipe(run, overrides), options).run();
  std::fclose(null);
  return outcome;
}

std::vector<double> RunFixture::losses(const std::string& run) const {
  std::ifstream file(folder() / run / "metrics.jsonl");
  std::vector<double> all;
  for (std::string line; std::getline(file, line);) {
    const auto values = nlohmann::json::parse(line);
    if (values.contains("loss")) all.push_back(values["loss"]);
  }
  return all;
}

void RunFixture::expect_to_learn_as_the_cpu_does(const TestDevice& device) const {
  const TrainingOutcome on_cpu = train("cpu", cpu_processor());
  const TrainingOutcome on_gpu = train("gpu", device.with_graphs);
  const std::vector<double> expected = losses("cpu"), got = losses("gpu");
  ASSERT_EQ(expected.size(), steps);
  ASSERT_EQ(got.size(), steps);
  for (std::size_t i = 0; i < steps; ++i)
    EXPECT_NEAR(got[i], expected[i], 2e-5 * expected[i]) << "step " << i;
  EXPECT_NEAR(on_gpu.evaluation->loss, on_cpu.evaluation->loss, 2e-5 * on_cpu.evaluation->loss);
}

void RunFixture::expect_the_same_bits_each_way(const TestDevice& device,
                                               const std::vector<std::string>& overrides,
                                               const std::vector<int>& stops) const {
  const TrainingOutcome whole = train("whole", device.with_graphs, {}, overrides);
  std::vector<std::string> without = overrides;
  without.emplace_back("run.graphs=false");
  const TrainingOutcome plain = train("plain", device.without, {}, without);
  EXPECT_EQ(losses("whole"), losses("plain"));
  EXPECT_EQ(whole.evaluation->loss, plain.evaluation->loss);
  for (const int stop : stops) {
    if (stop > static_cast<int>(steps)) continue;
    const std::string run = fmt::format("stopped-{}", stop);
    train(run, device.with_graphs, {.stop_after = stop}, overrides);
    const TrainingOutcome second = train(run, device.with_graphs, {.mode = RunMode::resume}, overrides);
    expect_equal_checkpoints(whole.checkpoint, second.checkpoint);
    EXPECT_EQ(whole.evaluation->loss, second.evaluation->loss);
  }
}

void RunFixture::expect_to_adapt_ranks(const TestDevice& device,
                                       const std::vector<std::string>& overrides) const {
  std::vector<std::string> adapting = {"phase.0.steps=4",
                                       "phase.1.steps=10",
                                       "phase.0.objective=regularize",
                                       "phase.1.objective=compress",
                                       "phase.1.learning_rate={cores=1e-3, gates=0.15, other=1e-3}",
                                       "phase.1.schedule=constant",
                                       "phase.1.adaptation.threshold=0.5",
                                       "phase.1.adaptation.target_ratio=0.6",
                                       "phase.1.adaptation.urgency=1e4",
                                       "phase.1.adaptation.compact_interval=3"};
  adapting.insert(adapting.end(), overrides.begin(), overrides.end());
  expect_the_same_bits_each_way(device, adapting, {9});
  if (sanitized) return;  // its few steps prune nothing
  std::ifstream file(folder() / "whole" / "metrics.jsonl");
  nlohmann::json ranks;
  for (std::string line; std::getline(file, line);) {
    const auto values = nlohmann::json::parse(line);
    if (values.contains("ranks")) ranks = values["ranks"];
  }
  const double size = ranks["size"], target = ranks["target"];
  EXPECT_LE(size, target);
  EXPECT_GT(size, 0.8 * target);
  const auto newest = find_latest(folder() / "whole" / "checkpoints", ResumeMode::newest);
  const CheckpointReader reader(newest->path);
  EXPECT_EQ(held_ranks(reader), live_ranks(reader));
  EXPECT_NE(held_ranks(reader), load_rank_history(reader).stages.front().ranks);
}

}  // namespace comera::test
