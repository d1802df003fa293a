#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/masking/masked_text.h"
#include "training/inference/fillings.h"
#include "training/logging/json.h"

namespace comera::cli {

// What a model says of one mark of a text.
struct Answer {
  std::vector<Filling> fillings;  // the likeliest first
  // Of a piece that was hidden.
  std::int32_t truth = -1;
  Standing standing;
};

// How answers are shown. The tokenizer must outlive this.
class FillReport {
 public:
  explicit FillReport(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer), reader_(tokenizer) {}
  const data::MaskedTextReader& reader() const { return reader_; }

  // A few lines for people: the line with the mark, behind `title`, then each filling and how the line reads
  // with it. Pieces are written as the tokenizer has them, a space as ▁; control characters, here and in the
  // text, are escaped.
  std::string lines(const std::string& title, const data::MaskedText& text, std::size_t mark,
                    const Answer& answer) const;
  // Adds to an object: position, text, truth (of a hidden piece) and fillings.
  void add_to(Json& object, const data::MaskedText& text, std::size_t mark, const Answer& answer) const;

 private:
  Json filling(const data::MaskedText& text, std::size_t mark, const Filling& filling) const;

  const data::Tokenizer& tokenizer_;
  data::MaskedTextReader reader_;
};

}  // namespace comera::cli
