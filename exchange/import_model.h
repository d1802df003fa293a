#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "exchange/transformers/transformers_form.h"

namespace comera::exchange {

struct Imported {
  Form form = Form::bert;
  EncoderConfig config = {};
  std::vector<std::string> fresh = {};   // parameters of the head that the folder has nothing for
  std::vector<std::string> labels = {};  // of its classes
  std::vector<std::string> notes = {};   // about the tokenizer, the length of sequences and the head
  std::vector<data::TokenizerSetting> tokenizer = {};
};

// Makes a checkpoint of a folder as Hugging Face's transformers writes it (config.json, safetensors, and a
// tokenizer: tokenizer.json, vocab.txt, or vocab.json with merges.txt), with the tokenizer inside. BERT,
// MegatronBERT and RoBERTa become dense models; what export_model() has written is read as well. `tokenizer`:
// instead of the folder's, if it is not empty. `letter_case`: of a vocab.txt that nothing else is known of.
// What the head lacks begins at random. Error in one sentence for what is damaged or does not fit.
Imported import_model(const std::filesystem::path& folder, const std::filesystem::path& tokenizer,
                      const std::filesystem::path& checkpoint,
                      data::LetterCase letter_case = data::LetterCase::guessed);

}  // namespace comera::exchange
