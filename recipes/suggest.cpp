#include "recipes/suggest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace comera {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> distance(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      int& here = distance[i][j];
      if (i == 0 || j == 0) {
        here = static_cast<int>(i + j);
        continue;
      }
      here = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                       distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) here = std::min(here, distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  constexpr std::size_t longest = 64;  // no candidate is as long, and the work grows with both lengths
  if (word.size() > longest) return best;
  int least = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    // A word that shares no letter with the candidate is not a misspelling of it.
    if (distance < least && distance < static_cast<int>(std::max(word.size(), candidate.size()))) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string usual_key(std::string_view word) {
  static constexpr std::pair<std::string_view, std::string_view> keys[] = {
      {"lr", "phase.0.learning_rate"},
      {"learning_rate", "phase.0.learning_rate"},
      {"batch_size", "phase.0.tokens_per_micro_batch"},
      {"per_device_train_batch_size", "phase.0.tokens_per_micro_batch"},
      {"gradient_accumulation_steps", "phase.0.micro_batches_per_step"},
      {"accumulation_steps", "phase.0.micro_batches_per_step"},
      {"steps", "phase.0.steps"},
      {"max_steps", "phase.0.steps"},
      {"num_steps", "phase.0.steps"},
      {"epochs", "phase.0.epochs"},
      {"num_epochs", "phase.0.epochs"},
      {"num_train_epochs", "phase.0.epochs"},
      {"warmup", "phase.0.warmup_steps"},
      {"warmup_steps", "phase.0.warmup_steps"},
      {"length", "phase.0.length"},
      {"max_length", "phase.0.length"},
      {"max_seq_length", "phase.0.length"},
      {"hidden_size", "model.hidden"},
      {"d_model", "model.hidden"},
      {"num_layers", "model.layers"},
      {"num_hidden_layers", "model.layers"},
      {"num_attention_heads", "model.heads"},
      {"intermediate_size", "model.ffn"},
      {"vocab_size", "model.vocabulary"},
      {"max_position_embeddings", "model.max_positions"},
      {"seed", "run.seed"},
  };
  for (const auto& [name, key] : keys)
    if (name == word) return std::string(key);
  return "";
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  if (!best.empty()) return fmt::format("; did you mean '{}'?", best);
  return fmt::format("; expected one of {}", fmt::join(candidates, ", "));
}

}  // namespace comera
