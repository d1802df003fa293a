// The keys of all sections but those of the model, and the list of sections.

#include "recipes/schema/schema.h"

namespace comera::recipe_detail {

template <>
const std::vector<Key<GaloreOptions>>& keys_of() {
  using S = GaloreOptions;
  static const std::vector<Key<S>> keys = {
      value("rank", &S::rank, count(1), "rank of the subspace, at most a matrix's shorter side"),
      value("update_proj_gap", &S::update_proj_gap, count(1),
            "updates before the subspace is computed again"),
      value("scale", &S::scale, above(0), "factor of these matrices' updates"),
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
      inherited<S>(
          value("name", &Base::kind,
                "`adamw`; `muon`: orthogonalised updates of linear layers' cores and dense matrices (the "
                "embedding's projection too), AdamW for "
                "the rest; `lamb`: AdamW's updates, scaled for each matrix and core by its norm; `galore`: "
                "Adam's moments of dense linear layers in a subspace, AdamW for the rest")),
      inherited<S>(value("beta1", &Base::beta1, from_to_below(0, 1),
                         "AdamW, LAMB, GaLore: decay of the first moment")),
      inherited<S>(value("beta2", &Base::beta2, from_to_below(0, 1),
                         "AdamW, LAMB, GaLore: decay of the second moment")),
      inherited<S>(value("eps", &Base::eps, above(0),
                         "AdamW, LAMB, GaLore: added to the root of the second moment; the papers of LAMB "
                         "and GaLore use 1e-6")),
      inherited<S>(
          value("momentum", &Base::momentum, from_to_below(0, 1), "Muon: momentum; not used by the others")),
      inherited<S>(value("weight_decay", &Base::weight_decay, at_least(0),
                         "decoupled decay of dense matrices; biases, norms and gates never decay")),
      inherited<S>(value("decay_cores", &Base::decay_cores, "apply weight decay to TT and TTM cores too")),
      inherited<S>(
          value("average_decay", &Base::average_decay, from_to_below(0, 1),
                "decay per step of an exponential moving average of all weights, which is evaluated and "
                "saved instead of the last ones, such as 0.999; 0: none")),
      value("clip_norm", &S::clip_norm, at_least(0), "clip the gradient to this norm; 0: no clipping"),
      value("max_consecutive_skips", &S::max_consecutive_skips, count(1),
            "stop the run, with a checkpoint, after this many skipped steps in a row (steps with a loss or "
            "gradient that is not finite)"),
      inherited<S>(optional_section("galore", &Base::galore,
                                    "Options of `galore`, named as by its authors (Zhao et al., 2024).")),
  };
  return keys;
}

template <>
const std::vector<Key<DataSource>>& keys_of() {
  using S = DataSource;
  static const std::vector<Key<S>> keys = {
      required(
          value("folder", &S::folder, "folder of its shards; the last part of the path names the source")),
      value("weight", &S::weight, above(0),
            "share of the training tokens, relative to the other weights. Give weights to all sources or to "
            "none; without, all sources have equal shares"),
  };
  return keys;
}

template <>
const std::vector<Key<DataSection>>& keys_of() {
  using S = DataSection;
  static const std::vector<Key<S>> keys = {
      value("train", &S::train, "folder of the training shards; needed to train"),
      value("validation", &S::validation, "folder of the validation shards; empty: no evaluation"),
      value("tokenizer", &S::tokenizer,
            "model file of the tokenizer, or a checkpoint, which carries its tokenizer; needed to train"),
      value("mask_probability", &S::mask_probability, above_to(0, 1),
            "share of the tokens to predict; a phase can set another for training"),
      value("replace_share", &S::replace_share, from_to(0, 1),
            "share of these that is replaced by the mask token"),
      value("random_share", &S::random_share, from_to(0, 1),
            "share of these that is replaced by a random token; the rest stays unchanged"),
      value("whole_word_masking", &S::whole_word_masking, "mask all pieces of a word or identifier together"),
      value("targets", &S::targets,
            "for files of masked sequences: use the masks of the `file`, or draw new ones in every epoch"),
      value("order", &S::order,
            "order of a click model's examples: `shuffled` in blocks, differently in every epoch, or as "
            "`stored`, in order of time"),
      sections("source", &S::sources,
               "Several corpora instead of `data.train` (docs/guide/data.md), each in a section. Held-out "
               "losses are reported for each, unless `data.validation` names another set."),
  };
  return keys;
}

template <>
const std::vector<Key<TaskSection>>& keys_of() {
  using S = TaskSection;
  static const std::vector<Key<S>> keys = {
      value("name", &S::name,
            "a GLUE task (cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli), whose columns, labels and "
            "metric are known, or any other name for your own files"),
      value("folder", &S::folder, "folder with the GLUE task's TSV files"),
      value("train", &S::train, "files to train on: TSV, CSV or JSONL, plain or .gz"),
      value("validation", &S::validation, "files to evaluate on, each separately and completely"),
      value(
          "held_out", &S::held_out, from_to_below(0, 1),
          "instead of `validation`, evaluate on about this share of the rows of `train` and do not train on "
          "them; they are chosen by their texts, so that equal texts are on one side"),
      value("similarity", &S::similarity,
            "contrastive: tables of two texts and a score, to evaluate on by the correlation of the cosines "
            "with the scores; their columns are found"),
      value(
          "text", &S::text,
          "names of the one or two text columns; contrastive: query and document, with a hard negative as "
          "the third, or one text, which is its own document with another dropout mask; of words in columns "
          "the number of theirs (default: 1)"),
      value("label", &S::label,
            "name of the column with the label or score. Empty for a multi-label task whose `labels` are "
            "columns of 0 or 1. A contrastive task needs none, and with one takes the rows that have one of "
            "`labels`. Of words in columns its number (default: the last)"),
      value("separator", &S::separator,
            "text between the labels of a field of a multi-label task in TSV or CSV; JSON has lists"),
      value("labels", &S::labels,
            "the classes in the order of their ids; empty: those in the training files, sorted"),
      value(
          "kind", &S::kind,
          "a class, a number (`regression`), several labels (`multi_label`), a label a word "
          "(`token_classification`, CoNLL's columns), an answer within a text (`question_answering`, SQuAD's "
          "JSON), or vectors (`contrastive`); set for a GLUE task"),
      value(
          "metric", &S::metric,
          "score on the first validation file that selects the best model (default: accuracy; spearman for "
          "scores; micro_f1 for several labels; f1 of entities and answers; mrr for vectors, or spearman on "
          "`similarity` and of students)"),
      value(
          "class_weights", &S::class_weights, above(0),
          "weigh the loss of the classes: a number for each, in the order of `labels`, or `balanced`: the "
          "examples over the number of classes and the examples of the class. A step's loss is the weighted "
          "mean. Empty: all count alike. Scores are not weighted"),
      value("temperature", &S::temperature, above(0), "contrastive: cosines are divided by it"),
      value("symmetric", &S::symmetric,
            "contrastive: let documents look for their queries too; the loss is the mean of both"),
      value("overlap", &S::overlap, count(0),
            "`question_answering`: tokens that two windows share where a text is longer than a sequence"),
      value("unanswerable", &S::unanswerable,
            "`question_answering`: questions may have no answer in their text, as in SQuAD 2.0 (finetune "
            "--input sets it if some in its file say `is_impossible`)"),
      value("no_answer_threshold", &S::no_answer_threshold,
            "`unanswerable`: no answer is given where its score is above that of the best span by more"),
      value("format", &S::format, "format of the files; `automatic`: by their names"),
      value("header", &S::header,
            "TSV and CSV files begin with a header line; without, columns are named 1, 2, 3, ..."),
  };
  return keys;
}

template <>
const std::vector<Key<DistillationSection>>& keys_of() {
  using S = DistillationSection;
  static const std::vector<Key<S>> keys = {
      value("teacher", &S::teacher, "checkpoint or run's folder of the model to learn from"),
      inherited<S>(value(
          "vectors", &S::vectors, at_least(0),
          "weight of 1 - the cosine between the vectors of a sequence, the student's and the teacher's")),
      inherited<S>(value("similarities", &S::similarities, at_least(0),
                         "weight of the squared differences between the cosines of each two sequences of a "
                         "micro-batch, the student's and the teacher's")),
      inherited<S>(
          value("hidden", &S::hidden, at_least(0),
                "weight of the squared distance between the last hidden states of a token, by their width")),
      inherited<S>(
          value("all_layers", &S::all_layers,
                "`hidden` compares what comes out of each encoder block, in the mean, with what comes out of "
                "the teacher's that is as deep; otherwise the last hidden states alone")),
      inherited<S>(
          value("relations", &S::relations, at_least(0),
                "weight of the divergence of the relations between tokens, softmax(X Xᵀ / √d), in the last "
                "block's queries, keys and values; needs no projection")),
      inherited<S>(
          value("relation_heads", &S::relation_heads, count(0),
                "heads that queries, keys and values of both models are divided into for `relations`; 0: "
                "`model.heads`")),
      inherited<S>(value(
          "logits", &S::logits, at_least(0),
          "weight of the divergence between the distributions of the two heads (of a regression: of the "
          "squared difference of the scores)")),
      inherited<S>(
          value("temperature", &S::temperature, above(0),
                "the logits of both are divided by it, and their divergence is multiplied by its square")),
      value(
          "cache", &S::cache,
          "file with the teacher's answers to all training texts, which is made where it is missing; empty: "
          "the "
          "teacher answers again in every pass. For vectors and similarities, or for logits of whole texts"),
      inherited<S>(value("replaced_words", &S::replaced_words, from_to_below(0, 1),
                         "each text is also read with this share of its words of one piece replaced by "
                         "others of the vocabulary, and the teacher answers both; 0: only as it is")),
      value("targets", static_cast<bool S::*>(&S::targets),
            "learn from the targets of the data, too, and not from the teacher alone"),
      inherited<S>(
          value("width", &S::width, count(0),
                "columns of a learned projection of the student's vectors and hidden states; 0: none if both "
                "models are equally wide, else the teacher's width, which is written into the run's recipe")),
  };
  return keys;
}

template <>
const std::vector<Key<PrecisionSection>>& keys_of() {
  using S = PrecisionSection;
  static const std::vector<Key<S>> keys = {
      value("compute", &S::compute,
            "number format of products ([precision.md](../guide/precision.md)). `auto`: bf16 where it is "
            "faster, "
            "else fp32; `tf32`: a GPU rounds operands to 10 bits; `bf16`: activations and "
            "operands, all else fp32; `fp8`, `fp8_fp32`: 8-bit operands in linear layers, bf16 or fp32 "
            "elsewhere; `fp64`: for checks"),
      value("fp8_recipe", &S::fp8_recipe,
            "scale 8-bit operands by the largest magnitude of the tensor (`current`) or of earlier steps "
            "(`delayed`)"),
      value("fp8_format", &S::fp8_format,
            "`hybrid`: E4M3 for activations and weights, E5M2 for gradients; `e4m3`: E4M3 for all"),
      value("amax_history_len", &S::amax_history_len, from_to(1, 65536),
            "`delayed`: number of earlier steps to consider"),
      value("margin", &S::margin, from_to(0, 8),
            "make 8-bit scales 2^margin times smaller than the largest magnitude needs"),
  };
  return keys;
}

template <>
const std::vector<Key<DistributedSection>>& keys_of() {
  using S = DistributedSection;
  static const std::vector<Key<S>> keys = {
      value("backend", &S::backend,
            "`auto`: NCCL between GPUs, MPI between CPUs; `nccl`: NCCL even for a single process"),
      value("bucket_mebibytes", &S::bucket_mebibytes, from_to(1, 4096),
            "bucket size of the gradient all-reduce, which overlaps the backward pass (on GPUs, of 16 MiB of "
            "gradients and more)"),
      value("silence_seconds", &S::silence_seconds, from_to(2.0, 86400.0),
            "end the job when a process has not been heard of for this long"),
      value("stall_seconds", &S::stall_seconds, from_to(2.0, 86400.0),
            "end the job when a live process has kept the others waiting for this long"),
  };
  return keys;
}

template <>
const std::vector<Key<RunSection>>& keys_of() {
  using S = RunSection;
  static const std::vector<Key<S>> keys = {
      value("output", &S::output, "folder of the run; needed to train"),
      value("seed", &S::seed, at_least(0), "seed of initialisation, order, masks and dropout"),
      value("device", &S::device,
            "run the model on `auto` (the first GPU that computes in this number format, else the CPU), "
            "`cpu`, `cuda` (the first GPU) or `cuda:N`"),
      value("graphs", &S::graphs,
            "on a GPU, record a step once and replay it as a CUDA graph; results are the same without"),
      value("threads", &S::threads, from_to(0, 4096), "number of CPU threads; 0: all"),
      value("log_interval", &S::log_interval, count(1), "write metrics every this many steps"),
      value("initial_checkpoint", &S::initial_checkpoint,
            "start from the weights of this checkpoint or run's folder (`--from`); empty: random weights"),
      value("evaluation_interval", &S::evaluation_interval, count(0),
            "evaluate every this many steps; 0: only at the end of each phase"),
      value("evaluation_epochs", &S::evaluation_epochs, at_least(0),
            "also evaluate every this many passes over the training data; 0: off"),
      value(
          "patience", &S::patience, count(0),
          "end the run after this many evaluations in a row that were no better than the best one; 0: never"),
      value("evaluation_batches", &S::evaluation_batches, count(0),
            "evaluate on this many micro-batches of the held-out set, or of each source's; 0: all"),
      value("checkpoint_interval", &S::checkpoint_interval, count(0),
            "save a checkpoint every this many steps, beside `checkpoint_minutes` and the end of each phase; "
            "0: off"),
      value("checkpoint_minutes", &S::checkpoint_minutes, at_least(0),
            "save a checkpoint every this many minutes, so that a crash loses little more; 0: off"),
      value("keep_checkpoints", &S::keep_checkpoints, count(1), "keep this many of the newest checkpoints"),
      value("use_older_checkpoint", &S::use_older_checkpoint,
            "if the newest checkpoint is damaged, report it, rename the file and resume from the one before; "
            "for unattended jobs"),
      value("milestone_interval", &S::milestone_interval, count(0),
            "keep a checkpoint for good, in `milestones/`, every this many steps; 0: off"),
      value("tensorboard", &S::tensorboard,
            "write the metrics as event files for TensorBoard, too, in `tensorboard/`, during training"),
      value("max_hours", &S::max_hours, above(0),
            "stop training after this many hours. Phases, learning rates and size targets then follow the "
            "clock; steps and tokens of the phases only divide the hours, and warm-up takes at most its "
            "share of a phase. Evaluations and checkpoints count, except at the very end; pauses do not"),
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
      required(value("name", &S::name, "name of the phase in logs and metrics")),
      unless_zero("length", &S::length, count(1), "longest sequence in tokens; required for an encoder"),
      unless_zero("tokens_per_micro_batch", &S::tokens_per_micro_batch, count(1),
                  "most tokens of a micro-batch (one forward and backward pass), at least `length`; required "
                  "for an encoder"),
      value("sequences_per_micro_batch", &S::sequences_per_micro_batch, count(0),
            "most sequences of a micro-batch; 0: derived from the data"),
      unless_zero("examples_per_micro_batch", &S::examples_per_micro_batch, count(1),
                  "examples of a micro-batch; required for a click model, instead of `length` and "
                  "`tokens_per_micro_batch`"),
      value("micro_batches_per_step", &S::micro_batches_per_step, count(1),
            "micro-batches per step, over all processes"),
      value("mask_probability", &S::mask_probability, above_to(0, 1),
            "share of the tokens that pretraining predicts in this phase (default: `data.mask_probability`, "
            "which always applies to held-out data)"),
      value("final_mask_probability", &S::final_mask_probability, above_to(0, 1),
            "the share in the phase's last step: from the first step on it goes there linearly (default: it "
            "stays)"),
      value("steps", &S::steps, count(1), "optimizer steps; give either `steps` or `epochs`"),
      value("epochs", &S::epochs, above(0), "passes over the training shards"),
      required(value("learning_rate", &S::learning_rate, at_least(0),
                     "highest learning rate: one for all parameters, or one per kind. `embedding`: the token "
                     "embedding's cores (default: `cores`) and a click model's tables (default if dense: "
                     "`other`). With `muon`, `cores` includes dense linear layers")),
      value("schedule", &S::schedule,
            "learning rate after the warm-up; `warmup_stable_decay`: constant, then a linear decay"),
      value("power", &S::power, above(0), "power of the `polynomial` schedule"),
      value("decay_share", &S::decay_share, above_to(0, 1),
            "share of the phase's steps, its last ones, in which `warmup_stable_decay` lowers the rate "
            "linearly"),
      value("warmup_steps", &S::warmup_steps, count(0),
            "raise the learning rate linearly from 0 over this many steps"),
      value("warmup_share", &S::warmup_share, from_to(0, 1),
            "the same as a share of the phase's steps, instead of `warmup_steps`"),
      value("final_ratio", &S::final_ratio, from_to(0, 1),
            "last learning rate divided by the highest; not used by `constant`"),
      value("objective", &S::objective,
            "keep the ranks (`fixed`), penalise them together with the loss (`regularize`), or prune them to "
            "a target size (`compress`)"),
      value("layers", &S::layers, count(1),
            "encoder blocks of this phase, at most 1024 and no fewer than in the phase before (default: "
            "`model.layers`): added blocks begin as copies of those that there are, so that a run can begin "
            "with "
            "few and quick ones (only with objective `fixed` before they are added)"),
      value("dense", &S::dense,
            "when the phase begins, the tensor trains of linear layers become dense matrices of the same "
            "function, "
            "also for later phases; the embedding stays as it is (only with objective `fixed`)"),
      with_presets(optional_section("adaptation", &S::adaptation,
                                    "Rank adaptation of a phase with objective `regularize` or `compress` "
                                    "(docs/guide/rank-adaptation.md). The preset gives missing keys.")),
  };
  return keys;
}

template <>
const std::vector<Key<AdaptationSection>>& keys_of() {
  using S = AdaptationSection;
  static const std::vector<Key<S>> keys = {
      value("preset", &S::preset,
            "source of the other constants: ours, the paper's method, or the authors' code"),
      value("target_ratio", &S::target_ratio, above_to(0, 1),
            "compress: target size of the tensor trains, as a ratio; give either `target_ratio` or "
            "`target_size`"),
      value("target_of", &S::target_of,
            "reference of `target_ratio`: the size at the start of the phase, at the start of training, or "
            "of the dense matrices"),
      value("target_size", &S::target_size,
            "compress: target size of the whole model in fp32, such as \"3.2MB\""),
      value("target_loss", &S::target_loss, above(0),
            "compress: target loss; the loss has priority while it is further from its target than the size "
            "is; required for `paper`"),
      value("penalty", &S::penalty,
            "penalise the size as a function of the gates (`l1_size`), or the mean of all live gate entries "
            "(`mean_gate`)"),
      value("gamma", &S::gamma, at_least(0), "regularize: weight of the penalty"),
      value("beta", &S::beta, at_least(0),
            "weight of the norm of the cores, which keeps cores from growing while gates shrink; regularize: "
            "gamma by default"),
      value("threshold", &S::threshold, above(0), "prune a gate entry for good at or below this value"),
      value("rho_loss", &S::rho_loss, above(0), "compress: weight of the loss while the size has priority"),
      value("rho_size", &S::rho_size, at_least(0),
            "compress: weight of the penalty while the loss has priority"),
      value("loss_weight", &S::loss_weight, above(0),
            "compress: weight w₁ of the loss's distance to its target (default: 1 / loss)"),
      value("size_weight", &S::size_weight, above(0),
            "compress: weight w₂ of the size's distance to its target (default: 1 / size)"),
      value("weighted_branches", &S::weighted_branches,
            "compress: let these weights also scale the objective, as in the paper, instead of only choosing "
            "the branch"),
      value("smoothing", &S::smoothing, from_to_below(0, 1),
            "smoothing factor of the loss's exponential average"),
      value("hold", &S::hold, "compress: stop the penalty when the target is reached"),
      value("relative_size", &S::relative_size,
            "compress: divide the penalty by the size, which keeps its strength constant"),
      value("smallest_first", &S::smallest_first,
            "compress: pull only the least important entries to 0, down to the target"),
      value("order", &S::order,
            "compress: importance of an entry: its size (`magnitude`), or its size times the root of the "
            "mean squared derivative of the loss (`fisher`), which estimates how much the loss would rise "
            "without it"),
      value("urgency", &S::urgency, at_least(1), "compress: factor by which that pull grows over the phase"),
      value("shrink_share", &S::shrink_share, from_to(0, 1),
            "compress: share of the phase in which the pull grows and the size limit falls to the target; 0: "
            "constant pull, target at once"),
      value("compact_interval", &S::compact_interval, count(0),
            "remove pruned ranks from memory every this many steps; 0: only at the end of the phase"),
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
          "A click model (docs/guide/clicks.md), instead of an encoder's [model]. It uses `enabled`, "
          "`lookup`, `plan` and `ranks` of [tensorized], and `train`, `validation` and `order` of [data]."),
      of_encoders(required(section("model", &S::model, "The encoder and its head."))),
      of_encoders(optional_section("generator", &S::generator,
                                   "The generator of `model.head = \"replaced_tokens\"` "
                                   "(docs/guide/replaced-tokens.md); defaults when "
                                   "absent.")),
      section("tensorized", &S::tensorized, "The layers that are tensor trains. All others are dense."),
      of_encoders(optional_section(
          "low_rank", &S::low_rank,
          "The linear layers of attention and feed-forward, a classifier's pooler and an MLM "
          "head's transform as products of two trained matrices; needs `tensorized.enabled = "
          "false`.")),
      of_encoders(optional_section(
          "lte", &S::lte,
          "LoRA-the-Explorer (Huh et al., 2024): the dense layers of attention and feed-forward are frozen; "
          "adapters beside them are trained and merged into them; needs `tensorized.enabled = false`.")),
      section("optim", &S::optim, "The optimizer. Learning rates belong to the phases."),
      section("data", &S::data, "Shards, tokenizer and masking."),
      of_encoders(section("task", &S::task, "The task of `comera finetune`. Pretraining ignores it.")),
      of_encoders(optional_section("distillation", &S::distillation,
                                   "What a student learns from a teacher's answers to the same micro-batches "
                                   "(docs/guide/distillation.md). "
                                   "One weight must be above 0.")),
      section("precision", &S::precision, "Number formats."),
      section("distributed", &S::distributed, "Jobs of several processes, started by mpirun or srun."),
      section("run", &S::run, "The run's folder, and when files are written."),
      required(sections("phase", &S::phases,
                        "The phases of training, in order; at least one. In `--set`, N counts from 0: `--set "
                        "phase.0.steps=100`.")),
  };
  return keys;
}

}  // namespace comera::recipe_detail
