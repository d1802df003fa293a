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
  std::vector<std::string> fresh = {};   // parameters of the head that are missing in the folder
  std::vector<std::string> labels = {};  // of its classes
  std::vector<std::string> notes = {};   // about the tokenizer, the length of sequences and the head
  std::vector<data::TokenizerSetting> tokenizer = {};
};

// Creates a checkpoint from a folder in the format of Hugging Face's transformers (config.json, safetensors,
// and a tokenizer: tokenizer.json, vocab.txt, or vocab.json with merges.txt), with the tokenizer inside.
// BERT, MegatronBERT and RoBERTa become dense models; folders written by export_model() are read as well.
// `tokenizer`: replaces the folder's, if not empty. `letter_case`: for a vocab.txt without further
// information. Missing parameters of the head are initialised randomly. Error in one sentence for damaged or
// unsupported content.
Imported import_model(const std::filesystem::path& folder, const std::filesystem::path& tokenizer,
                      const std::filesystem::path& checkpoint,
                      data::LetterCase letter_case = data::LetterCase::guessed);

}  // namespace comera::exchange
