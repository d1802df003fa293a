#pragma once

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <map>
#include <string>
#include <unordered_map>

#include "data/tokenizers/tokenizer.h"
#include "small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {

// A SentencePiece model as trained elsewhere, with the given settings: by default a space is added before
// each text, text is normalised, and there are no byte pieces. name: for messages.
inline Tokenizer foreign_tokenizer(const std::map<std::string, std::string>& settings,
                                   const std::string& name = "foreign.model") {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += SmallCorpus::text(i);
  std::unordered_map<std::string, std::string> given = {{"input", folder.write("text", text).string()},
                                                        {"vocab_size", "150"},
                                                        {"hard_vocab_limit", "false"},
                                                        {"minloglevel", "4"},
                                                        {"num_threads", "1"}};
  for (const auto& [key, value] : settings) given[key] = value;
  std::string bytes;
  EXPECT_TRUE(sentencepiece::SentencePieceTrainer::Train(given, nullptr, &bytes).ok());
  return Tokenizer::from_bytes(bytes, name);
}

}  // namespace comera::data
