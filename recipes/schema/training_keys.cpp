// The keys of all sections but those of the model, and the list of sections.

#include "recipes/schema/schema.h"

namespace comera::recipe_detail {

template <>
const std::vector<Key<GaloreOptions>>& keys_of() {
  using S = GaloreOptions;
  static const std::vector<Key<S>> keys = {
      value("rank", &S::rank, count(1), "of the subspace; no more than a matrix's shorter side is used"),
      value("update_proj_gap", &S::update_proj_gap, count(1), "updates with one subspace"),
      value("scale", &S::scale, above(0), "of these matrices' updates, against all other parameters'"),
      value("proj_type", &S::proj_type,
            "the side of a weight (outputs × inputs) that is projected: `std` the shorter, `reverse_std` the "
            "longer, `right` that of the inputs, `left` that of the outputs, `full` both"),
  };
  return keys;
}

template <>
const std::vector<Key<OptimSection>>& keys_of() {
  using S = OptimSection;
  using Base = OptimizerOptions;
  static const std::vector<Key<S>> keys = {
      inherited<S>(value(
          "name", &Base::kind,
          "`adamw`; `muon`: orthogonalised updates of linear layers' cores and dense matrices, AdamW for "
          "the rest; `lamb`: AdamW's updates, scaled for each matrix and core by its norm; `galore`: "
          "Adam's moments of dense linear layers in a subspace, AdamW for the rest")),
      inherited<S>(value("beta1", &Base::beta1, from_to_below(0, 1),
                         "AdamW, LAMB, GaLore: decay of the first moment")),
      inherited<S>(value("beta2", &Base::beta2, from_to_below(0, 1),
                         "AdamW, LAMB, GaLore: decay of the second moment")),
      inherited<S>(value(
          "eps", &Base::eps, above(0),
          "AdamW, LAMB, GaLore: added to the root of the second moment; LAMB's and GaLore's papers have "
          "1e-6")),
      inherited<S>(value("momentum", &Base::momentum, from_to_below(0, 1),
                         "Muon: the share of its momentum that a step keeps; not used by the others")),
      inherited<S>(value("weight_decay", &Base::weight_decay, at_least(0),
                         "decoupled decay of dense matrices; biases, norms and gates never decay")),
      inherited<S>(
          value("decay_cores", &Base::decay_cores, "whether weight decay also acts on TT and TTM cores")),
      value("clip_norm", &S::clip_norm, at_least(0), "largest norm of the whole gradient; 0: no clipping"),
      value("max_consecutive_skips", &S::max_consecutive_skips, count(1),
            "a step whose loss or gradient is not finite changes nothing and is skipped; this many in a row "
            "stop the run, with a checkpoint; 1: the first does"),
      inherited<S>(optional_section("galore", &Base::galore,
                                    "What `galore` does, by its authors' names (Zhao et al., 2024).")),
  };
  return keys;
}

template <>
const std::vector<Key<DataSource>>& keys_of() {
  using S = DataSource;
  static const std::vector<Key<S>> keys = {
      required(value("folder", &S::folder,
                     "directory of its shards; its name, without those before it, is the source's")),
      value("weight", &S::weight, above(0),
            "its share of the training tokens, against the others' weights; all sources have one, or none: "
            "then each is seen as often as the others"),
  };
  return keys;
}

template <>
const std::vector<Key<DataSection>>& keys_of() {
  using S = DataSection;
  static const std::vector<Key<S>> keys = {
      value("train", &S::train, "directory of the training shards; needed to train"),
      value("validation", &S::validation, "directory of the validation shards; empty: no evaluation"),
      value("tokenizer", &S::tokenizer,
            "the tokenizer's model file, or a checkpoint, which carries its own; needed to train"),
      value("mask_probability", &S::mask_probability, above_to(0, 1),
            "share of the tokens to predict; of training, unless a phase has another"),
      value("replace_share", &S::replace_share, from_to(0, 1),
            "of those: the share that becomes the mask token"),
      value("random_share", &S::random_share, from_to(0, 1),
            "of those: the share that becomes a random token; the rest stays as it is"),
      value("whole_word_masking", &S::whole_word_masking,
            "whether all pieces of a word or identifier are predicted together"),
      value("targets", &S::targets,
            "targets for files of masked sequences: those of the `file`, or new masks in every epoch"),
      value("order", &S::order,
            "order of a click model's examples: `shuffled` in blocks, differently in every epoch, or as "
            "`stored`, in the order of time"),
      sections(
          "source", &S::sources,
          "Several corpora instead of `data.train` (docs/guide/data.md), each a section of its own. Held-out "
          "losses are reported for each, unless `data.validation` names another set."),
  };
  return keys;
}

template <>
const std::vector<Key<TaskSection>>& keys_of() {
  using S = TaskSection;
  static const std::vector<Key<S>> keys = {
      value("name", &S::name,
            "a GLUE task (cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli), which brings its columns, "
            "labels "
            "and metric, or any other name for files of your own"),
      value("folder", &S::folder, "folder with the GLUE task's TSV files"),
      value("train", &S::train, "files to train on: TSV, CSV or JSONL, plain or .gz"),
      value("validation", &S::validation, "files to evaluate on, each by itself and whole"),
      value("text", &S::text, "the one or two columns with text, by their names in the header"),
      value("label", &S::label, "the column with the label or the score"),
      value("labels", &S::labels,
            "the classes in the order of their numbers; empty: those in the training files, "
            "sorted"),
      value("kind", &S::kind, "the prediction: a class or a number; set for a GLUE task"),
      value("metric", &S::metric,
            "score that selects the best model, on the first validation file; default: accuracy, or "
            "spearman for a regression"),
      value("format", &S::format, "of the files; `automatic` goes by their names"),
      value("header", &S::header,
            "whether TSV and CSV files begin with the columns' names; without, columns are called 1, 2, 3, "
            "..."),
  };
  return keys;
}

template <>
const std::vector<Key<PrecisionSection>>& keys_of() {
  using S = PrecisionSection;
  static const std::vector<Key<S>> keys = {
      value("compute", &S::compute,
            "number format of products ([precision.md](../guide/precision.md)). `tf32`: a GPU "
            "rounds operands to 10 bits, the CPU does not; `bf16`: bf16 activations and "
            "operands, all else fp32; `fp8`: the same with 8-bit operands in linear layers; "
            "`fp8_fp32`: 8 bits there, fp32 elsewhere; `fp64`: slow, for checks"),
      value(
          "fp8_recipe", &S::fp8_recipe,
          "how 8-bit operands are scaled: `current`, by the tensor's own largest magnitude, or `delayed`, by "
          "the largest of the steps before"),
      value("fp8_format", &S::fp8_format,
            "`hybrid`: E4M3 for activations and weights, E5M2 for gradients; `e4m3`: E4M3 for all"),
      value("amax_history_len", &S::amax_history_len, from_to(1, 65536),
            "delayed: how many steps are remembered"),
      value("margin", &S::margin, from_to(0, 8),
            "8-bit scales are 2^margin times smaller than the largest magnitude asks for"),
  };
  return keys;
}

template <>
const std::vector<Key<DistributedSection>>& keys_of() {
  using S = DistributedSection;
  static const std::vector<Key<S>> keys = {
      value("backend", &S::backend,
            "`auto`: NCCL between GPUs, MPI between CPUs; `nccl`: also for one process alone"),
      value("bucket_mebibytes", &S::bucket_mebibytes, from_to(1, 4096),
            "size of the buckets in which gradients are summed over the processes during the backward "
            "pass"),
      value("silence_seconds", &S::silence_seconds, from_to(2.0, 86400.0),
            "a job ends when nothing has been heard of a process for so long"),
      value("stall_seconds", &S::stall_seconds, from_to(2.0, 86400.0),
            "a job ends when a process lives, but has not come for so long to where the others wait for it"),
  };
  return keys;
}

template <>
const std::vector<Key<RunSection>>& keys_of() {
  using S = RunSection;
  static const std::vector<Key<S>> keys = {
      value("output", &S::output, "the run's directory; needed to train"),
      value("seed", &S::seed, at_least(0), "of initialisation, order, masks and dropout"),
      value(
          "device", &S::device,
          "where the model runs: `auto` (the first GPU, if there is one that computes in this type, else the "
          "CPU), `cpu`, `cuda` (the first GPU) or `cuda:N`"),
      value("graphs", &S::graphs,
            "on a GPU, record a step once and replay it as a CUDA graph; the results are the same without"),
      value("threads", &S::threads, from_to(0, 4096), "CPU threads; 0: all"),
      value("log_interval", &S::log_interval, count(1), "steps from one line of metrics to the next"),
      value("initial_checkpoint", &S::initial_checkpoint,
            "checkpoint file or run directory whose weights the run begins with (`--from`); empty: random "
            "weights"),
      value("evaluation_interval", &S::evaluation_interval, count(0),
            "steps from one evaluation to the next; 0: at the end of each phase only"),
      value("evaluation_epochs", &S::evaluation_epochs, at_least(0),
            "passes over the training data from one evaluation to the next, beside `evaluation_interval`; 0: "
            "none"),
      value("evaluation_batches", &S::evaluation_batches, count(0),
            "micro-batches of the held-out set, or of each source's, to use; 0: the whole set"),
      value(
          "checkpoint_interval", &S::checkpoint_interval, count(0),
          "steps from one checkpoint to the next, beside `checkpoint_minutes`; 0: no more than those and at "
          "the end of each phase"),
      value("checkpoint_minutes", &S::checkpoint_minutes, at_least(0),
            "minutes between checkpoints, saved at the end of a step: a crash loses little more; 0: none "
            "by time"),
      value("keep_checkpoints", &S::keep_checkpoints, count(1), "how many of the newest are kept"),
      value("use_older_checkpoint", &S::use_older_checkpoint,
            "a run with a damaged newest checkpoint prints a message, renames the file and resumes from "
            "the one before; for unattended jobs"),
      value("milestone_interval", &S::milestone_interval, count(0),
            "steps from one checkpoint that is kept for good, in `milestones/`, to the next; 0: none"),
      value("max_hours", &S::max_hours, above(0),
            "training time. Phases, learning rates and size targets then follow the clock; the "
            "steps and tokens of the phases only say how the hours are divided. Warm-up is at most "
            "the share of a phase that it is of its steps. Evaluations and checkpoints count, "
            "except those at the very end; time while the run is stopped does not"),
  };
  return keys;
}

namespace {

// Absent keys of [phase.adaptation] are written as comments, so that a resolved recipe shows all constants
// and also which ones were given.
Key<PhaseSection> with_presets(Key<PhaseSection> key) {
  key.write = [](const PhaseSection& phase, const Path& path, Writer& writer) {
    if (phase.objective == PhaseObjective::fixed) return;
    const std::string heading = "[" + path.text() + "]";
    if (phase.adaptation)
      writer.section(heading);
    else
      writer.comment(heading);
    const AdaptationSection given = phase.adaptation.value_or(AdaptationSection{}),
                            all = with_preset(given, phase.objective);
    const std::vector<std::string> idle = idle_adaptation_keys(phase.objective);
    for (const auto& inner : keys_of<AdaptationSection>()) {
      if (std::ranges::find(idle, inner.name) != idle.end()) continue;
      Writer as_given, as_used;
      inner.write(given, path / inner.name, as_given);
      inner.write(all, path / inner.name, as_used);
      if (phase.adaptation && !as_given.text().empty())
        inner.write(given, path / inner.name, writer);
      else
        writer.comment(as_used.text());
    }
  };
  return key;
}

}  // namespace

template <>
const std::vector<Key<PhaseSection>>& keys_of() {
  using S = PhaseSection;
  static const std::vector<Key<S>> keys = {
      required(value("name", &S::name, "its name in logs and metrics")),
      unless_zero("length", &S::length, count(1), "longest sequence, tokens; an encoder needs it"),
      unless_zero("tokens_per_micro_batch", &S::tokens_per_micro_batch, count(1),
                  "tokens of a micro-batch (one forward and backward pass) at most, at least `length`; an "
                  "encoder needs it"),
      value("sequences_per_micro_batch", &S::sequences_per_micro_batch, count(0),
            "sequences of a micro-batch at most; 0: derived from the data"),
      unless_zero("examples_per_micro_batch", &S::examples_per_micro_batch, count(1),
                  "examples of a micro-batch; a click model needs it, instead of `length` and "
                  "`tokens_per_micro_batch`"),
      value("micro_batches_per_step", &S::micro_batches_per_step, count(1),
            "micro-batches of a step, over all processes"),
      value(
          "mask_probability", &S::mask_probability, above_to(0, 1),
          "share of the tokens to predict in this phase's steps; left out: `data.mask_probability`, by which "
          "held-out data are masked in any case"),
      value("steps", &S::steps, count(1), "optimizer steps; exactly one of `steps` and `epochs` is given"),
      value("epochs", &S::epochs, above(0), "passes over the training shards"),
      required(value("learning_rate", &S::learning_rate, at_least(0),
                     "the highest rate: one for all, or by kind. `embedding`: the token embedding's cores "
                     "(default: `cores`) and a click model's tables (default of dense ones: `other`). With "
                     "`muon`, `cores` is that of linear layers' matrices, dense ones too")),
      value("schedule", &S::schedule, "how the learning rate falls after the warm-up"),
      value("power", &S::power, above(0), "of a polynomial schedule"),
      value("warmup_steps", &S::warmup_steps, count(0),
            "steps in which the learning rate rises linearly from 0"),
      value("final_ratio", &S::final_ratio, from_to(0, 1),
            "the last learning rate over the highest; not used by `constant`"),
      value("objective", &S::objective,
            "ranks stay (`fixed`), are regularised together with the loss (`regularize`), or are pruned to a "
            "target size (`compress`)"),
      with_presets(optional_section("adaptation", &S::adaptation,
                                    "How a phase with objective `regularize` or `compress` adapts ranks "
                                    "(docs/guide/rank-adaptation.md). Missing keys "
                                    "are the preset's.")),
  };
  return keys;
}

template <>
const std::vector<Key<AdaptationSection>>& keys_of() {
  using S = AdaptationSection;
  static const std::vector<Key<S>> keys = {
      value("preset", &S::preset,
            "where the other constants come from: ours, the paper's method, or the authors' code"),
      value("target_ratio", &S::target_ratio, above_to(0, 1),
            "compress: the size of the tensor trains to reach, as a ratio; exactly one of `target_ratio` and "
            "`target_size` is given"),
      value("target_of", &S::target_of,
            "the reference of `target_ratio`: the size when the phase begins, when training began, or of "
            "the dense matrices"),
      value("target_size", &S::target_size,
            "compress: the size of the whole model in fp32 to reach, such as \"3.2MB\""),
      value(
          "target_loss", &S::target_loss, above(0),
          "compress: while the loss is further from this than the size from its target, the loss goes first; "
          "`paper` needs it"),
      value("penalty", &S::penalty,
            "the size as gates see it (`l1_size`), or the mean of all live entries (`mean_gate`)"),
      value("gamma", &S::gamma, at_least(0), "regularize: weight of the penalty"),
      value("beta", &S::beta, at_least(0),
            "weight of the cores' norm, without which cores grow as gates shrink; regularize: as gamma if "
            "left out"),
      value("threshold", &S::threshold, above(0), "an entry of a gate at or below this is pruned for good"),
      value("rho_loss", &S::rho_loss, above(0), "compress: weight of the loss while the size goes first"),
      value("rho_size", &S::rho_size, at_least(0),
            "compress: weight of the penalty while the loss goes first"),
      value("loss_weight", &S::loss_weight, above(0),
            "compress: weight w₁ of the loss's gap to its target; one over the loss if left out"),
      value("size_weight", &S::size_weight, above(0),
            "compress: weight w₂ of the size's gap to its target; one over the size if left out"),
      value("weighted_branches", &S::weighted_branches,
            "compress: whether these weights also scale the objective, as in the paper, or only choose the "
            "branch"),
      value("smoothing", &S::smoothing, from_to_below(0, 1), "of the loss's exponential average"),
      value("hold", &S::hold, "compress: whether the penalty ends when the target is reached"),
      value("relative_size", &S::relative_size,
            "compress: whether the penalty is divided by the size, so that it stays as strong"),
      value("smallest_first", &S::smallest_first,
            "compress: whether only the least important entries are pulled to 0, down to the target"),
      value("order", &S::order,
            "compress: which entries are the least important: those of the smallest size (`magnitude`), or "
            "those "
            "without "
            "which the loss would rise least, their size times the root of the mean squared derivative of "
            "the loss "
            "(`fisher`)"),
      value("urgency", &S::urgency, at_least(1), "compress: factor by which that pull has grown in the end"),
      value("shrink_share", &S::shrink_share, from_to(0, 1),
            "compress: part of the phase in which it grows and in which the size that is due falls to the "
            "target; 0: it does not, and the target is due at once"),
      value("compact_interval", &S::compact_interval, count(0),
            "steps between compactions, which remove pruned ranks from memory; 0: only at the end of the "
            "phase"),
  };
  return keys;
}

namespace {
// Such a section is neither read nor written in a recipe with [dlrm].
Key<Recipe> of_encoders(Key<Recipe> key) {
  key.applies = [](const Recipe& recipe) { return !recipe.dlrm; };
  key.write = [write = key.write](const Recipe& recipe, const Path& path, Writer& writer) {
    if (!recipe.dlrm) write(recipe, path, writer);
  };
  return key;
}
}  // namespace

template <>
const std::vector<Key<Recipe>>& keys_of() {
  using S = Recipe;
  static const std::vector<Key<S>> keys = {
      optional_section(
          "dlrm", &S::dlrm,
          "A click model (docs/guide/clicks.md), instead of an encoder's [model]. Of [tensorized] it has "
          "`enabled`, `lookup`, `plan` and `ranks`, of [data] `train`, `validation` and `order`."),
      of_encoders(required(section("model", &S::model, "The encoder and its head."))),
      section("tensorized", &S::tensorized, "Which layers are tensor trains. Those not named are dense."),
      of_encoders(optional_section(
          "low_rank", &S::low_rank,
          "The linear layers of attention and feed-forward, a classifier's pooler and an MLM "
          "head's transform as products of two trained matrices; needs `tensorized.enabled = "
          "false`.")),
      of_encoders(optional_section(
          "lte", &S::lte,
          "LoRA-the-Explorer (Huh et al., 2024): the dense layers of attention and feed-forward "
          "are frozen, and adapters are trained beside them and merged into them; needs "
          "`tensorized.enabled = false`.")),
      section("optim", &S::optim, "The optimizer. Learning rates belong to the phases."),
      section("data", &S::data, "Shards, tokenizer and masking."),
      of_encoders(section("task", &S::task, "The task of `comera finetune`. Pretraining ignores it.")),
      section("precision", &S::precision, "Number formats."),
      section("distributed", &S::distributed, "Jobs of several processes, started by mpirun or srun."),
      section("run", &S::run, "The run's directory, and when files are written."),
      required(sections(
          "phase", &S::phases,
          "Phases follow each other in the file's order; there is at least one. In `--set`, N counts "
          "from 0: `--set phase.0.steps=100`.")),
  };
  return keys;
}

}  // namespace comera::recipe_detail
