#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Tokenizers in the formats of Hugging Face's tokenizers and transformers.

// The text of a tokenizer.json that gives the same ids as this tokenizer, with two exceptions. It converts
// the names of special pieces in text to special pieces. For sequences of a unigram model with equal scores,
// such as orderings of the pieces of a long run, it may choose another one (SentencePiece lets rounding
// decide). Sequences are [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with types 0 and 1, or only 0 for a model
// with one type. Error for a SentencePiece model that changes text.
std::string tokenizer_json(const Tokenizer& tokenizer, std::int64_t types = 2);

// Its normalizer that includes the one space before a mask in the mask, as MaskedTextReader does.
nlohmann::ordered_json space_before_mask(const std::string& mask);

// The files that transformers expects beside it: the names of the special pieces, and, in
// tokenizer_config.json, the maximum number of tokens; longest = 0: unlimited.
std::string special_tokens_map(const Tokenizer& tokenizer);
std::string tokenizer_config(const Tokenizer& tokenizer, std::int64_t longest);

// Writes the three files. A SentencePiece model is also copied unchanged, as tokenizer.model, for
// load_tokenizer_folder(). If it has no tokenizer.json, only the copy is written, and the reason is returned,
// else nothing.
std::string write_tokenizer_folder(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                                   std::int64_t types, std::int64_t longest);
// The files that it may write.
std::vector<std::string> tokenizer_files();

// A folder's tokenizer, read as transformers 5.24 does: tokenizer.json, vocab.txt, or vocab.json with
// merges.txt, the first of these that exists, together with the settings in tokenizer_config.json,
// special_tokens_map.json and added_tokens.json. tokenizer.model comes before tokenizer.json if
// write_tokenizer_folder() would write the latter from it, and after it otherwise. The combined settings are
// kept as one tokenizer.json (bytes()), or as the one file if it contains everything. Error, with the names
// of file and key, if there is no tokenizer, or it is damaged or of an unknown kind.
Tokenizer load_tokenizer_folder(const std::filesystem::path& folder,
                                LetterCase letter_case = LetterCase::guessed);

// The hash of one file's bytes, by which earlier versions identified a tokenizer.
std::string hash_of_tokenizer_file(const std::filesystem::path& file);

// The content of a tokenizer.json.
struct OpenedTokenizer {
  std::unique_ptr<PieceModel> model;
  std::vector<AddedToken> added = {};  // including special pieces
  SpecialNames special = {};
  int pair_separators = 1;
  bool special_in_text = true;  // whether text produces special tokens other than the five
  std::string hash = {};        // of a file that gives the same ids; empty: of these bytes
};

// A byte-level BPE model (RoBERTa's, GPT-2's) or a WordPiece one (BERT's) in a tokenizer.json. Without a
// model if the bytes are not a JSON object; Error, with `name`, if it is damaged or of an unknown kind. The
// member "comera", an extension of ours, names the special pieces and the number of separators between two
// texts.
// Without that member, text never produces special tokens: earlier versions read their files this way.
OpenedTokenizer open_tokenizer_json(const std::string& bytes, const std::string& name);

}  // namespace comera::data
