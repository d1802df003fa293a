#include "cli/run_training.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/options/arguments.h"
#include "cli/precision_note.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "kernels/core/terminal.h"
#include "reports/number_text.h"
#include "training/tasks/masked_language_task.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

// A line of results that may be longer than a terminal is wide.
void print_long(const std::string& line) {
  print_out("{}\n", is_terminal(stdout) ? fitted(line, terminal_width(stdout)) : line);
}

std::string good(const std::string& score) { return styled(stdout, Style::good, score); }

double mebibytes(double bytes) { return bytes / 1048576; }

void print_memory(TrainingRun& run) {
  const Allocator& allocator = run.engine().allocator();
  const Arena::Plan& plan = run.engine().arena_plan();
  const auto peak = [&](MemoryKind kind) { return mebibytes(static_cast<double>(allocator.use(kind).peak)); };
  print_out(
      "peak memory      parameters {:.1f}, gradients {:.1f}, optimizer {:.1f},\n"
      "                 activations {:.1f}, workspace {:.1f} MiB\n",
      peak(MemoryKind::parameters), peak(MemoryKind::gradients), peak(MemoryKind::optimizer),
      mebibytes(static_cast<double>(plan.saved)),
      mebibytes(static_cast<double>(plan.total - plan.saved)) + peak(MemoryKind::workspace));
}

void print_held_out(const Evaluation& e) {
  if (!std::isfinite(e.loss)) {
    print_out(
        "held-out loss    not finite: the model has diverged;\n"
        "                 train with a lower learning rate\n");
    return;
  }
  const auto& [detection, baselines, sources] = e.details_as<MaskedLanguageDetails>();
  if (detection)
    print_out(
        "held-out loss    {} as weighed, over {} masked tokens\n"
        "generator        {:.4f} nats per masked token, accuracy {:.2f} %\n"
        "discriminator    {:.4f} nats per token; {:.1f} % of the {:.1f} % replaced ones found\n",
        good(fmt::format("{:.4f}", e.loss)), grouped(e.targets), detection->generator_loss, 100 * e.accuracy,
        detection->loss, 100 * detection->found, 100 * detection->replaced);
  else
    print_out(
        "held-out loss    {} nats per masked token, over {} tokens\n"
        "masked accuracy  {:.2f} %\n",
        good(fmt::format("{:.4f}", e.loss)), grouped(e.targets), 100 * e.accuracy);
  const double gain = baselines.unigram - e.loss;
  if (!detection)
    print_out(
        "baselines        unigram {:.4f}, uniform {:.4f} nats;\n"
        "                 the model is {:.4f} nats {} than unigram\n",
        baselines.unigram, baselines.uniform, std::abs(gain), gain >= 0 ? "better" : "worse");
  for (const SourceEvaluation& source : sources)
    print_out("  {:<14} {:.4f} nats over {} tokens; accuracy {:.2f} %{}\n", source.name, source.loss,
              grouped(source.targets), 100 * source.accuracy,
              detection ? "" : fmt::format("; unigram {:.4f}", source.baselines.unigram));
}

// In a compressing phase, only a model of the target size can be the best.
void print_no_best(const TrainingRun& run) {
  if (run.recipe().phases.back().objective == PhaseObjective::compress)
    print_out(
        "best             none: no evaluated model was as small as the target;\n"
        "                 other commands use the last checkpoint\n");
}

void print_clicks(const TrainingRun& run, const TrainingOutcome& outcome) {
  if (outcome.evaluation) print_long("last             " + run.task().describe(*outcome.evaluation));
  if (!outcome.best.empty())
    print_out("best             {} at step {}: {}\n",
              good(fmt::format("log loss {:.4f}", -outcome.best_score)), grouped(outcome.best_step),
              outcome.best.string());
  else if (outcome.evaluation)
    print_no_best(run);
}

// What the model is no better than, if it has learned nothing: by the best score, where that says so,
// otherwise by the last one. Nothing if the last scores are not finite: their line says so.
std::optional<std::string> as_good_as(const TrainingRun& run, const TrainingOutcome& outcome) {
  if (!outcome.evaluation) return std::nullopt;
  const data::TaskScores& last = sets_of(*outcome.evaluation).front();
  if (last.kind == data::TaskKind::contrastive || !std::isfinite(last.loss)) return std::nullopt;
  const data::TaskMetric metric = *run.recipe().task.metric;
  const bool has_best = !outcome.best.empty();
  const double score = has_best ? outcome.best_score : last.value(metric);
  if (last.kind == data::TaskKind::regression) {
    const bool learned = score >= 0.5 || (score > 0 && last.loss < last.variance);
    return learned ? std::nullopt : std::optional<std::string>("the mean of the scores");
  }
  const bool classes = last.kind == data::TaskKind::classification && metric != data::TaskMetric::matthews;
  bool learned = score > 0;
  if (classes || metric == data::TaskMetric::accuracy) {
    const bool by_accuracy = has_best && metric == data::TaskMetric::accuracy;
    learned =
        last.majority == 0 || (by_accuracy ? score : last.accuracy) > last.majority;  // 0: several labels
  }
  return learned ? std::nullopt : std::optional<std::string>("the most frequent answer");
}

void print_scores(const TrainingRun& run, const TrainingOutcome& outcome) {
  if (outcome.evaluation) print_long("last             " + run.task().describe(*outcome.evaluation));
  if (!outcome.best.empty())
    print_out("best             {} at step {}: {}\n",
              good(fmt::format("{} {:.4f}", data::name_of(*run.recipe().task.metric), outcome.best_score)),
              grouped(outcome.best_step), outcome.best.string());
  else if (outcome.evaluation)
    print_no_best(run);
  if (const std::optional<std::string> answer = as_good_as(run, outcome))
    log_info(
        "note: the model is no better than one that always gives {}; more rows, more epochs "
        "(phase.0.epochs) or other rates (phase.0.learning_rate) may help\n",
        *answer);
}

// Speed, sizes, memory and the checkpoint's path.
void print_costs(TrainingRun& run, const TrainingOutcome& outcome) {
  const std::int64_t parameters = run.engine().model().parameters().count();
  const std::int64_t dense = run.form().dense_parameters();
  if (outcome.units_per_second > 0)
    print_out("speed            {} {}/s\n", grouped(std::llround(outcome.units_per_second)),
              run.task().unit());
  if (parameters == dense)
    print_out("parameters       {}, all dense\n", grouped(parameters));
  else
    print_out("parameters       {}, {} than the dense baseline's {}\n", grouped(parameters),
              times_text(dense, parameters), grouped(dense));
  std::error_code code;  // the file may have been removed
  const auto bytes = std::filesystem::file_size(outcome.checkpoint, code);
  print_out("checkpoint       {:.1f} MiB with optimizer state\n",
            code ? 0 : mebibytes(static_cast<double>(bytes)));
  print_memory(run);
  if (outcome.skipped > 0)
    print_out("skipped          {} of {} steps as not finite\n", grouped(outcome.skipped),
              grouped(outcome.step));
  print_out("saved            {}\n", outcome.checkpoint.string());
}

// What a pretrained model is good for.
void print_next(const Recipe& recipe) {
  const std::string run = for_shell(recipe.run.output);
  print_out("\n{}\n", styled(stdout, Style::heading, "What to try next:"));
  if (!recipe.data.validation.empty() && recipe.model.head == HeadKind::mlm)
    print_out("  comera fill-mask {} --held-out {}\n", run, for_shell(recipe.data.validation));
  print_out(
      "  comera report {0} --output {1}\n"
      "  comera export {0} --to {2}\n"
      "  comera finetune ... --from {0}, comera embed {0} ... (--help shows examples)\n",
      run, for_shell((std::filesystem::path(recipe.run.output) / "report.html").string()),
      for_shell((std::filesystem::path(recipe.run.output) / "exported").string()));
}

// What a fine-tuned one is good for.
void print_next_of_task(const Recipe& recipe) {
  const std::filesystem::path output = recipe.run.output;
  print_out("\n{}\n", styled(stdout, Style::heading, "What to try next:"));
  if (recipe.task.kind == data::TaskKind::contrastive)
    print_out(
        "  comera embed {0} --normalize --input FILE --output vectors.h5\n"
        "  comera eval {0} --similarity FILE\n",
        for_shell(output.string()));
  else
    print_out("  comera predict {} --input FILE --output {}\n", for_shell(output.string()),
              recipe.task.kind == data::TaskKind::token_classification ? "labelled.conll"
              : recipe.task.kind == data::TaskKind::question_answering ? "answers.json"
                                                                       : "predictions.tsv");
  print_out(
      "  comera report {0} --output {1}\n"
      "  comera export {0} --to {2}{3}\n",
      for_shell(output.string()), for_shell((output / "report.html").string()),
      for_shell((output / "exported").string()),
      recipe.tensorized.enabled ? "  # dense; --tensor-trains writes the cores" : "");
}

void print_stopped(const TrainingRun& run, const TrainingOutcome& outcome) {
  const std::string skipped =
      outcome.skipped > 0 ? fmt::format(", {} of them skipped as not finite", grouped(outcome.skipped)) : "";
  print_out(
      "stopped at step {} of {}{}; saved in {}\n"
      "continue with: comera resume {}\n",
      grouped(outcome.step), grouped(run.total_steps()), skipped, outcome.checkpoint.string(),
      for_shell(run.recipe().run.output));
}

std::string how_to_go_on(const TrainingRun& run) {
  const Recipe& recipe = run.recipe();
  if (run.out_of_patience())
    return fmt::format("this run ended by run.patience = {}; raise it with --set to continue",
                       recipe.run.patience);
  if (recipe.run.max_hours)
    return fmt::format(
        "this run is already finished; give it more time with --set run.max_hours=... (now {:g}) to continue",
        *recipe.run.max_hours);
  const std::size_t last = recipe.phases.size() - 1;
  if (const auto epochs = recipe.phases[last].epochs)
    return fmt::format(
        "this run is already finished; give it more with --set phase.{}.epochs=... (now {:g}) to continue",
        last, *epochs);
  return fmt::format(
      "this run is already finished; give it more steps with --set phase.{}.steps=... (now {}) to continue",
      last, recipe.phases[last].steps.value_or(0));
}

// A resumed run keeps its type.
void advise_on_precision(TrainingRun& run) {
  if (run.resumed()) return;
  const Processor& processor = run.engine().processor();
  const bool on_gpu = processor.allocator.device().kind == DeviceKind::cuda;
  log_info("{}", precision_note(run.recipe(), on_gpu));
}

}  // namespace

void run_training(const Recipe& recipe, const TrainingOptions& options, StopSignals& signals,
                  const RunBegins& begun) {
  TrainingRun run(recipe, options);
  signals.begin();  // before this, a signal simply ends the program: nothing can be lost
  const bool first = options.communicator == nullptr || options.communicator->first();
  if (run.finished() && first) print_out("{}\n", how_to_go_on(run));
  if (first) advise_on_precision(run);
  if (begun && first) begun(run);
  const TrainingOutcome outcome = run.run();
  if (!first) return;
  if (!outcome.finished) return print_stopped(run, outcome);
  if (recipe.dlrm)
    print_clicks(run, outcome);
  else if (options.finetune)
    print_scores(run, outcome);
  else if (outcome.evaluation)
    print_held_out(*outcome.evaluation);
  print_costs(run, outcome);
  if (options.finetune)
    print_next_of_task(run.recipe());
  else if (!recipe.dlrm)
    print_next(run.recipe());
}

}  // namespace comera::cli
