#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.h"
#include "reports/checkpoint_ranks.h"

namespace comera {

// A masked piece in a text, with the model's guesses.
struct ReportedFilling {
  std::string before, behind;                                // the text around the piece
  std::optional<std::string> truth;                          // the piece that was hidden there
  std::int64_t rank = 0;                                     // of the true piece among all pieces
  std::vector<std::pair<std::string, double>> guesses = {};  // with their probabilities
};

// The known facts about a run; missing ones are left out of the report, and a note should say why.
struct ReportedRun {
  std::string name;
  std::optional<Recipe> recipe = {};
  std::vector<std::pair<std::string, std::string>> facts =
      {};  // what the recipe does not say: "machine", "date"
  std::vector<nlohmann::ordered_json> metrics = {};
  std::optional<CheckpointRanks> ranks = {};  // of its newest checkpoint
  double checkpoint_bytes = 0;                // 0: no checkpoint
  std::vector<ReportedFilling> fillings = {};
  std::vector<std::string> notes = {};
};

// A table of any kind; cells are texts or numbers.
struct ReportedTable {
  std::string title;
  std::vector<std::string> titles;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
};

// One self-contained HTML file: what was trained on what data, curves over steps and over hours of training,
// sizes and live ranks by layer, results side by side, and the recipes' differences. Curves have at most 500
// points each, means of their neighbours. made: a line about the report itself.
std::string report_page(const std::vector<ReportedRun>& runs, const std::vector<ReportedTable>& tables,
                        const std::string& made);

}  // namespace comera
