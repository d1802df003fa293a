#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/options/choice.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "data/clicks/click_scores.h"
#include "data/clicks/click_shards.h"
#include "data/clicks/synthetic_clicks.h"
#include "data/shards/shard_files.h"
#include "kernels/core/console.h"
#include "storage/hash.h"
#include "tensorized/decomposition/factorize.h"

namespace comera::cli {

namespace {

struct ClickSyntheticOptions {
  data::SyntheticClicksOptions clicks = {.heights = {1000000, 200000, 50000, 10000, 1000, 100, 20, 3}};
  std::string rows_of_tables = "low_rank";
  std::int64_t rows = 1000000, held_out = 50000;
  std::filesystem::path output;
  bool overwrite = false;
  std::int64_t shape_rank = 0;  // of tensor-train tables: modes as in a model with this rank; 0: equal modes
};

constexpr std::int64_t rows_at_once = 4096, rows_per_shard = 1 << 20;
// Held-out examples have indices far beyond those of any training set.
constexpr std::int64_t first_held_out = std::int64_t{1} << 40;

data::SyntheticClicksOptions planted(const ClickSyntheticOptions& options) {
  data::SyntheticClicksOptions clicks = options.clicks;
  const std::string& kind = options.rows_of_tables;
  clicks.rows = kind == "full_rank"  ? data::PlantedRows::full_rank
                : kind == "low_rank" ? data::PlantedRows::low_rank
                                     : data::PlantedRows::tensor_train;
  if (clicks.rows != data::PlantedRows::tensor_train) return clicks;
  clicks.column_modes = {2, 4, 2};
  for (const std::int64_t rows : clicks.heights) {
    std::int64_t mode = 1;
    while (mode * mode * mode < rows) ++mode;
    clicks.row_modes.push_back({mode, mode, mode});
    if (options.shape_rank == 0) continue;
    const std::optional<TTMShape> shape = factorize_table(rows, clicks.width, 3, options.shape_rank);
    if (!shape) continue;  // a small table, dense in a model
    clicks.row_modes.back() = shape->row_modes;
    clicks.column_modes = shape->column_modes;
  }
  return clicks;
}

// Everything that determines the examples, except their number.
std::string encoding_of(const data::SyntheticClicksOptions& options) {
  return "synthetic-" + storage::hash128(fmt::format("{} {} [{}] {} {} {} {} {}", options.seed,
                                                     options.dense_features, fmt::join(options.heights, ","),
                                                     options.exponent, static_cast<int>(options.rows),
                                                     options.rank, options.row_modes, options.column_modes))
                            .hex();
}

// Sums over one split.
struct Split {
  double clicks = 0, entropy = 0;
};

Split write_split(const data::SyntheticClicks& clicks, const data::ClickShardInfo& info, std::int64_t first,
                  std::int64_t rows, const std::filesystem::path& output) {
  data::ClickShardWriter writer(output, info, rows_per_shard);
  data::ClickExamples examples;
  Split split;
  for (std::int64_t begin = 0; begin < rows; begin += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, rows - begin);
    clicks.make(first + begin, count, examples);
    split.entropy += clicks.entropy(examples) * static_cast<double>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      split.clicks += examples.labels[static_cast<std::size_t>(i)];
      writer.add(examples.labels[static_cast<std::size_t>(i)],
                 examples.dense_features.data() + i * info.dense_features,
                 examples.ids.data() + i * info.tables());
    }
  }
  writer.finish();
  return split;
}

void make_synthetic_clicks(const ClickSyntheticOptions& options) {
  if (options.shape_rank > 0 && options.rows_of_tables != "tensor_train")
    throw UsageError("--shape-rank is for tensor-train tables; add --tables tensor_train, or omit it");
  check_shard_folder(options.output, options.overwrite);
  const data::SyntheticClicksOptions wanted = planted(options);
  const data::SyntheticClicks clicks(wanted);
  data::ClickShardInfo info{.encoding = encoding_of(wanted),
                            .split = "train",
                            .dense_features = wanted.dense_features,
                            .heights = wanted.heights};
  const data::ShardFolder folder(options.output, options.overwrite);
  for (const char* split : {"train", "validation"}) data::remove_unfinished_shards(options.output, split);
  const Split train = write_split(clicks, info, 0, options.rows, options.output);
  info.split = "validation";
  const Split held_out = write_split(clicks, info, first_held_out, options.held_out, options.output);
  std::error_code none;
  std::filesystem::remove(options.output / data::click_encoding_file,
                          none);  // of shards from earlier
  const auto rows = static_cast<double>(options.held_out);
  const double rate = held_out.clicks / rows, floor = held_out.entropy / rows;
  print_out("train             {} rows, {:.2f} % clicks\n", options.rows,
            100 * train.clicks / static_cast<double>(options.rows));
  print_out("validation        {} rows, {:.2f} % clicks\n", options.held_out, 100 * rate);
  const bool both = rate > 0 && rate < 1;
  print_out(
      "the known model has a log loss of {:.4f} on the validation rows{}; no trained model is better on "
      "average\n",
      floor,
      both ? fmt::format(" ({:.4f} of guessing the click rate)",
                         floor / data::click_entropy(std::log(rate / (1 - rate))))
           : "");
  print_out("wrote {}\n", options.output.string());
}

}  // namespace

void add_click_synthetic_command(CLI::App& clicks) {
  auto options = std::make_shared<ClickSyntheticOptions>();
  CLI::App* command = clicks.add_subcommand(
      "synthetic", "Generate shards of clicks from a known model, to try out training without a log");
  command->add_option("--output", options->output, "Write the shards to this folder")
      ->required()
      ->type_name("DIR");
  command->add_option("--rows", options->rows, "Number of training examples")
      ->check(positive_number)
      ->capture_default_str();
  command->add_option("--held-out-rows", options->held_out, "Number of validation examples")
      ->check(positive_number)
      ->capture_default_str();
  command->add_option("--heights", options->clicks.heights, "Rows of each table")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive_number)
      ->capture_default_str()
      ->type_name("ROWS,...");
  command
      ->add_option("--exponent", options->clicks.exponent,
                   "Draw ids by Zipf's law with this exponent; 0: uniformly")
      ->check(number_between(0, 10))
      ->capture_default_str();
  command->add_option("--tables", options->rows_of_tables, "Structure of the known model's tables")
      ->check(one_of({"full_rank", "low_rank", "tensor_train"}))
      ->capture_default_str();
  command->add_option("--rank", options->clicks.rank, "Rank of low_rank and tensor_train tables")
      ->check(positive_number)
      ->capture_default_str();
  command
      ->add_option("--shape-rank", options->shape_rank,
                   "Give tensor_train tables the modes of a model whose dlrm.table_rank is this; 0: modes of "
                   "equal size")
      ->check(number_from_0)
      ->capture_default_str();
  command->add_option("--seed", options->clicks.seed, "Random seed of the known model and of all examples")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace the shards in the output folder");
  command->footer(
      "Examples:\n"
      "  comera clicks synthetic --output shards\n"
      "  comera clicks train dlrm_small --data shards --output runs/clicks");
  command->callback([options] { make_synthetic_clicks(*options); });
}

}  // namespace comera::cli
