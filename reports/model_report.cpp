#include "reports/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "data/batching/batch.h"
#include "model/encoder_micro_batches.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"

namespace comera {

namespace {

struct Row {
  std::string name, kind;
  std::int64_t parameters = 0, gates = 0;
};

// The row that a parameter is listed under: its layer's name, its norm's, or its own.
std::string row_name(const std::string& parameter, const std::map<std::string, std::string>& layers) {
  for (const auto& [layer, kind] : layers)
    if (parameter.starts_with(layer + ".")) return layer;
  return parameter.find("norm") == std::string::npos ? parameter : parameter.substr(0, parameter.rfind('.'));
}

// The rows, in forward order.
std::vector<Row> rows_of(const Model& model) {
  const ParameterStore& store = model.parameters();
  std::map<std::string, std::string> layers{{"embedding.tokens", model.token_embedding().shape_text()}};
  for (const Linear* linear : model.linears())
    for (int i = 0; i < linear->outputs(); ++i) layers[linear->output_name(i)] = linear->shape_text(i);
  std::vector<Row> rows;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const ParameterInfo& info = store.info(id);
    const std::string name = row_name(info.name, layers);
    auto row = std::ranges::find(rows, name, &Row::name);
    if (row == rows.end()) {
      const auto layer = layers.find(name);
      rows.push_back({name, layer != layers.end() ? layer->second : "dense " + info.shape.text()});
      row = rows.end() - 1;
    }
    (info.role == ParameterRole::gate ? row->gates : row->parameters) += info.shape.elements();
  }
  return rows;
}

// Of all but the embedding's tables and their norm, with dense layers.
std::int64_t network_parameters(const EncoderConfig& config) {
  const std::int64_t h = config.hidden, f = config.ffn, v = config.vocabulary, e = config.table_width();
  const std::int64_t norm = 2 * h, square = h * h + h;
  const std::int64_t block = 4 * square + (h * f + f) + (f * h + h) + 2 * norm;
  const std::int64_t head = config.head == HeadKind::mlm               ? h * e + e + 2 * e + v
                            : config.has_vector_layer()                ? (h + 1) * config.vector_size
                            : config.head == HeadKind::contrastive     ? 0
                            : config.head == HeadKind::replaced_tokens ? square + h + 1
                            : reads_tokens(config.head)
                                ? (h + 1) * config.token_outputs()
                                : square + (config.classifier_inputs() + 1) * config.sequence_outputs();
  const std::int64_t projection = config.has_narrow_tables() ? e * h + h : 0;
  const std::int64_t outer_norm = config.norm == NormPlacement::pre ? norm : 0;
  return projection + outer_norm + config.layers * block + head;
}

bool is_of_generator(const ParameterInfo& info) { return info.name.starts_with("generator."); }

// Without the generator.
std::int64_t total_of(const ParameterStore& store, const std::function<bool(const ParameterInfo&)>& belongs) {
  std::int64_t total = 0;
  for (ParameterId id = 0; id < store.size(); ++id)
    if (const ParameterInfo& info = store.info(id);
        info.role != ParameterRole::gate && !is_of_generator(info) && belongs(info))
      total += store.info(id).shape.elements();
  return total;
}

bool is_norm(const ParameterInfo& info) { return info.name.find("norm") != std::string::npos; }
bool is_head(const ParameterInfo& info) {
  return info.name.starts_with("head.classifier.") || info.name.starts_with("head.labels.") ||
         info.name.starts_with("head.spans.") || info.name.starts_with("head.detection.") ||
         info.name == "head.bias";
}
bool is_bias(const ParameterInfo& info) {
  return info.name.ends_with(".bias") && !is_norm(info) && !is_head(info);
}
bool is_diagonal(const ParameterInfo& info) { return info.name.ends_with(".diagonal"); }
bool is_table(const ParameterInfo& info) {
  return info.name == "embedding.positions" || info.name == "embedding.types";
}

std::string sizes_text(std::int64_t all, std::int64_t dense) {
  return fmt::format(
      "\nthe dense baseline has {} parameters ({:.1f} MiB as fp32); this model has {} ({:.2f} MiB), {}\n",
      grouped(dense), static_cast<double>(dense) * 4 / 1048576, grouped(all),
      static_cast<double>(all) * 4 / 1048576, times_text(dense, all));
}

std::string layers_text(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("layer {}", first) : fmt::format("layers {} to {}", first, last);
}

MicroBatchCapacity micro_batch_of(const Recipe& recipe, const PhaseSection& phase,
                                  const EncoderConfig& config) {
  const double masked = phase.largest_mask_probability(recipe.data.mask_probability);
  MicroBatchCapacity capacity =
      data::capacity_for(phase.tokens_per_micro_batch, phase.length,
                         config.head == HeadKind::mlm ? masked : 0, config.vocabulary);
  make_room_for_targets(config.head, capacity);
  return capacity;
}

// A line for each operation, reason and range of layers.
std::string missed_operations_text(const Model& model, const MachineModel& gpu,
                                   const MicroBatchCapacity& micro_batch) {
  const std::vector<MissedOperation> missed = model.missed_operations(gpu, micro_batch);
  if (missed.empty()) return "  none\n";
  std::string text;
  // Layers in a row with one reason share a line.
  for (std::size_t from = 0, to = 0; from < missed.size(); from = to) {
    const MissedOperation& first = missed[from];
    for (to = from + 1; to < missed.size(); ++to)
      if (missed[to].operation != first.operation || missed[to].reason != first.reason ||
          missed[to].layer != missed[to - 1].layer + 1)
        break;
    text += fmt::format("  {}, {}: {}\n", first.operation, layers_text(first.layer, missed[to - 1].layer),
                        first.reason);
  }
  return text;
}

}  // namespace

std::int64_t dense_parameters(const EncoderConfig& config) {
  const std::int64_t e = config.table_width();
  const std::int64_t positions = config.positions == Positions::learned ? config.max_positions : 0;
  const std::int64_t norm = config.norm == NormPlacement::post ? 2 * e : 0;
  const std::int64_t generator =
      config.head == HeadKind::replaced_tokens ? network_parameters(config.generator_encoder()) : 0;
  const std::int64_t biases = config.relative_buckets * config.heads;
  return (config.vocabulary + positions + config.types) * e + biases + norm + network_parameters(config) +
         generator;
}

std::string model_report(const Model& model) {
  const ParameterStore& store = model.parameters();
  TextTable layers({"layer", "shape", "parameters", "gates"});
  layers.align_right(2);
  for (const Row& row : rows_of(model))
    layers.add({row.name, row.kind, grouped(row.parameters), row.gates ? grouped(row.gates) : ""});
  std::string text = layers.text();
  const std::int64_t all = store.count(), dense = dense_parameters(model.config());
  const auto line = [&](const char* part, std::int64_t count) {
    text += fmt::format("  {:<28}{:>14}\n", part, grouped(count));
  };
  text += "\nparameters by part\n";
  line("tensor-train cores", store.count(ParameterRole::core));
  if (const std::int64_t diagonals = total_of(store, is_diagonal); diagonals > 0)
    line("diagonals", diagonals);
  line("linear biases", total_of(store, is_bias));
  line("norms", total_of(store, is_norm));
  line("positions and types", total_of(store, is_table));
  line("classifier or decoder bias", total_of(store, is_head));
  line("dense weights", total_of(store, [](const ParameterInfo& info) {
         return info.role == ParameterRole::dense && !is_bias(info) && !is_norm(info) && !is_table(info) &&
                !is_head(info) && !is_diagonal(info);
       }));
  if (model.config().head == HeadKind::replaced_tokens)
    line("generator, without tables", network_parameters(model.config().generator_encoder()));
  const std::int64_t frozen = store.count(ParameterRole::frozen);
  if (frozen > 0)
    line(model.config().lte ? "frozen weights, merges" : "biases by distance",
         total_of(store, [](const ParameterInfo& info) {
           return info.role == ParameterRole::frozen && !is_bias(info);
         }));
  line("all", all);
  if (frozen > 0) line("of these not trained", frozen);
  line("gates beside them", store.count(ParameterRole::gate));
  return text + sizes_text(all, dense);
}

std::string model_report(const DlrmConfig& config) {
  TextTable table({"layer", "shape", "parameters", "dense"});
  table.align_right(2);
  std::int64_t all = 0, tables = 0;
  for (const DlrmLayer& layer : layers_of(config)) {
    const std::string shape =
        layer.shape.empty() ? fmt::format("dense {} x {}", layer.inputs, layer.outputs) : layer.shape;
    table.add({layer.name, shape, grouped(layer.parameters()), grouped(layer.dense_parameters())});
    all += layer.parameters();
    if (layer.is_table) tables += layer.parameters();
  }
  std::string text = table.text();
  text += fmt::format("\n{} of {} parameters are in tables\n", grouped(tables), grouped(all));
  return text + sizes_text(all, dense_parameters(config));
}

std::string linears_report(const Model& model, std::int64_t tokens, const MachineModel& machine) {
  std::string text;
  std::set<std::string> seen;
  for (const Linear* linear : model.linears()) {
    std::string kind;
    for (int i = 0; i < linear->outputs(); ++i) kind += linear->shape_text(i) + "\n";
    if (seen.insert(kind).second) text += linear->explain(tokens, machine) + "\n";
  }
  return text;
}

std::string fusion_report(const Recipe& recipe, const Model& model, const MachineModel& gpu) {
  std::vector<std::pair<std::string, std::string>> of_phases;  // names of phases, and their text
  for (const PhaseSection& phase : recipe.phases) {
    std::string text = missed_operations_text(model, gpu, micro_batch_of(recipe, phase, model.config()));
    if (!of_phases.empty() && of_phases.back().second == text)
      of_phases.back().first += ", " + phase.name;
    else
      of_phases.emplace_back(phase.name, std::move(text));
  }
  std::string report;
  for (const auto& [names, text] : of_phases)
    report += fmt::format("\nfused operations that a GPU does not use (phase {})\n{}", names, text);
  return report;
}

std::string architecture_text(const EncoderArchitecture& model) {
  return fmt::format("{} layers of {}, {} heads, feed-forward {}, {}-norm, {} positions", model.layers,
                     model.hidden, model.heads, model.ffn, model.norm == NormPlacement::pre ? "pre" : "post",
                     name_of(model.positions));
}

}  // namespace comera
