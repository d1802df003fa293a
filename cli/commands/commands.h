#pragma once

namespace CLI {
class App;
}

// One function per subcommand: declares its options on the program and what to run when it is chosen.
// Failures leave the callback as comera::Error (exit code 1) or comera::UsageError (exit code 2).
namespace comera::cli {

void add_data_command(CLI::App& program);
void add_tokenizer_command(CLI::App& program);
void add_pairs_command(CLI::App& program);
void add_plan_command(CLI::App& program);
void add_pretrain_command(CLI::App& program);
void add_finetune_command(CLI::App& program);
void add_distill_command(CLI::App& program);
void add_resume_command(CLI::App& program);
void add_eval_command(CLI::App& program);
void add_predict_command(CLI::App& program);
void add_embed_command(CLI::App& program);
void add_search_command(CLI::App& program);
void add_fill_command(CLI::App& program);
void add_glue_command(CLI::App& program);
void add_export_command(CLI::App& program);
void add_import_command(CLI::App& program);
void add_inspect_command(CLI::App& program);
void add_recipes_command(CLI::App& program);
void add_report_command(CLI::App& program);
void add_compact_command(CLI::App& program);
void add_clicks_command(CLI::App& program);
void add_bench_command(CLI::App& program);
void add_completion_command(CLI::App& program);
void add_manual_command(CLI::App& program);

// Subcommands of 'comera clicks'.
void add_click_data_command(CLI::App& clicks);
void add_click_synthetic_command(CLI::App& clicks);
void add_click_train_command(CLI::App& clicks);
void add_click_eval_command(CLI::App& clicks);
void add_click_predict_command(CLI::App& clicks);

}  // namespace comera::cli
