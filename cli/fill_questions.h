#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/fill_report.h"
#include "cli/options/inference_options.h"

namespace comera::cli {

// A text with marks, its source, and the answers.
struct Question {
  std::string place;       // for messages
  std::string title;       // printed before each of its marks
  const char* number_key;  // the JSON key of the item's number
  std::int64_t number = 0;
  data::MaskedText text;
  std::vector<std::int32_t> types = {};  // of its tokens; empty: all 0
  std::int32_t truth = -1;               // of a masked piece
  std::vector<Answer> answers = {};      // one per mark
};

// The beginning of a text, for messages.
std::string shortened_text(const std::string& text);

// A text without a mark, or longer than sequences are.
class UnfitText : public UsageError {
 public:
  using UsageError::UsageError;
};
void check_text(const Question& question, const LoadedModel& loaded, std::int64_t length);

// Some held-out sequences of a folder of shards, each with one masked piece.
struct HiddenPieces {
  std::filesystem::path folder;
  std::int64_t examples = 10;
  std::int64_t seed = 0;  // selects them
};
// Error if no sequence within the model's length has a piece that can be masked.
std::vector<Question> hidden_pieces(const HiddenPieces& wanted, const LoadedModel& loaded,
                                    std::int64_t length);

// Runs the model and keeps the `top` pieces of each mark. Error if its output is not finite.
void answer(std::vector<Question>& questions, std::int64_t top, const InferenceOptions& inference,
            const LoadedModel& loaded);

}  // namespace comera::cli
