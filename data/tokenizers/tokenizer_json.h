#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Tokenizers as Hugging Face's tokenizers and transformers keep them.

// The text of a tokenizer.json that gives the ids that this tokenizer gives, but that it makes special pieces
// of their names in text, and that of a unigram model's sequences with one score, such as orders of a long
// run's pieces, it may take another (SentencePiece lets rounding decide). Sequences are [CLS] A [SEP] and
// [CLS] A [SEP] B [SEP], with types 0 and 1, or 0 only for a model with one type. Error for a SentencePiece
// model that changes text.
std::string tokenizer_json(const Tokenizer& tokenizer, std::int64_t types = 2);

// The normalizer of it that gives a mask the one space before it, as MaskedTextReader does.
nlohmann::ordered_json space_before_mask(const std::string& mask);

// What transformers wants beside it: the names of the special pieces, and, in tokenizer_config.json, how many
// tokens the model takes; longest = 0: any number.
std::string special_tokens_map(const Tokenizer& tokenizer);
std::string tokenizer_config(const Tokenizer& tokenizer, std::int64_t longest);

// Writes the three files. A SentencePiece model lies beside them as it is, tokenizer.model, for
// load_tokenizer_folder(); one that has no tokenizer.json lies there alone, and the reason is returned, else
// nothing.
std::string write_tokenizer_folder(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                                   std::int64_t types, std::int64_t longest);
// The files that it may write.
std::vector<std::string> tokenizer_files();

// A folder's tokenizer, as transformers 5.24 takes it: tokenizer.json, vocab.txt, or vocab.json with
// merges.txt, whichever is there first in this order, and what tokenizer_config.json, special_tokens_map.json
// and added_tokens.json say of it. tokenizer.model comes before tokenizer.json if that is what
// write_tokenizer_folder() writes of it, and after it otherwise. What the files say together is kept as one
// tokenizer.json (bytes()), or as the one file if that says it all. Error, with the names of file and key, if
// there is none, or it is damaged or of a kind that is not known here.
Tokenizer load_tokenizer_folder(const std::filesystem::path& folder,
                                LetterCase letter_case = LetterCase::guessed);

// Of the bytes of one file, as earlier versions knew a tokenizer by.
std::string hash_of_tokenizer_file(const std::filesystem::path& file);

// What a tokenizer.json says.
struct OpenedTokenizer {
  std::unique_ptr<PieceModel> model;
  std::vector<AddedToken> added = {};  // special pieces too
  SpecialNames special = {};
  int pair_separators = 1;
  bool special_in_text = true;  // whether text gives special tokens beside the five
  std::string hash = {};        // of a file that gives the same ids; empty: of these bytes
};

// A byte-level BPE model (RoBERTa's, GPT-2's) or a WordPiece one (BERT's) in a tokenizer.json. Without a
// model if the bytes are no JSON object; Error, with `name`, for what is damaged or of a kind that is not
// known here. The member "comera", which tokenizers does not have, names the special pieces, and how many
// separators stand between two texts.
// Without that member special tokens never come from text: so earlier versions read what they kept.
OpenedTokenizer open_tokenizer_json(const std::string& bytes, const std::string& name);

}  // namespace comera::data
