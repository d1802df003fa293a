#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// A token added to a tokenizer: text that is found before all others and becomes one id, as in Hugging Face's
// tokenizers.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
  bool single_word = false;  // only between non-word characters
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = false;   // is searched in normalised text, in normalised form
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// Finds added tokens in text: leftmost first, and longest at the same position. A token that begins in white
// space included by the previous token is still found, as in tokenizers 0.23.
class TokenFinder {
 public:
  // Adds a token that is found in text by another text than its content. For equal texts, the first one
  // counts.
  void add(const AddedToken& token, std::string text);
  bool empty() const { return patterns_.empty(); }

  // Calls visit_text with the parts of the text between tokens, and visit_token with the tokens' ids, in
  // order.
  template <class VisitText, class VisitToken>
  void split(std::string_view text, VisitText&& visit_text, VisitToken&& visit_token) const {
    std::size_t done = 0;
    for (std::size_t from = 0; from < text.size();) {
      const Match match = find(text, from, done);
      if (match.token == nullptr) break;
      if (match.begin > done) visit_text(text.substr(done, match.begin - done));
      visit_token(match.token->id);
      done = match.end;
      from = match.next;
    }
    if (done < text.size()) visit_text(text.substr(done));
  }

 private:
  struct Pattern {
    std::string text;
    AddedToken token;
  };
  struct Match {
    const AddedToken* token = nullptr;
    std::size_t begin = 0, end = 0;  // including white space
    std::size_t next = 0;            // where to look for the next one
  };
  // The first token at or after `from`; it includes no white space before `done`.
  Match find(std::string_view text, std::size_t from, std::size_t done) const;
  const Pattern* longest_at(std::string_view text) const;

  std::vector<Pattern> patterns_;                // sorted by their text
  std::array<std::uint32_t, 257> first_byte_{};  // where the patterns with that first byte begin
};

}  // namespace comera::data
