#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/fill_report.h"
#include "cli/options/inference_options.h"

namespace comera::cli {

// A text with marks, where it comes from, and what was found.
struct Question {
  std::string place;       // for messages
  std::string title;       // before each of its marks, for people
  const char* number_key;  // of what number is, in JSON
  std::int64_t number = 0;
  data::MaskedText text;
  std::vector<std::int32_t> types = {};  // of its tokens; empty: all 0
  std::int32_t truth = -1;               // of a hidden piece
  std::vector<Answer> answers = {};      // one for each mark
};

// The beginning of a text, for messages.
std::string shortened_text(const std::string& text);

// A text without a mark, or longer than sequences are.
class UnfitText : public UsageError {
 public:
  using UsageError::UsageError;
};
void check_text(const Question& question, const LoadedModel& loaded, std::int64_t length);

// Some held-out sequences of a folder of shards, each with a piece that is hidden.
struct HiddenPieces {
  std::filesystem::path folder;
  std::int64_t examples = 10;
  std::int64_t seed = 0;  // decides which
};
// Error if no sequence of up to so many tokens has a piece that could be hidden.
std::vector<Question> hidden_pieces(const HiddenPieces& wanted, const LoadedModel& loaded,
                                    std::int64_t length);

// Asks the model, for so many pieces of each mark. Error if it answers with numbers that are not finite.
void answer(std::vector<Question>& questions, std::int64_t top, const InferenceOptions& inference,
            const LoadedModel& loaded);

}  // namespace comera::cli
