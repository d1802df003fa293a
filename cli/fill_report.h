#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/masking/masked_text.h"
#include "training/inference/fillings.h"
#include "training/logging/json.h"

namespace comera::cli {

// A model's predictions for one mark of a text.
struct Answer {
  std::vector<Filling> fillings;  // most likely first
  // For a masked piece.
  std::int32_t truth = -1;
  Standing standing;
};

// How answers are shown. The tokenizer must outlive this.
class FillReport {
 public:
  explicit FillReport(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer), reader_(tokenizer) {}
  const data::MaskedTextReader& reader() const { return reader_; }

  // A few readable lines: the line with the mark, after `title`, then each filling and the resulting line.
  // Pieces are shown as in the tokenizer, a space as ▁; control characters, here and in the text, are
  // escaped.
  std::string lines(const std::string& title, const data::MaskedText& text, std::size_t mark,
                    const Answer& answer) const;
  // Adds to an object: position, text, truth (of a masked piece) and fillings.
  void add_to(Json& object, const data::MaskedText& text, std::size_t mark, const Answer& answer) const;

 private:
  Json filling(const data::MaskedText& text, std::size_t mark, const Filling& filling) const;

  const data::Tokenizer& tokenizer_;
  data::MaskedTextReader reader_;
};

}  // namespace comera::cli
