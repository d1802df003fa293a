#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/shards/sequence_set.h"
#include "data/tasks/task.h"
#include "kernels/core/check.h"
#include "kernels/ops/processor.h"
#include "model/config.h"
#include "model/dlrm/config.h"
#include "optim/learning_rates.h"
#include "optim/optimizer_options.h"
#include "optim/schedule.h"
#include "recipes/adaptation.h"

namespace comera {

// A recipe defines a training run completely: the model, its tensor trains, the optimizer, the data and the
// phases. It is a TOML file with one section per struct below; docs/reference/recipes.md lists every key.
// Defaults are written only in the initialisers here, and in those of structs that sections take from model/
// and optim/.

using ModelSection = EncoderArchitecture;

// A click model instead of an encoder. Each table and each layer but the last is a tensor train if it has a
// rank and the tensor train has fewer parameters than the matrix.
struct DlrmSection {
  std::optional<std::int64_t> dense_features;  // numeric features per example; if absent: as in the data
  std::vector<std::int64_t> tables;            // their rows; empty: as in the data
  std::int64_t width = 16;
  std::vector<std::int64_t> bottom, top;  // widths of inner layers
  std::int64_t table_rank = 0;            // 0: dense
  std::int64_t table_cores = 3;
  std::int64_t layer_rank = 0;  // 0: dense
  double embedding_std = 0;     // 0: DlrmConfig's
  bool sparse_updates = true;   // for dense tables
  friend bool operator==(const DlrmSection&, const DlrmSection&) = default;
};

struct TensorizedSection : TensorizedConfig {
  bool enabled = true;  // false: the dense baseline, regardless of the shapes
  friend bool operator==(const TensorizedSection&, const TensorizedSection&) = default;
};

// Linear layers whose weights are products of two factors, instead of tensor trains.
using LowRankSection = LowRankForm;

// LoRA-the-Explorer (Huh et al., 2024): dense layers with frozen weights, trained through adapters.
struct LteSection : LteForm {
  std::int64_t merge_steps = 0;
  friend bool operator==(const LteSection&, const LteSection&) = default;
};

struct OptimSection : OptimizerOptions {
  double clip_norm = 1.0;  // 0: no clipping
  std::int64_t max_consecutive_skips = 10;
  friend bool operator==(const OptimSection&, const OptimSection&) = default;
};

// Shards of several corpora: [[data.source]].
struct DataSource {
  std::string folder;            // directory of its shards, training and held-out
  std::optional<double> weight;  // relative share of the training tokens
  // The folder's last name, which distinguishes it from the others.
  std::string name() const;
  friend bool operator==(const DataSource&, const DataSource&) = default;
};

enum class DataOrder : std::uint8_t {
  shuffled,  // reshuffled in every epoch
  stored,    // in the order of the shards: clicks in the order of time
};

struct DataSection {
  std::string train;       // directory of shards
  std::string validation;  // the same; empty: no evaluation, except that of sources
  std::string tokenizer;   // path of the tokenizer's model
  double mask_probability = 0.15;
  double replace_share = 0.8;  // share of the masked tokens that become the mask token
  double random_share = 0.1;   // share that becomes a random token; the rest is unchanged
  bool whole_word_masking = false;
  data::TargetKind targets = data::TargetKind::file;  // for files that are masked already
  std::vector<DataSource> sources;                    // replace train, and validation unless it is given
  DataOrder order = DataOrder::shuffled;
  friend bool operator==(const DataSection&, const DataSection&) = default;
};

// Factors of the classes' cross-entropy; none: all count alike.
struct ClassWeights {
  bool balanced = false;       // examples / (classes × examples of the class)
  std::vector<double> values;  // one for each class, in the order of the labels
  bool any() const { return balanced || !values.empty(); }
  friend bool operator==(const ClassWeights&, const ClassWeights&) = default;
};

// The fine-tuning task: a GLUE task by name, or the user's tables.
struct TaskSection {
  std::string name;    // "mnli", "my_task"; empty: the recipe is not for fine-tuning
  std::string folder;  // with a GLUE task's files
  std::vector<std::string> train, validation;
  std::vector<std::string> similarity;  // tables of a contrastive task: pairs of texts with a score
  double held_out = 0;                  // share of the training rows to evaluate on, instead of `validation`
  std::vector<std::string> text;        // columns
  std::string label;                    // column
  std::string separator = ",";          // between several labels in one field
  std::vector<std::string> labels;
  data::TaskKind kind = data::TaskKind::classification;
  std::optional<data::TaskMetric> metric;
  ClassWeights class_weights;
  double temperature = 0.05;  // of a contrastive task; so is the next
  bool symmetric = false;
  std::int64_t overlap = data::Task().overlap;  // tokens that windows over a long text share
  bool unanswerable = false;                    // questions may have no answer in their text
  double no_answer_threshold = 0;
  data::TableFormat format = data::TableFormat::automatic;
  bool header = true;
  friend bool operator==(const TaskSection&, const TaskSection&) = default;
};

// The number format of a model's products.
enum class Compute : std::uint8_t {
  automatic,  // bf16 or fp32, as a command chooses for its machine; fp32 if nothing has chosen
  fp32,
  tf32,  // a GPU rounds operands to 10 bits; the CPU does not
  bf16,
  fp8,       // for linear layers, where possible; everything else as in bf16
  fp8_fp32,  // the same; everything else as in fp32 (CoMERA's FP8/FP32)
  fp64,
};
constexpr const char* name_of(Compute compute) {
  constexpr const char* names[] = {"auto", "fp32", "tf32", "bf16", "fp8", "fp8_fp32", "fp64"};
  return names[static_cast<int>(compute)];
}

constexpr bool has_float8(Compute compute) { return compute == Compute::fp8 || compute == Compute::fp8_fp32; }

struct PrecisionSection {
  Compute compute = Compute::automatic;
  Float8Config::Scaling fp8_recipe = Float8Config::Scaling::current;
  Float8Config::Format fp8_format = Float8Config::Format::hybrid;
  std::int64_t amax_history_len = Float8Config().amax_history_len;
  std::int64_t margin = 0;

  DType activations() const;  // of activations and all products without another type
  OperandKind operands() const;
  std::optional<Float8Config> float8() const;
  friend bool operator==(const PrecisionSection&, const PrecisionSection&) = default;
};

// Intervals are in optimizer steps.
struct RunSection {
  std::string output;
  std::int64_t seed = 1;
  std::string device = "auto";  // or "cpu", "cuda", "cuda:N"
  bool graphs = true;           // CUDA graphs
  std::int64_t threads = 0;     // 0: all
  std::int64_t log_interval = 10;
  std::string initial_checkpoint;        // initial weights of the run; empty: random
  std::int64_t evaluation_interval = 0;  // 0: only at the end of each phase
  double evaluation_epochs = 0;          // the same, in passes over the training data
  std::int64_t patience = 0;             // evaluations without a better one that end the run; 0: no limit
  std::int64_t evaluation_batches = 0;   // 0: the whole set
  std::int64_t checkpoint_interval = 0;  // 0: only by time and at the end of each phase
  double checkpoint_minutes = 10;        // wall-clock interval, besides checkpoint_interval; 0: none
  std::int64_t keep_checkpoints = 3;
  bool use_older_checkpoint = false;
  std::int64_t milestone_interval = 0;   // 0: no milestones
  bool tensorboard = false;              // write event files as it trains
  std::optional<double> max_hours = {};  // of training; if absent: the phases' steps
  friend bool operator==(const RunSection&, const RunSection&) = default;
};

// The library that sums over the processes of a job.
enum class DistributedBackend : std::uint8_t {
  automatic,  // NCCL for several processes with GPUs, MPI on CPUs
  mpi,
  nccl,
};
constexpr const char* name_of(DistributedBackend backend) {
  constexpr const char* names[] = {"auto", "mpi", "nccl"};
  return names[static_cast<int>(backend)];
}

// For a job of several processes (mpirun, srun). The result does not depend on their number, except for
// rounding.
struct DistributedSection {
  DistributedBackend backend = DistributedBackend::automatic;
  std::int64_t bucket_mebibytes = 1;
  double silence_seconds = 60;
  double stall_seconds = 900;
  friend bool operator==(const DistributedSection&, const DistributedSection&) = default;
};

struct PhaseSection {
  std::string name;
  std::int64_t length = 0;                       // longest sequence, tokens
  std::int64_t tokens_per_micro_batch = 0;       // capacity of a micro-batch
  std::int64_t sequences_per_micro_batch = 0;    // capacity of a micro-batch; 0: derived from the data
  std::int64_t examples_per_micro_batch = 0;     // for a click model, instead of the three above
  std::int64_t micro_batches_per_step = 1;       // micro-batches in one global batch
  std::optional<double> mask_probability;        // for pretraining; if absent: data.mask_probability
  std::optional<double> final_mask_probability;  // in the last step, if the share changes from step to step
  std::optional<std::int64_t> steps;             // exactly one of steps and epochs must be given
  std::optional<double> epochs;
  LearningRates learning_rate;  // the rates at the end of the warm-up
  ScheduleKind schedule = ScheduleKind::linear;
  double power = 1.0;        // for a polynomial schedule
  double decay_share = 0.2;  // of the phase's steps, for warmup_stable_decay
  std::int64_t warmup_steps = 0;
  double warmup_share = 0;   // of the phase's steps, instead of warmup_steps; 0: none
  double final_ratio = 0.0;  // the last learning rate relative to the highest one
  PhaseObjective objective = PhaseObjective::fixed;
  std::optional<AdaptationSection> adaptation;  // for a phase that regularises or compresses
  std::optional<std::int64_t> layers;           // encoder blocks; absent: as many as the model's
  bool dense = false;  // linear layers become dense when it begins (recipes/phase_recipe.h)

  // The capacity of a micro-batch in tokens or examples.
  std::int64_t micro_batch_size() const {
    return examples_per_micro_batch > 0 ? examples_per_micro_batch : tokens_per_micro_batch;
  }
  // The largest share of masks in any step; `otherwise`: data.mask_probability.
  double largest_mask_probability(double otherwise) const {
    const double first = mask_probability.value_or(otherwise);
    return std::max(first, final_mask_probability.value_or(first));
  }
  // Whether the warm-up of a phase of this many steps ends before its decay begins (warmup_stable_decay).
  bool warms_up_before_decay(std::int64_t phase_steps) const {
    const auto all = static_cast<double>(phase_steps);
    const double warmup = warmup_share > 0 ? warmup_share * all : static_cast<double>(warmup_steps);
    return schedule != ScheduleKind::warmup_stable_decay || warmup + decay_share * all <= all * (1 + 1e-9);
  }
  friend bool operator==(const PhaseSection&, const PhaseSection&) = default;
};

// Sentences about old names of keys and values in the recipe ("phase.0.micro_batches_per_step is
// micro_batches_per_step"). They do not affect its meaning.
struct OldNames {
  std::vector<std::string> met;
  friend bool operator==(const OldNames&, const OldNames&) { return true; }
};

// What a student learns from its teacher (model/config.h).
struct DistillationSection : DistillationConfig {
  std::string teacher;        // a checkpoint or run's folder
  std::string cache;          // file for its answers to the training texts; empty: they are not kept
  double replaced_words = 0;  // in a second version of each text; 0: there is none
  DistillationSection() { targets = false; }
  friend bool operator==(const DistillationSection&, const DistillationSection&) = default;
};

// The generator of a model with head = "replaced_tokens".
using GeneratorSection = GeneratorConfig;

struct Recipe {
  std::optional<DlrmSection> dlrm;  // replaces `model`
  ModelSection model;
  std::optional<GeneratorSection> generator;
  TensorizedSection tensorized;
  std::optional<LowRankSection> low_rank;
  std::optional<LteSection> lte;
  OptimSection optim;
  DataSection data;
  TaskSection task;
  std::optional<DistillationSection> distillation;
  PrecisionSection precision;
  DistributedSection distributed;
  RunSection run;
  std::vector<PhaseSection> phases;
  OldNames old_names;
  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// A recipe that supplies what another leaves out of [model], and also [tensorized] and [low_rank] if the
// other has neither.
struct BaseRecipe {
  std::string toml;  // empty: none
  std::string name;  // of its file, for messages
};

// Reads, overrides and validates. An override is "section.key=value" with a TOML value, where a bare word is
// a string: "phase.0.steps=100", "model.norm=pre", "tensorized.enabled=false".
// Every defect of a recipe is a UsageError of one sentence with file, line, column, section and key.
Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides = {},
                   const BaseRecipe& base = {});
// The same for text; `name` replaces the file name in messages.
Recipe parse_recipe(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {}, const BaseRecipe& base = {});
// run.output according to the file and the overrides, even if they are invalid otherwise; empty if it is not
// given.
std::string run_output(const std::filesystem::path& file, const std::vector<std::string>& overrides);
// The same for a recipe that this program has stored in a checkpoint: keys that a phase does not use are
// ignored instead of rejected, because they could not be corrected there.
Recipe parse_stored_recipe(std::string_view text, const std::string& name,
                           const std::vector<std::string>& overrides = {});

// Throws UsageError if values contradict each other; for recipes that were not read from a file.
void validate(const Recipe& recipe);
// Throws UsageError naming the key if something is missing that only training, or only pretraining, needs.
void require_training_keys(const Recipe& recipe);
void require_pretraining_keys(const Recipe& recipe);
void require_click_keys(const Recipe& recipe);

// A sentence for each key with a non-default value that has no effect because of another key's value: a
// recipe may keep its settings for 8-bit scales while it is tried in another precision.
std::vector<std::string> keys_without_effect(const Recipe& recipe);
// The rank adaptation of a phase, with the preset's constants for absent keys.
AdaptationSection adaptation_of(const PhaseSection& phase);
// A note about old names in the recipe; nothing if there were none.
std::optional<std::string> note_of_old_names(const Recipe& recipe);

// The click model that the recipe describes, for data with so many numbers and tables of so many rows; empty:
// as the recipe says. Throws UsageError.
DlrmConfig dlrm_config(const Recipe& recipe, std::optional<std::int64_t> dense_features = {},
                       const std::vector<std::int64_t>& rows = {});

// The resolved recipe, with every key: parse_recipe(to_toml(r), ...) == r.
std::string to_toml(const Recipe& recipe);

// With only the last names of its folders and files, for publication.
Recipe without_folders(const Recipe& recipe);

// docs/reference/recipes.md: every section and key with type, default and meaning.
std::string recipe_reference();

}  // namespace comera
