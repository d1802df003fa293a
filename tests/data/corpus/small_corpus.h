#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Made-up source files of different lengths.
class SmallCorpus : public DocumentSource {
 public:
  explicit SmallCorpus(int count, bool reversed = false) {
    for (int i = 0; i < count; ++i) documents_.push_back(text(i));
    if (reversed) std::reverse(documents_.begin(), documents_.end());
  }

  static std::string text(int index) {
    static const char* const words[] = {"value", "index", "result", "self.count",
                                        "other", "node",  "x",      "total"};
    std::string text = "# file number " + std::to_string(index) + "\n";
    std::uint64_t state = static_cast<std::uint64_t>(index);
    for (int line = 0; line < 3 + 7 * (index % 9); ++line) {
      const auto word = [&] { return std::string(words[(state = storage::mix64(state)) % 8]); };
      text += "def " + word() + "_" + word() + "(" + word() + ", " + word() + "):\n    if " + word() + " > " +
              std::to_string(storage::mix64(state) % 100) + ":\n\treturn " + word() + "[" + word() + "]\n\n";
    }
    return text;
  }

  bool next(Document& document) override {
    if (at_ == documents_.size()) return false;
    document.text = documents_[at_++];
    document.name = "document " + std::to_string(at_);
    document.language = "python";
    document.hash = storage::hash128(document.text);
    ++counts_.documents;
    counts_.bytes += static_cast<std::int64_t>(document.text.size());
    return true;
  }
  CorpusCounts counts() const override { return counts_; }

 private:
  std::vector<std::string> documents_;
  std::size_t at_ = 0;
  CorpusCounts counts_;
};

inline Tokenizer small_tokenizer(TokenizerModel model = TokenizerModel::bpe) {
  SmallCorpus corpus(60);
  return train_tokenizer(corpus, {.model = model, .vocabulary = 600, .progress = {}});
}

}  // namespace comera::data
