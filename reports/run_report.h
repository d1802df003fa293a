#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.h"
#include "reports/checkpoint_ranks.h"

namespace comera {

// A piece that a model was asked for in a text.
struct ReportedFilling {
  std::string before, behind;                                // of the piece
  std::optional<std::string> truth;                          // that was hidden there
  std::int64_t rank = 0;                                     // of the truth among all pieces
  std::vector<std::pair<std::string, double>> guesses = {};  // with their probabilities
};

// What is known of a run; what is missing is left out of the report, and a note should say why.
struct ReportedRun {
  std::string name;
  std::optional<Recipe> recipe = {};
  std::vector<nlohmann::ordered_json> metrics = {};
  std::optional<CheckpointRanks> ranks = {};  // of its newest checkpoint
  double checkpoint_bytes = 0;                // 0: there is none
  std::vector<ReportedFilling> fillings = {};
  std::vector<std::string> notes = {};
};

// A table of any kind; cells are texts or numbers.
struct ReportedTable {
  std::string title;
  std::vector<std::string> titles;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
};

// One HTML file that needs nothing else: what was trained on what, curves over steps and over hours of
// training, sizes and live ranks by layer, results beside one another, and what differs in the recipes.
// Curves have at most 500 points each, means of their neighbours. made: a line about the report itself.
std::string report_page(const std::vector<ReportedRun>& runs, const std::vector<ReportedTable>& tables,
                        const std::string& made);

}  // namespace comera
